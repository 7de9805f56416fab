//! Resource quotas: released usage, changed limits and concurrent requests. Scenarios cover the rest.
//!
//! On a real cluster, admission increases the usage in the status, and the resource quota controller of kube-controller-manager
//! writes the limits and recalculates the usage. The controller recalculates after a change of the spec, from caches that can be
//! stale, and otherwise only every few minutes.

use serde_json::{Value, json};
use steersman_harness::{Cluster, Need, Test, test, time};

use crate::support::{SOON, config_map, core, forbidden, object, of, pod, soon};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    vec![
        test!(existing_name_uses_no_quota).needs(Need::Sandbox),
        test!(status_reports_hard_and_used).needs(Need::Kcm),
        test!(deleted_objects_release_quota).needs(Need::Kcm),
        test!(limits_follow_the_spec).needs(Need::Kcm),
        test!(concurrent_creates_never_exceed_quota).needs(Need::Kcm),
        test!(finished_pods_count_as_objects_only).needs(Need::Kcm),
    ]
}

fn quota(name: &str, hard: Value) -> Value {
    let mut quota = object("v1", "ResourceQuota", name);
    quota["spec"]["hard"] = hard;
    quota
}

fn path(ns: &str, name: &str) -> String {
    core(ns, &format!("resourcequotas/{name}"))
}

/// Waits until the status of a quota has the limits of the spec and this usage, and admission has loaded it.
async fn used(c: &Cluster, ns: &str, name: &str, expected: Value) {
    let mut last = Value::Null;
    let found = time::eventually(SOON, async || {
        last = c.read(&path(ns, name)).await;
        (last["status"]["used"] == expected && last["status"]["hard"] == last["spec"]["hard"]).then_some(())
    })
    .await;
    assert!(found.is_some(), "expected {expected:#} to be used: {last:#}");
    loaded(c, ns).await;
}

/// Waits until admission has loaded all quotas. It loads them in the order of their versions, so that a last quota is created,
/// and a request over this quota is sent until it is forbidden.
async fn loaded(c: &Cluster, ns: &str) {
    let mut last = quota("", json!({"count/leases.coordination.k8s.io": "0"}));
    last["metadata"] = json!({"generateName": "last-"});
    let last = c.create(&core(ns, "resourcequotas"), &last).await;
    let name = last["metadata"]["name"].as_str().unwrap_or_default();
    let refusal = format!("exceeded quota: {name},");
    soon("the last quota is loaded", async || {
        let lease = object("coordination.k8s.io/v1", "Lease", "a");
        let leases = of("coordination.k8s.io/v1", ns, "leases?dryRun=All");
        let reply = c.api().post(&leases, lease).await;
        reply.message().contains(&refusal).then_some(())
    })
    .await;
    c.delete(&path(ns, name)).await;
}

/// Waits until the caches of the quota controller contain this usage. The controller calculates the usage of a new quota from
/// them: new quotas are created until one has the expected usage.
async fn observed(c: &Cluster, ns: &str, expected: &Value) {
    let resources = expected.as_object().expect("names and amounts").keys();
    let hard: serde_json::Map<String, Value> = resources.map(|name| (name.clone(), json!("1000"))).collect();
    soon("the quota controller observes the objects", async || {
        let mut probe = quota("", hard.clone().into());
        probe["metadata"] = json!({"generateName": "probe-"});
        let probe = c.create(&core(ns, "resourcequotas"), probe).await;
        let path = path(ns, probe["metadata"]["name"].as_str().unwrap_or_default());
        let status = soon("the usage is calculated", async || {
            let status = c.read(&path).await["status"].clone();
            status["used"].is_object().then_some(status)
        })
        .await;
        c.delete(&path).await;
        (status["used"] == *expected).then_some(())
    })
    .await;
}

/// Creates a namespace with a quota `q`, and waits until its status is current.
async fn limited(c: &Cluster, hard: Value) -> String {
    let ns = c.namespace().await;
    let nothing: serde_json::Map<String, Value> = hard
        .as_object()
        .expect("names and amounts")
        .keys()
        .map(|name| (name.clone(), json!("0")))
        .collect();
    c.create(&core(&ns, "resourcequotas"), &quota("q", hard)).await;
    used(c, &ns, "q", nothing.into()).await;
    ns
}

/// Waits until a `ConfigMap` is created.
async fn created(c: &Cluster, ns: &str, name: &str) {
    soon(&format!("{name} is created"), async || {
        let reply = c.api().post(&core(ns, "configmaps"), config_map(name)).await;
        (reply.status == 201).then_some(())
    })
    .await;
}

/// On a real server, the usage includes the failed request until the next recalculation.
async fn existing_name_uses_no_quota(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "2"})).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect_error(409, "AlreadyExists");
    used(&c, &ns, "q", json!({"configmaps": "1"})).await;
}

async fn status_reports_hard_and_used(c: Cluster) {
    let ns = c.namespace().await;
    c.create(&core(&ns, "pods"), &pod("a")).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    let hard = json!({"pods": "2", "count/pods": "3", "configmaps": "10", "secrets": "1", "count/deployments.apps": "1"});
    let expected = json!({"pods": "1", "count/pods": "1", "configmaps": "1", "secrets": "0", "count/deployments.apps": "0"});
    observed(&c, &ns, &expected).await;
    let made = c.create(&core(&ns, "resourcequotas"), &quota("q", hard)).await;
    assert_eq!(made["status"], json!({}));
    used(&c, &ns, "q", expected).await;
}

async fn deleted_objects_release_quota(c: Cluster) {
    let ns = limited(&c, json!({"pods": "1", "configmaps": "1"})).await;
    c.create(&core(&ns, "pods"), &pod("a")).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    used(&c, &ns, "q", json!({"pods": "1", "configmaps": "1"})).await;
    for gone in ["pods/a", "configmaps/a"] {
        c.delete(&core(&ns, gone)).await;
    }
    used(&c, &ns, "q", json!({"pods": "0", "configmaps": "0"})).await;
    c.create(&core(&ns, "pods"), &pod("b")).await;
    c.create(&core(&ns, "configmaps"), &config_map("b")).await;
}

async fn limits_follow_the_spec(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "2"})).await;
    for name in ["a", "b"] {
        c.create(&core(&ns, "configmaps"), &config_map(name)).await;
    }
    observed(&c, &ns, &json!({"configmaps": "2"})).await;
    let lower = json!({"spec": {"hard": {"configmaps": "1", "secrets": "1"}}});
    c.merge(&path(&ns, "q"), lower).await;
    // Existing objects over the limit stay.
    used(&c, &ns, "q", json!({"configmaps": "2", "secrets": "0"})).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("c")).await;
    forbidden(
        &reply,
        "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=1",
    );
    let higher = json!({"spec": {"hard": {"configmaps": "3", "secrets": null}}});
    c.merge(&path(&ns, "q"), higher).await;
    used(&c, &ns, "q", json!({"configmaps": "2"})).await;
    created(&c, &ns, "c").await;
    c.delete(&path(&ns, "q")).await;
    created(&c, &ns, "d").await;
}

async fn concurrent_creates_never_exceed_quota(c: Cluster) {
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
    let list = c.read(&path).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(5));
    used(&c, &ns, "q", json!({"configmaps": "5"})).await;
}

async fn finished_pods_count_as_objects_only(c: Cluster) {
    let ns = limited(&c, json!({"pods": "1", "count/pods": "2"})).await;
    c.create(&core(&ns, "pods"), &pod("a")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "1"})).await;
    let done = json!({"status": {"phase": "Succeeded"}});
    c.merge(&core(&ns, "pods/a/status"), done).await;
    used(&c, &ns, "q", json!({"pods": "0", "count/pods": "1"})).await;
    c.create(&core(&ns, "pods"), &pod("b")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "2"})).await;
    let reply = c.api().post(&core(&ns, "pods"), pod("c")).await;
    forbidden(
        &reply,
        "pods \"c\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=2,pods=1, limited: \
         count/pods=2,pods=1",
    );
}
