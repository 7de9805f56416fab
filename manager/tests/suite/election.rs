//! Candidates with clocks and networks of their own, on one API, under the paused clock.
//!
//! Each has a worker that writes, unconditioned, as often and as soon as its fence lets it. At every write, and every
//! 20 ms, it is checked that no other fence is open.

mod failover;
mod faults;
mod foreign;
mod naive;
pub(crate) mod net;
mod random;
mod release;
mod steady;
mod watches;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use coxswain_manager::client::{Client, Delete, Fence, Patch, Term, Transport};
use coxswain_manager::election::{Config, Elector, Health, Leadership, Release, Takeover};
use coxswain_manager::env::{Clock, Env, Fault, TaskSet};
use coxswain_manager::object::{Key, Resource, Uid};
use coxswain_sandbox::{Env as SandboxEnv, Options, Sandbox};

use self::net::{Net, Trouble, WatchTrouble};

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
const MILLI: Duration = Duration::from_millis(1);
/// How soon there must be a leader again after one has died.
const AGAIN: Duration = Duration::from_secs(15 + 2 * 2);

/// The API, true time, and everybody who takes part.
struct World {
    sandbox: Sandbox,
    /// True time.
    clock: Clock,
    client: Client,
    watch: Arc<Mutex<Watchman>>,
    started: u64,
    _tasks: TaskSet,
}

/// Sees to it that nobody acts beside another.
#[derive(Default)]
struct Watchman {
    fences: BTreeMap<String, Fence>,
    /// Who wrote in which term, in the order of the writes.
    writes: Vec<(String, Term)>,
    violations: Vec<String>,
}

struct Candidate {
    identity: String,
    env: Env,
    net: Net,
    fence: Fence,
    leadership: watch::Receiver<Leadership>,
    health: Health,
    registry: Registry,
    stop: CancellationToken,
    finish: Option<oneshot::Sender<Option<Release>>>,
    /// Dropping it is a crash.
    tasks: TaskSet,
    ended: Arc<Mutex<Option<bool>>>,
}

impl Watchman {
    fn look(&mut self, at: Timestamp) {
        let open: Vec<_> = self
            .fences
            .iter()
            .filter(|(_, fence)| fence.term().is_some())
            .map(|(identity, _)| identity.clone())
            .collect();
        if open.len() > 1 {
            self.violations.push(format!("{at}: {open:?} lead at once"));
        }
    }

    fn wrote(&mut self, identity: &str, term: Term, at: Timestamp) {
        self.look(at);
        let write = (identity.to_owned(), term);
        if self.writes.last() != Some(&write) {
            if self.writes.contains(&write) {
                self.violations
                    .push(format!("{at}: {identity} wrote again after another"));
            }
            self.writes.push(write);
        }
    }
}

impl World {
    async fn new() -> Self {
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
        let sandbox = Sandbox::new(Options {
            env: SandboxEnv::starting_at(Timestamp::UNIX_EPOCH, 0),
            ..Options::default()
        });
        let transport =
            Transport::from_service(sandbox.door(), "sandbox", "test", &env.clock, &Registry::new())
                .expect("a transport");
        let client = transport.unfenced("test", None);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "work"}});
        let _: Value = client
            .create(&Resource::of::<ConfigMap>(), "default", map.to_string().into())
            .await
            .expect("a config map");
        let watch: Arc<Mutex<Watchman>> = Arc::default();
        let (looking, clock) = (watch.clone(), env.clock.clone());
        env.tasks.spawn(async move {
            loop {
                looking.lock().expect("no panic").look(clock.wall());
                clock.sleep(20 * MILLI).await;
            }
        });
        Self {
            sandbox,
            clock: env.clock,
            client,
            watch,
            started: 0,
            _tasks: tasks,
        }
    }

    /// A new process.
    fn start(&mut self, name: &str) -> Candidate {
        self.start_with(name, |_| {})
    }

    fn start_with(&mut self, name: &str, prepare: impl FnOnce(&Net)) -> Candidate {
        self.started += 1;
        let seed = self.started;
        let identity = format!("{name}_{seed}");
        let tasks = TaskSet::new();
        let env = Env::starting_at(self.clock.wall(), seed, &tasks);
        let fence = Fence::new(env.clock.clone());
        let (watchman, clock) = (self.watch.clone(), self.clock.clone());
        let (who, whose) = (identity.clone(), fence.clone());
        let on_write = Arc::new(move || {
            let mut watchman = watchman.lock().expect("no panic");
            match whose.term() {
                Some(term) => watchman.wrote(&who, term, clock.wall()),
                None => watchman
                    .violations
                    .push(format!("{who} wrote behind a shut fence")),
            }
        });
        let net = Net::new(self.sandbox.door(), self.clock.clone(), seed, on_write);
        prepare(&net);
        let registry = Registry::new();
        let transport = Transport::from_service(net.clone(), "sandbox", "test", &env.clock, &registry)
            .expect("a transport");
        let elector = Elector::new(
            &env,
            transport.unfenced("leader-election", None),
            fence.clone(),
            Config::new("kube-system", "coxswain", identity.clone()),
            &registry,
        )
        .expect("an elector");
        self.watch
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
            let released = elector.run(stopped, finish).await;
            *ends.lock().expect("no panic") = Some(released.is_ok());
        });
        env.tasks
            .spawn(work(env.clone(), fence.clone(), transport.client("worker", None)));
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
        Key::new("kube-system", "coxswain")
    }

    async fn lease(&self) -> Option<Value> {
        match self.client.get(&Resource::of::<Lease>(), &Self::key()).await {
            Ok(lease) => Some(lease),
            Err(error) => {
                assert!(error.is_not_found("coxswain"), "{error}");
                None
            }
        }
    }

    /// Somebody else changes the Lease, without asking in which state it is.
    async fn rewrite(&self, patch: Value) {
        let _: Value = self
            .client
            .patch(&Resource::of::<Lease>(), &Self::key(), Patch::merge(&patch))
            .await
            .expect("a patch");
    }

    /// Somebody else deletes the Lease.
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

    /// Nobody acted beside another.
    fn check(&self) {
        let violations = &self.watch.lock().expect("no panic").violations;
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

impl Candidate {
    fn leads(&self) -> bool {
        self.fence.term().is_some()
    }

    /// The takeover of the term that is on.
    fn takeover(&self) -> Option<Takeover> {
        match &*self.leadership.borrow() {
            Leadership::Leading { takeover, .. } => Some(takeover.clone()),
            Leadership::Standby => None,
        }
    }

    /// Waits until it leads, and says how long that took.
    async fn elected(&mut self, world: &World, limit: Duration) -> Duration {
        let since = world.clock.now();
        let identity = self.identity.clone();
        let leading = self
            .leadership
            .wait_for(|leadership| *leadership != Leadership::Standby);
        let elected = world.clock.timeout(limit, leading).await;
        assert!(elected.is_some(), "{identity} does not lead within {limit:?}");
        drop(elected);
        world.clock.now() - since
    }

    /// Waits until it does not lead.
    async fn deposed(&mut self, world: &World, limit: Duration) -> Duration {
        let since = world.clock.now();
        let standby = self
            .leadership
            .wait_for(|leadership| *leadership == Leadership::Standby);
        let deposed = world.clock.timeout(limit, standby).await;
        assert!(deposed.is_some(), "it still leads after {limit:?}");
        drop(deposed);
        assert!(!self.leads(), "the fence is shut with it");
        world.clock.now() - since
    }

    /// The machine is suspended.
    fn freeze(&self) {
        self.net.run(false);
        self.env.clock.inject(Fault::Freeze);
    }

    fn thaw(&self) {
        self.env.clock.inject(Fault::Thaw);
        self.net.run(true);
    }

    /// Stops in order: the workers have stopped, and wrote these versions.
    fn release(&mut self, versions: &[(&str, &str)]) {
        self.stop.cancel();
        let versions = versions
            .iter()
            .map(|(resource, version)| ((*resource).to_owned(), (*version).to_owned()))
            .collect();
        let release = self.fence.term().map(|term| Release { term, versions });
        let finish = self.finish.take().expect("only once");
        finish.send(release).expect("it runs");
    }

    fn gauge(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .expect("the series");
        let metric = &family.get_metric()[0];
        assert_eq!(metric.get_label()[0].value(), "coxswain");
        metric.get_gauge().get_value() + metric.get_counter().get_value()
    }
}

/// Writes whenever it may.
async fn work(env: Env, fence: Fence, client: Client) {
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
