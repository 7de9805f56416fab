//! Bookmarks: only for those who ask, shortly before the stream ends, with a version to go on from.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::support::{config_map, core, create, until_end, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(bookmark_comes_before_the_end),
        test!(bookmark_has_a_version_and_nothing_else),
        test!(bookmark_is_a_place_to_go_on_from),
        test!(no_bookmarks_unasked),
    ]
}

/// Watches a namespace for six seconds, in which something happens in another one; all events, and the version after it.
/// (Shortly before the end is two seconds, so that there are four for it to happen; a server has nothing to say when nothing at
/// all has happened.)
async fn watched(c: &Cluster, query: &str) -> (Vec<Value>, u64) {
    let (ns, other) = (c.namespace().await, c.namespace().await);
    let path = core(&ns, "configmaps");
    let made = create(c, &path, &config_map("a")).await;
    let query = format!(
        "{path}?watch=1&timeoutSeconds=6&resourceVersion={}{query}",
        version(&made)
    );
    let mut watch = c.api().watch(&query).await;
    let elsewhere = create(c, &core(&other, "configmaps"), &config_map("x")).await;
    (until_end(&mut watch).await, version(&elsewhere))
}

async fn bookmark_comes_before_the_end(c: Cluster) {
    let (events, after) = watched(&c, "&allowWatchBookmarks=true").await;
    assert!(!events.is_empty(), "no bookmark");
    for event in &events {
        assert_eq!(event["type"], "BOOKMARK", "{event:#}");
    }
    let last = events.last().expect("a bookmark");
    assert!(version(&last["object"]) >= after, "{last:#}");
}

async fn bookmark_has_a_version_and_nothing_else(c: Cluster) {
    let (events, _) = watched(&c, "&allowWatchBookmarks=true").await;
    let mut object = events[0]["object"].clone();
    assert!(version(&object) > 0);
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    // Older servers write it as null.
    metadata.remove("creationTimestamp");
    let expected = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}});
    assert_eq!(object, expected);
}

async fn bookmark_is_a_place_to_go_on_from(c: Cluster) {
    let (events, _) = watched(&c, "&allowWatchBookmarks=true").await;
    let from = version(&events[0]["object"]);
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("b")).await;
    let query = format!("{path}?watch=1&resourceVersion={from}");
    assert_eq!(c.api().watch(&query).await.expect("ADDED").await, made);
}

async fn no_bookmarks_unasked(c: Cluster) {
    for query in ["", "&allowWatchBookmarks=false"] {
        let (events, _) = watched(&c, query).await;
        assert_eq!(events, Vec::<Value>::new());
    }
}
