//! Objects that cannot be decoded are reported, and never treated as deleted.

use steersman_manager::cache::Lookup;
use steersman_sandbox::faults::Effect;

use super::server::{StreamFault, Verb, rewrite};
use super::*;

fn invalid() -> serde_json::Value {
    serde_json::json!({"data": {"invalid": "x"}})
}

fn valid() -> serde_json::Value {
    serde_json::json!({"data": {"invalid": null}})
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_does_not_fail_the_list() {
    let f = fixture();
    for name in ["a", "b", "c"] {
        create(&f.sandbox, name, "1").await;
    }
    patch(&f.sandbox, "b", invalid()).await;
    let cache = f.synced().await;
    assert_eq!(cache.get(&key("b")), Lookup::Undecodable);
    assert_eq!(
        (value(&cache, "a").is_some(), value(&cache, "c").is_some()),
        (true, true)
    );
    assert_eq!(cache.undecodable(), [key("b")]);
    assert_eq!(f.metric("test_cache_undecodable_objects", None), 1);
    patch(&f.sandbox, "b", valid()).await;
    f.within(1, "decoded", || value(&cache, "b").is_some()).await;
    assert_eq!(f.metric("test_cache_undecodable_objects", None), 0);
}

#[tokio::test(start_paused = true)]
async fn undecodable_event_makes_the_object_undecodable_until_it_is_deleted() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    let mut subscription = cache.subscribe();
    assert_eq!(changes(&mut subscription), ["*a=1"]);
    patch(&f.sandbox, "a", invalid()).await;
    f.within(1, "undecodable", || cache.get(&key("a")) == Lookup::Undecodable)
        .await;
    assert_eq!(changes(&mut subscription), Vec::<String>::new(), "no delta");
    // A list does not delete it either.
    cache.relist();
    f.within(1, "listed", || f.server.count(Verb::List) == 2).await;
    assert_eq!(cache.get(&key("a")), Lookup::Undecodable);
    assert_eq!(changes(&mut subscription), Vec::<String>::new());
    assert_eq!(f.server.count(Verb::Watch), 1 + 1, "the watch stays open");
    delete(&f.sandbox, "a").await;
    f.within(1, "deleted", || cache.get(&key("a")) == Lookup::Absent)
        .await;
    assert_eq!(changes(&mut subscription), ["-a=1"]);
}

/// Invalidates the uid of `b`.
fn invalidate_uid(list: &str) -> String {
    let mut list: serde_json::Value = serde_json::from_str(list).expect("JSON");
    for item in list["items"].as_array_mut().into_iter().flatten() {
        if item["metadata"]["name"] == "b" {
            item["metadata"]["uid"] = 7.into();
        }
    }
    list.to_string()
}

#[tokio::test(start_paused = true)]
async fn list_with_an_unidentified_item_deletes_nothing() {
    let f = fixture();
    for name in ["a", "b", "c"] {
        create(&f.sandbox, name, "1").await;
    }
    let cache = f.synced().await;
    f.sleep(2).await;
    // A delete while no watch is open, then a list with an unidentified item.
    f.server
        .inject_fault(|request| (Verb::Watch.is(request)).then_some(Effect::Hang));
    f.server.streams(StreamFault::End);
    settle().await;
    delete(&f.sandbox, "a").await;
    set(&f.sandbox, "c", "2").await;
    f.server.heal();
    f.server
        .inject_fault(|request| (Verb::List.is(request)).then_some(rewrite(invalidate_uid)));
    f.sandbox.compact(f.sandbox.revision());
    f.within(60, "listed", || value(&cache, "c").as_deref() == Some("2"))
        .await;
    assert_eq!(
        value(&cache, "a").as_deref(),
        Some("1"),
        "it may be the unidentified item"
    );
    assert_eq!(f.metric("test_cache_undecodable_objects", None), 1);
    f.server.heal();
    cache.relist();
    f.equal(&cache, 5).await;
    assert_eq!(f.metric("test_cache_undecodable_objects", None), 0);
}

#[tokio::test(start_paused = true)]
async fn unidentified_event_causes_a_relist() {
    let f = fixture();
    let cache = f.synced().await;
    create(&f.sandbox, "a", "1").await;
    f.within(1, "seen", || cache.len() == 1).await;
    f.server
        .inject(r#"{"type":"MODIFIED","object":{"metadata":{"name":7}}}"#);
    f.within(5, "listed", || f.server.count(Verb::List) == 2).await;
    f.equal(&cache, 5).await;
    assert_eq!(f.relists("error"), 1);
}
