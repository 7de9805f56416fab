//! Yielding controllers beside a kube-controller-manager that is simulated by its Lease.

mod absent;
mod blind;
mod leases;
mod log;
mod probe;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_controllers::yielding::{KcmLease, YieldingController};
use steersman_manager::client::{Client, Delete, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::manager::{Manager, ManagerError, Options};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource, Uid};
use steersman_sandbox::faults::{FaultService, Faults, Matcher, Refusal};
use steersman_sandbox::{ApiService, Sandbox};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::probe::{Probe, Shared};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
const SECOND: Duration = Duration::from_secs(1);
/// Lease duration of kube-controller-manager.
const LEASE: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Reject(u16),
    RejectWatches(u16),
    Hang,
    /// The body ends early.
    Truncate,
}

/// Selects the requests for Leases.
fn leases() -> Matcher {
    Matcher::any().when(|it| it.resource == LEASES.plural)
}

/// Selects the requests for Deployments and `ReplicaSets`.
fn searches() -> Matcher {
    Matcher::any().when(|it| it.path.contains("/apps/v1/"))
}

fn inject(faults: &Faults, matcher: Matcher, fault: Fault) {
    let refusal = |code| {
        Refusal::new(code)
            .reason("Forbidden")
            .message("a secret of the server")
    };
    match fault {
        Fault::None => faults.clear(),
        Fault::Reject(code) => drop(faults.on(matcher).refuse(refusal(code))),
        Fault::RejectWatches(code) => {
            let watches = matcher.when(|it| it.verb == "watch");
            faults.on(watches).refuse(refusal(code));
        }
        Fault::Hang => drop(faults.on(matcher).hang()),
        Fault::Truncate => drop(faults.on(matcher).reply(200, "{\"items\": [{")),
    }
}

/// A manager with yielding controllers, and a client that writes kube-controller-manager's Lease.
struct Fixture {
    env: Env,
    registry: Registry,
    checks: Checks,
    faults: Faults,
    service: FaultService<ApiService>,
    admin: Client,
    manager: Manager,
    /// --assume-no-kube-controller-manager
    assume_absent: bool,
    probes: Vec<Arc<Probe>>,
    tasks: TaskSet,
    sandbox: Sandbox,
}

/// A running [`Fixture`].
struct Running {
    env: Env,
    registry: Registry,
    checks: Checks,
    faults: Faults,
    admin: Client,
    probes: Vec<Arc<Probe>>,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ManagerError>>,
    _tasks: TaskSet,
    sandbox: Sandbox,
}

fn fixture() -> Fixture {
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    let sandbox = Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(start, 7))
        .start()
        .expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let (registry, checks) = (Registry::new("steersman"), Checks::new());
    let faults = Faults::new();
    let service = faults.wrap(sandbox.service());
    let transport = Transport::from_service(service.clone(), "sandbox", "test", &env.clock, &registry);
    let transport = transport.expect("unregistered metrics");
    let options = Options {
        shutdown_timeout: Some(10 * SECOND),
        ..Options::new("steersman")
    };
    let manager = Manager::new(&env, &registry, &checks, transport, options).expect("a manager");
    let admin = Transport::from_service(
        sandbox.service(),
        "api.test",
        "test",
        &env.clock,
        &Registry::new("steersman"),
    );
    Fixture {
        admin: admin.expect("a transport").unfenced("admin", None),
        env,
        registry,
        checks,
        faults,
        service,
        manager,
        assume_absent: false,
        probes: Vec::new(),
        tasks,
        sandbox,
    }
}

impl Fixture {
    fn assuming_absent(mut self) -> Self {
        self.assume_absent = true;
        self
    }

    /// Runs three yielding controllers.
    fn run(mut self) -> Running {
        let probes = ["one", "two", "three"].map(|name| Probe::new(name, &self.env.clock));
        self.probes.extend(probes.map(Arc::new));
        self.run_with_probes()
    }

    fn run_with(mut self, probe: Probe) -> Running {
        self.probes.push(Arc::new(probe));
        self.run_with_probes()
    }

    fn run_with_probes(mut self) -> Running {
        let kcm = KcmLease::start(&self.manager, self.assume_absent);
        for probe in &self.probes {
            let probe = Shared(probe.clone());
            self.manager.add(YieldingController::new(probe, kcm.clone()));
        }
        let stop = CancellationToken::new();
        let ended = self.tasks.handle().spawn(self.manager.run(stop.clone()));
        Running {
            env: self.env,
            registry: self.registry,
            checks: self.checks,
            faults: self.faults,
            admin: self.admin,
            probes: self.probes,
            stop,
            ended,
            _tasks: self.tasks,
            sandbox: self.sandbox,
        }
    }
}

fn lease_key() -> Key {
    Key::new("kube-system", "kube-controller-manager")
}

/// Renews the Lease like a kube-controller-manager whose clock is a day behind.
async fn renew(admin: &Client, env: &Env, holder: &str) {
    let renewed = env.clock.wall() - jiff::SignedDuration::from_hours(24);
    let spec = json!({
        "holderIdentity": holder, "leaseDurationSeconds": LEASE.as_secs(), "leaseTransitions": 1,
        "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": format!("{renewed:.6}"),
    });
    let written: Result<Value, _> = if let Ok(mut lease) = admin.get::<Value>(&LEASES, &lease_key()).await {
        lease["spec"] = spec;
        let body = lease.to_string().into();
        admin.replace(&LEASES, &lease_key(), body).await
    } else {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kube-controller-manager"}, "spec": spec,
        });
        let body = lease.to_string().into();
        admin.create(&LEASES, "kube-system", body).await
    };
    written.expect("written");
}

impl Running {
    async fn sleep(&self, time: Duration) {
        self.env.clock.sleep(time).await;
    }

    async fn renew(&self) {
        renew(&self.admin, &self.env, "kcm").await;
    }

    /// Renews every 2 s for `time` and asserts that no controller runs.
    async fn alive_for(&self, time: Duration) {
        let end = self.env.clock.after(time);
        while self.env.clock.now() < end {
            self.renew().await;
            self.sleep(2 * SECOND).await;
            assert!(!self.any_runs(), "beside kube-controller-manager");
        }
    }

    async fn delete(&self) {
        let lease: Value = self.admin.get(&LEASES, &lease_key()).await.expect("a lease");
        let uid = Uid::from(lease["metadata"]["uid"].as_str().expect("a uid"));
        let deleted = self.admin.delete(&LEASES, &lease_key(), &Delete::of(uid)).await;
        deleted.expect("deleted");
    }

    fn any_runs(&self) -> bool {
        self.probes.iter().any(|probe| probe.runs())
    }

    fn all_run(&self) -> bool {
        self.probes.iter().all(|probe| probe.runs())
    }

    /// Returns the time until `holds` is true.
    async fn until(&self, holds: impl Fn(&Self) -> bool) -> Duration {
        let start = self.env.clock.now();
        while !holds(self) {
            let so_far = self.env.clock.now() - start;
            assert!(so_far < Duration::from_mins(10), "timed out");
            self.sleep(Duration::from_millis(10)).await;
        }
        self.env.clock.now() - start
    }

    fn fault(&self, fault: Fault) {
        self.faults.clear();
        inject(&self.faults, leases(), fault);
    }

    /// The number of lists and of watches of the Lease.
    fn requests(&self) -> (usize, usize) {
        let requests = self.faults.requests(&leases());
        let watches = requests.iter().filter(|it| it.verb == "watch").count();
        for request in &requests {
            let uri = request.uri();
            assert!(uri.contains("/namespaces/kube-system/leases?"), "{uri}");
            assert!(
                uri.contains("fieldSelector=metadata.name%3Dkube-controller-manager"),
                "{uri}"
            );
        }
        (requests.len() - watches, watches)
    }

    /// The note in the first controller's health check. Asserts that no check fails.
    fn note(&self) -> Option<String> {
        for kind in [Probes::LIVEZ, Probes::READYZ, Probes::HEALTHZ] {
            for (name, health) in self.checks.run(kind) {
                assert!(!matches!(health, Health::Failed(_)), "{name}: {health:?}");
            }
        }
        let name = self.probes[0].name;
        let checks = self.checks.run(Probes::HEALTHZ);
        let check = checks.into_iter().find(|(it, _)| it == name).expect("a check");
        match check.1 {
            Health::Note(note) => Some(note),
            _ => None,
        }
    }

    /// The metrics of the first controller: whether it yields, and whether it runs.
    fn metrics(&self) -> (bool, bool) {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("metrics");
        let is_one = |series: &str| text.lines().any(|line| line == format!("{series} 1"));
        (
            is_one(r#"steersman_controller_yielding{name="one"}"#),
            is_one(r#"running_managed_controllers{manager="steersman",name="one"}"#),
        )
    }

    async fn stop(self) {
        self.stop.cancel();
        self.ended.await.expect("no panic").expect("a graceful end");
        for probe in &self.probes {
            let notes = probe.notes();
            assert_eq!(notes.started, notes.ended, "drained");
        }
    }
}
