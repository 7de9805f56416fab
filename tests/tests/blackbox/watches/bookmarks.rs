//! Bookmarks: sent on request, before the timeout of the watch, with a version to resume from.

use serde_json::{Value, json};
use steersman_harness::{Cluster, Test, test};

use crate::support::{config_map, core, lines, pod, until_end, version};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

pub fn tests() -> Vec<Test> {
    vec![
        test!(bookmark_before_timeout_has_version_to_resume_from),
        test!(bookmarks_are_not_sent_by_default),
        test!(bookmarks_of_metadata_watch_have_metadata_kind),
        test!(initial_events_without_bookmarks_have_no_end_bookmark).since(1, 27),
        test!(watch_from_a_future_version_has_no_events),
    ]
}

/// Watches a namespace for six seconds while an object is created in another namespace. Returns all events, and the version of
/// that object. The server sends a bookmark two seconds before the timeout if the version has changed.
async fn watched(c: &Cluster, query: &str) -> (Vec<Value>, u64) {
    let (ns, other) = (c.namespace().await, c.namespace().await);
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &config_map("a")).await;
    let query = format!(
        "{path}?watch=1&timeoutSeconds=6&resourceVersion={}{query}",
        version(&made)
    );
    let mut watch = c.api().watch(&query).await;
    let elsewhere = c.create(&core(&other, "configmaps"), &config_map("x")).await;
    (until_end(&mut watch).await, version(&elsewhere))
}

async fn bookmark_before_timeout_has_version_to_resume_from(c: Cluster) {
    let (events, after) = watched(&c, "&allowWatchBookmarks=true").await;
    assert!(!events.is_empty(), "no bookmark");
    for event in &events {
        assert_eq!(event["type"], "BOOKMARK", "{event:#}");
    }
    let last = events.last().expect("a bookmark");
    let from = version(&last["object"]);
    assert!(from >= after, "{last:#}");

    let mut object = last["object"].clone();
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    // Older servers write null.
    metadata.remove("creationTimestamp");
    let expected = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}});
    assert_eq!(object, expected);

    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &config_map("b")).await;
    let query = format!("{path}?watch=1&resourceVersion={from}");
    assert_eq!(c.api().watch(&query).await.expect("ADDED").await, made);
}

async fn bookmarks_are_not_sent_by_default(c: Cluster) {
    for query in ["", "&allowWatchBookmarks=false"] {
        let (events, _) = watched(&c, query).await;
        assert_eq!(events, Vec::<Value>::new());
    }
}

async fn bookmarks_of_metadata_watch_have_metadata_kind(c: Cluster) {
    let (ns, other) = (c.namespace().await, c.namespace().await);
    let path = core(&ns, "pods");
    let state = c.read(&path).await;
    let query = format!(
        "{path}?watch=1&timeoutSeconds=6&allowWatchBookmarks=true&resourceVersion={}",
        version(&state)
    );
    let mut watch = c.api().watch_with(&query, &[("accept", METADATA)]).await;
    // The server sends the bookmark four seconds after the start of the watch.
    let created = c.create(&core(&other, "pods"), &pod("x")).await;
    let events = until_end(&mut watch).await;
    let last = events.last().expect("a bookmark");
    assert_eq!(
        (&last["type"], &last["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("PartialObjectMetadata"))
    );
    assert!(version(&last["object"]) >= version(&created));
}

async fn initial_events_without_bookmarks_have_no_end_bookmark(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    c.create(&path, &config_map("a")).await;
    let query = format!("{path}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut watch = c.api().watch(&query).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED a"]);
    c.create(&path, &config_map("b")).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED b"]);
}

/// A list from a future version fails; a watch opens, and skips older events.
async fn watch_from_a_future_version_has_no_events(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let query = format!("{path}?watch=1&resourceVersion=999999999&timeoutSeconds=4");
    let mut watch = c.api().watch(&query).await;
    c.create(&path, &config_map("a")).await;
    assert_eq!(until_end(&mut watch).await.len(), 0);
}
