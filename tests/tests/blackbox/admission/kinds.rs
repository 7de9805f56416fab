//! Webhooks for subresources and for kinds with special writes: status, scale, eviction, binding, graceful deletion, Services,
//! namespaces and custom resources.

use coxswain_sandbox::Sandbox;
use coxswain_tests::fixtures::{
    apps, config_map, core, define, deployment, group, named, pod, service, undefine, with,
};
use coxswain_tests::webhook::{Webhook, allow, change, configuration, configurations, deny};
use coxswain_tests::{Api, Cluster, Need, Reply, Test, test};
use serde_json::{Value, json};

use super::{NAME, hooked, lines, yes};
use crate::expect::includes;

pub fn tests() -> Vec<Test> {
    vec![
        test!(status_update_calls_webhook),
        test!(scale_update_calls_webhook),
        test!(eviction_calls_webhook_once).since(1, 22),
        test!(binding_is_mutated),
        test!(graceful_deletion_calls_webhook_for_each_step),
        test!(validating_webhook_sees_allocated_addresses).since(1, 22),
        test!(custom_resource_writes_call_webhook),
        test!(token_request_calls_webhook).since(1, 22),
        test!(access_review_calls_webhook),
        test!(namespace_finalize_calls_webhook).needs(Need::Kcm),
        test!(service_client_config_uses_configured_address).needs(Need::Sandbox),
    ]
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

#[track_caller]
fn denied(reply: &Reply, message: &str) {
    let end = format!("denied the request: {message}");
    reply.check(reply.message().ends_with(&end), "expected a denial");
}

async fn status_update_calls_webhook(c: Cluster) {
    let operations = json!([
        {"op": "add", "path": "/status/replicas", "value": 7},
        {"op": "add", "path": "/spec/replicas", "value": 7},
    ]);
    let (ns, webhook) = hooked(&c, "Mutating", &["deployments/status"], move |_| {
        change(&operations)
    })
    .await;
    c.create(&apps(&ns, "deployments"), deployment("a")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    let path = apps(&ns, "deployments/a/status");
    let updated = c.merge(&path, json!({"status": {"replicas": 1}})).await;
    includes(
        &updated,
        &json!({"status": {"replicas": 7}, "spec": {"replicas": 1}}),
    );
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["UPDATE a"]);
    let expected = json!({
        "subResource": "status", "requestSubResource": "status",
        "kind": kind("apps", "v1", "Deployment"), "object": {"status": {"replicas": 1}},
    });
    includes(&requests[0], &expected);
}

async fn scale_update_calls_webhook(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Mutating", &["deployments/scale"], |request| {
        let requested = request["object"]["spec"]["replicas"].as_i64().unwrap_or_default();
        change(&json!([{"op": "add", "path": "/spec/replicas", "value": requested + 1}]))
    })
    .await;
    let validating = Webhook::start(
        |_, request| match request["object"]["spec"]["replicas"].as_i64() {
            Some(6) => deny(&json!({"message": "six"})),
            _ => allow(),
        },
    )
    .await;
    let hook = validating.hook("two.example.com", "/", &["deployments/scale"]);
    validating.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    c.create(&apps(&ns, "deployments"), deployment("a")).await;
    let path = apps(&ns, "deployments/a/scale");
    let replicas = |replicas: u32| json!({"spec": {"replicas": replicas}});
    includes(&c.merge(&path, replicas(3)).await, &replicas(4));
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["UPDATE a"]);
    let expected = json!({
        "kind": kind("autoscaling", "v1", "Scale"), "subResource": "scale",
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "oldObject": {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 1}},
        "object": replicas(3),
    });
    includes(&requests[0], &expected);
    includes(
        &validating.requests()[0],
        &json!({"oldObject": replicas(1), "object": replicas(4)}),
    );
    let merge = coxswain_tests::fixtures::MERGE;
    denied(&c.api().patch(&path, merge, replicas(5)).await, "six");
    includes(&c.read(&path).await, &replicas(4));
}

async fn eviction_calls_webhook_once(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["pods", "pods/eviction"], |request| {
        match (request["subResource"].as_str(), request["name"].as_str()) {
            (Some("eviction"), Some("kept")) => deny(&json!({"message": "kept"})),
            _ => allow(),
        }
    })
    .await;
    let pods = core(&ns, "pods");
    for name in ["evicted", "kept"] {
        c.create(&pods, pod(name)).await;
    }
    let _ = webhook.requests();
    let evict = async |name: &str| {
        let eviction = named("policy/v1", "Eviction", name);
        c.api().post(&format!("{pods}/{name}/eviction"), eviction).await
    };
    evict("evicted").await.expect(201);
    let requests = webhook.requests();
    // The API server calls no webhook for the deletion.
    assert_eq!(lines(&requests), ["CREATE evicted"]);
    let object = json!({"metadata": {"name": "evicted"}});
    let expected =
        json!({"kind": kind("policy", "v1", "Eviction"), "subResource": "eviction", "object": object});
    includes(&requests[0], &expected);
    c.expect_absent(&format!("{pods}/evicted")).await;
    denied(&evict("kept").await, "kept");
    c.read(&format!("{pods}/kept")).await;
}

async fn binding_is_mutated(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Mutating", &["pods/binding"], |_| {
        change(&json!([{"op": "replace", "path": "/target/name", "value": "other"}]))
    })
    .await;
    c.create(&core(&ns, "pods"), pod("a")).await;
    let target = json!({"target": {"kind": "Node", "name": "requested"}});
    c.create(
        &core(&ns, "pods/a/binding"),
        with(named("v1", "Binding", "a"), target.clone()),
    )
    .await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["CREATE a"]);
    includes(
        &requests[0],
        &json!({"kind": kind("", "v1", "Binding"), "object": target}),
    );
    includes(
        &c.read(&core(&ns, "pods/a")).await,
        &json!({"spec": {"nodeName": "other"}}),
    );
}

/// The server sets the deletionTimestamp of a pod with a grace period. It removes a pod without one in a second step.
async fn graceful_deletion_calls_webhook_for_each_step(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["pods"], yes).await;
    let pods = core(&ns, "pods");
    c.create(&pods, with(pod("bound"), json!({"spec": {"nodeName": "n"}})))
        .await;
    c.create(&pods, pod("free")).await;
    let _ = webhook.requests();
    // The grace period of each request, and whether the pod is terminating.
    let steps = |name: &str| -> Vec<(Value, bool)> {
        let requests = webhook.requests();
        assert_eq!(lines(&requests), vec![format!("DELETE {name}"); requests.len()]);
        let terminating = |request: &Value| !request["oldObject"]["metadata"]["deletionTimestamp"].is_null();
        let step = |request: &Value| {
            (
                request["options"]["gracePeriodSeconds"].clone(),
                terminating(request),
            )
        };
        requests.iter().map(step).collect()
    };
    c.delete(&format!("{pods}/free")).await;
    assert_eq!(steps("free"), [(json!(0), false), (json!(0), true)]);
    c.delete(&format!("{pods}/bound")).await;
    assert_eq!(steps("bound"), [(json!(30), false)]);
    c.delete(&format!("{pods}/bound")).await;
    assert_eq!(steps("bound"), [], "the pod is terminating");
    c.delete(&format!("{pods}/bound?gracePeriodSeconds=0")).await;
    assert_eq!(steps("bound"), [(json!(0), true), (json!(0), true)]);
    c.expect_absent(&format!("{pods}/bound")).await;
}

/// The API server allocates addresses before it calls validating webhooks.
async fn validating_webhook_sees_allocated_addresses(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["services"], |request| {
        match request["name"].as_str() {
            Some("denied") => deny(&json!({})),
            _ => allow(),
        }
    })
    .await;
    let path = core(&ns, "services");
    let made = c.create(&path, service("a")).await;
    let address = &made["spec"]["clusterIP"];
    assert!(address.as_str().is_some_and(|address| !address.is_empty()));
    includes(
        &webhook.requests()[0],
        &json!({"object": {"spec": {"clusterIP": address}}}),
    );
    let node_port = |name: &str| with(service(name), json!({"spec": {"type": "NodePort"}}));
    assert_eq!(c.api().post(&path, node_port("denied")).await.status, 400);
    assert!(webhook.requests()[0]["object"]["spec"]["ports"][0]["nodePort"].is_number());
    let updated = c.replace(&format!("{path}/a"), node_port("a")).await;
    assert_eq!(&updated["spec"]["clusterIP"], address);
    assert!(updated["spec"]["ports"][0]["nodePort"].is_number());
}

async fn custom_resource_writes_call_webhook(c: Cluster) {
    let ns = c.namespace().await;
    let singular = format!("gadget{}", ns.replace('-', ""));
    define(&c, &singular, &json!({"status": {}})).await;
    let plural = format!("{singular}s");
    let webhook = Webhook::start(|_, request| match request["operation"].as_str() {
        Some("DELETE") => allow(),
        _ => change(&json!([{"op": "add", "path": "/spec/added", "value": request["operation"]}])),
    })
    .await;
    let hook = webhook.hook(NAME, "/", &[&plural, &format!("{plural}/status")]);
    webhook.install(&c, &ns, "Mutating", &ns, vec![hook]).await;
    let path = group("example.com/v1", &ns, &plural);
    let object_kind = format!("{}{}", singular[..1].to_uppercase(), &singular[1..]);
    let spec = json!({"spec": {"x": 1}});
    let made = c
        .create(
            &path,
            with(named("example.com/v1", &object_kind, "a"), spec.clone()),
        )
        .await;
    assert_eq!(made["spec"], json!({"x": 1, "added": "CREATE"}));
    let expected = json!({"kind": kind("example.com", "v1", &object_kind), "object": spec});
    includes(&webhook.requests()[0], &expected);
    let path = format!("{path}/a");
    let updated = json!({"spec": {"x": 2, "added": "UPDATE"}});
    let merged = c.merge(&path, json!({"spec": {"x": 2}})).await;
    includes(
        &merged,
        &with(updated.clone(), json!({"metadata": {"generation": 2}})),
    );
    let status = c
        .merge(&format!("{path}/status"), json!({"status": {"y": 1}}))
        .await;
    includes(&status, &with(updated, json!({"status": {"y": 1}})));
    c.delete(&path).await;
    let mut calls = webhook.requests();
    // A server with a stale cache repeats calls.
    let key = |call: &Value| (call["operation"].to_string(), call["subResource"].to_string());
    calls.dedup_by_key(|call| key(call));
    assert_eq!(lines(&calls), ["UPDATE a", "UPDATE a", "DELETE a"]);
    undefine(&c, &singular).await;
}

async fn token_request_calls_webhook(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["serviceaccounts/token"], yes).await;
    c.create(
        &core(&ns, "serviceaccounts"),
        named("v1", "ServiceAccount", "bot"),
    )
    .await;
    let spec = json!({"spec": {"audiences": ["a"]}});
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
    c.create(
        &core(&ns, "serviceaccounts/bot/token"),
        with(request, spec.clone()),
    )
    .await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["CREATE bot"]);
    let kind = kind("authentication.k8s.io", "v1", "TokenRequest");
    includes(&requests[0], &json!({"kind": kind, "object": spec}));
}

async fn access_review_calls_webhook(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["localsubjectaccessreviews"], yes).await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": ns},
        "spec": {"user": "u", "resourceAttributes": {"namespace": ns, "verb": "get", "resource": "pods"}}});
    c.create(
        &group("authorization.k8s.io/v1", &ns, "localsubjectaccessreviews"),
        review,
    )
    .await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["CREATE "]);
    let kind = kind("authorization.k8s.io", "v1", "LocalSubjectAccessReview");
    includes(&requests[0], &json!({"kind": kind}));
}

async fn namespace_finalize_calls_webhook(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["namespaces/finalize"], yes).await;
    let path = format!("/api/v1/namespaces/{ns}");
    let finalizers = json!({"spec": {"finalizers": ["kubernetes", "example.com/x"]}});
    let namespace = with(c.read(&path).await, finalizers.clone());
    c.replace(&format!("{path}/finalize"), namespace).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), [format!("UPDATE {ns}")]);
    includes(
        &requests[0],
        &json!({"subResource": "finalize", "object": finalizers}),
    );
}

/// The certificate must be for the DNS name of the Service.
async fn service_client_config_uses_configured_address(_: Cluster) {
    let webhook = Webhook::start_as(&["hooks.default.svc"], |_, _| deny(&json!({"message": "called"}))).await;
    let services = [("default/hooks:443".to_owned(), webhook.address)];
    let sandbox = Sandbox::builder().services(services).start().expect("a sandbox");
    let api = Api::new(kube::Client::new(sandbox.service(), "default"));
    let configurations = configurations("Validating");
    let configure = async |name: &str, port: Value| {
        let service = json!({"namespace": "default", "name": "hooks", "path": "/p", "port": port});
        let client = with(webhook.client("/"), json!({"url": null, "service": service}));
        let hook = with(
            webhook.hook(NAME, "/", &["configmaps"]),
            json!({"clientConfig": {"url": null}}),
        );
        let hook = with(hook, json!({"clientConfig": client}));
        api.post(&configurations, configuration("Validating", name, &[hook]))
            .await
            .expect(201);
    };
    let path = core("default", "configmaps");
    configure("a", Value::Null).await;
    denied(&api.post(&path, config_map("a")).await, "called");
    assert_eq!(webhook.calls()[0].path, "/p?timeout=10s");
    // No address is configured for the other port.
    api.delete(&format!("{configurations}/a"), ()).await.expect(200);
    configure("b", json!(8443)).await;
    let reply = api.post(&path, config_map("a")).await;
    reply.expect_error(500, "InternalError");
    let why = "no address is known for this service; name one with --service default/hooks:8443=ADDRESS";
    reply.check(reply.message().ends_with(why), why);
}
