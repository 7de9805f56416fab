//! Resource quotas: what is counted, what is refused, and what is given back.
//!
//! Somebody keeps the status of a quota: on a real cluster a controller of KCM's, so that the tests wait for what it says.

mod counts;
mod custom;

use coxswain_tests::{Cluster, Need, Reply, Test, test, time};
use serde_json::{Value, json};

use crate::support::{SOON, config_map, core, object, of, soon, with};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    let own = vec![test!(a_name_that_is_taken_costs_nothing).needs(Need::Sandbox)];
    [own, counts::tests(), custom::tests()].concat()
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
    let found = time::eventually(SOON, async || {
        last = c.read(&path(ns, name)).await;
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
    let last = c.create(&core(ns, "resourcequotas"), &last).await;
    let name = last["metadata"]["name"].as_str().unwrap_or_default();
    let refusal = format!("exceeded quota: {name},");
    soon("the server knows the last quota", async || {
        let lease = object("coordination.k8s.io/v1", "Lease", "a");
        let leases = of("coordination.k8s.io/v1", ns, "leases?dryRun=All");
        let reply = c.api().post(&leases, lease).await;
        reply.message().contains(&refusal).then_some(())
    })
    .await;
    c.delete(&path(ns, name)).await;
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

/// A real server counts it until the next time that it counts everything.
async fn a_name_that_is_taken_costs_nothing(c: Cluster) {
    let ns = limited(&c, json!({"configmaps": "2"})).await;
    c.create(&core(&ns, "configmaps"), &config_map("a")).await;
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect_error(409, "AlreadyExists");
    used(&c, &ns, "q", json!({"configmaps": "1"})).await;
}
