//! Watches with selectors: an object that enters the selection is ADDED, one that leaves it is DELETED.

use coxswain_tests::{Cluster, Test, Watch, test};
use serde_json::{Value, json};

use crate::support::{MERGE, bound_pod, config_map, core, create, escaped, labelled, lines, pod, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(entering_is_added_and_leaving_is_deleted),
        test!(leaving_shows_the_old_state_with_the_new_version),
        test!(deletion_outside_the_selection_is_no_event),
        test!(selection_counts_for_the_state_too),
        test!(single_name),
        test!(pods_of_a_node),
        test!(pods_by_phase),
        test!(both_selectors),
    ]
}

async fn patched(c: &Cluster, path: &str, change: Value) -> Value {
    c.api().patch(path, MERGE, change).await.expect(200)
}

async fn from_now(c: &Cluster, path: &str, selector: &str) -> Watch {
    let list = c.api().get(path).await.expect(200);
    let query = format!("{path}?watch=1&resourceVersion={}&{selector}", version(&list));
    c.api().watch(&query).await
}

async fn entering_is_added_and_leaving_is_deleted(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut watch = from_now(&c, &path, "labelSelector=l%3D1").await;
    let a = format!("{path}/a");
    create(&c, &path, &labelled(config_map("a"), json!({"l": "1"}))).await;
    patched(&c, &a, json!({"data": {"k": "1"}})).await;
    patched(&c, &a, json!({"metadata": {"labels": {"l": "2"}}})).await;
    patched(&c, &a, json!({"data": {"k": "2"}})).await;
    patched(&c, &a, json!({"metadata": {"labels": {"l": "1"}}})).await;
    c.api().delete(&a, ()).await.expect(200);
    let expected = ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a", "DELETED a"];
    assert_eq!(lines(&mut watch, 5).await, expected);
}

async fn leaving_shows_the_old_state_with_the_new_version(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let before = create(&c, &path, &labelled(config_map("a"), json!({"l": "1"}))).await;
    let mut watch = from_now(&c, &path, "labelSelector=l%3D1").await;
    let change = json!({"metadata": {"labels": {"l": "2"}}, "data": {"k": "new"}});
    let after = patched(&c, &format!("{path}/a"), change).await;
    let left = watch.expect("DELETED").await;
    assert_eq!(left["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(left["data"], Value::Null);
    assert_eq!(version(&left), version(&after));
}

async fn deletion_outside_the_selection_is_no_event(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &config_map("a")).await;
    let mut watch = from_now(&c, &path, "labelSelector=l").await;
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    create(&c, &path, &labelled(config_map("b"), json!({"l": "1"}))).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED b"]);
}

async fn selection_counts_for_the_state_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        create(&c, &path, &labelled(config_map(name), json!({"l": label}))).await;
    }
    let query = format!("{path}?watch=1&labelSelector={}", escaped("l in (1)"));
    let mut watch = c.api().watch(&query).await;
    let mut found = lines(&mut watch, 2).await;
    found.sort_unstable();
    assert_eq!(found, ["ADDED a", "ADDED c"]);
}

async fn single_name(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut watch = from_now(&c, &path, "fieldSelector=metadata.name%3Db").await;
    for name in ["a", "b", "c"] {
        create(&c, &path, &config_map(name)).await;
    }
    for name in ["a", "b"] {
        let change = json!({"data": {"k": "v"}});
        patched(&c, &format!("{path}/{name}"), change).await;
        c.api().delete(&format!("{path}/{name}"), ()).await.expect(200);
    }
    assert_eq!(lines(&mut watch, 3).await, ["ADDED b", "MODIFIED b", "DELETED b"]);
}

async fn pods_of_a_node(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    let mut mine = from_now(&c, &path, "fieldSelector=spec.nodeName%3Dnode-1").await;
    let mut pending = from_now(&c, &path, "fieldSelector=spec.nodeName%3D").await;
    create(&c, &path, &pod("a")).await;
    create(&c, &path, &bound_pod("b")).await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
                         "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}});
    c.api()
        .post(&format!("{path}/a/binding"), binding)
        .await
        .expect(201);
    assert_eq!(lines(&mut mine, 2).await, ["ADDED b", "ADDED a"]);
    assert_eq!(lines(&mut pending, 2).await, ["ADDED a", "DELETED a"]);
}

async fn pods_by_phase(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    create(&c, &path, &pod("a")).await;
    let mut watch = from_now(&c, &path, "fieldSelector=status.phase%21%3DFailed").await;
    for phase in ["Running", "Failed"] {
        let change = json!({"status": {"phase": phase}});
        patched(&c, &format!("{path}/a/status"), change).await;
    }
    assert_eq!(watch.expect("MODIFIED").await["status"]["phase"], "Running");
    assert_eq!(watch.expect("DELETED").await["status"]["phase"], "Running");
}

async fn both_selectors(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let selector = "labelSelector=l&fieldSelector=metadata.name%21%3Da";
    let mut watch = from_now(&c, &path, selector).await;
    create(&c, &path, &labelled(config_map("a"), json!({"l": "1"}))).await;
    create(&c, &path, &config_map("b")).await;
    create(&c, &path, &labelled(config_map("c"), json!({"l": "1"}))).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED c"]);
}
