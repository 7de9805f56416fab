//! Terms of leadership.

use serde_json::{Value, json};
use steersman_manager::client::Patch;
use steersman_manager::object::{Key, Resource};

use super::test_controller::{Behavior, TestController};
use super::{Process, SECOND, sandbox};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

#[tokio::test(start_paused = true)]
async fn controllers_run_without_election_until_stopped() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let running = Process::new(sandbox.service(), "a").with(&probe).run(None);
    probe.started(1).await;
    running.stop().await.expect("an orderly shutdown");
    assert_eq!(probe.counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn standby_takes_over_immediately_after_an_orderly_shutdown() {
    let sandbox = sandbox();
    let (first, second) = (
        TestController::new(Behavior::Stops),
        TestController::new(Behavior::Stops),
    );
    let leader = Process::new(sandbox.service(), "a").with(&first).elect();
    first.started(1).await;
    let standby = Process::new(sandbox.service(), "b").with(&second).elect();
    let clock = standby.env.clock.clone();
    assert!(clock.timeout(60 * SECOND, second.started(1)).await.is_none());

    let before = clock.now();
    leader.stop().await.expect("an orderly shutdown");
    second.started(1).await;
    let took = clock.now() - before;
    assert!(took < SECOND, "{took:?}");
    standby.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn leader_that_loses_its_lease_continues_as_standby() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let running = Process::new(sandbox.service(), "a").with(&probe).elect();
    probe.started(1).await;

    let other = Process::new(sandbox.service(), "other")
        .transport
        .unfenced("other", None);
    let patch = json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}});
    let key = Key::new("kube-system", "steersman");
    let _: Value = other
        .patch(&LEASES, &key, Patch::merge(&patch))
        .await
        .expect("patched");
    let mut ended = probe.ended.subscribe();
    ended
        .wait_for(|ended| *ended == 1)
        .await
        .expect("a running controller");
    assert!(!running.ended.is_finished(), "the process exited");

    probe.started(2).await;
    let terms = probe.terms.borrow().clone();
    assert_ne!(terms[0], terms[1], "the same term");
    running.stop().await.expect("an orderly shutdown");
}
