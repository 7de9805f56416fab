//! The handover between leaders: catching up, and the versions that are handed over.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_manager::cache::{Cache, Lookup};
use steersman_manager::client::Delete;
use steersman_manager::election::{released_by_annotation, written_versions_annotation};
use steersman_manager::object::{Key, MetaObject, Resource, Version};
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Faults, Matcher, Refusal};

use super::test_controller::{Behavior, TestController};
use super::{MAPS, Process, Running, SECOND, sandbox};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

async fn lease(sandbox: &Sandbox) -> Value {
    let other = Process::new(sandbox.service(), "other");
    let client = other.transport.reader("other", None);
    let key = Key::new("kube-system", "steersman");
    client.get(&LEASES, &key).await.expect("a lease")
}

/// Returns the versions on a Lease.
fn versions(lease: &Value) -> BTreeMap<String, String> {
    let versions = lease["metadata"]["annotations"][written_versions_annotation("steersman")].as_str();
    serde_json::from_str(versions.expect("versions")).expect("JSON")
}

/// A leader `a` that has written, and a standby `b` whose cache lags.
struct Handover {
    leader: Running,
    standby: Running,
    /// The version that the leader has written.
    written: Version,
    /// The cache of the standby, and its controller.
    maps: Cache<MetaObject>,
    second: Arc<TestController>,
}

async fn leader_and_lagging_standby(sandbox: &Sandbox) -> Handover {
    let [first, other, second] = [0; 3].map(|_| TestController::new(Behavior::Stops));
    let leader = Process::new(sandbox.service(), "a").with(&first).with(&other);
    let (client, fence) = (leader.manager.reader("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    let leader = leader.elect();
    first.started(1).await;
    let service = sandbox.service();
    let standby = Process::new(service.clone(), "b").with(&second);
    let maps: Cache<MetaObject> = standby.manager.caches().of(&MAPS);
    let standby = standby.elect();
    maps.synced().await;
    service.lag().hold_at("configmaps", sandbox.revision());
    let term = fence.term().expect("a term");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}});
    let written: Value = client
        .in_term(&fence, term)
        .create(&MAPS, "default", body.to_string().into())
        .await
        .expect("written");
    let version = written["metadata"]["resourceVersion"].as_str();
    Handover {
        leader,
        standby,
        written: Version::from(version.expect("a version")),
        maps,
        second,
    }
}

/// Stops the standby while it is catching up.
async fn stop_once_leading(sandbox: &Sandbox, standby: Running) {
    while lease(sandbox).await["spec"]["holderIdentity"] != "b" {
        standby.env.clock.sleep(SECOND / 10).await;
    }
    standby.env.clock.sleep(SECOND / 10).await;
    standby.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn new_leader_observes_the_writes_of_the_old_one_before_it_acts() {
    let sandbox = sandbox();
    let Handover {
        leader,
        standby,
        maps,
        second,
        ..
    } = leader_and_lagging_standby(&sandbox).await;
    leader.stop().await.expect("an orderly shutdown");
    second.started(1).await;
    let seen = maps.get(&Key::new("default", "last"));
    assert!(seen.present().is_some(), "the last write is cached");
    standby.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn received_versions_are_handed_on() {
    let sandbox = sandbox();
    let Handover {
        leader,
        standby,
        written,
        ..
    } = leader_and_lagging_standby(&sandbox).await;
    leader.stop().await.expect("an orderly shutdown");
    stop_once_leading(&sandbox, standby).await;
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "", "released");
    let versions = versions(&lease);
    let handed_on = Version::from(versions["configmaps"].as_str());
    assert!(handed_on.has_reached(&written), "{handed_on:?} {written:?}");
}

#[tokio::test(start_paused = true)]
async fn unclean_takeover_that_was_not_caught_up_is_not_released() {
    let sandbox = sandbox();
    let Handover { leader, standby, .. } = leader_and_lagging_standby(&sandbox).await;
    drop(leader.tasks);
    stop_once_leading(&sandbox, standby).await;
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "b", "released");
    assert_eq!(
        lease["metadata"]["annotations"][released_by_annotation("steersman")],
        Value::Null
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_only_resources_are_not_handed_over() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let leader = Process::new(sandbox.service(), "a").with(&probe);
    let (client, fence) = (leader.manager.reader("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    for i in 0..1000 {
        let plural = format!("widgets{i}");
        let metadata = Resource {
            plural: plural.into(),
            ..SECRETS
        };
        let _ = leader.manager.caches().metadata(&metadata);
    }
    let secrets = leader.manager.caches().metadata(&SECRETS);
    let leader = leader.elect();
    probe.started(1).await;
    secrets.synced().await;
    let client = client.in_term(&fence, fence.term().expect("a term"));
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "last"}});
    let written: Result<Value, _> = client.create(&SECRETS, "default", body.to_string().into()).await;
    written.expect("written");
    leader.stop().await.expect("an orderly shutdown");
    let versions = versions(&lease(&sandbox).await);
    assert_eq!(versions.keys().collect::<Vec<_>>(), ["configmaps"]);
}

#[tokio::test(start_paused = true)]
async fn delete_answered_with_a_status_is_observed_by_the_next_leader() {
    let sandbox = sandbox();
    let (first, second) = (
        TestController::new(Behavior::Stops),
        TestController::new(Behavior::Stops),
    );
    let leader = Process::new(sandbox.service(), "a").with(&first);
    let (client, fence) = (leader.manager.reader("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    let leader = leader.elect();
    first.started(1).await;
    let client = client.in_term(&fence, fence.term().expect("a term"));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}});
    let map: MetaObject = client
        .create(&MAPS, "default", body.to_string().into())
        .await
        .expect("created");
    let service = sandbox.service();
    let standby = Process::new(service.clone(), "b").with(&second);
    let maps: Cache<MetaObject> = standby.manager.caches().of(&MAPS);
    let standby = standby.elect();
    maps.synced().await;
    service.lag().hold_at("configmaps", sandbox.revision());
    let key = Key::new("default", "last");
    let delete = Delete::of(map.metadata.uid);
    let response = client.delete(&MAPS, &key, &delete).await.expect("deleted");
    assert_eq!(response, None, "the response is a Status");
    leader.stop().await.expect("an orderly shutdown");
    second.started(1).await;
    assert_eq!(maps.get(&key), Lookup::Absent, "the deletion is cached");
    standby.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn write_failing_with_an_internal_error_does_not_prevent_the_release() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let faults = Faults::new();
    let matcher = Matcher::verb("create").resource("configmaps");
    faults
        .on(matcher)
        .refuse(Refusal::new(500).message("failed calling webhook"));
    let leader = Process::over(faults.wrap(sandbox.service()), "a").with(&probe);
    let (client, fence) = (leader.manager.reader("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    let leader = leader.elect();
    probe.started(1).await;
    let client = client.in_term(&fence, fence.term().expect("a term"));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let created = client
        .create::<Value>(&MAPS, "default", body.to_string().into())
        .await;
    assert_eq!(created.expect_err("a webhook fails").code(), Some(500));
    leader.stop().await.expect("an orderly shutdown");
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "", "released");
    assert_eq!(
        versions(&lease).get("configmaps"),
        None,
        "the next leader reads it live"
    );
}
