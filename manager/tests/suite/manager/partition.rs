//! A leader that loses its API server steps down and keeps its caches; a full rate limiter does not delay the release.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::cache::Cache;
use steersman_manager::client::{Patch, RateLimit};
use steersman_manager::controller::{self, Action, Builder, ReconcileContext, ReconcileError, Reconciler};
use steersman_manager::env::Clock;
use steersman_manager::handler::Handler;
use steersman_manager::object::{Key, MetaObject};
use steersman_manager::source::Source;
use steersman_manager::sync::watch;
use steersman_sandbox::Sandbox;

use super::shutdown::holder;
use super::{MAPS, Process, SECOND, sandbox};
use crate::election::network::{Network, NetworkFault, WatchFault};

#[derive(Clone, Copy)]
pub(super) enum RequestVerb {
    Get,
    Patch,
}

/// Sends one request per reconcile, once a second, and counts the reconciles.
struct Requester {
    verb: RequestVerb,
    started: watch::Sender<usize>,
}

impl Reconciler for Requester {
    async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        self.started.send_modify(|started| *started += 1);
        let _: Value = match self.verb {
            RequestVerb::Get => context.client.get(&MAPS, &key).await?,
            RequestVerb::Patch => {
                let patch = Patch::merge(&json!({"data": {"at": context.env.clock.wall().to_string()}}));
                context.client.patch(&MAPS, &key, patch).await?
            }
        };
        Ok(Action::RequeueAfter(SECOND))
    }
}

/// Creates config maps with these names.
pub(super) async fn create_maps(sandbox: &Sandbox, names: impl IntoIterator<Item = String>) {
    let user = Process::new(sandbox.service(), "user");
    let client = user.transport.unfenced("user", None);
    for name in names {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let _: Value = client
            .create(&MAPS, "default", map.to_string().into())
            .await
            .expect("a config map");
    }
}

/// Adds a controller that sends requests, and returns its cache and the number of its reconciles.
pub(super) fn add_requester(
    process: &mut Process,
    verb: RequestVerb,
) -> (Cache<MetaObject>, watch::Receiver<usize>) {
    let manager = &mut process.manager;
    let maps: Cache<MetaObject> = manager.caches().of(&MAPS);
    let started = watch::Sender::new(0);
    let reconciles = started.subscribe();
    let options = controller::Options {
        workers: 10,
        ..controller::Options::default()
    };
    let requester = Builder::new("requester", options, Requester { verb, started })
        .watch(Source::new(maps.clone(), Handler::for_object()))
        .build(&process.env, manager.reader("requester"), &process.registry)
        .expect("a controller");
    manager.add(requester);
    (maps, reconciles)
}

fn net(sandbox: &Sandbox) -> Network {
    let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
    Network::new(sandbox.service(), clock, 1, Arc::new(|| {}))
}

async fn at_least(counter: &mut watch::Receiver<usize>, count: usize) {
    let reached = counter.wait_for(|it| *it >= count).await;
    drop(reached.expect("a running controller"));
}

#[tokio::test(start_paused = true)]
async fn leader_without_an_api_server_becomes_a_warm_standby() {
    for verb in [RequestVerb::Get, RequestVerb::Patch] {
        let sandbox = sandbox();
        create_maps(&sandbox, ["a".to_owned()]).await;
        let net = net(&sandbox);
        let mut process = Process::over(net.service(), "a");
        let (maps, mut reconciles) = add_requester(&mut process, verb);
        let (fence, clock) = (process.manager.fence().clone(), process.env.clock.clone());
        let running = process.elect();
        at_least(&mut reconciles, 3).await;
        let first = fence.term().expect("a term");

        net.set_fault(NetworkFault::RequestLost);
        net.set_watch_fault(WatchFault::Silent);
        clock
            .timeout(11 * SECOND, fence.closed(first))
            .await
            .expect("a step-down");
        clock.sleep(60 * SECOND).await;
        assert!(!running.ended.is_finished(), "the process did not exit");
        assert_eq!(fence.term(), None);
        assert!(
            maps.get(&Key::new("default", "a")).present().is_some(),
            "the cache was kept"
        );

        net.set_fault(NetworkFault::None);
        net.set_watch_fault(WatchFault::None);
        let so_far = *reconciles.borrow_and_update();
        let resumed = clock.timeout(60 * SECOND, at_least(&mut reconciles, so_far + 1));
        resumed.await.expect("the same process leads again");
        assert_ne!(fence.term(), Some(first));
        running.stop().await.expect("an orderly shutdown");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_with_a_full_rate_limiter_releases_the_lease_within_a_second() {
    for verb in [RequestVerb::Get, RequestVerb::Patch] {
        let sandbox = sandbox();
        create_maps(&sandbox, (0..10).map(|i| format!("map-{i}"))).await;
        let limit = Some(RateLimit { qps: 0.1, burst: 1 });
        let mut process = Process::limited(sandbox.service(), "a", limit);
        let (_, mut reconciles) = add_requester(&mut process, verb);
        let clock = process.env.clock.clone();
        let running = process.elect();
        // All ten workers, of which nine wait for a token.
        at_least(&mut reconciles, 10).await;
        clock.sleep(SECOND / 10).await;
        let before = clock.now();
        running.stop().await.expect("an orderly shutdown");
        let took = clock.now() - before;
        assert!(took < SECOND, "{took:?}");
        assert_eq!(holder(&sandbox).await, "", "released");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_with_an_unanswered_read_releases_the_lease_within_a_second() {
    let sandbox = sandbox();
    create_maps(&sandbox, ["a".to_owned()]).await;
    let net = net(&sandbox);
    let mut process = Process::over(net.service(), "a");
    let (_, mut reconciles) = add_requester(&mut process, RequestVerb::Get);
    let clock = process.env.clock.clone();
    let running = process.elect();
    at_least(&mut reconciles, 1).await;
    clock.sleep(SECOND / 2).await;
    net.response_delay(5 * SECOND);
    at_least(&mut reconciles, 2).await;
    clock.sleep(SECOND / 1000).await;
    net.response_delay(Duration::ZERO);
    let before = clock.now();
    running.stop().await.expect("an orderly shutdown");
    let took = clock.now() - before;
    assert!(took < SECOND, "{took:?}");
    assert_eq!(holder(&sandbox).await, "", "released");
}
