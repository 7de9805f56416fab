//! Watches under the clock: bookmarks and timeouts.

use serde_json::json;

use crate::client::{MAPS, create, elapsed, get, post, sandbox, version, watch};

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_every_minute_and_before_timeout() {
    let service = sandbox().service();
    let (_, list) = get(&service, MAPS).await;
    let from = version(&list);
    // A change of another resource gives the bookmark a new version.
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
    assert_eq!(
        elapsed(events.brief()).await.1,
        28,
        "two seconds before the timeout"
    );
    assert_eq!(elapsed(events.brief()).await, (None, 2));
}

#[tokio::test(start_paused = true)]
async fn bookmark_without_progress_is_not_sent() {
    let service = sandbox().service();
    let (_, list) = get(&service, MAPS).await;
    let from = version(&list);
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion={from}");
    let mut events = watch(&service, &path).await;
    assert_eq!(elapsed(events.brief()).await, (None, 150));
}

#[tokio::test(start_paused = true)]
async fn watch_ends_at_its_timeout() {
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
    assert!((1800..3600).contains(&seconds), "the default timeout: {seconds}");
}

#[tokio::test(start_paused = true)]
async fn future_version_waits_then_times_out() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let path = format!("{MAPS}?resourceVersion={}", sandbox.revision() + 1);
    let ((status, body), seconds) = elapsed(get(&service, &path)).await;
    assert_eq!((status, seconds), (504, 3));
    assert_eq!(body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let waiting = get(&service, &path);
    let ((status, _), _) = tokio::join!(biased; waiting, create(&service, "a"));
    assert_eq!(status, 200, "the version was written during the wait");
}
