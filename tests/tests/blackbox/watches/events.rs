//! What a watch delivers, and when it ends.

use std::time::Duration;

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use crate::support::{MERGE, config_map, core, create, lines, name, of, until_end, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(events_are_what_was_answered),
        test!(objects_of_events_carry_their_kind),
        test!(write_without_change_is_no_event),
        test!(other_kinds_and_namespaces_are_not_delivered),
        test!(watch_of_all_namespaces),
        test!(timeout_ends_the_stream),
        test!(any_value_but_false_asks_for_a_watch),
        test!(watch_parameter_does_not_matter_to_a_get),
        test!(old_paths_watch),
        test!(watch_of_a_missing_namespace_is_quiet),
    ]
}

async fn events_are_what_was_answered(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let list = c.api().get(&path).await.expect(200);
    let query = format!("{path}?watch=1&resourceVersion={}", version(&list));
    let mut watch = c.api().watch(&query).await;
    let made = create(&c, &path, &config_map("a")).await;
    let change = json!({"data": {"k": "v"}});
    let changed = c
        .api()
        .patch(&format!("{path}/a"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(watch.expect("ADDED").await, made);
    assert_eq!(watch.expect("MODIFIED").await, changed);
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    let mut removed = watch.expect("DELETED").await;
    assert!(version(&removed) > version(&changed));
    removed["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"].clone();
    assert_eq!(removed, changed);
}

/// Unlike the items of a list.
async fn objects_of_events_carry_their_kind(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "deployments");
    create(&c, &path, &crate::support::deployment("a")).await;
    let mut watch = c.api().watch(&format!("{path}?watch=1")).await;
    let object = watch.expect("ADDED").await;
    assert_eq!(
        (&object["apiVersion"], &object["kind"]),
        (&json!("apps/v1"), &json!("Deployment"))
    );
}

async fn write_without_change_is_no_event(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let query = format!("{path}?watch=1&resourceVersion={}", version(&made));
    let mut watch = c.api().watch(&query).await;
    let same = c.api().put(&format!("{path}/a"), &made).await.expect(200);
    assert_eq!(same, made);
    create(&c, &path, &config_map("b")).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED b"]);
}

async fn other_kinds_and_namespaces_are_not_delivered(c: Cluster) {
    let (ns, other) = (c.namespace().await, c.namespace().await);
    let path = core(&ns, "configmaps");
    let mut watch = c.api().watch(&format!("{path}?watch=1")).await;
    create(&c, &core(&other, "configmaps"), &config_map("x")).await;
    let secret = crate::support::object("v1", "Secret", "y");
    create(&c, &core(&ns, "secrets"), &secret).await;
    create(&c, &path, &config_map("a")).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED a"]);
    assert_eq!(watch.next(Duration::from_millis(100)).await, None);
}

async fn watch_of_all_namespaces(c: Cluster) {
    let (one, two) = (c.namespace().await, c.namespace().await);
    let query = format!("/api/v1/configmaps?watch=1&labelSelector=of%3D{one}");
    let mut watch = c.api().watch(&query).await;
    for ns in [&two, &one] {
        let object = crate::support::labelled(config_map("a"), json!({"of": one}));
        create(&c, &core(ns, "configmaps"), &object).await;
    }
    for ns in [&two, &one] {
        assert_eq!(watch.expect("ADDED").await["metadata"]["namespace"], json!(ns));
    }
}

async fn timeout_ends_the_stream(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &config_map("a")).await;
    // Long enough for a busy server to show the state before.
    let mut watch = c.api().watch(&format!("{path}?watch=1&timeoutSeconds=5")).await;
    let events = until_end(&mut watch).await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(
        (&events[0]["type"], name(&events[0]["object"])),
        (&json!("ADDED"), "a")
    );
}

async fn any_value_but_false_asks_for_a_watch(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for value in ["1", "true", "x", "yes"] {
        let query = format!("{path}?watch={value}&timeoutSeconds=1");
        let mut watch = c.api().watch(&query).await;
        assert_eq!(until_end(&mut watch).await.len(), 0, "{value}");
    }
    for value in ["0", "false"] {
        let list = c.api().get(&format!("{path}?watch={value}")).await.expect(200);
        assert_eq!(list["kind"], "ConfigMapList", "{value}");
    }
}

async fn watch_parameter_does_not_matter_to_a_get(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let read = c.api().get(&format!("{path}/a?watch=1")).await.expect(200);
    assert_eq!(read, made);
}

/// Deprecated since 1.11, and still there.
async fn old_paths_watch(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for name in ["a", "b"] {
        let object = crate::support::labelled(config_map(name), json!({"of": ns}));
        create(&c, &path, &object).await;
    }
    let deployments = of("apps/v1", &ns, "deployments");
    create(&c, &deployments, &crate::support::deployment("d")).await;
    for (path, expected) in [
        (
            format!("/api/v1/watch/namespaces/{ns}/configmaps"),
            &["ADDED a", "ADDED b"][..],
        ),
        (
            format!("/api/v1/watch/namespaces/{ns}/configmaps/b"),
            &["ADDED b"],
        ),
        (
            format!("/api/v1/watch/configmaps?labelSelector=of%3D{ns}"),
            &["ADDED a", "ADDED b"],
        ),
        (
            format!("/apis/apps/v1/watch/namespaces/{ns}/deployments"),
            &["ADDED d"],
        ),
        (
            format!("/api/v1/watch/namespaces/{ns}"),
            &[&format!("ADDED {ns}")],
        ),
    ] {
        let mut watch = c.api().watch(&path).await;
        let mut found = lines(&mut watch, expected.len()).await;
        found.sort_unstable();
        assert_eq!(found, expected, "{path}");
    }
}

async fn watch_of_a_missing_namespace_is_quiet(c: Cluster) {
    let path = core("no-such-namespace", "configmaps?watch=1&timeoutSeconds=1");
    let mut watch = c.api().watch(&path).await;
    assert_eq!(until_end(&mut watch).await.len(), 0);
}
