//! The graph page of the garbage collector.

use serde_json::json;
use steersman_harness::{Api, Program, time};

use crate::sandbox;

const GRAPH: &str = "/debug/controllers/garbage-collector-controller/graph";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates a `ConfigMap` and returns its uid.
async fn create(api: &Api, name: &str, owners: serde_json::Value) -> String {
    let map = json!({"metadata": {"name": name, "ownerReferences": owners}});
    let created = api.post(MAPS, map).await.expect(201);
    created["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// Waits until a page contains all of `wanted` and returns it.
async fn shows(program: &Program, page: &str, wanted: &[&str]) -> String {
    let shown = time::eventually(time::ANSWER, async || {
        let reply = program.endpoints().get(page).await;
        let text = reply.text();
        (reply.status == 200 && wanted.iter().all(|it| text.contains(it))).then_some(text)
    });
    shown
        .await
        .unwrap_or_else(|| panic!("{wanted:?} is not at {page}"))
}

#[tokio::test]
async fn graph_page_shows_owners_and_filters_by_uid() {
    let program = sandbox::start(&[]).await;
    let api = sandbox::api(&program).await;
    let mut pairs = Vec::new();
    for (owner, dependent) in [("a", "b"), ("c", "d")] {
        let uid = create(&api, owner, json!([])).await;
        let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid}]);
        pairs.push((create(&api, dependent, reference).await, uid));
    }
    let edge = |(dependent, owner): &(String, String)| format!("\"{dependent}\" -> \"{owner}\";");
    let (first, second) = (edge(&pairs[0]), edge(&pairs[1]));
    let all = shows(&program, GRAPH, &[&first, &second]).await;
    assert!(all.starts_with("strict digraph full {"), "{all}");
    let part = shows(&program, &format!("{GRAPH}?uid={}", pairs[0].0), &[&first]).await;
    assert!(!part.contains(&second), "{part}");

    let reply = program.endpoints().get(GRAPH).await;
    assert_eq!(reply.header("content-type"), Some("text/vnd.graphviz"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    let found = format!("{GRAPH}?format=json&search=configmap/default/b");
    let found = program.endpoints().get(&found).await.json();
    assert_eq!(
        (&found["matches"][0]["uid"], &found["truncated"]),
        (&json!(pairs[0].0), &json!(false))
    );
    let lineage = format!("{GRAPH}?format=json&uid={}", pairs[0].0);
    let lineage = program.endpoints().get(&lineage).await.json();
    let names: Vec<_> = lineage["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["b", "a"], "{lineage}");
    assert_eq!(lineage["nodes"][0]["owners"], json!([pairs[0].1]));
    let neither = program.endpoints().get(&format!("{GRAPH}?format=json")).await;
    assert_eq!(neither.status, 400);

    let below = program.endpoints().get(&format!("{GRAPH}/more")).await;
    assert_eq!(below.status, 404);
}
