//! Objects that cannot be decoded: present but unknown, counted, named, never taken for deleted.

use coxswain_manager::cache::Lookup;

use super::server::{Act, Fate, Verb};
use super::*;

fn poison() -> serde_json::Value {
    serde_json::json!({"data": {"poison": "x"}})
}

fn antidote() -> serde_json::Value {
    serde_json::json!({"data": {"poison": null}})
}

#[tokio::test(start_paused = true)]
async fn one_in_a_list_does_not_spoil_the_others() {
    let bed = bed();
    for name in ["a", "b", "c"] {
        create(&bed.sandbox, name, "1").await;
    }
    patch(&bed.sandbox, "b", poison()).await;
    let cache = bed.synced().await;
    assert_eq!(cache.get(&key("b")), Lookup::Unknown);
    assert_eq!(
        (value(&cache, "a").is_some(), value(&cache, "c").is_some()),
        (true, true)
    );
    assert_eq!(cache.undecodable(), [key("b")]);
    assert_eq!(bed.metric("coxswain_cache_undecodable_objects", None), 1);
    patch(&bed.sandbox, "b", antidote()).await;
    bed.within(1, "known", || value(&cache, "b").is_some()).await;
    assert_eq!(bed.metric("coxswain_cache_undecodable_objects", None), 0);
}

#[tokio::test(start_paused = true)]
async fn one_on_a_watch_is_unknown_from_then_on_until_it_is_gone() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    let mut subscription = cache.subscribe();
    assert_eq!(changes(&mut subscription), ["*a=1"]);
    patch(&bed.sandbox, "a", poison()).await;
    bed.within(1, "unknown", || cache.get(&key("a")) == Lookup::Unknown)
        .await;
    assert_eq!(
        changes(&mut subscription),
        Vec::<String>::new(),
        "nothing can be told"
    );
    // A list does not take it for deleted either.
    cache.relist();
    bed.within(1, "listed", || bed.server.count(Verb::List) == 2)
        .await;
    assert_eq!(cache.get(&key("a")), Lookup::Unknown);
    assert_eq!(changes(&mut subscription), Vec::<String>::new());
    assert_eq!(bed.server.count(Verb::Watch), 1 + 1, "the watch itself went on");
    delete(&bed.sandbox, "a").await;
    bed.within(1, "gone", || cache.get(&key("a")) == Lookup::Absent)
        .await;
    assert_eq!(changes(&mut subscription), ["-a=1"]);
}

/// Makes the uid of `b` unreadable.
fn blur(list: &str) -> String {
    let mut list: serde_json::Value = serde_json::from_str(list).expect("JSON");
    for item in list["items"].as_array_mut().into_iter().flatten() {
        if item["metadata"]["name"] == "b" {
            item["metadata"]["uid"] = 7.into();
        }
    }
    list.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_list_with_one_that_cannot_be_told_deletes_nothing() {
    let bed = bed();
    for name in ["a", "b", "c"] {
        create(&bed.sandbox, name, "1").await;
    }
    let cache = bed.synced().await;
    bed.sleep(2).await;
    // A gap in which something is deleted, then a list that cannot be read as a whole.
    bed.server
        .rule(|ask| (ask.verb == Verb::Watch).then_some(Act::Hang));
    bed.server.streams(Fate::End);
    settle().await;
    delete(&bed.sandbox, "a").await;
    set(&bed.sandbox, "c", "2").await;
    bed.server.heal();
    bed.server
        .rule(|ask| (ask.verb == Verb::List).then_some(Act::Rewrite(blur)));
    bed.sandbox.compact(bed.sandbox.revision());
    bed.within(60, "listed", || value(&cache, "c").as_deref() == Some("2"))
        .await;
    assert_eq!(
        value(&cache, "a").as_deref(),
        Some("1"),
        "it may be the one that cannot be told"
    );
    assert_eq!(bed.metric("coxswain_cache_undecodable_objects", None), 1);
    bed.server.heal();
    cache.relist();
    bed.equal(&cache, 5).await;
    assert_eq!(bed.metric("coxswain_cache_undecodable_objects", None), 0);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_told_costs_a_list() {
    let bed = bed();
    let cache = bed.synced().await;
    create(&bed.sandbox, "a", "1").await;
    bed.within(1, "seen", || cache.len() == 1).await;
    bed.server
        .inject(r#"{"type":"MODIFIED","object":{"metadata":{"name":7}}}"#);
    bed.within(5, "listed", || bed.server.count(Verb::List) == 2)
        .await;
    bed.equal(&cache, 5).await;
    assert_eq!(bed.relists("error"), 1);
}
