//! The bounded history: compaction, expired continue tokens, slow watchers.

use coxswain_sandbox::Limits;
use serde_json::json;

use crate::client::{MAPS, create, delete, get, names, sandbox, sandbox_with, version, watch};

#[tokio::test(start_paused = true)]
async fn watch_from_compacted_version_is_expired() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let first = create(&service, "a").await;
    let second = create(&service, "b").await;
    sandbox.compact(second);
    let mut events = watch(&service, &format!("{MAPS}?watch=1&resourceVersion={first}")).await;
    assert_eq!(events.brief().await.as_deref(), Some("ERROR 410 Expired"));
    assert_eq!(events.brief().await, None);
    let mut events = watch(&service, &format!("{MAPS}?watch=1&resourceVersion={second}")).await;
    create(&service, "c").await;
    assert_eq!(events.brief().await.as_deref(), Some("ADDED c"));
}

#[tokio::test(start_paused = true)]
async fn continue_token_of_compacted_list_is_expired() {
    let sandbox = sandbox();
    let service = sandbox.service();
    for name in ["a", "b", "c", "d"] {
        create(&service, name).await;
    }
    let (_, page) = get(&service, &format!("{MAPS}?limit=2")).await;
    assert_eq!(
        (names(&page), &page["metadata"]["remainingItemCount"]),
        (vec!["a", "b"], &json!(2))
    );
    let token = page["metadata"]["continue"]
        .as_str()
        .expect("more to come")
        .to_owned();
    delete(&service, &format!("{MAPS}/c")).await;
    let (_, rest) = get(&service, &format!("{MAPS}?limit=9&continue={token}")).await;
    assert_eq!(
        (names(&rest), version(&rest)),
        (vec!["c", "d"], version(&page)),
        "the state of the first page"
    );
    sandbox.compact(sandbox.revision());
    let (status, expired) = get(&service, &format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((status, expired["reason"].as_str()), (410, Some("Expired")));
    let token = expired["metadata"]["continue"]
        .as_str()
        .expect("a token for the rest");
    let (_, rest) = get(&service, &format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(names(&rest), ["d"], "the current state of the rest");
}

#[tokio::test(start_paused = true)]
async fn slow_watcher_is_expired() {
    let sandbox = sandbox_with(Limits {
        entries: 10,
        bytes: usize::MAX,
    });
    let service = sandbox.service();
    let mut slow = watch(
        &service,
        &format!("{MAPS}?watch=1&resourceVersion={}", sandbox.revision()),
    )
    .await;
    create(&service, "first").await;
    assert_eq!(slow.brief().await.as_deref(), Some("ADDED first"));
    for n in 0..30 {
        create(&service, &format!("map-{n}")).await;
    }
    assert_eq!(slow.brief().await.as_deref(), Some("ERROR 410 Expired"));
    assert_eq!(slow.brief().await, None);
}

#[tokio::test(start_paused = true)]
async fn exact_list_returns_retained_revision() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let first = create(&service, "a").await;
    create(&service, "b").await;
    let exact = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion=");
    let (_, list) = get(&service, &format!("{exact}{first}")).await;
    assert_eq!((names(&list), version(&list)), (vec!["a"], first));
    sandbox.compact(first + 1);
    let (status, _) = get(&service, &format!("{exact}{first}")).await;
    assert_eq!(status, 410);
}
