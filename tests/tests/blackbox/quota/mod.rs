//! Resource quotas: usage, limits and released usage.
//!
//! On a real cluster, admission increases the usage in the status, and the resource quota controller of kube-controller-manager
//! writes the limits and recalculates the usage. The controller recalculates after a change of the spec, from caches that can be
//! stale, and otherwise only every few minutes.

mod counts;
mod custom;

use coxswain_tests::{Cluster, Need, Reply, Test, test, time};
use serde_json::{Value, json};

use crate::support::{SOON, config_map, core, object, of, soon, with};

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    let own = vec![test!(existing_name_uses_no_quota).needs(Need::Sandbox)];
    [own, counts::tests(), custom::tests()].concat()
}

fn quota(name: &str, hard: Value) -> Value {
    with(object("v1", "ResourceQuota", name), "/spec/hard", hard)
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

/// Asserts a 403 with this message.
#[track_caller]
fn refused(reply: &Reply, message: &str) {
    reply.expect_error(403, "Forbidden");
    reply.check(reply.message() == message, &format!("expected {message}"));
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
