//! What a leader hands over that was stopped before it had seen what its predecessor wrote.

use std::collections::BTreeMap;

use coxswain_manager::election::{RELEASED_BY, WRITTEN_VERSIONS};
use coxswain_manager::object::{Key, Resource, Version};
use coxswain_sandbox::Sandbox;
use serde_json::{Value, json};

use super::probe::{Manners, Probe};
use super::{MAPS, Process, Running, SECOND, sandbox};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

async fn lease(sandbox: &Sandbox) -> Value {
    let other = Process::new(sandbox.door(), "other");
    let client = other.transport.client("other", None);
    let key = Key::new("kube-system", "coxswain");
    client.get(&LEASES, &key).await.expect("the lease")
}

/// A leader `a` that has written, and a standby `b` whose cache does not show it. Returns the version that was written.
async fn leader_and_blind_standby(sandbox: &Sandbox) -> (Running, Running, Version) {
    let (first, second) = (Probe::new(Manners::Stops), Probe::new(Manners::Stops));
    let leader = Process::new(sandbox.door(), "a").with(&first);
    let (client, fence) = (leader.manager.client("probe"), leader.manager.fence().clone());
    let _ = leader.manager.caches().metadata(&MAPS);
    let leader = leader.elect();
    first.started(1).await;
    let door = sandbox.door();
    let standby = Process::new(door.clone(), "b").with(&second);
    let maps = standby.manager.caches().metadata(&MAPS);
    let standby = standby.elect();
    maps.synced().await;
    door.lag().hold_at("configmaps", sandbox.revision());
    let term = fence.term().expect("it leads");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}});
    let written: Value = client
        .in_term(&fence, term)
        .create(&MAPS, "default", body.to_string().into())
        .await
        .expect("written");
    let version = written["metadata"]["resourceVersion"].as_str();
    (leader, standby, Version::from(version.expect("a version")))
}

/// Stops the standby as soon as it holds the lease: it is catching up then.
async fn stop_once_it_leads(sandbox: &Sandbox, standby: Running) {
    while lease(sandbox).await["spec"]["holderIdentity"] != "b" {
        standby.env.clock.sleep(SECOND / 10).await;
    }
    standby.env.clock.sleep(SECOND / 10).await;
    standby.stop().await.expect("an orderly end");
}

#[tokio::test(start_paused = true)]
async fn what_it_was_handed_it_hands_on() {
    let sandbox = sandbox();
    let (leader, standby, written) = leader_and_blind_standby(&sandbox).await;
    leader.stop().await.expect("an orderly end");
    stop_once_it_leads(&sandbox, standby).await;
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "", "released");
    let versions = lease["metadata"]["annotations"][WRITTEN_VERSIONS].as_str();
    let versions: BTreeMap<String, String> = serde_json::from_str(versions.expect("versions")).expect("JSON");
    let handed_on = Version::from(versions["configmaps"].as_str());
    assert!(handed_on.has_reached(&written), "{handed_on:?} {written:?}");
}

#[tokio::test(start_paused = true)]
async fn what_it_did_not_get_to_see_it_does_not_call_clean() {
    let sandbox = sandbox();
    let (leader, standby, _) = leader_and_blind_standby(&sandbox).await;
    drop(leader.tasks);
    stop_once_it_leads(&sandbox, standby).await;
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "b", "left to expire");
    assert_eq!(lease["metadata"]["annotations"][RELEASED_BY], Value::Null);
}
