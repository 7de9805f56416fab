//! What a watch does as time passes.

use serde_json::json;

use crate::client::{MAPS, create, elapsed, get, post, sandbox, version, watch};

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_shortly_before_the_deadline() {
    let service = sandbox().service();
    let (_, list) = get(&service, MAPS).await;
    let from = version(&list);
    // Something has changed since, elsewhere: a bookmark has something to say.
    let secret = json!({"metadata": {"name": "elsewhere"}});
    post(&service, "/api/v1/namespaces/default/secrets", &secret).await;
    let now = from + 1;
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion={from}");
    let mut events = watch(&service, &path).await;
    assert_eq!(
        elapsed(events.brief()).await,
        (Some(format!("BOOKMARK @{now}")), 60)
    );
    assert_eq!(elapsed(events.brief()).await.1, 60);
    assert_eq!(elapsed(events.brief()).await.1, 28, "two seconds before the end");
    assert_eq!(elapsed(events.brief()).await, (None, 2));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_that_says_nothing_new_is_not_sent() {
    let service = sandbox().service();
    let (_, list) = get(&service, MAPS).await;
    let from = version(&list);
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion={from}");
    let mut events = watch(&service, &path).await;
    assert_eq!(elapsed(events.brief()).await, (None, 150));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_say_how_far_the_whole_store_has_come() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let path = format!(
        "/api/v1/namespaces/default/secrets?watch=1&allowWatchBookmarks=true&resourceVersion={}",
        sandbox.revision()
    );
    let mut secrets = watch(&service, &path).await;
    let later = create(&service, "a").await;
    assert_eq!(secrets.brief().await, Some(format!("BOOKMARK @{later}")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_and_not_before() {
    let service = sandbox().service();
    let mut events = watch(
        &service,
        &format!("{MAPS}?watch=1&resourceVersion=1&timeoutSeconds=7"),
    )
    .await;
    let ((), seconds) = elapsed(async { while events.next().await.is_some() {} }).await;
    assert_eq!(seconds, 7);
    let mut events = watch(&service, &format!("{MAPS}?watch=1&resourceVersion=1")).await;
    let ((), seconds) = elapsed(async { while events.next().await.is_some() {} }).await;
    assert!((1800..3600).contains(&seconds), "the server chooses: {seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_version_in_the_future_is_waited_for_and_then_refused() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let path = format!("{MAPS}?resourceVersion={}", sandbox.revision() + 1);
    let ((status, body), seconds) = elapsed(get(&service, &path)).await;
    assert_eq!((status, seconds), (504, 3));
    assert_eq!(body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let waiting = get(&service, &path);
    let ((status, _), _) = tokio::join!(biased; waiting, create(&service, "a"));
    assert_eq!(status, 200, "it came while we waited");
}
