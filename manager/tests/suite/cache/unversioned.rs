//! Servers with an incomplete API: lists without a resourceVersion, no metadata-only form.

use coxswain_manager::object::MetaObject;
use serde_json::Value;

use super::server::{Act, Fate, Verb, status};
use super::*;

fn without_version(list: &str) -> String {
    let mut list: Value = serde_json::from_str(list).expect("a list");
    let metadata = list["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    list.to_string()
}

#[tokio::test(start_paused = true)]
async fn lists_without_a_version_fill_the_cache_and_delete_nothing() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    bed.server
        .rule(|ask| (ask.verb == Verb::List).then_some(Act::Rewrite(without_version)));
    let cache = bed.maps();
    bed.within(1, "synced", || cache.is_synced() && cache.len() == 1)
        .await;
    create(&bed.sandbox, "b", "1").await;
    bed.within(1, "followed", || cache.len() == 2).await;
    delete(&bed.sandbox, "b").await;
    bed.within(1, "a deletion is followed", || cache.len() == 1).await;
    // A list that may be older than the cache does not prove that an object is gone.
    bed.server
        .rule(|ask| (ask.verb == Verb::Watch).then_some(Act::Hang));
    bed.server.streams(Fate::End);
    delete(&bed.sandbox, "a").await;
    cache.relist();
    bed.sleep(60).await;
    assert_eq!(cache.len(), 1);
    let lists = bed.server.count(Verb::List);
    assert!(lists <= 10, "{lists} lists in a minute");
}

#[tokio::test(start_paused = true)]
async fn answer_without_kind_and_version_is_not_a_list() {
    let bed = bed();
    bed.server.rule(|ask| {
        let not_a_list = || Act::Answer(200, r#"{"metadata":{},"items":[]}"#.to_owned(), 0);
        (ask.verb == Verb::List).then(not_a_list)
    });
    let cache = bed.maps();
    bed.sleep(60).await;
    assert!(!cache.is_synced());
    assert!(bed.server.count(Verb::List) <= 10);
}

#[tokio::test(start_paused = true)]
async fn server_without_a_metadata_form_answers_with_whole_objects() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    bed.server.rule(|ask| {
        let not_acceptable = || Act::Answer(406, status(406, "NotAcceptable"), 0);
        (!ask.accepts_json()).then(not_acceptable)
    });
    let cache: Cache<MetaObject> = bed.caches.of(&MAPS);
    bed.within(1, "synced", || cache.is_synced()).await;
    assert_eq!(cache.len(), 1);
    create(&bed.sandbox, "b", "1").await;
    bed.within(1, "followed", || cache.len() == 2).await;
}
