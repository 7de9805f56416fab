//! The end: in order, late, or by something that died.

use std::task::{Context, Waker};

use coxswain_manager::client::{ListQuery, View};
use coxswain_manager::events::Recorder;
use coxswain_manager::manager::ManagerError;
use coxswain_manager::object::{Key, Resource};
use serde_json::Value;

use super::probe::{Manners, Probe};
use super::{Process, SECOND, sandbox};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// The holder of the lease, as somebody else sees it.
pub(super) async fn holder(sandbox: &coxswain_sandbox::Sandbox) -> String {
    let other = Process::new(sandbox.door(), "other");
    let client = other.transport.client("other", None);
    let key = Key::new("kube-system", "coxswain");
    let lease: Value = client.get(&LEASES, &key).await.expect("the lease");
    lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_releases_the_lease() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let running = Process::new(sandbox.door(), "a").with(&probe).elect();
    probe.started(1).await;
    assert_eq!(holder(&sandbox).await, "a");
    running.stop().await.expect("an orderly end");
    assert_eq!(holder(&sandbox).await, "");
}

#[tokio::test(start_paused = true)]
async fn those_who_do_not_stop_are_named_and_the_lease_is_kept() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stays);
    let running = Process::new(sandbox.door(), "a").with(&probe).elect();
    probe.started(1).await;
    let clock = running.env.clock.clone();
    let before = clock.now();
    let error = running.stop().await.expect_err("it did not stop");
    assert_eq!(clock.now() - before, 10 * SECOND);
    let text = error.to_string();
    assert!(text.contains("controller shutdown timeout reached"), "{text}");
    assert!(text.contains("probe (default/web)"), "{text}");
    assert_eq!(
        holder(&sandbox).await,
        "a",
        "whoever still works has not released"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_outcome_keeps_the_lease() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let process = Process::new(sandbox.door(), "a").with(&probe);
    let client = process.manager.client("probe");
    let fence = process.manager.fence().clone();
    let running = process.elect();
    probe.started(1).await;
    let term = fence.term().expect("it leads");
    {
        // Sent, and given up before the answer has come.
        let client = client.in_term(&fence, term);
        let maps = super::MAPS;
        let mut write = std::pin::pin!(client.create::<Value>(&maps, "default", "{}".into()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(write.as_mut().poll(&mut context).is_pending());
    }
    running.stop().await.expect("an orderly end");
    assert_eq!(holder(&sandbox).await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_first_term_is_an_end() {
    let sandbox = sandbox();
    let (first, second) = (Probe::new(Manners::Stops), Probe::new(Manners::Stops));
    let leader = Process::new(sandbox.door(), "a").with(&first).elect();
    first.started(1).await;
    let standby = Process::new(sandbox.door(), "b").with(&second).elect();
    standby.stop().await.expect("an orderly end");
    assert_eq!(second.counts(), (0, 0));
    assert_eq!(holder(&sandbox).await, "a");
    leader.stop().await.expect("an orderly end");
}

#[tokio::test(start_paused = true)]
async fn dropping_its_tasks_ends_everything() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let running = Process::new(sandbox.door(), "a").with(&probe).elect();
    probe.started(1).await;
    let ended = running.ended;
    drop(running.tasks);
    assert!(ended.await.is_err_and(|error| error.is_cancelled()));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_dies_ends_the_manager_and_keeps_the_lease() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Dies);
    let running = Process::new(sandbox.door(), "a").with(&probe).elect();
    let error = running.ended.await.expect("no panic").expect_err("it died");
    assert!(matches!(&error, ManagerError::Died { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "controller probe died: controller probe: nothing more comes from its source pods"
    );
    assert_eq!(holder(&sandbox).await, "a", "nobody knows what it was at");
}

#[tokio::test(start_paused = true)]
async fn events_on_the_lease_tell_who_leads() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let process = Process::new(sandbox.door(), "a").with(&probe);
    let events = process.transport.unfenced("events", None);
    let recorder =
        Recorder::start(&process.env, events, "coxswain", "a", &process.registry).expect("a recorder");
    let running = process.elect_recording(recorder.clone());
    probe.started(1).await;
    let transport = running.transport.clone();
    let tasks = running.stop_but_keep_tasks().await;
    assert!(recorder.flush(SECOND).await);

    let events = Resource::namespaced("", "v1", "events", "Event");
    let client = transport.client("reader", None);
    let page = client
        .list(&events, "kube-system", &ListQuery::default(), View::Full)
        .await;
    let page: Value = serde_json::from_slice(&page.expect("events")).expect("JSON");
    let told: Vec<_> = page["items"].as_array().expect("a list").iter().collect();
    let messages: Vec<_> = told
        .iter()
        .map(|it| it["message"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(messages, ["a became leader", "a stopped leading"]);
    for event in told {
        assert_eq!(event["reason"], "LeaderElection");
        assert_eq!(event["involvedObject"]["kind"], "Lease");
        assert!(event["involvedObject"]["uid"].is_string());
    }
    drop(tasks);
}
