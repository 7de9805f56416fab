//! Matching of requests: rules, scopes, selectors, equivalent resources, match conditions.

use std::time::Duration;

use coxswain_tests::fixtures::{CRDS, apps, config_map, core, definition, deployment, named, with};
use coxswain_tests::webhook::{Webhook, allow, configuration, configurations};
use coxswain_tests::{Cluster, Test, test, time};
use serde_json::{Value, json};

use super::{NAME, hooked, lines, yes};

pub fn tests() -> Vec<Test> {
    vec![
        test!(rules_match_operation_group_version_and_resource),
        test!(rules_match_scope),
        test!(namespace_selector_matches_namespace_labels),
        test!(object_selector_matches_old_or_new_object),
        test!(namespace_selector_matches_namespace_object),
        test!(match_policy_equivalent_converts_other_versions),
        test!(match_conditions_select_requests).since(1, 30),
        test!(match_condition_errors_follow_failure_policy).since(1, 30),
        test!(webhook_configurations_are_exempt),
        test!(deleted_configuration_calls_no_webhook),
    ]
}

/// Returns the paths of the called webhooks without the slash, sorted.
fn paths(webhook: &Webhook) -> Vec<String> {
    let mut paths: Vec<String> = webhook
        .calls()
        .iter()
        // kube-controller-manager creates service accounts.
        .filter(|call| call.request()["userInfo"]["username"] == "admin")
        .filter(|call| call.request()["resource"]["resource"] != "serviceaccounts")
        .map(|call| call.path.split('?').next().unwrap_or_default()[1..].to_owned())
        .collect();
    let _ = webhook.requests();
    paths.sort();
    // A server with a stale cache repeats calls.
    paths.dedup();
    paths
}

async fn rules_match_operation_group_version_and_resource(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let hook = |name: &str, operations: Value, group: &str, version: &str, resource: &str| {
        let rule = json!([{"operations": operations, "apiGroups": [group], "apiVersions": [version], "resources": [resource], "scope": "Namespaced"}]);
        with(webhook.path_hook(name, &[]), json!({"rules": rule}))
    };
    let hooks = vec![
        hook("all", json!(["*"]), "*", "*", "*"),
        hook("everything", json!(["*"]), "*", "*", "*/*"),
        hook("creates", json!(["CREATE"]), "apps", "v1", "deployments"),
        hook(
            "changes",
            json!(["UPDATE", "DELETE"]),
            "apps",
            "v1",
            "deployments",
        ),
        hook("group", json!(["*"]), "batch", "v1", "deployments"),
        hook("version", json!(["*"]), "apps", "v2", "deployments"),
        hook("status", json!(["*"]), "apps", "v1", "deployments/status"),
        hook("subresources", json!(["*"]), "apps", "v1", "deployments/*"),
        hook("scales", json!(["*"]), "*", "*", "*/scale"),
    ];
    webhook.install(&c, &ns, "Validating", &ns, hooks).await;
    let path = apps(&ns, "deployments");
    c.create(&path, deployment("a")).await;
    assert_eq!(paths(&webhook), ["all", "creates", "everything", "subresources"]);
    let path = format!("{path}/a");
    c.merge(&path, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(paths(&webhook), ["all", "changes", "everything", "subresources"]);
    c.merge(&format!("{path}/status"), json!({"status": {"replicas": 1}}))
        .await;
    assert_eq!(paths(&webhook), ["everything", "status", "subresources"]);
    c.merge(&format!("{path}/scale"), json!({"spec": {"replicas": 3}}))
        .await;
    assert_eq!(paths(&webhook), ["everything", "scales", "subresources"]);
    c.read(&path).await;
    c.delete(&path).await;
    assert_eq!(paths(&webhook), ["all", "changes", "everything", "subresources"]);
}

async fn rules_match_scope(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let labels = json!({"scoped": ns});
    let hooks = ["Cluster", "Namespaced", "*"]
        .iter()
        .enumerate()
        .map(|(i, scope)| {
            let mut hook = webhook.hook(
                &format!("h{i}.example.com"),
                &format!("/h{i}"),
                &["clusterroles", "configmaps", "namespaces"],
            );
            hook["rules"][0]["scope"] = json!(scope);
            hook["namespaceSelector"] = json!({});
            hook["objectSelector"] = json!({"matchLabels": labels});
            hook
        })
        .collect();
    webhook.install(&c, &ns, "Validating", &ns, hooks).await;
    let labelled = |object: Value| with(object, json!({"metadata": {"labels": labels}}));
    c.create(&core(&ns, "configmaps"), labelled(config_map("a")))
        .await;
    assert_eq!(paths(&webhook), ["h1", "h2"]);
    let role = named(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        &format!("scoped-{ns}"),
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    c.create(roles, labelled(role)).await;
    assert_eq!(paths(&webhook), ["h0", "h2"]);
    let namespace = named("v1", "Namespace", &format!("scoped-{ns}"));
    c.create("/api/v1/namespaces", labelled(namespace)).await;
    assert_eq!(paths(&webhook), ["h0", "h2"]);
}

async fn namespace_selector_matches_namespace_labels(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["configmaps"], yes).await;
    let other = c.namespace().await;
    c.create(&core(&other, "configmaps"), config_map("a")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    c.create(&core(&ns, "configmaps"), config_map("a")).await;
    assert_eq!(lines(&webhook.requests()), ["CREATE a"]);
    let nowhere = c
        .api()
        .post(&core("nowhere", "configmaps"), config_map("a"))
        .await;
    nowhere.expect_error(404, "NotFound");
}

async fn object_selector_matches_old_or_new_object(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let mut hook = webhook.hook(NAME, "/", &["configmaps"]);
    hook["objectSelector"] =
        json!({"matchExpressions": [{"key": "ask", "operator": "In", "values": ["yes", "please"]}]});
    webhook.install(&c, &ns, "Mutating", &ns, vec![hook]).await;
    let path = core(&ns, "configmaps");
    let ask = |value: Value| json!({"metadata": {"labels": {"ask": value}}});
    c.create(&path, config_map("a")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    c.create(&path, with(config_map("b"), ask(json!("yes")))).await;
    assert_eq!(lines(&webhook.requests()), ["CREATE b"]);
    let path = format!("{path}/b");
    c.merge(&path, ask(json!("no"))).await;
    assert_eq!(lines(&webhook.requests()), ["UPDATE b"]);
    let unmatched = with(config_map("c"), ask(json!("no")));
    c.create(&core(&ns, "configmaps"), unmatched).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    c.merge(&path, ask(json!("please"))).await;
    c.delete(&path).await;
    assert_eq!(lines(&webhook.requests()), ["UPDATE b", "DELETE b"]);
}

/// The selector applies to the labels of the namespace itself.
async fn namespace_selector_matches_namespace_object(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let mut hook = webhook.hook(NAME, "/", &["namespaces"]);
    let labels = json!({"own": ns});
    hook["namespaceSelector"] = json!({"matchLabels": labels});
    webhook.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    let name = format!("own-{ns}");
    let namespace = with(
        named("v1", "Namespace", &name),
        json!({"metadata": {"labels": labels}}),
    );
    c.create("/api/v1/namespaces", namespace).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), [format!("CREATE {name}")]);
    assert_eq!(requests[0]["namespace"], json!(name));
    let path = format!("/api/v1/namespaces/{name}");
    c.merge(&path, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(lines(&webhook.requests()), [format!("UPDATE {name}")]);
    c.delete(&path).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests)[0], format!("DELETE {name}"));
    assert_eq!(requests[0]["namespace"], json!(name));
}

async fn match_policy_equivalent_converts_other_versions(c: Cluster) {
    let ns = c.namespace().await;
    let singular = format!("thing{}", ns.replace('-', ""));
    let mut crd = definition(&singular, &json!({}));
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    if let Some(versions) = crd["spec"]["versions"].as_array_mut() {
        versions.push(second);
    }
    c.create(CRDS, crd).await;
    let plural = format!("{singular}s");
    for version in ["v1", "v2"] {
        let path = format!("/apis/example.com/{version}/{plural}");
        let served = time::eventually(Duration::from_mins(1), async || {
            (c.api().get(&path).await.status == 200).then_some(())
        });
        assert!(served.await.is_some(), "{path}");
    }
    let webhook = Webhook::start(|_, _| allow()).await;
    let hook = |name: &str, policy: &str| {
        let mut hook = webhook.path_hook(name, &[&plural]);
        hook["rules"][0]["apiVersions"] = json!(["v1"]);
        hook["matchPolicy"] = json!(policy);
        hook
    };
    let hooks = vec![hook("equivalent", "Equivalent"), hook("exact", "Exact")];
    webhook.install(&c, &ns, "Mutating", &ns, hooks).await;
    let kind = format!("{}{}", singular[..1].to_uppercase(), &singular[1..]);
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/{ns}/{plural}");
    let object = |version: &str| named(&format!("example.com/{version}"), &kind, version);
    // The server may load the second version with a delay.
    let calls = time::eventually(Duration::from_mins(1), async || {
        let probe = named("example.com/v2", &kind, "probe");
        c.create(&format!("{}?dryRun=All", path("v2")), probe).await;
        (!webhook.requests().is_empty()).then_some(())
    });
    assert!(calls.await.is_some());
    let _ = webhook.requests();
    c.create(&path("v1"), object("v1")).await;
    assert_eq!(paths(&webhook), ["equivalent", "exact"]);
    let made = c
        .create(&path("v2"), with(object("v2"), json!({"spec": {"a": 1}})))
        .await;
    assert_eq!(made["apiVersion"], "example.com/v2");
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["CREATE v2"]);
    let gvk = |version: &str| json!({"group": "example.com", "version": version, "kind": kind});
    let gvr = |version: &str| json!({"group": "example.com", "version": version, "resource": plural});
    let request = &requests[0];
    assert_eq!(
        (&request["kind"], &request["requestKind"]),
        (&gvk("v1"), &gvk("v2"))
    );
    assert_eq!(
        (&request["resource"], &request["requestResource"]),
        (&gvr("v1"), &gvr("v2"))
    );
    assert_eq!(request["object"]["apiVersion"], "example.com/v1");
    assert_eq!(request["object"]["spec"], json!({"a": 1}));
    c.delete(&format!("{CRDS}/{plural}.example.com")).await;
}

fn condition(expression: &str) -> Value {
    json!([{"name": "c", "expression": expression}])
}

async fn match_conditions_select_requests(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let hook = |name: &str, expression: &str| {
        let hook = webhook.path_hook(name, &["configmaps"]);
        with(hook, json!({"matchConditions": condition(expression)}))
    };
    let hooks = vec![
        hook("always", "true"),
        hook("never", "false"),
        hook(
            "labelled",
            "has(object.metadata.labels) && 'x' in object.metadata.labels",
        ),
        hook("old", "oldObject != null && oldObject.data.k == 'v'"),
        hook("gone", "object == null"),
        hook(
            "who",
            "request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups",
        ),
        hook(
            "what",
            "request.operation == 'CREATE' && request.resource.resource == 'configmaps' && request.name == 'a'",
        ),
        hook(
            "where",
            &format!("request.namespace == '{ns}' && !request.dryRun && request.kind.kind == 'ConfigMap'"),
        ),
        hook("options", "request.options.kind == 'CreateOptions'"),
    ];
    webhook.install(&c, &ns, "Validating", &ns, hooks).await;
    let path = core(&ns, "configmaps");
    c.create(&path, config_map("a")).await;
    assert_eq!(paths(&webhook), ["always", "options", "what", "where", "who"]);
    let path = format!("{path}/a");
    c.merge(&path, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(paths(&webhook), ["always", "labelled", "old", "where", "who"]);
    let deleted = c.api().delete(&path, ()).await;
    // The condition `labelled` fails: a deletion has no object.
    deleted.expect_error(403, "Forbidden");
}

/// A condition that is false skips the webhook even if another one fails.
async fn match_condition_errors_follow_failure_policy(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let hook = |name: &str, policy: &str, conditions: Value| {
        let hook = webhook.path_hook(name, &["configmaps"]);
        with(
            hook,
            json!({"failurePolicy": policy, "matchConditions": conditions}),
        )
    };
    let broken = "object.data.missing == 'x'";
    let both = json!([{"name": "a", "expression": broken}, {"name": "b", "expression": "false"}]);
    let only_b = json!([{"name": "a", "expression": broken}, {"name": "b", "expression": "object.metadata.name != 'b'"}]);
    let hooks = vec![
        hook("ignore", "Ignore", condition(broken)),
        hook("both", "Fail", both),
        hook("fail", "Fail", only_b),
    ];
    webhook.install(&c, &ns, "Validating", &ns, hooks).await;
    let path = core(&ns, "configmaps");
    c.create(&path, config_map("b")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    let reply = c.api().post(&path, config_map("a")).await;
    reply.expect_error(403, "Forbidden");
    let why = format!(
        "configmaps \"a\" is forbidden: expression '{broken}' resulted in error: no such key: missing"
    );
    assert_eq!(reply.message(), why);
}

/// A webhook could otherwise block the repair of its own configuration.
async fn webhook_configurations_are_exempt(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let mut hook = webhook.hook(NAME, "/", &["*"]);
    hook["namespaceSelector"] = json!({});
    hook["objectSelector"] = json!({"matchLabels": {"exempt": ns}});
    webhook.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    let name = format!("exempt-{ns}");
    let other = with(
        configuration("Mutating", &name, &[]),
        json!({"metadata": {"labels": {"exempt": ns}}}),
    );
    let path = configurations("Mutating");
    c.create(&path, other).await;
    c.delete(&format!("{path}/{name}")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    let labelled = with(config_map("a"), json!({"metadata": {"labels": {"exempt": ns}}}));
    c.create(&core(&ns, "configmaps"), labelled).await;
    assert_eq!(lines(&webhook.requests()), ["CREATE a"]);
}

async fn deleted_configuration_calls_no_webhook(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["configmaps"], yes).await;
    c.delete(&format!("{}/{ns}", configurations("Validating"))).await;
    let path = format!("{}?dryRun=All", core(&ns, "configmaps"));
    let forgotten = time::eventually(Duration::from_mins(1), async || {
        let _ = webhook.requests();
        c.create(&path, config_map("a")).await;
        webhook.requests().is_empty().then_some(())
    });
    assert!(forgotten.await.is_some());
}
