//! Field selectors: every kind has name and namespace, some have more, and all others are refused.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use crate::support::{
    MERGE, bound_pod, config_map, core, create, escaped, labelled, names, object, of, pod, with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(name_and_namespace),
        test!(name_across_namespaces),
        test!(field_and_label_selectors_together),
        test!(pods_by_node_and_phase),
        test!(secrets_by_type),
        test!(events_by_what_they_are_about),
        test!(namespaces_by_phase),
        test!(nodes_by_unschedulable),
        test!(unsupported_fields_are_bad_requests),
        test!(invalid_selectors_are_bad_requests),
    ]
}

/// Asserts what each field selector selects of a collection.
async fn assert_selects(c: &Cluster, path: &str, rows: &[(&str, &[&str])]) {
    for (selector, expected) in rows {
        let query = format!("{path}?fieldSelector={}", escaped(selector));
        let list = c.api().get(&query).await.expect(200);
        assert_eq!(names(&list), *expected, "{selector}");
    }
}

async fn name_and_namespace(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for name in ["a", "b", "c"] {
        create(&c, &path, &config_map(name)).await;
    }
    let here = format!("metadata.namespace={ns}");
    let both = format!("metadata.name=b,metadata.namespace={ns}");
    assert_selects(
        &c,
        &path,
        &[
            ("metadata.name=b", &["b"]),
            ("metadata.name==b", &["b"]),
            ("metadata.name!=b", &["a", "c"]),
            ("metadata.name!=a,metadata.name!=b", &["c"]),
            ("metadata.name=a,metadata.name=b", &[]),
            ("metadata.name=nope", &[]),
            ("metadata.name=b,", &["b"]),
            ("", &["a", "b", "c"]),
            (&here, &["a", "b", "c"]),
            ("metadata.namespace=other", &[]),
            (&both, &["b"]),
        ],
    )
    .await;
}

async fn name_across_namespaces(c: Cluster) {
    let (one, two) = (c.namespace().await, c.namespace().await);
    let unique = format!("only-{one}");
    for ns in [&one, &two] {
        create(&c, &core(ns, "configmaps"), &config_map(&unique)).await;
    }
    let query = format!(
        "/api/v1/configmaps?fieldSelector={}",
        escaped(&format!("metadata.name={unique}"))
    );
    let list = c.api().get(&query).await.expect(200);
    assert_eq!(names(&list), [&unique, &unique]);
    let query = format!("{query}{}", escaped(&format!(",metadata.namespace={two}")));
    let list = c.api().get(&query).await.expect(200);
    assert_eq!(list["items"][0]["metadata"]["namespace"], json!(two));
    assert_eq!(names(&list).len(), 1);
}

async fn field_and_label_selectors_together(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for name in ["a", "b"] {
        create(&c, &path, &labelled(config_map(name), json!({"app": name}))).await;
    }
    for (labels, expected) in [("app", vec!["a"]), ("app=b", vec![])] {
        let query = format!(
            "{path}?labelSelector={}&fieldSelector={}",
            escaped(labels),
            escaped("metadata.name=a")
        );
        let list = c.api().get(&query).await.expect(200);
        assert_eq!(names(&list), expected);
    }
}

async fn pods_by_node_and_phase(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    for pod in [bound_pod("a"), pod("b"), pod("c")] {
        create(&c, &path, &pod).await;
    }
    let change = json!({"status": {"phase": "Failed"}});
    c.api()
        .patch(&format!("{path}/c/status"), MERGE, change)
        .await
        .expect(200);
    assert_selects(
        &c,
        &path,
        &[
            ("spec.nodeName=node-1", &["a"]),
            ("spec.nodeName=", &["b", "c"]),
            ("spec.nodeName!=node-1", &["b", "c"]),
            ("status.phase=Pending", &["a", "b"]),
            ("status.phase!=Failed", &["a", "b"]),
            ("status.phase=Failed", &["c"]),
            ("spec.nodeName=,status.phase=Pending", &["b"]),
            ("metadata.name=a,spec.nodeName=", &[]),
            ("spec.restartPolicy=Always", &["a", "b", "c"]),
            ("spec.schedulerName=default-scheduler", &["a", "b", "c"]),
            ("spec.serviceAccountName=x", &[]),
            ("status.podIP=", &["a", "b", "c"]),
            ("status.nominatedNodeName=", &["a", "b", "c"]),
        ],
    )
    .await;
}

async fn secrets_by_type(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "secrets");
    create(&c, &path, &object("v1", "Secret", "a")).await;
    let typed = with(object("v1", "Secret", "b"), "/type", json!("example.com/b"));
    create(&c, &path, &typed).await;
    assert_selects(
        &c,
        &path,
        &[
            ("type=Opaque", &["a"]),
            ("type!=Opaque", &["b"]),
            ("type=example.com/b", &["b"]),
        ],
    )
    .await;
}

async fn events_by_what_they_are_about(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "events");
    for (name, kind) in [("a", "Pod"), ("b", "Node")] {
        let about = json!({"kind": kind, "namespace": ns, "name": format!("the-{name}"), "uid": format!("uid-{name}"),
                           "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec"});
        let event = with(object("v1", "Event", name), "/involvedObject", about);
        let event = with(event, "/reason", json!(format!("Reason{name}")));
        let event = with(event, "/source", json!({"component": "tests"}));
        create(&c, &path, &with(event, "/type", json!("Normal"))).await;
    }
    let here = format!("involvedObject.namespace={ns}");
    assert_selects(
        &c,
        &path,
        &[
            ("involvedObject.name=the-a", &["a"]),
            ("involvedObject.kind=Node", &["b"]),
            ("involvedObject.uid=uid-b", &["b"]),
            ("involvedObject.name=the-a,involvedObject.kind=Node", &[]),
            (&here, &["a", "b"]),
            ("involvedObject.apiVersion=v1", &["a", "b"]),
            ("involvedObject.resourceVersion=7", &["a", "b"]),
            ("involvedObject.fieldPath=spec", &["a", "b"]),
            ("reason=Reasonb", &["b"]),
            ("source=tests", &["a", "b"]),
            ("type=Warning", &[]),
        ],
    )
    .await;
}

async fn namespaces_by_phase(c: Cluster) {
    let ns = c.namespace().await;
    let active = format!("metadata.name={ns},status.phase=Active");
    let terminating = format!("metadata.name={ns},status.phase=Terminating");
    let rows: [(&str, &[&str]); 2] = [(&active, &[&ns]), (&terminating, &[])];
    assert_selects(&c, "/api/v1/namespaces", &rows).await;
}

async fn nodes_by_unschedulable(c: Cluster) {
    let name = c.namespace().await;
    let node = with(object("v1", "Node", &name), "/spec/unschedulable", json!(true));
    create(&c, "/api/v1/nodes", &node).await;
    let yes = format!("metadata.name={name},spec.unschedulable=true");
    let no = format!("metadata.name={name},spec.unschedulable=false");
    let rows: [(&str, &[&str]); 2] = [(&yes, &[&name]), (&no, &[])];
    assert_selects(&c, "/api/v1/nodes", &rows).await;
    c.api()
        .delete(&format!("/api/v1/nodes/{name}"), ())
        .await
        .expect(200);
}

/// Kinds with fields of their own have other words than those without.
async fn unsupported_fields_are_bad_requests(c: Cluster) {
    let ns = c.namespace().await;
    let generic = |field: &str| {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    };
    let own = |field: &str| format!("field label not supported: {field}");
    for (path, field, message) in [
        (core(&ns, "configmaps"), "data.x", generic("data.x")),
        (core(&ns, "configmaps"), "metadata.uid", generic("metadata.uid")),
        (
            core(&ns, "configmaps"),
            "metadata.labels",
            generic("metadata.labels"),
        ),
        (core(&ns, "configmaps"), "", generic("")),
        (
            of("apps/v1", &ns, "deployments"),
            "spec.replicas",
            generic("spec.replicas"),
        ),
        (core(&ns, "pods"), "spec.containers", own("spec.containers")),
        (core(&ns, "events"), "action", own("action")),
    ] {
        for query in ["", "watch=1&"] {
            let selector = escaped(&format!("{field}=1"));
            let reply = c
                .api()
                .get(&format!("{path}?{query}fieldSelector={selector}"))
                .await;
            reply.expect_error(400, "BadRequest");
            reply.check(reply.message() == message, &message);
        }
    }
}

async fn invalid_selectors_are_bad_requests(c: Cluster) {
    let ns = c.namespace().await;
    for selector in ["metadata.name", "metadata.name in (a)", "metadata.name>a", "nope"] {
        let query = format!("{}?fieldSelector={}", core(&ns, "configmaps"), escaped(selector));
        let reply = c.api().get(&query).await;
        reply.expect_error(400, "BadRequest");
        let message = format!("invalid selector: '{selector}'; can't understand '{selector}'");
        reply.check(reply.message() == message, &message);
    }
}
