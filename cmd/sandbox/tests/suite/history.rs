//! The bounded history: compaction, expired continue tokens, slow watchers.

use serde_json::{Value, json};
use steersman_sandbox::Limits;

use crate::client::{
    MAPS, create, delete, elapsed, get, names, post, put, sandbox, sandbox_with, version, watch,
};

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
async fn slow_watcher_is_closed_without_an_error() {
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
    assert_eq!(slow.brief().await, None);
}

#[tokio::test(start_paused = true)]
async fn full_page_has_a_token_when_only_other_objects_follow() {
    let sandbox = sandbox();
    let service = sandbox.service();
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let map = json!({"metadata": {"name": name, "labels": {"app": app}}});
        post(&service, MAPS, &map).await;
    }
    let selected = format!("{MAPS}?labelSelector=app%3Dweb&limit=2");
    let (_, page) = get(&service, &selected).await;
    assert_eq!(names(&page), ["a", "b"]);
    let token = page["metadata"]["continue"].as_str().expect("a token").to_owned();
    let (_, rest) = get(&service, &format!("{selected}&continue={token}")).await;
    assert_eq!(names(&rest), Vec::<&str>::new());
    assert_eq!(rest["metadata"]["continue"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn event_is_removed_one_hour_after_its_last_write() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let sandbox = sandbox();
    let service = sandbox.service();
    let event = json!({
        "metadata": {"name": "e"}, "reason": "Started", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    let (status, created) = post(&service, EVENTS, &event).await;
    assert_eq!(status, 201, "{created}");
    let from = version(&created);
    tokio::time::advance(std::time::Duration::from_mins(50)).await;
    let path = format!("{EVENTS}/e");
    let (_, mut stored) = get(&service, &path).await;
    stored["count"] = json!(2);
    put(&service, &path, &stored).await;
    let mut events = watch(
        &service,
        &format!("{EVENTS}?watch=1&resourceVersion={from}&timeoutSeconds=7200"),
    )
    .await;
    assert_eq!(events.brief().await.as_deref(), Some("MODIFIED e"));
    tokio::time::advance(std::time::Duration::from_mins(50)).await;
    let (status, _) = get(&service, &path).await;
    assert_eq!(status, 200, "the write has started the TTL again");
    let (deleted, seconds) = elapsed(events.brief()).await;
    assert_eq!((deleted.as_deref(), seconds), (Some("DELETED e"), 10 * 60));
    let (status, _) = get(&service, &path).await;
    assert_eq!(status, 404);
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
