//! Resource quotas: what is counted, what is refused, and what is given back.
//!
//! Somebody keeps the status of a quota: on a real cluster a controller of KCM's, so that the tests wait for what it says.

use std::time::Duration;

use coxswain_tests::{Cluster, Need, Reply, Test, test, time};
use serde_json::{Value, json};

use crate::expect;
use crate::support::{MERGE, config_map, core, create, deployment, object, of, pod, soon, with};

pub fn tests() -> Vec<Test> {
    let counting = vec![
        test!(status_says_what_is_limited_and_used),
        test!(pods_beyond_it_are_refused),
        test!(what_is_not_limited_is_not_refused),
        test!(every_kind_can_be_counted),
        test!(custom_resources_can_be_counted),
        test!(deleted_objects_are_given_back),
        test!(pods_that_have_ended_are_only_objects),
        test!(dry_runs_cost_nothing),
        test!(invalid_objects_cost_nothing),
        test!(every_quota_of_a_namespace_must_agree),
        test!(limits_follow_the_spec),
        test!(services_cost_by_their_type),
        test!(claims_cost_their_storage),
        test!(pods_cost_what_their_containers_ask_for),
        test!(containers_must_say_what_is_counted).since(1, 24),
        test!(scopes_choose_pods),
        test!(priority_classes_choose_pods),
        test!(many_at_once_never_exceed_it),
        test!(other_namespaces_are_free),
        test!(apply_and_generated_names_are_counted),
    ];
    let mut tests: Vec<Test> = counting.into_iter().map(|test| test.needs(Need::Kcm)).collect();
    tests.extend([
        test!(invalid_quotas),
        test!(scopes_cannot_change),
        test!(a_name_that_is_taken_costs_nothing).needs(Need::Sandbox),
    ]);
    tests
}

fn quota(name: &str, hard: Value) -> Value {
    with(object("v1", "ResourceQuota", name), "/spec/hard", hard)
}

fn path(ns: &str, name: &str) -> String {
    core(ns, &format!("resourcequotas/{name}"))
}

/// Waits until the quota is counted so.
async fn used(c: &Cluster, ns: &str, name: &str, expected: Value) {
    let mut last = Value::Null;
    // A controller looks for new kinds twice a minute.
    let found = time::eventually(Duration::from_secs(120), async || {
        last = c.api().get(&path(ns, name)).await.expect(200);
        (last["status"]["used"] == expected && last["status"]["hard"] == last["spec"]["hard"]).then_some(())
    })
    .await;
    assert!(found.is_some(), "expected {expected:#} to be used: {last:#}");
    known(c, ns).await;
}

/// Waits until the server knows of all quotas as they are now: it learns of them in their order, so that one more is made,
/// and what it forbids is tried until it is refused.
async fn known(c: &Cluster, ns: &str) {
    let mut last = quota("", json!({"count/leases.coordination.k8s.io": "0"}));
    last["metadata"] = json!({"generateName": "last-"});
    let last = create(c, &core(ns, "resourcequotas"), &last).await;
    let name = last["metadata"]["name"].as_str().unwrap_or_default();
    let refusal = format!("exceeded quota: {name},");
    soon("the server knows the last quota", async || {
        let lease = object("coordination.k8s.io/v1", "Lease", "a");
        let leases = of("coordination.k8s.io/v1", ns, "leases?dryRun=All");
        let reply = c.api().post(&leases, lease).await;
        reply.message().contains(&refusal).then_some(())
    })
    .await;
    c.api().delete(&path(ns, name), ()).await.expect(200);
}

/// A namespace with a quota `q` that has been counted.
async fn limited(c: &Cluster, hard: Value) -> String {
    let ns = c.namespace().await;
    let nothing: serde_json::Map<String, Value> = hard
        .as_object()
        .expect("names and amounts")
        .keys()
        .map(|name| (name.clone(), json!("0")))
        .collect();
    create(c, &core(&ns, "resourcequotas"), &quota("q", hard)).await;
    used(c, &ns, "q", nothing.into()).await;
    ns
}

/// Asserts a 403 with this message.
#[track_caller]
fn refused(reply: &Reply, message: &str) {
    reply.expect_error(403, "Forbidden");
    reply.check(reply.message() == message, &format!("expected {message}"));
}

async fn status_says_what_is_limited_and_used(c: Cluster) {
    let ns = c.namespace().await;
    create(&c, &core(&ns, "pods"), &pod("a")).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    let hard = json!({"pods": "2", "count/pods": "3", "configmaps": "10", "secrets": "1", "count/deployments.apps": "1"});
    let made = create(&c, &core(&ns, "resourcequotas"), &quota("q", hard)).await;
    assert_eq!(made["status"], json!({}));
    let expected = json!({"pods": "1", "count/pods": "1", "configmaps": "1", "secrets": "0", "count/deployments.apps": "0"});
    used(&c, &ns, "q", expected).await;
}

async fn pods_beyond_it_are_refused(c: Cluster) {
    let ns = limited(&c, json!({"pods": "2"})).await;
    create(&c, &core(&ns, "pods"), &pod("a")).await;
    create(&c, &core(&ns, "pods"), &pod("b")).await;
    let reply = c.api().post(&core(&ns, "pods"), pod("c")).await;
    refused(
        &reply,
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
    );
    assert_eq!(reply.json()["details"], json!({"name": "c", "kind": "pods"}));
    c.api()
        .get(&core(&ns, "pods/c"))
        .await
        .expect_error(404, "NotFound");
    used(&c, &ns, "q", json!({"pods": "2"})).await;
}

async fn what_is_not_limited_is_not_refused(c: Cluster) {
    let ns = limited(&c, json!({"pods": "0", "secrets": "0"})).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    // A template is no pod.
    create(&c, &of("apps/v1", &ns, "deployments"), &deployment("a")).await;
    // Who is there already may change.
    c.api()
        .patch(&core(&ns, "configmaps/a"), MERGE, json!({"data": {"k": "v"}}))
        .await
        .expect(200);
}

async fn every_kind_can_be_counted(c: Cluster) {
    for (name, path, body) in [
        ("configmaps", "/api/v1", config_map("a")),
        ("count/configmaps", "/api/v1", config_map("a")),
        ("secrets", "/api/v1", object("v1", "Secret", "a")),
        (
            "count/serviceaccounts",
            "/api/v1",
            object("v1", "ServiceAccount", "a"),
        ),
        ("count/deployments.apps", "/apis/apps/v1", deployment("a")),
    ] {
        let ns = c.namespace().await;
        // The account that every namespace has may come late.
        let there = i32::from(name == "count/serviceaccounts");
        soon("the namespace is furnished", async || {
            (c.api().get(&core(&ns, "serviceaccounts/default")).await.status == 200).then_some(())
        })
        .await;
        let hard = there.to_string();
        create(&c, &core(&ns, "resourcequotas"), &quota("q", json!({name: hard}))).await;
        used(&c, &ns, "q", json!({name: hard})).await;
        let resource = name.trim_start_matches("count/");
        let plural = resource.split('.').next().unwrap_or_default();
        let reply = c
            .api()
            .post(&format!("{path}/namespaces/{ns}/{plural}"), body)
            .await;
        let message = format!(
            "{resource} \"a\" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}={hard}, limited: {name}={hard}"
        );
        refused(&reply, &message);
    }
}

async fn custom_resources_can_be_counted(c: Cluster) {
    let ns = c.namespace().await;
    let group = format!("{ns}.example.com");
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    create(
        &c,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &crd,
    )
    .await;
    let widgets = of(&format!("{group}/v1"), &ns, "widgets");
    let widget = |name: &str| object(&format!("{group}/v1"), "Widget", name);
    soon("widgets are served", async || {
        (c.api().get(&widgets).await.status == 200).then_some(())
    })
    .await;
    let name = format!("count/widgets.{group}");
    create(&c, &core(&ns, "resourcequotas"), &quota("q", json!({&name: "1"}))).await;
    used(&c, &ns, "q", json!({&name: "0"})).await;
    create(&c, &widgets, &widget("a")).await;
    let reply = c.api().post(&widgets, widget("b")).await;
    let message = format!(
        "widgets.{group} \"b\" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}=1, limited: {name}=1"
    );
    refused(&reply, &message);
    c.api().delete(&format!("{widgets}/a"), ()).await.expect(200);
    used(&c, &ns, "q", json!({&name: "0"})).await;
    create(&c, &widgets, &widget("b")).await;
}

async fn deleted_objects_are_given_back(c: Cluster) {
    let ns = limited(&c, json!({"pods": "1", "configmaps": "1"})).await;
    create(&c, &core(&ns, "pods"), &pod("a")).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    used(&c, &ns, "q", json!({"pods": "1", "configmaps": "1"})).await;
    for gone in ["pods/a", "configmaps/a"] {
        c.api().delete(&core(&ns, gone), ()).await.expect(200);
    }
    used(&c, &ns, "q", json!({"pods": "0", "configmaps": "0"})).await;
    create(&c, &core(&ns, "pods"), &pod("b")).await;
    create(&c, &core(&ns, "configmaps"), &config_map("b")).await;
}

async fn pods_that_have_ended_are_only_objects(c: Cluster) {
    let ns = limited(&c, json!({"pods": "1", "count/pods": "2"})).await;
    create(&c, &core(&ns, "pods"), &pod("a")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "1"})).await;
    let done = json!({"status": {"phase": "Succeeded"}});
    c.api()
        .patch(&core(&ns, "pods/a/status"), MERGE, done)
        .await
        .expect(200);
    used(&c, &ns, "q", json!({"pods": "0", "count/pods": "1"})).await;
    create(&c, &core(&ns, "pods"), &pod("b")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "2"})).await;
    let reply = c.api().post(&core(&ns, "pods"), pod("c")).await;
    refused(
        &reply,
        "pods \"c\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=2,pods=1, limited: \
         count/pods=2,pods=1",
    );
}

async fn dry_runs_cost_nothing(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "1"})).await;
    let dry = core(&ns, "configmaps?dryRun=All");
    for _ in 0..3 {
        create(&c, &dry, &config_map("a")).await;
    }
    used(&c, &ns, "q", json!({"configmaps": "0"})).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    let reply = c.api().post(&dry, config_map("b")).await;
    refused(
        &reply,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    );
}

async fn invalid_objects_cost_nothing(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "1"})).await;
    let wrong = with(config_map("a"), "/data", json!({"no key": "v"}));
    c.api()
        .post(&core(&ns, "configmaps"), wrong.clone())
        .await
        .expect_error(422, "Invalid");
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    // What is wrong with an object is said before what it would cost.
    c.api()
        .post(&core(&ns, "configmaps"), wrong)
        .await
        .expect_error(422, "Invalid");
    // And what it would cost before that there is one.
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect_error(403, "Forbidden");
    used(&c, &ns, "q", json!({"configmaps": "1"})).await;
}

async fn every_quota_of_a_namespace_must_agree(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "5"})).await;
    create(
        &c,
        &core(&ns, "resourcequotas"),
        &quota("less", json!({"count/configmaps": "0"})),
    )
    .await;
    used(&c, &ns, "less", json!({"count/configmaps": "0"})).await;
    let reply = soon("the new quota counts", async || {
        let reply = c
            .api()
            .post(&core(&ns, "configmaps?dryRun=All"), config_map("a"))
            .await;
        (reply.status != 201).then_some(reply)
    })
    .await;
    refused(
        &reply,
        "configmaps \"a\" is forbidden: exceeded quota: less, requested: count/configmaps=1, used: count/configmaps=0, \
         limited: count/configmaps=0",
    );
    used(&c, &ns, "q", json!({"configmaps": "0"})).await;
}

async fn limits_follow_the_spec(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "2"})).await;
    for name in ["a", "b"] {
        create(&c, &core(&ns, "configmaps"), &config_map(name)).await;
    }
    let lower = json!({"spec": {"hard": {"configmaps": "1", "secrets": "1"}}});
    c.api().patch(&path(&ns, "q"), MERGE, lower).await.expect(200);
    // What is there stays, though it is more than may be.
    used(&c, &ns, "q", json!({"configmaps": "2", "secrets": "0"})).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("c")).await;
    refused(
        &reply,
        "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=1",
    );
    let higher = json!({"spec": {"hard": {"configmaps": "3", "secrets": null}}});
    c.api().patch(&path(&ns, "q"), MERGE, higher).await.expect(200);
    used(&c, &ns, "q", json!({"configmaps": "2"})).await;
    soon("the new limit counts", async || {
        (c.api()
            .post(&core(&ns, "configmaps"), config_map("c"))
            .await
            .status
            == 201)
            .then_some(())
    })
    .await;
    c.api().delete(&path(&ns, "q"), ()).await.expect(200);
    soon("nothing is limited any more", async || {
        (c.api()
            .post(&core(&ns, "configmaps"), config_map("d"))
            .await
            .status
            == 201)
            .then_some(())
    })
    .await;
}

fn service(name: &str, kind: &str) -> Value {
    let spec = json!({"type": kind, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
    with(object("v1", "Service", name), "/spec", spec)
}

async fn services_cost_by_their_type(c: Cluster) {
    let hard = json!({"services": "3", "services.nodeports": "3", "services.loadbalancers": "0"});
    let ns = limited(&c, hard).await;
    let services = core(&ns, "services");
    create(&c, &services, &service("inside", "ClusterIP")).await;
    create(&c, &services, &service("ports", "NodePort")).await;
    let counts = |services: &str, ports: &str| json!({"services": services, "services.nodeports": ports, "services.loadbalancers": "0"});
    used(&c, &ns, "q", counts("2", "2")).await;
    refused(
        &c.api().post(&services, service("more", "NodePort")).await,
        "services \"more\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, \
         limited: services.nodeports=3",
    );
    refused(
        &c.api().post(&services, service("balanced", "LoadBalancer")).await,
        "services \"balanced\" is forbidden: exceeded quota: q, requested: services.loadbalancers=1,services.nodeports=2, \
         used: services.loadbalancers=0,services.nodeports=2, limited: services.loadbalancers=0,services.nodeports=3",
    );
    // A change of the type costs what it adds.
    let change = json!({"spec": {"type": "NodePort"}});
    refused(
        &c.api().patch(&format!("{services}/inside"), MERGE, change).await,
        "services \"inside\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, \
         limited: services.nodeports=3",
    );
    let back = json!({"spec": {"type": "ClusterIP"}});
    c.api()
        .patch(&format!("{services}/ports"), MERGE, back)
        .await
        .expect(200);
    used(&c, &ns, "q", counts("2", "0")).await;
}

async fn claims_cost_their_storage(c: Cluster) {
    let by_class = "gold.storageclass.storage.k8s.io/requests.storage";
    let hard = json!({"persistentvolumeclaims": "5", "requests.storage": "3Gi", by_class: "1Gi"});
    let ns = limited(&c, hard).await;
    let claim = |name: &str, class: &str, size: &str| {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": {"requests": {"storage": size}},
        });
        with(object("v1", "PersistentVolumeClaim", name), "/spec", spec)
    };
    let claims = core(&ns, "persistentvolumeclaims");
    create(&c, &claims, &claim("a", "iron", "2Gi")).await;
    create(&c, &claims, &claim("b", "gold", "512Mi")).await;
    let expected = json!({"persistentvolumeclaims": "2", "requests.storage": "2560Mi", by_class: "512Mi"});
    used(&c, &ns, "q", expected).await;
    refused(
        &c.api().post(&claims, claim("c", "gold", "1Gi")).await,
        &format!(
            "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: {by_class}=1Gi,requests.storage=1Gi, used: \
             {by_class}=512Mi,requests.storage=2560Mi, limited: {by_class}=1Gi,requests.storage=3Gi"
        ),
    );
}

fn asking(name: &str, resources: Value) -> Value {
    with(pod(name), "/spec/containers/0/resources", resources)
}

async fn pods_cost_what_their_containers_ask_for(c: Cluster) {
    let ns = limited(&c, json!({"requests.cpu": "1", "limits.memory": "1Gi"})).await;
    let pods = core(&ns, "pods");
    let resources = json!({"requests": {"cpu": "600m"}, "limits": {"memory": "256Mi"}});
    create(&c, &pods, &asking("a", resources.clone())).await;
    used(
        &c,
        &ns,
        "q",
        json!({"requests.cpu": "600m", "limits.memory": "256Mi"}),
    )
    .await;
    refused(
        &c.api().post(&pods, asking("b", resources)).await,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: \
         requests.cpu=1",
    );
    // A limit is a request too, and init containers count where they take more.
    let mut started = asking("c", json!({"limits": {"cpu": "100m", "memory": "128Mi"}}));
    started["spec"]["initContainers"] =
        json!([{"name": "i", "image": "i", "resources": {"limits": {"cpu": "400m", "memory": "64Mi"}}}]);
    create(&c, &pods, &started).await;
    used(
        &c,
        &ns,
        "q",
        json!({"requests.cpu": "1", "limits.memory": "384Mi"}),
    )
    .await;
}

async fn containers_must_say_what_is_counted(c: Cluster) {
    let ns = limited(
        &c,
        json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "5"}),
    )
    .await;
    let silent = asking("a", json!({"requests": {"cpu": "1m"}}));
    refused(
        &c.api().post(&core(&ns, "pods"), silent).await,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c",
    );
    refused(
        &c.api().post(&core(&ns, "pods"), pod("a")).await,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c",
    );
}

async fn scopes_choose_pods(c: Cluster) {
    for (scope, covered, free) in [
        (
            "BestEffort",
            pod("a"),
            asking("b", json!({"requests": {"cpu": "1m"}})),
        ),
        (
            "NotBestEffort",
            asking("a", json!({"requests": {"cpu": "1m"}})),
            pod("b"),
        ),
        (
            "Terminating",
            with(pod("a"), "/spec/activeDeadlineSeconds", json!(60)),
            pod("b"),
        ),
        (
            "NotTerminating",
            pod("a"),
            with(pod("b"), "/spec/activeDeadlineSeconds", json!(60)),
        ),
    ] {
        let ns = c.namespace().await;
        let scoped = with(quota("q", json!({"pods": "0"})), "/spec/scopes", json!([scope]));
        create(&c, &core(&ns, "resourcequotas"), &scoped).await;
        used(&c, &ns, "q", json!({"pods": "0"})).await;
        refused(
            &c.api().post(&core(&ns, "pods"), covered).await,
            "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
        );
        create(&c, &core(&ns, "pods"), &free).await;
        used(&c, &ns, "q", json!({"pods": "0"})).await;
    }
}

async fn priority_classes_choose_pods(c: Cluster) {
    let ns = c.namespace().await;
    let class = with(
        object("scheduling.k8s.io/v1", "PriorityClass", &format!("{ns}-high")),
        "/value",
        json!(5),
    );
    create(&c, "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    let term = json!({"scopeName": "PriorityClass", "operator": "In", "values": [format!("{ns}-high")]});
    let scoped = with(
        quota("q", json!({"pods": "0"})),
        "/spec/scopeSelector/matchExpressions",
        json!([term]),
    );
    create(&c, &core(&ns, "resourcequotas"), &scoped).await;
    used(&c, &ns, "q", json!({"pods": "0"})).await;
    create(&c, &core(&ns, "pods"), &pod("b")).await;
    let high = with(pod("a"), "/spec/priorityClassName", json!(format!("{ns}-high")));
    let reply = soon("the class is known", async || {
        let reply = c.api().post(&core(&ns, "pods"), high.clone()).await;
        (!reply.message().contains("no PriorityClass")).then_some(reply)
    })
    .await;
    refused(
        &reply,
        "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
    );
}

async fn many_at_once_never_exceed_it(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "5"})).await;
    let path = core(&ns, "configmaps");
    let post = |n: usize| {
        let (c, path) = (c.clone(), path.clone());
        async move { c.api().post(&path, config_map(&format!("m{n}"))).await }
    };
    let replies = futures_util::future::join_all((0..20).map(post)).await;
    let made = replies.iter().filter(|reply| reply.status == 201).count();
    assert_eq!(made, 5);
    for reply in replies.iter().filter(|reply| reply.status != 201) {
        reply.expect_error(403, "Forbidden");
    }
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(5));
    used(&c, &ns, "q", json!({"configmaps": "5"})).await;
}

async fn other_namespaces_are_free(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "0"})).await;
    let other = c.namespace().await;
    create(&c, &core(&other, "configmaps"), &config_map("a")).await;
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect_error(403, "Forbidden");
}

async fn apply_and_generated_names_are_counted(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "1"})).await;
    let mut generated = config_map("");
    generated["metadata"] = json!({"generateName": "g-"});
    let made = create(&c, &core(&ns, "configmaps"), &generated).await;
    let apply = core(&ns, "configmaps/a?fieldManager=m");
    let reply = c
        .api()
        .patch(&apply, "application/apply-patch+yaml", config_map("a"))
        .await;
    refused(
        &reply,
        "configmaps \"a\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    );
    let name = made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // An apply to what is there creates nothing.
    let mut present = config_map(&name);
    present["data"] = json!({"k": "v"});
    c.api()
        .patch(
            &core(&ns, &format!("configmaps/{name}?fieldManager=m")),
            "application/apply-patch+yaml",
            present,
        )
        .await
        .expect(200);
}

async fn invalid_quotas(c: Cluster) {
    let ns = c.namespace().await;
    let spec = |spec: Value| with(object("v1", "ResourceQuota", "q"), "/spec", spec);
    let cases = vec![
        (
            spec(json!({"hard": {"nonsense": "1"}})),
            vec![
                "Invalid spec.hard[nonsense]: must be a standard resource type or fully qualified",
                "Invalid spec.hard[nonsense]: must be a standard resource for quota",
            ],
        ),
        (
            spec(json!({"hard": {"pods": "-1"}})),
            vec!["Invalid spec.hard[pods]: must be greater than or equal to 0"],
        ),
        (
            spec(json!({"hard": {"pods": "500m"}})),
            vec!["Invalid spec.hard[pods]: must be an integer"],
        ),
        (
            spec(json!({"hard": {"pods": "1"}, "scopes": ["Odd"]})),
            vec!["Invalid spec.scopes: unsupported scope"],
        ),
        (
            spec(json!({"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]})),
            vec!["Invalid spec.scopes: conflicting scopes"],
        ),
        (
            spec(json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]})),
            vec!["Invalid spec.scopes: unsupported scope applied to resource"],
        ),
        (
            spec(
                json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In"},
                ]}}),
            ),
            vec![
                "Required spec.scopeSelector.matchExpressions.values: must be at least one value when `operator` is 'In' or \
                 'NotIn' for scope selector",
            ],
        ),
        (
            spec(
                json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "Odd"},
                ]}}),
            ),
            vec!["Invalid spec.scopeSelector.matchExpressions.operator: not a valid selector operator"],
        ),
    ];
    expect::refuses(&c, &core(&ns, "resourcequotas"), cases).await;
}

async fn scopes_cannot_change(c: Cluster) {
    let ns = c.namespace().await;
    let scoped = with(
        quota("q", json!({"pods": "1"})),
        "/spec/scopes",
        json!(["Terminating"]),
    );
    create(&c, &core(&ns, "resourcequotas"), &scoped).await;
    let change = json!({"spec": {"scopes": ["NotTerminating"]}});
    let reply = c.api().patch(&path(&ns, "q"), MERGE, change).await;
    expect::invalid(&reply, &["Invalid spec.scopes: field is immutable"]);
}

/// A real server counts it until the next time that it counts everything.
async fn a_name_that_is_taken_costs_nothing(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "2"})).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect_error(409, "AlreadyExists");
    used(&c, &ns, "q", json!({"configmaps": "1"})).await;
}
