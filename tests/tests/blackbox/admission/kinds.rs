//! Subresources and kinds that are written in a way of their own: status, scale, eviction, binding, pods that are deleted,
//! Services, namespaces, custom resources.

use coxswain_tests::fixtures::{MERGE, apps, core, define, deployment, named, pod, service, undefine, with};
use coxswain_tests::webhook::{Webhook, allow, change, deny};
use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::{Value, json};

use super::{NAME, hooked, lines, yes};

pub fn tests() -> Vec<Test> {
    vec![
        test!(status),
        test!(scale),
        test!(eviction).since(1, 22),
        test!(binding),
        test!(pods_that_are_deleted),
        test!(services).since(1, 22),
        test!(custom_resources),
        test!(tokens).since(1, 22),
        test!(reviews_of_access),
        test!(finalize).needs(Need::Kcm),
        test!(a_service_of_the_cluster).needs(Need::Sandbox),
    ]
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

async fn status(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Mutating", &["deployments/status"], |_| {
        change(&json!([
            {"op": "add", "path": "/status/replicas", "value": 7},
            {"op": "add", "path": "/spec/replicas", "value": 7},
        ]))
    })
    .await;
    let path = apps(&ns, "deployments");
    c.create(&path, deployment("a")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    let path = format!("{path}/a/status");
    let updated = c.merge(&path, json!({"status": {"replicas": 1}})).await;
    assert_eq!(
        (&updated["status"]["replicas"], &updated["spec"]["replicas"]),
        (&json!(7), &json!(1))
    );
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["UPDATE a"]);
    let request = &requests[0];
    assert_eq!(
        (&request["subResource"], &request["requestSubResource"]),
        (&json!("status"), &json!("status"))
    );
    assert_eq!(request["kind"], kind("apps", "v1", "Deployment"));
    assert_eq!(request["object"]["status"]["replicas"], 1);
}

async fn scale(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Mutating", &["deployments/scale"], |request| {
        let asked = request["object"]["spec"]["replicas"].as_i64().unwrap_or_default();
        change(&json!([{"op": "add", "path": "/spec/replicas", "value": asked + 1}]))
    })
    .await;
    let judge = Webhook::start(
        |_, request| match request["object"]["spec"]["replicas"].as_i64() {
            Some(6) => deny(&json!({"message": "six"})),
            _ => allow(),
        },
    )
    .await;
    let hook = judge.hook("two.example.com", "/", &["deployments/scale"]);
    judge.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    let path = apps(&ns, "deployments");
    c.create(&path, deployment("a")).await;
    let path = format!("{path}/a/scale");
    let scaled = c.merge(&path, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled["spec"]["replicas"], 4);
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["UPDATE a"]);
    let request = &requests[0];
    assert_eq!(request["kind"], kind("autoscaling", "v1", "Scale"));
    assert_eq!(
        request["resource"],
        json!({"group": "apps", "version": "v1", "resource": "deployments"})
    );
    assert_eq!(request["subResource"], "scale");
    assert_eq!(
        (&request["oldObject"]["kind"], &request["oldObject"]["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(
        (
            &request["oldObject"]["spec"]["replicas"],
            &request["object"]["spec"]["replicas"]
        ),
        (&json!(1), &json!(3))
    );
    let judged = judge.requests();
    assert_eq!(
        (
            &judged[0]["oldObject"]["spec"]["replicas"],
            &judged[0]["object"]["spec"]["replicas"]
        ),
        (&json!(1), &json!(4))
    );
    let six = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"replicas": 5}}))
        .await;
    six.check(
        six.message().ends_with("denied the request: six"),
        "expected the judge's word",
    );
    assert_eq!(c.read(&path).await["spec"]["replicas"], 4);
}

async fn eviction(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["pods", "pods/eviction"], |request| {
        if request["subResource"] == "eviction" && request["name"] == "stays" {
            deny(&json!({"message": "it stays"}))
        } else {
            allow()
        }
    })
    .await;
    let pods = core(&ns, "pods");
    for name in ["goes", "stays"] {
        c.create(&pods, pod(name)).await;
    }
    let _ = webhook.requests();
    let evict = |name: &str| named("policy/v1", "Eviction", name);
    c.create(&format!("{pods}/goes/eviction"), evict("goes")).await;
    let requests = webhook.requests();
    // The deletion that follows is the server's own.
    assert_eq!(lines(&requests), ["CREATE goes"]);
    assert_eq!(requests[0]["kind"], kind("policy", "v1", "Eviction"));
    assert_eq!(requests[0]["subResource"], "eviction");
    assert_eq!(requests[0]["object"]["metadata"]["name"], "goes");
    c.expect_absent(&format!("{pods}/goes")).await;
    let stays = c
        .api()
        .post(&format!("{pods}/stays/eviction"), evict("stays"))
        .await;
    stays.check(
        stays.message().ends_with("denied the request: it stays"),
        "expected a refusal",
    );
    c.read(&format!("{pods}/stays")).await;
}

async fn binding(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Mutating", &["pods/binding"], |_| {
        change(&json!([{"op": "replace", "path": "/target/name", "value": "elsewhere"}]))
    })
    .await;
    let pods = core(&ns, "pods");
    c.create(&pods, pod("a")).await;
    let binding = with(
        named("v1", "Binding", "a"),
        json!({"target": {"kind": "Node", "name": "here"}}),
    );
    c.create(&format!("{pods}/a/binding"), binding).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["CREATE a"]);
    assert_eq!(requests[0]["kind"], kind("", "v1", "Binding"));
    assert_eq!(requests[0]["object"]["target"]["name"], "here");
    let pod = c.read(&format!("{pods}/a")).await;
    assert_eq!(pod["spec"]["nodeName"], "elsewhere");
}

/// A pod that has time is marked; one without is marked and removed, and each step is asked about.
async fn pods_that_are_deleted(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["pods"], yes).await;
    let pods = core(&ns, "pods");
    c.create(&pods, with(pod("bound"), json!({"spec": {"nodeName": "n"}})))
        .await;
    c.create(&pods, pod("free")).await;
    let _ = webhook.requests();
    let grace = |requests: &[Value]| -> Vec<Value> {
        requests
            .iter()
            .map(|request| request["options"]["gracePeriodSeconds"].clone())
            .collect()
    };
    let marked = |requests: &[Value]| -> Vec<bool> {
        let time = |request: &Value| !request["oldObject"]["metadata"]["deletionTimestamp"].is_null();
        requests.iter().map(time).collect()
    };
    c.delete(&format!("{pods}/free")).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["DELETE free", "DELETE free"]);
    assert_eq!(
        (grace(&requests), marked(&requests)),
        (vec![json!(0), json!(0)], vec![false, true])
    );
    c.delete(&format!("{pods}/bound")).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["DELETE bound"]);
    assert_eq!(grace(&requests), [json!(30)]);
    // It is on its way already.
    c.delete(&format!("{pods}/bound")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    c.delete(&format!("{pods}/bound?gracePeriodSeconds=0")).await;
    let requests = webhook.requests();
    assert_eq!(
        (lines(&requests).len(), grace(&requests)),
        (2, vec![json!(0), json!(0)])
    );
    c.expect_absent(&format!("{pods}/bound")).await;
}

/// Addresses are given before the last word is said, and belong to one Service only.
async fn services(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["services"], |request| {
        if request["name"] == "no" {
            deny(&json!({}))
        } else {
            allow()
        }
    })
    .await;
    let path = core(&ns, "services");
    let made = c.create(&path, service("a")).await;
    let requests = webhook.requests();
    let address = &made["spec"]["clusterIP"];
    assert!(address.as_str().is_some_and(|address| !address.is_empty()));
    assert_eq!(&requests[0]["object"]["spec"]["clusterIP"], address);
    let fixed = |name: &str| with(service(name), json!({"spec": {"type": "NodePort"}}));
    assert_eq!(c.api().post(&path, fixed("no")).await.status, 400);
    let port = webhook.requests()[0]["object"]["spec"]["ports"][0]["nodePort"].clone();
    assert!(port.is_number());
    let updated = c.replace(&format!("{path}/a"), fixed("a")).await;
    assert_eq!(&updated["spec"]["clusterIP"], address);
    assert!(updated["spec"]["ports"][0]["nodePort"].is_number());
}

async fn custom_resources(c: Cluster) {
    let ns = c.namespace().await;
    let singular = format!("gadget{}", ns.replace('-', ""));
    define(&c, &singular, &json!({"status": {}})).await;
    let plural = format!("{singular}s");
    let webhook = Webhook::start(|_, request| {
        if request["operation"] == "DELETE" {
            allow()
        } else {
            change(&json!([{"op": "add", "path": "/spec/added", "value": request["operation"]}]))
        }
    })
    .await;
    let hook = webhook.hook(NAME, "/", &[&plural, &format!("{plural}/status")]);
    webhook.install(&c, &ns, "Mutating", &ns, vec![hook]).await;
    let path = format!("/apis/example.com/v1/namespaces/{ns}/{plural}");
    let object_kind = format!("{}{}", singular[..1].to_uppercase(), &singular[1..]);
    let object = with(
        named("example.com/v1", &object_kind, "a"),
        json!({"spec": {"x": 1}}),
    );
    let made = c.create(&path, object).await;
    assert_eq!(made["spec"], json!({"x": 1, "added": "CREATE"}));
    let requests = webhook.requests();
    assert_eq!(requests[0]["kind"], kind("example.com", "v1", &object_kind));
    assert_eq!(requests[0]["object"]["spec"], json!({"x": 1}));
    let path = format!("{path}/a");
    let merge = c.merge(&path, json!({"spec": {"x": 2}})).await;
    assert_eq!(
        (&merge["spec"], &merge["metadata"]["generation"]),
        (&json!({"x": 2, "added": "UPDATE"}), &json!(2))
    );
    let status = c
        .merge(&format!("{path}/status"), json!({"status": {"y": 1}}))
        .await;
    assert_eq!(
        (&status["spec"], &status["status"]),
        (&json!({"x": 2, "added": "UPDATE"}), &json!({"y": 1}))
    );
    c.delete(&path).await;
    let mut asked: Vec<(String, Value)> = Vec::new();
    for request in webhook.requests() {
        let line = lines(std::slice::from_ref(&request)).concat();
        asked.push((line, request["subResource"].clone()));
    }
    // A server that answers from a cache may ask again about the same.
    asked.dedup();
    let asked: Vec<&str> = asked.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(asked, ["UPDATE a", "UPDATE a", "DELETE a"]);
    undefine(&c, &singular).await;
}

async fn tokens(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["serviceaccounts/token"], yes).await;
    let path = core(&ns, "serviceaccounts");
    c.create(&path, named("v1", "ServiceAccount", "bot")).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}});
    c.create(&format!("{path}/bot/token"), request).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["CREATE bot"]);
    assert_eq!(
        requests[0]["kind"],
        kind("authentication.k8s.io", "v1", "TokenRequest")
    );
    assert_eq!(requests[0]["object"]["spec"]["audiences"], json!(["a"]));
}

async fn reviews_of_access(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["localsubjectaccessreviews"], yes).await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": ns},
        "spec": {"user": "u", "resourceAttributes": {"namespace": ns, "verb": "get", "resource": "pods"}}});
    let path = coxswain_tests::fixtures::group("authorization.k8s.io/v1", &ns, "localsubjectaccessreviews");
    c.create(&path, review).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["CREATE "]);
    assert_eq!(
        requests[0]["kind"],
        kind("authorization.k8s.io", "v1", "LocalSubjectAccessReview")
    );
}

async fn finalize(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, _| allow()).await;
    let mut hook = webhook.hook(NAME, "/", &["namespaces/finalize"]);
    hook["namespaceSelector"] = json!({"matchLabels": {"hooks": ns}});
    webhook.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    let path = format!("/api/v1/namespaces/{ns}");
    let mut namespace = c.read(&path).await;
    namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/x"]);
    c.replace(&format!("{path}/finalize"), namespace.clone()).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), [format!("UPDATE {ns}")]);
    assert_eq!(requests[0]["subResource"], "finalize");
    assert_eq!(
        requests[0]["object"]["spec"]["finalizers"],
        json!(["kubernetes", "example.com/x"])
    );
}

/// It is found where the sandbox was told that it is, and must have a certificate for its name.
async fn a_service_of_the_cluster(_: Cluster) {
    use coxswain_sandbox::{Options, Sandbox};
    use coxswain_tests::Api;

    let webhook = Webhook::start_as(&["hooks.default.svc"], |_, _| deny(&json!({"message": "heard"}))).await;
    let services = [("default/hooks:443".to_owned(), webhook.address)]
        .into_iter()
        .collect();
    let sandbox = Sandbox::new(Options {
        services,
        ..Options::default()
    });
    let api = Api::new(kube::Client::new(sandbox.service(), "default"));
    let mut client = webhook.client("/");
    let hook = |name: &str, client: &Value| {
        let mut hook = webhook.hook(NAME, "/", &["configmaps"]);
        hook["clientConfig"] = client.clone();
        coxswain_tests::webhook::configuration("Validating", name, &[hook])
    };
    client["url"] = Value::Null;
    client["service"] = json!({"namespace": "default", "name": "hooks", "path": "/p"});
    let configurations = coxswain_tests::webhook::configurations("Validating");
    api.post(&configurations, hook("a", &client)).await.expect(201);
    let path = core("default", "configmaps");
    let map = coxswain_tests::fixtures::config_map("a");
    let reply = api.post(&path, &map).await;
    reply.check(
        reply.message().ends_with("denied the request: heard"),
        "expected an answer",
    );
    assert_eq!(webhook.calls()[0].path, "/p?timeout=10s");
    // Another port of it is somewhere else.
    client["service"]["port"] = 8443.into();
    api.delete(&format!("{configurations}/a"), ()).await.expect(200);
    api.post(&configurations, hook("b", &client)).await.expect(201);
    let reply = api.post(&path, &map).await;
    reply.expect_error(500, "InternalError");
    let why = "no address is known for this service; name one with --service default/hooks:8443=ADDRESS";
    reply.check(reply.message().ends_with(why), why);
}
