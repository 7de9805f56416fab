//! The rules of metadata, the same for every kind: labels, annotations, finalizers, owner references.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{
        MERGE, STRATEGIC, apps, config_map, core, deployment, field, group, job, lease, leases, named, owner,
        pod, service, with,
    },
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, refuses, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(label_keys_are_qualified_names),
        test!(label_values_are_short_names_or_empty),
        test!(labels_of_a_template_are_checked),
        test!(annotation_keys_are_qualified_names_of_any_case),
        test!(annotations_have_at_most_256_kib),
        test!(finalizers_are_qualified),
        test!(orphan_and_foreground_exclude_each_other),
        test!(repeated_finalizers_stay),
        test!(owner_references_need_all_parts),
        test!(owner_api_version_needs_a_version),
        test!(events_own_nothing),
        test!(at_most_one_controller),
        test!(repeated_owner_references_become_one_with_a_warning),
        test!(owner_references_that_a_patch_repeats_are_told_in_other_words),
        test!(updates_are_checked_too),
        test!(what_names_are_made_from_is_checked_again_by_some_kinds),
        test!(empty_metadata_maps_are_left_out),
    ]
}

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A `ConfigMap` named `a` with this metadata.
fn meta(change: Value) -> Value {
    with(config_map("a"), field("metadata", change))
}

async fn label_keys_are_qualified_names(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let unit = if speaks_1_36(&c) { "bytes" } else { "characters" };
    let long = format!("Invalid metadata.labels: name part must be no more than 63 {unit}");
    let name = format!("Invalid metadata.labels: name part {QUALIFIED}");
    let several = format!(
        "Invalid metadata.labels: {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    );
    let prefix = format!("Invalid metadata.labels: {PREFIX}");
    let row = |key: &str, causes: &[&'static str]| (meta(json!({"labels": {key: "v"}})), causes.to_vec());
    let (long, name, several, prefix): (&str, &str, &str, &str) = (&long, &name, &several, &prefix);
    let rows = vec![
        (meta(json!({"labels": {"a b": "v"}})), vec![name]),
        (meta(json!({"labels": {"-a": "v"}})), vec![name]),
        (meta(json!({"labels": {"a.": "v"}})), vec![name]),
        (meta(json!({"labels": {"a/b/c": "v"}})), vec![several]),
        (meta(json!({"labels": {"x".repeat(64): "v"}})), vec![long]),
        (meta(json!({"labels": {"A.b_/c": "v"}})), vec![prefix]),
        (meta(json!({"labels": {"EX.com/a": "v"}})), vec![prefix]),
        row("/a", &["Invalid metadata.labels: prefix part must be non-empty"]),
        (
            meta(json!({"labels": {"": "v"}})),
            vec!["Invalid metadata.labels: name part must be non-empty", name],
        ),
    ];
    refuses(&c, &path, rows).await;
    let labels = json!({"example.com/".to_owned() + &"x".repeat(63): "v", "A_b.C-1": "v"});
    let made = c
        .api()
        .post(&path, meta(json!({"labels": labels})))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["labels"], labels);
}

async fn label_values_are_short_names_or_empty(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let bad = format!("Invalid metadata.labels: {VALUE}");
    let unit = if speaks_1_36(&c) { "bytes" } else { "characters" };
    let long = format!("Invalid metadata.labels: must be no more than 63 {unit}");
    let rows = vec![
        (meta(json!({"labels": {"a": "b c"}})), vec![&*bad]),
        (meta(json!({"labels": {"a": "-b"}})), vec![&*bad]),
        (meta(json!({"labels": {"a": "b/c"}})), vec![&*bad]),
        (meta(json!({"labels": {"a": "x".repeat(64)}})), vec![&*long]),
    ];
    refuses(&c, &path, rows).await;
    let labels = json!({"empty": "", "long": "x".repeat(63), "mixed": "Y_y.9"});
    let made = c
        .api()
        .post(&path, meta(json!({"labels": labels})))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["labels"], labels);
}

async fn labels_of_a_template_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    let labels = json!({"metadata": {"labels": {"b": "c d"}}});
    let body = with(deployment("a"), json!({"spec": {"template": labels}}));
    let cause = format!("Invalid spec.template.labels: {VALUE}");
    refuses(&c, &apps(&ns, "deployments"), vec![(body, vec![&cause])]).await;
}

async fn annotation_keys_are_qualified_names_of_any_case(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let name = format!("Invalid metadata.annotations: name part {QUALIFIED}");
    let unit = if speaks_1_36(&c) { "bytes" } else { "characters" };
    let long = format!("Invalid metadata.annotations: name part must be no more than 63 {unit}");
    let rows = vec![
        (meta(json!({"annotations": {"a b": "v"}})), vec![&*name]),
        (meta(json!({"annotations": {"x".repeat(64): "v"}})), vec![&*long]),
    ];
    refuses(&c, &path, rows).await;
    // Other than with labels, the prefix may have upper case.
    let annotations = json!({"Example.COM/A": "any thing\n\u{e4}", "B": ""});
    let made = c
        .api()
        .post(&path, meta(json!({"annotations": annotations})))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["annotations"], annotations);
}

async fn annotations_have_at_most_256_kib(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    // Keys count as well.
    let annotation = |size: usize| meta(json!({"annotations": {"k": "x".repeat(size - 1)}}));
    let cause = if speaks_1_36(&c) {
        "TooLong metadata.annotations: Too long: may not be more than 262144 bytes"
    } else {
        "TooLong metadata.annotations: Too long: must have at most 262144 bytes"
    };
    refuses(&c, &path, vec![(annotation(262_145), vec![cause])]).await;
    c.api().post(&path, annotation(262_144)).await.expect(201);
}

async fn finalizers_are_qualified(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let bare =
        "Invalid metadata.finalizers[0]: name is neither a standard finalizer name nor is it fully qualified";
    let name = format!("Invalid metadata.finalizers: name part {QUALIFIED}");
    let prefix = format!("Invalid metadata.finalizers: {PREFIX}");
    let empty = "Invalid metadata.finalizers: name part must be non-empty";
    let rows = vec![
        (meta(json!({"finalizers": ["foo"]})), vec![bare]),
        (meta(json!({"finalizers": ["a b/c"]})), vec![&*prefix]),
        (meta(json!({"finalizers": ["Upper.com/c"]})), vec![&*prefix]),
        (meta(json!({"finalizers": ["example.com/"]})), vec![empty, &*name]),
        (meta(json!({"finalizers": [""]})), vec![empty, &*name, bare]),
    ];
    refuses(&c, &path, rows).await;
    for (i, finalizer) in [
        "a/b",
        "example.com/x",
        "kubernetes",
        "orphan",
        "foregroundDeletion",
        "kubernetes.io/pvc-protection",
    ]
    .into_iter()
    .enumerate()
    {
        let body = with(
            config_map(&format!("a{i}")),
            json!({"metadata": {"finalizers": [finalizer]}}),
        );
        let made = c.api().post(&path, body).await.expect(201);
        assert_eq!(made["metadata"]["finalizers"], json!([finalizer]));
    }
}

async fn orphan_and_foreground_exclude_each_other(c: Cluster) {
    let ns = c.namespace().await;
    let body = meta(json!({"finalizers": ["orphan", "foregroundDeletion"]}));
    let cause = "Invalid metadata.finalizers: finalizer orphan and foregroundDeletion cannot be both set";
    refuses(&c, &core(&ns, "configmaps"), vec![(body, vec![cause])]).await;
}

async fn repeated_finalizers_stay(c: Cluster) {
    let ns = c.namespace().await;
    let finalizers = json!(["example.com/a", "example.com/a"]);
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), meta(json!({"finalizers": finalizers})))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["finalizers"], finalizers);
}

async fn owner_references_need_all_parts(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let causes = [
        (
            "apiVersion",
            "Invalid metadata.ownerReferences.apiVersion: version must not be empty",
        ),
        ("kind", "Invalid metadata.ownerReferences.kind: must not be empty"),
        ("name", "Invalid metadata.ownerReferences.name: must not be empty"),
        ("uid", "Invalid metadata.ownerReferences.uid: must not be empty"),
    ];
    let reference = |change: Value| meta(json!({"ownerReferences": [with(owner("u"), change)]}));
    let mut rows = Vec::new();
    for (field, cause) in causes {
        rows.push((reference(json!({field: null})), vec![cause]));
        rows.push((reference(json!({field: ""})), vec![cause]));
    }
    rows.push((
        meta(json!({"ownerReferences": [{}]})),
        causes.map(|(_, cause)| cause).to_vec(),
    ));
    refuses(&c, &path, rows).await;
}

async fn owner_api_version_needs_a_version(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let reference =
        |version: &str| meta(json!({"ownerReferences": [with(owner("u"), json!({"apiVersion": version}))]}));
    let cause = "Invalid metadata.ownerReferences.apiVersion: version must not be empty";
    let rows = ["apps/v1/x", "apps/"]
        .map(|version| (reference(version), vec![cause]))
        .to_vec();
    refuses(&c, &path, rows).await;
    let made = c.api().post(&path, reference("/v1")).await.expect(201);
    assert_eq!(made["metadata"]["ownerReferences"][0]["apiVersion"], "/v1");
}

async fn events_own_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let event = |version: &str| {
        let reference = with(owner("u"), json!({"apiVersion": version, "kind": "Event"}));
        meta(json!({"ownerReferences": [reference]}))
    };
    let cause = "Invalid metadata.ownerReferences: /v1, Kind=Event is disallowed from being an owner";
    refuses(&c, &path, vec![(event("v1"), vec![cause])]).await;
    c.api().post(&path, event("events.k8s.io/v1")).await.expect(201);
}

fn two_controllers(c: &Cluster) -> String {
    let start = "Invalid metadata.ownerReferences: Only one reference can have Controller set to true. Found \"true\" in references for ";
    let end = if speaks_1_36(c) {
        "Pod/p and Pod/p"
    } else {
        "p and p"
    };
    format!("{start}{end}")
}

async fn at_most_one_controller(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let is = |uid: &str, controller: bool| with(owner(uid), json!({"controller": controller}));
    let cause = two_controllers(&c);
    let body = meta(json!({"ownerReferences": [is("u1", true), is("u2", true)]}));
    refuses(&c, &path, vec![(body, vec![&cause])]).await;
    let references = json!([is("u1", true), is("u2", false), owner("u3")]);
    let made = c
        .api()
        .post(&path, meta(json!({"ownerReferences": references})))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["ownerReferences"], references);
    let change = json!({"metadata": {"ownerReferences": [{"uid": "u2", "controller": true}]}});
    invalid(
        &c.api().patch(&format!("{path}/a"), STRATEGIC, change).await,
        &[&cause],
    );
    unchanged(&c, &format!("{path}/a"), &made).await;
}

async fn repeated_owner_references_become_one_with_a_warning(c: Cluster) {
    let ns = c.namespace().await;
    let body = meta(json!({"ownerReferences": [owner("u1"), owner("u2"), owner("u1")]}));
    let reply = c.api().post(&core(&ns, "configmaps"), body).await;
    assert_eq!(
        reply.expect(201)["metadata"]["ownerReferences"],
        json!([owner("u1"), owner("u2")])
    );
    let warning = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, \
                   and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u1";
    assert_eq!(
        reply.header("warning"),
        Some(format!("299 - \"{warning}\"").as_str())
    );
}

async fn owner_references_that_a_patch_repeats_are_told_in_other_words(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    c.api().post(&path, config_map("a")).await.expect(201);
    let change = json!({"metadata": {"ownerReferences": [owner("u1"), owner("u1"), owner("u1")]}});
    let reply = c.api().patch(&format!("{path}/a"), MERGE, change).await;
    assert_eq!(
        reply.expect(200)["metadata"]["ownerReferences"],
        json!([owner("u1")])
    );
    let warning = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server \
                   dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your \
                   requests; duplicate UID(s) observed: u1, u1";
    assert_eq!(
        reply.header("warning"),
        Some(format!("299 - \"{warning}\"").as_str())
    );
}

/// A name cannot change, so that most kinds do not ask for its form again.
async fn what_names_are_made_from_is_checked_again_by_some_kinds(c: Cluster) {
    let ns = c.namespace().await;
    let form = &PREFIX["prefix part ".len()..];
    let cause = format!("Invalid metadata.generateName: {form}");
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}});
    let rows = [
        (core(&ns, "configmaps"), config_map("a"), true),
        (core(&ns, "secrets"), named("v1", "Secret", "a"), true),
        (
            core(&ns, "serviceaccounts"),
            named("v1", "ServiceAccount", "a"),
            true,
        ),
        (core(&ns, "pods"), pod("a"), true),
        (group("batch/v1", &ns, "jobs"), job("a"), true),
        (apps(&ns, "deployments"), deployment("a"), false),
        (core(&ns, "services"), service("a"), !speaks_1_36(&c)),
        (leases(&ns), lease("a"), false),
        (group("rbac.authorization.k8s.io/v1", &ns, "roles"), role, false),
    ];
    for (path, body, asks) in rows {
        let made = c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a");
        let change = json!({"metadata": {"generateName": "Bad_"}});
        let reply = c.api().patch(&path, MERGE, change).await;
        if asks && path.ends_with("/services/a") {
            reply.expect_error(422, "Invalid");
        } else if asks {
            invalid(&reply, &[&*cause]);
            unchanged(&c, &path, &made).await;
        } else {
            assert_eq!(reply.expect(200)["metadata"]["generateName"], "Bad_", "{path}");
        }
    }
}

async fn updates_are_checked_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let version = "Invalid metadata.ownerReferences.apiVersion: version must not be empty";
    let bare =
        "Invalid metadata.finalizers[0]: name is neither a standard finalizer name nor is it fully qualified";
    let name = format!("Invalid metadata.labels: name part {QUALIFIED}");
    for (change, cause) in [
        (json!({"labels": {"a b": "v"}}), &*name),
        (
            json!({"ownerReferences": [with(owner("u"), json!({"apiVersion": null}))]}),
            version,
        ),
        (json!({"finalizers": ["foo"]}), bare),
    ] {
        let refused = |reply: Reply| invalid(&reply, &[cause]);
        refused(c.api().put(&path, meta(change.clone())).await);
        refused(c.api().patch(&path, MERGE, json!({"metadata": change})).await);
        unchanged(&c, &path, &made).await;
    }
}

async fn empty_metadata_maps_are_left_out(c: Cluster) {
    let ns = c.namespace().await;
    let body = meta(json!({"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}));
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        assert_eq!(made["metadata"].get(field), None, "{field}");
    }
}
