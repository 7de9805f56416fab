//! Candidates with their own clocks and networks on one API, under a paused clock.
//!
//! Each candidate has a worker that writes without preconditions whenever its fence permits it. At every write, and every
//! 20 ms, a monitor checks that at most one fence is open.

mod failover;
mod faults;
pub(crate) mod network;
mod normal_operation;
mod races;
mod randomized;
mod release;
mod tampering;
mod watches;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_manager::metrics::Registry;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use steersman_manager::client::{Client, Delete, Fence, Patch, Reader, Takeover, Term, Transport};
use steersman_manager::election::{Config, Elector, Health, Leadership, Release};
use steersman_manager::env::{Clock, Env, Fault, TaskSet};
use steersman_manager::object::{Key, Resource, Uid};
use steersman_manager::sync::watch;
use steersman_sandbox::{Env as SandboxEnv, Sandbox};

use self::network::{Network, NetworkFault, WatchFault};

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
const MILLI: Duration = Duration::from_millis(1);
/// The time limit for a new leader after a crash.
const FAILOVER_LIMIT: Duration = Duration::from_secs(15 + 2 * 2);

/// The API, the true time and the monitor.
struct Cluster {
    sandbox: Sandbox,
    /// True time.
    clock: Clock,
    client: Client,
    monitor: Arc<Mutex<Monitor>>,
    started: u64,
    _tasks: TaskSet,
}

/// Records violations of mutual exclusion.
#[derive(Default)]
struct Monitor {
    fences: BTreeMap<String, Fence>,
    /// The identities and terms of the writes, in order.
    writes: Vec<(String, Term)>,
    violations: Vec<String>,
}

struct Candidate {
    identity: String,
    env: Env,
    net: Network,
    fence: Fence,
    leadership: watch::Receiver<Leadership>,
    health: Health,
    registry: Registry,
    stop: CancellationToken,
    finish: Option<oneshot::Sender<Option<Release>>>,
    /// Dropping it simulates a crash.
    tasks: TaskSet,
    ended: Arc<Mutex<Option<bool>>>,
}

impl Monitor {
    fn check_fences(&mut self, at: Timestamp) {
        let open: Vec<_> = self
            .fences
            .iter()
            .filter(|(_, fence)| fence.term().is_some())
            .map(|(identity, _)| identity.clone())
            .collect();
        if open.len() > 1 {
            self.violations.push(format!("{at}: {open:?} lead concurrently"));
        }
    }

    fn record_write(&mut self, identity: &str, term: Term, at: Timestamp) {
        self.check_fences(at);
        let write = (identity.to_owned(), term);
        if self.writes.last() != Some(&write) {
            if self.writes.contains(&write) {
                self.violations
                    .push(format!("{at}: {identity} wrote again after another leader"));
            }
            self.writes.push(write);
        }
    }
}

impl Cluster {
    /// Returns a cluster with an elected candidate.
    async fn with_leader(name: &str) -> (Self, Candidate) {
        let mut cluster = Self::new().await;
        let mut leader = cluster.start(name);
        leader.elected(&cluster, RETRY).await;
        (cluster, leader)
    }

    async fn new() -> Self {
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
        let sandbox = Sandbox::builder()
            .env(SandboxEnv::starting_at(Timestamp::UNIX_EPOCH, 0))
            .start()
            .expect("a sandbox");
        let transport = Transport::from_service(
            sandbox.service(),
            "sandbox",
            "test",
            &env.clock,
            &Registry::new("test"),
        )
        .expect("a transport");
        let client = transport.unfenced("test", None);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "work"}});
        let _: Value = client
            .create(&Resource::of::<ConfigMap>(), "default", map.to_string().into())
            .await
            .expect("a config map");
        let monitor: Arc<Mutex<Monitor>> = Arc::default();
        let (polled, clock) = (monitor.clone(), env.clock.clone());
        env.tasks.spawn(async move {
            loop {
                polled.lock().expect("no panic").check_fences(clock.wall());
                clock.sleep(20 * MILLI).await;
            }
        });
        Self {
            sandbox,
            clock: env.clock,
            client,
            monitor,
            started: 0,
            _tasks: tasks,
        }
    }

    /// Starts a process.
    fn start(&mut self, name: &str) -> Candidate {
        self.start_with(name, |_| {})
    }

    fn start_with(&mut self, name: &str, prepare: impl FnOnce(&Network)) -> Candidate {
        self.started += 1;
        let seed = self.started;
        let identity = format!("{name}_{seed}");
        let tasks = TaskSet::new();
        let env = Env::starting_at(self.clock.wall(), seed, &tasks);
        let fence = Fence::new(env.clock.clone());
        let (monitor, clock) = (self.monitor.clone(), self.clock.clone());
        let (holder, its_fence) = (identity.clone(), fence.clone());
        let on_write = Arc::new(move || {
            let mut monitor = monitor.lock().expect("no panic");
            match its_fence.term() {
                Some(term) => monitor.record_write(&holder, term, clock.wall()),
                None => monitor
                    .violations
                    .push(format!("{holder} wrote with a closed fence")),
            }
        });
        let net = Network::new(self.sandbox.service(), self.clock.clone(), seed, on_write);
        prepare(&net);
        let registry = Registry::new("test");
        let transport = Transport::from_service(net.service(), "sandbox", "test", &env.clock, &registry)
            .expect("a transport");
        let elector = Elector::new(
            &env,
            transport.unfenced("leader-election", None),
            fence.clone(),
            Config::new("kube-system", "steersman", identity.clone()),
            &registry,
        )
        .expect("an elector");
        self.monitor
            .lock()
            .expect("no panic")
            .fences
            .insert(identity.clone(), fence.clone());
        let (leadership, health) = (elector.leadership(), elector.health());
        let stop = CancellationToken::new();
        let (finish, finished) = oneshot::channel();
        let ended: Arc<Mutex<Option<bool>>> = Arc::default();
        let (ends, stopped) = (ended.clone(), stop.clone());
        env.tasks.spawn(async move {
            let finish = async { finished.await.unwrap_or(None) };
            let released = Box::pin(elector.run(stopped, finish)).await;
            *ends.lock().expect("no panic") = Some(released.is_ok());
        });
        env.tasks
            .spawn(work(env.clone(), fence.clone(), transport.reader("worker", None)));
        Candidate {
            identity,
            env,
            net,
            fence,
            leadership,
            health,
            registry,
            stop,
            finish: Some(finish),
            tasks,
            ended,
        }
    }

    fn key() -> Key {
        Key::new("kube-system", "steersman")
    }

    async fn lease(&self) -> Option<Value> {
        match self.client.get(&Resource::of::<Lease>(), &Self::key()).await {
            Ok(lease) => Some(lease),
            Err(error) => {
                assert!(error.is_not_found("steersman"), "{error}");
                None
            }
        }
    }

    /// Patches the Lease as another client, without precondition.
    async fn rewrite(&self, patch: Value) {
        let _: Value = self
            .client
            .patch(&Resource::of::<Lease>(), &Self::key(), Patch::merge(&patch))
            .await
            .expect("a patch");
    }

    /// Deletes the Lease as another client.
    async fn delete(&self) {
        let lease = self.lease().await.expect("a lease");
        let uid = lease["metadata"]["uid"].as_str().expect("a uid");
        self.client
            .delete(
                &Resource::of::<Lease>(),
                &Self::key(),
                &Delete::of(Uid::from(uid)),
            )
            .await
            .expect("a delete");
    }

    async fn wait(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// Asserts mutual exclusion.
    fn check(&self) {
        let violations = &self.monitor.lock().expect("no panic").violations;
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

impl Candidate {
    fn leads(&self) -> bool {
        self.fence.term().is_some()
    }

    /// Returns the takeover of the current term.
    fn takeover(&self) -> Option<Takeover> {
        match &*self.leadership.borrow() {
            Leadership::Leading { takeover, .. } => Some(takeover.clone()),
            Leadership::Standby => None,
        }
    }

    /// Waits until the candidate leads. Returns the time it took.
    async fn elected(&mut self, cluster: &Cluster, limit: Duration) -> Duration {
        let since = cluster.clock.now();
        let identity = self.identity.clone();
        let leading = self
            .leadership
            .wait_for(|leadership| *leadership != Leadership::Standby);
        let elected = cluster.clock.timeout(limit, leading).await;
        assert!(elected.is_some(), "{identity} is not elected within {limit:?}");
        drop(elected);
        cluster.clock.now() - since
    }

    /// Waits until the candidate does not lead.
    async fn stepped_down(&mut self, cluster: &Cluster, limit: Duration) -> Duration {
        let since = cluster.clock.now();
        let standby = self
            .leadership
            .wait_for(|leadership| *leadership == Leadership::Standby);
        let stepped_down = cluster.clock.timeout(limit, standby).await;
        assert!(stepped_down.is_some(), "still leading after {limit:?}");
        drop(stepped_down);
        assert!(!self.leads(), "the fence is closed");
        cluster.clock.now() - since
    }

    /// Suspends the machine.
    fn freeze(&self) {
        self.net.run(false);
        self.env.clock.inject(Fault::Freeze);
    }

    fn thaw(&self) {
        self.env.clock.inject(Fault::Thaw);
        self.net.run(true);
    }

    /// Releases the Lease after an orderly shutdown of the workers.
    fn release(&mut self, versions: &[(&str, &str)]) {
        self.stop.cancel();
        let versions = versions
            .iter()
            .map(|(resource, version)| ((*resource).to_owned(), (*version).to_owned()))
            .collect();
        let release = self.fence.term().map(|term| Release { term, versions });
        let finish = self.finish.take().expect("not finished");
        finish.send(release).expect("a running elector");
    }

    fn gauge(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .expect("a metric");
        let metric = &family.get_metric()[0];
        assert_eq!(metric.get_label()[0].value(), "steersman");
        metric.get_gauge().get_value() + metric.get_counter().get_value()
    }
}

/// Writes whenever the fence permits it.
async fn work(env: Env, fence: Fence, client: Reader) {
    let key = Key::new("default", "work");
    loop {
        if let Some(term) = fence.term() {
            let patch = Patch::merge(&json!({"data": {"at": env.clock.wall().to_string()}}));
            let _ = client
                .in_term(&fence, term)
                .patch::<Value>(&Resource::of::<ConfigMap>(), &key, patch)
                .await;
        }
        env.clock
            .sleep(env.rng.between(10 * MILLI, Duration::from_millis(300)))
            .await;
    }
}
