//! Who leads, and what happens when that changes.

use coxswain_manager::cache::Cache;
use coxswain_manager::client::Patch;
use coxswain_manager::object::{Key, MetaObject, Resource};
use serde_json::{Value, json};

use super::probe::{Manners, Probe};
use super::{MAPS, Process, SECOND, sandbox};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

#[tokio::test(start_paused = true)]
async fn without_election_controllers_run_at_once_and_end_when_told() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let running = Process::new(sandbox.door(), "a").with(&probe).run(None);
    probe.started(1).await;
    running.stop().await.expect("an orderly end");
    assert_eq!(probe.counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_at_once_when_the_leader_ends_in_order() {
    let sandbox = sandbox();
    let (first, second) = (Probe::new(Manners::Stops), Probe::new(Manners::Stops));
    let leader = Process::new(sandbox.door(), "a").with(&first).elect();
    first.started(1).await;
    let standby = Process::new(sandbox.door(), "b").with(&second).elect();
    let clock = standby.env.clock.clone();
    assert!(clock.timeout(60 * SECOND, second.started(1)).await.is_none());

    let before = clock.now();
    leader.stop().await.expect("an orderly end");
    second.started(1).await;
    let took = clock.now() - before;
    assert!(took < SECOND, "{took:?}");
    standby.stop().await.expect("an orderly end");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_lease_goes_on_as_a_standby() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let running = Process::new(sandbox.door(), "a").with(&probe).elect();
    probe.started(1).await;

    let thief = Process::new(sandbox.door(), "thief")
        .transport
        .unfenced("thief", None);
    let theft = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 15}});
    let key = Key::new("kube-system", "coxswain");
    let _: Value = thief
        .patch(&LEASES, &key, Patch::merge(&theft))
        .await
        .expect("stolen");
    let mut ended = probe.ended.subscribe();
    ended
        .wait_for(|ended| *ended == 1)
        .await
        .expect("the probe lives");
    assert!(!running.ended.is_finished(), "the process goes on");

    probe.started(2).await;
    let terms = probe.terms.borrow().clone();
    assert_ne!(terms[0], terms[1], "another term");
    running.stop().await.expect("an orderly end");
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_sees_what_the_old_one_wrote_before_it_acts() {
    let sandbox = sandbox();
    let (first, second) = (Probe::new(Manners::Stops), Probe::new(Manners::Stops));
    let mut leader = Process::new(sandbox.door(), "a").with(&first);
    let client = leader.manager.client("probe");
    let fence = leader.manager.fence().clone();
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    leader
        .manager
        .add(super::probe::Shared(Probe::new(Manners::Stops)));
    let leader = leader.elect();
    first.started(1).await;

    // The door of the standby does not show what happens from now on.
    let door = sandbox.door();
    let standby = Process::new(door.clone(), "b").with(&second);
    let maps: Cache<MetaObject> = standby.manager.caches().of(&MAPS);
    let standby = standby.elect();
    maps.synced().await;
    door.lag().hold_at("configmaps", sandbox.revision());
    let term = fence.term().expect("it leads");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}});
    let _: Value = client
        .in_term(&fence, term)
        .create(&MAPS, "default", body.to_string().into())
        .await
        .expect("written");
    leader.stop().await.expect("an orderly end");

    second.started(1).await;
    let seen = maps.get(&Key::new("default", "last"));
    assert!(seen.present().is_some(), "the last write is in the cache");
    standby.stop().await.expect("an orderly end");
}
