//! Servers without resourceVersions in lists, or without `PartialObjectMetadata`.

use serde_json::Value;
use steersman_manager::object::MetaObject;
use steersman_sandbox::faults::Effect;

use super::server::{StreamFault, Verb, accepts_json, answer, rewrite, status};
use super::*;

fn without_version(list: &str) -> String {
    let mut list: Value = serde_json::from_str(list).expect("a list");
    let metadata = list["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    list.to_string()
}

#[tokio::test(start_paused = true)]
async fn list_without_a_version_syncs_the_cache_and_deletes_nothing() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    f.server
        .inject_fault(|request| (Verb::List.is(request)).then_some(rewrite(without_version)));
    let cache = f.maps();
    f.within(1, "synced", || cache.is_synced() && cache.len() == 1)
        .await;
    create(&f.sandbox, "b", "1").await;
    f.within(1, "followed", || cache.len() == 2).await;
    delete(&f.sandbox, "b").await;
    f.within(1, "delete received", || cache.len() == 1).await;
    // A list that may be older than the cache does not prove a deletion.
    f.server
        .inject_fault(|request| (Verb::Watch.is(request)).then_some(Effect::Hang));
    f.server.streams(StreamFault::End);
    delete(&f.sandbox, "a").await;
    cache.relist();
    f.sleep(60).await;
    assert_eq!(cache.len(), 1);
    let lists = f.server.count(Verb::List);
    assert!(lists <= 10, "{lists} lists in a minute");
}

#[tokio::test(start_paused = true)]
async fn response_without_kind_and_version_is_not_a_list() {
    let f = fixture();
    f.server.inject_fault(|request| {
        let not_a_list = || answer(200, r#"{"metadata":{},"items":[]}"#.to_owned(), 0);
        (Verb::List.is(request)).then(not_a_list)
    });
    let cache = f.maps();
    f.sleep(60).await;
    assert!(!cache.is_synced());
    assert!(f.server.count(Verb::List) <= 10);
}

#[tokio::test(start_paused = true)]
async fn server_without_metadata_form_returns_whole_objects() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    f.server.inject_fault(|request| {
        let not_acceptable = || answer(406, status(406, "NotAcceptable"), 0);
        (!accepts_json(request)).then(not_acceptable)
    });
    let cache: Cache<MetaObject> = f.caches.of(&MAPS);
    f.within(1, "synced", || cache.is_synced()).await;
    assert_eq!(cache.len(), 1);
    create(&f.sandbox, "b", "1").await;
    f.within(1, "followed", || cache.len() == 2).await;
}
