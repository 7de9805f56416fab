//! Shutdown: orderly, timed out, or after a failure.

use std::task::{Context, Waker};

use serde_json::Value;
use steersman_manager::client::{ListQuery, View};
use steersman_manager::events::Recorder;
use steersman_manager::manager::ManagerError;
use steersman_manager::object::{Key, Resource};

use super::test_controller::{Behavior, TestController};
use super::{Process, SECOND, sandbox};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// Returns the holder of the Lease.
pub(super) async fn holder(sandbox: &steersman_sandbox::Sandbox) -> String {
    let other = Process::new(sandbox.service(), "other");
    let client = other.transport.reader("other", None);
    let key = Key::new("kube-system", "steersman");
    let lease: Value = client.get(&LEASES, &key).await.expect("a lease");
    lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn orderly_shutdown_releases_the_lease() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let running = Process::new(sandbox.service(), "a").with(&probe).elect();
    probe.started(1).await;
    assert_eq!(holder(&sandbox).await, "a");
    running.stop().await.expect("an orderly shutdown");
    assert_eq!(holder(&sandbox).await, "");
}

#[tokio::test(start_paused = true)]
async fn shutdown_timeout_names_running_controllers_and_keeps_the_lease() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::IgnoresStop);
    let running = Process::new(sandbox.service(), "a").with(&probe).elect();
    probe.started(1).await;
    let clock = running.env.clock.clone();
    let before = clock.now();
    let error = running.stop().await.expect_err("a timeout");
    assert_eq!(clock.now() - before, 10 * SECOND);
    let text = error.to_string();
    assert!(text.contains("controller shutdown timeout reached"), "{text}");
    assert!(text.contains("probe (default/web)"), "{text}");
    assert_eq!(
        holder(&sandbox).await,
        "a",
        "released by a process with running workers"
    );
}

#[tokio::test(start_paused = true)]
async fn write_with_unknown_outcome_keeps_the_lease() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let process = Process::new(sandbox.service(), "a").with(&probe);
    let client = process.manager.reader("probe");
    let fence = process.manager.fence().clone();
    let running = process.elect();
    probe.started(1).await;
    let term = fence.term().expect("a term");
    {
        // Sent, and cancelled before the response.
        let client = client.in_term(&fence, term);
        let maps = super::MAPS;
        let mut write = std::pin::pin!(client.create::<Value>(&maps, "default", "{}".into()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(write.as_mut().poll(&mut context).is_pending());
    }
    running.stop().await.expect("an orderly shutdown");
    assert_eq!(holder(&sandbox).await, "a");
}

#[tokio::test(start_paused = true)]
async fn standby_stops_without_running_controllers() {
    let sandbox = sandbox();
    let (first, second) = (
        TestController::new(Behavior::Stops),
        TestController::new(Behavior::Stops),
    );
    let leader = Process::new(sandbox.service(), "a").with(&first).elect();
    first.started(1).await;
    let standby = Process::new(sandbox.service(), "b").with(&second).elect();
    standby.stop().await.expect("an orderly shutdown");
    assert_eq!(second.counts(), (0, 0));
    assert_eq!(holder(&sandbox).await, "a");
    leader.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_tasks_cancels_the_manager() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let running = Process::new(sandbox.service(), "a").with(&probe).elect();
    probe.started(1).await;
    let ended = running.ended;
    drop(running.tasks);
    assert!(ended.await.is_err_and(|error| error.is_cancelled()));
}

#[tokio::test(start_paused = true)]
async fn failed_controller_ends_the_manager_and_keeps_the_lease() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Fails);
    let running = Process::new(sandbox.service(), "a").with(&probe).elect();
    let error = running.ended.await.expect("no panic").expect_err("a failure");
    assert!(matches!(&error, ManagerError::Failed { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "controller probe failed: controller probe: source pods ended"
    );
    assert_eq!(holder(&sandbox).await, "a", "released with unknown writes");
}

#[tokio::test(start_paused = true)]
async fn leadership_changes_are_recorded_as_events() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let process = Process::new(sandbox.service(), "a").with(&probe);
    let events = process.transport.unfenced("events", None);
    let recorder =
        Recorder::start(&process.env, events, "steersman", "a", &process.registry).expect("a recorder");
    let running = process.elect_with_recorder(recorder.clone());
    probe.started(1).await;
    let transport = running.transport.clone();
    let tasks = running.stop_but_keep_tasks().await;
    assert!(recorder.flush(SECOND).await);

    let events = Resource::namespaced("", "v1", "events", "Event");
    let client = transport.reader("reader", None);
    let page = client
        .list(&events, "kube-system", &ListQuery::default(), View::Full)
        .await;
    let page: Value = serde_json::from_slice(&page.expect("events")).expect("JSON");
    let items: Vec<_> = page["items"].as_array().expect("a list").iter().collect();
    let messages: Vec<_> = items
        .iter()
        .map(|it| it["message"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(messages, ["a became leader", "a stopped leading"]);
    for event in items {
        assert_eq!(event["reason"], "LeaderElection");
        assert_eq!(event["involvedObject"]["kind"], "Lease");
        assert!(event["involvedObject"]["uid"].is_string());
    }
    drop(tasks);
}
