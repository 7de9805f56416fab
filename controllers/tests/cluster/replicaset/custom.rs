//! `AppReplicaSets`: validation and defaulting by the CRD, and by the controller where the server has no CEL rules.

use serde_json::{Value, json};
use steersman_controllers::api;
use steersman_harness::fixtures::{self, MERGE, with};
use steersman_harness::{Need, Test};

use super::fixture::{Fixture, Owner, condition, text};

/// The first server version with CEL rules enabled by default.
pub const RULES: (u32, u32) = (1, 25);

pub fn tests() -> Vec<Test> {
    let all = vec![
        each!(@ crd_is_accepted_without_a_warning, AppReplicaSet),
        each!(@ invalid_spec_is_rejected, AppReplicaSet),
        each!(@ invalid_selector_is_rejected, AppReplicaSet),
        each!(@ selector_is_immutable, AppReplicaSet).since(RULES.0, RULES.1),
        each!(@ template_is_stored_unchanged, AppReplicaSet),
        each!(@ unknown_template_fields_are_pruned, AppReplicaSet),
        each!(@ invalid_template_is_reported_and_recovers, AppReplicaSet),
        each!(@ scale_subresource_is_served, AppReplicaSet),
    ];
    all.into_iter().map(|test| test.needs(Need::Ours)).collect()
}

/// Sent again, as an upgrade does.
async fn crd_is_accepted_without_a_warning(s: Fixture) {
    for definition in api::crds() {
        let path = format!("{}/{}", fixtures::CRDS, text(&definition["metadata"]["name"]));
        let now = s
            .until("all conditions are set", async || {
                let now = s.c.api().get(&path).await.expect(200);
                // A real server adds this condition for groups in k8s.io, maybe after it serves the CRD. That changes the
                // resourceVersion.
                let last = condition(&now["status"], "KubernetesAPIApprovalPolicyConformant");
                (s.c.is_sandbox() || last.is_some()).then_some(now)
            })
            .await;
        let version = json!({"metadata": {"resourceVersion": now["metadata"]["resourceVersion"]}});
        let path = format!("{path}?dryRun=All&fieldValidation=Strict");
        let reply = s.c.api().put(&path, with(definition.clone(), version)).await;
        reply.expect(200);
        reply.check(reply.header("warning").is_none(), "a warning");
        for kind in ["Established", "NamesAccepted"] {
            let status = condition(&now["status"], kind).map(|it| text(&it["status"]));
            assert_eq!(status.as_deref(), Some("True"), "{kind}");
        }
        assert!(condition(&now["status"], "NonStructuralSchema").is_none());
        // A server with CEL keeps all rules.
        if s.c.version() >= RULES {
            let spec = |it: &Value| it["spec"]["versions"][0]["schema"].clone();
            assert_eq!(spec(&now), spec(&definition));
        }
    }
}

async fn rejected(s: &Fixture, change: Value, words: &str) {
    let owner = with(s.owner("a", 1), change.clone());
    let reply = s.c.api().post(&s.owners(), owner).await;
    reply.expect_error(422, "Invalid");
    let message = reply.message();
    assert!(message.contains(words), "{change}: {message}");
}

async fn invalid_spec_is_rejected(s: Fixture) {
    let container = |it: Value| {
        let containers = json!([with(json!({"name": "c", "image": "i"}), it)]);
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    };
    for (change, words) in [
        (json!({"spec": null}), "spec: Required value"),
        (json!({"spec": {"replicas": -1}}), "spec.replicas"),
        (json!({"spec": {"replicas": "3"}}), "spec.replicas"),
        (json!({"spec": {"minReadySeconds": -1}}), "spec.minReadySeconds"),
        (
            json!({"spec": {"selector": null}}),
            "spec.selector: Required value",
        ),
        (
            json!({"spec": {"template": null}}),
            "spec.template: Required value",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": null}}}}),
            "spec.template.spec.containers: Required value",
        ),
        (container(json!({"name": null})), "name: Required value"),
        (
            container(json!({"resources": {"limits": {"cpu": "much"}}})),
            "resources.limits",
        ),
        (
            container(json!({"ports": [{"containerPort": "http"}]})),
            "containerPort",
        ),
        (
            json!({"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}}),
            "Unsupported value: \"Near\"",
        ),
    ] {
        rejected(&s, change, words).await;
    }
    let twins = json!([{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]);
    let twins = json!({"spec": {"template": {"spec": {"containers": twins}}}});
    rejected(&s, twins, "Duplicate value").await;
}

/// An owner with exactly this selector.
fn selecting(s: &Fixture, name: &str, selector: &Value) -> Value {
    let none = with(
        s.owner_on_unmanaged_node(name, 3),
        json!({"spec": {"selector": null}}),
    );
    with(none, json!({"spec": {"selector": selector}}))
}

/// The server rejects it, or the controller if the server has no CEL: no pod is created, adopted or deleted.
async fn invalid_selector_is_rejected(s: Fixture) {
    s.pod("somebodys", json!({})).await;
    let demand = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [with(json!({"key": key, "operator": operator}), json!({"values": values}))]});
    let (empty, other) = ("at least one label", "does not match template.metadata.labels");
    let values = "In and NotIn need values";
    for (at, (selector, words)) in [
        (json!({}), empty),
        (json!({"matchLabels": {}}), empty),
        (json!({"matchLabels": {}, "matchExpressions": []}), empty),
        (json!({"matchLabels": {"app": "b"}}), other),
        (json!({"matchLabels": {"app": "a", "more": "b"}}), other),
        (demand("app", "In", json!(["b"])), other),
        (demand("app", "NotIn", json!(["b", "a"])), other),
        (demand("app", "DoesNotExist", Value::Null), other),
        (demand("more", "Exists", Value::Null), other),
        (demand("app", "In", json!([])), values),
        (demand("app", "NotIn", Value::Null), values),
        (demand("app", "Exists", json!(["a"])), values),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("a{at}");
        let owner = selecting(&s, &name, &selector);
        if s.c.version() >= RULES {
            let reply = s.c.api().post(&s.owners(), owner).await;
            reply.expect_error(422, "Invalid");
            assert!(reply.message().contains(words), "{selector}: {}", reply.message());
            continue;
        }
        let owner = s.create(owner).await;
        let now = s
            .status(&owner, "the selector is rejected", |status| {
                condition(status, "ReplicaFailure").is_some()
            })
            .await;
        let failure = condition(&now["status"], "ReplicaFailure").expect("the condition exists");
        assert_eq!(failure["reason"], "InvalidSelector", "{selector}: {now:#}");
        s.synced(&owner).await;
    }
    // Valid selectors.
    for (name, selector) in [
        ("b0", demand("app", "In", json!(["b", "a"]))),
        ("b1", demand("app", "NotIn", json!(["b"]))),
        (
            "b2",
            with(
                json!({"matchLabels": {"app": "a"}}),
                demand("more", "DoesNotExist", Value::Null),
            ),
        ),
    ] {
        let none = with(selecting(&s, name, &selector), json!({"spec": {"replicas": 0}}));
        s.settled(none).await;
    }
    let left = s.all_pods().await;
    assert_eq!(left.len(), 1, "{left:#?}");
}

async fn selector_is_immutable(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let path = format!("{}/{}", s.owners(), owner.name);
    for selector in [
        json!({"matchLabels": {"app": "b"}}),
        json!({"matchLabels": {"more": "a"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    ] {
        let labels = json!({"app": "a", "more": "a"});
        let change = json!({"spec": {"selector": selector, "template": {"metadata": {"labels": labels}}}});
        let reply = s.c.api().patch(&path, MERGE, change).await;
        reply.expect_error(422, "Invalid");
        assert!(
            reply.message().contains("selector cannot be changed"),
            "{}",
            reply.message()
        );
    }
    // All other fields are mutable, labels of the template too.
    let template = json!({"metadata": {"labels": {"more": "a"}}});
    s.change(
        &owner,
        json!({"spec": {"template": template, "minReadySeconds": 1}}),
    )
    .await;
    s.scale(&owner, 2).await;
    s.counts(&owner, "replicas", 2).await;
    s.counts(&owner, "fullyLabeledReplicas", 1).await;
}

async fn template_is_stored_unchanged(s: Fixture) {
    let metadata = json!({
        "name": "n", "namespace": "n", "generateName": "g", "creationTimestamp": null,
        "labels": {"app": "a", "example.com/more": "b"}, "annotations": {"example.com/note": "a: b"},
        "finalizers": ["example.com/hold"],
    });
    let probe = |port: Value| json!({"httpGet": {"port": port, "path": "/"}});
    let container = json!({
        "name": "c", "image": "i", "command": ["a"], "env": [{"name": "A", "value": "b"}],
        "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "1500m"}},
        "livenessProbe": probe(json!("http")), "readinessProbe": probe(json!(80)),
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    let spec = json!({
        "containers": [container], "volumes": [{"name": "v", "emptyDir": {}}], "nodeName": super::fixture::UNMANAGED_NODE,
        "imagePullSecrets": [{"name": "s"}], "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    });
    let template = json!({"metadata": metadata, "spec": spec});
    let none = with(s.owner("a", 1), json!({"spec": {"template": null}}));
    let owner = s.settled(set(none, template.clone())).await;
    let now = s.get(&owner).await;
    let mut wanted = template;
    wanted["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
    assert_eq!(now["spec"]["template"], wanted, "{now:#}");
    let pod = s.pods_of(&owner).await[0].clone();
    for field in ["labels", "annotations", "finalizers"] {
        assert_eq!(pod["metadata"][field], wanted["metadata"][field], "{pod:#}");
    }
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1",
        "{pod:#}"
    );
    assert_eq!(pod["spec"]["tolerations"][0]["tolerationSeconds"], 3, "{pod:#}");
    // Remove the finalizer for the cleanup of the test.
    s.change_pod(
        &super::fixture::name(&pod),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
}

/// Sets the template. A merge would drop its nulls.
fn set(mut owner: Value, template: Value) -> Value {
    owner["spec"]["template"] = template;
    owner
}

async fn unknown_template_fields_are_pruned(s: Fixture) {
    let mistakes = json!({"metadata": {"uid": "u", "labes": {"a": "b"}}, "spec": {"contaners": []}});
    let owner = s
        .settled(with(
            s.owner_on_unmanaged_node("a", 1),
            json!({"spec": {"template": mistakes}}),
        ))
        .await;
    let now = s.get(&owner).await;
    let template = &now["spec"]["template"];
    for (part, field) in [("metadata", "uid"), ("metadata", "labes"), ("spec", "contaners")] {
        assert!(template[part].get(field).is_none(), "{field}: {now:#}");
    }
    if s.c.version() >= (1, 27) {
        let path = format!("{}?fieldValidation=Strict", s.owners());
        let strict = with(s.owner("b", 1), json!({"spec": {"template": mistakes}}));
        let reply = s.c.api().post(&path, strict).await;
        reply.expect_error(400, "BadRequest");
        assert!(
            reply
                .message()
                .contains("unknown field \"spec.template.metadata.labes\""),
            "{reply}"
        );
    }
}

async fn invalid_template_is_reported_and_recovers(s: Fixture) {
    let named =
        |name: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": name, "image": "i"}]}}}});
    let owner = s.create(with(s.owner("a", 5), named("Not A Name"))).await;
    let now = s
        .status(&owner, "ReplicaFailure is set", |status| {
            condition(status, "ReplicaFailure").is_some()
        })
        .await;
    let failure = condition(&now["status"], "ReplicaFailure").expect("the condition exists");
    assert_eq!(failure["reason"], "FailedCreate", "{now:#}");
    assert!(
        text(&failure["message"]).contains("spec.containers[0].name"),
        "{now:#}"
    );
    s.change(&owner, named("name")).await;
    let now = s.counts(&owner, "readyReplicas", 5).await;
    assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
}

async fn scale_subresource_is_served(s: Fixture) {
    let owner: Owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let path = format!("{}/{}/scale", s.owners(), owner.name);
    let scale = s.c.api().get(&path).await.expect(200);
    assert_eq!(scale["kind"], "Scale", "{scale:#}");
    assert_eq!(scale["spec"], json!({"replicas": 2}), "{scale:#}");
    assert_eq!(
        scale["status"],
        json!({"replicas": 2, "selector": "app=a"}),
        "{scale:#}"
    );
    let scaled =
        s.c.api()
            .put(&path, with(scale, json!({"spec": {"replicas": 3}})))
            .await;
    scaled.expect(200);
    s.counts(&owner, "replicas", 3).await;
    s.c.api()
        .patch(&path, MERGE, json!({"spec": {"replicas": -1}}))
        .await
        .expect_error(422, "Invalid");
}
