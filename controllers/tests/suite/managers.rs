//! Several managers on one API under a paused clock, each with its own election, caches, controllers and clock.
//!
//! Every write of a controller is recorded with the number of leaders at the time of sending.

mod bit_flips;
mod clock_rates;
mod handover;
mod split_brain;
mod suspended;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_controllers::registry::{self, Descriptor, EnabledBy, Settings};
use steersman_controllers::{deployment, garbage_collector, replicaset};
use steersman_manager::client::{Fence, Transport};
use steersman_manager::election::{self, Elector};
use steersman_manager::env::{Clock, Env, Fault, TaskSet};
use steersman_manager::health::Checks;
use steersman_manager::manager::{Manager, ManagerError, Options};
use steersman_manager::metrics::Registry;
use steersman_manager::object::Resource;
use steersman_sandbox::ApiService;
use steersman_sandbox::faults::{FaultService, Faults, Gate, Matcher, RuleHandle, WatchHold};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use crate::fixture::{ApiFixture, DEPLOYMENTS, MAPS, PODS, SETS};

const SECOND: Duration = Duration::from_secs(1);

/// A sandbox with nodes, and the recorded writes of all processes.
struct Cluster {
    fixture: ApiFixture,
    shared: Shared,
}

#[derive(Clone, Default)]
struct Shared {
    writes: Arc<Mutex<Vec<Write>>>,
    fences: Arc<Mutex<Vec<Fence>>>,
    /// Paths of objects that the garbage collector deleted although they had a live owner.
    owned: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Debug)]
struct Write {
    by: &'static str,
    at: Instant,
    /// Method and path.
    operation: String,
    code: u16,
    /// Number of leaders when the write was sent.
    leaders: usize,
}

/// A running process. Dropping it is a crash.
struct Process {
    clock: Clock,
    fence: Fence,
    link: Link,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ManagerError>>,
    _tasks: TaskSet,
}

/// The connection of a process to the API.
struct Link {
    faults: Faults,
    service: FaultService<ApiService>,
    /// While it is some, the connection is stalled in both directions without an error.
    cut: Mutex<Option<(RuleHandle, WatchHold)>>,
    /// While it is some, requests are executed and their responses wait.
    held: Mutex<Option<Gate>>,
}

impl Link {
    fn new(service: ApiService, by: &'static str, shared: &Shared) -> Self {
        let faults = Faults::new();
        let writes = Matcher::writes().when(|it| !["leases", "events"].contains(&it.resource.as_str()));
        let recorder = shared.clone();
        faults.on(writes).around(move |request| {
            let number = recorder.record(Write {
                by,
                at: request.at,
                operation: format!("{} {}", request.method, request.path),
                code: 0,
                leaders: recorder.leaders(),
            });
            let recorder = recorder.clone();
            async move { async move |code: u16| recorder.lock_writes()[number].code = code }
        });
        let collects = Matcher::verb("delete").user_agent("/generic-garbage-collector");
        let (direct, shared) = (service.clone(), shared.clone());
        faults.on(collects).around(move |request| {
            let (direct, shared) = (direct.clone(), shared.clone());
            async move {
                let has_owner = has_owner(&direct, &request.path).await;
                async move |_: u16| {
                    if has_owner {
                        lock(&shared.owned).push(request.path.clone());
                    }
                }
            }
        });
        Self {
            service: faults.wrap(service),
            faults,
            cut: Mutex::default(),
            held: Mutex::default(),
        }
    }
}

/// Returns whether a Deployment or `ReplicaSet` that owns the object exists and is not terminating.
async fn has_owner(service: &ApiService, path: &str) -> bool {
    let Some(object) = get(service, path).await else {
        return false;
    };
    for reference in object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let plural = if reference["kind"] == *SETS.kind {
            SETS.plural
        } else {
            DEPLOYMENTS.plural
        };
        let name = reference["name"].as_str().unwrap_or_default();
        let path = format!("/apis/apps/v1/namespaces/default/{plural}/{name}");
        let owner = get(service, &path).await.unwrap_or_default();
        if owner["metadata"]["uid"] == reference["uid"]
            && owner["metadata"].get("deletionTimestamp").is_none()
        {
            return true;
        }
    }
    false
}

async fn get(service: &ApiService, path: &str) -> Option<Value> {
    // A flipped bit may make the name invalid in a path.
    let request = Request::get(path).body(Body::empty()).ok()?;
    let response = service.clone().call(request).await.ok()?;
    let found = response.status().is_success();
    let body = response.into_body().collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok().filter(|_| found)
}

impl Shared {
    fn leaders(&self) -> usize {
        let fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        fences.iter().filter(|it| it.term().is_some()).count()
    }

    /// Records a write, and returns its number.
    fn record(&self, write: Write) -> usize {
        let mut writes = self.lock_writes();
        writes.push(write);
        writes.len() - 1
    }

    fn lock_writes(&self) -> MutexGuard<'_, Vec<Write>> {
        lock(&self.writes)
    }
}

impl Deref for Cluster {
    type Target = ApiFixture;

    fn deref(&self) -> &ApiFixture {
        &self.fixture
    }
}

impl Cluster {
    fn new() -> Self {
        let fixture = ApiFixture::new();
        fixture.run_hollow_kubelet(SECOND);
        Self {
            fixture,
            shared: Shared::default(),
        }
    }

    /// Starts a process that competes for a Lease; its clock runs at `rate` percent of the true rate.
    fn start(&self, by: &'static str, lease: &str, rate: u32) -> Process {
        let tasks = TaskSet::new();
        let env = Env::starting_at(self.env.clock.wall(), by.len() as u64, &tasks);
        env.clock.inject(Fault::Rate(rate));
        let link = Link::new(self.sandbox.service(), by, &self.shared);
        let (service, registry) = (link.service.clone(), Registry::new("steersman"));
        let transport = Transport::from_service(service, "sandbox", "test", &env.clock, &registry);
        let transport = transport.expect("unregistered metrics");
        let options = Options {
            shutdown_timeout: Some(10 * SECOND),
            instance: by.to_owned(),
            ..Options::new("steersman")
        };
        let mut manager =
            Manager::new(&env, &registry, &Checks::new(), transport.clone(), options).expect("a manager");
        let fence = manager.fence().clone();
        let config = election::Config::new("kube-system", lease, by);
        let client = transport.unfenced("leader-election", None);
        let elector = Elector::new(&env, client, fence.clone(), config, &registry).expect("an elector");
        let settings = Settings {
            assume_no_kube_controller_manager: true,
            ..Settings::default()
        };
        let hosted = [deployment::NAME, replicaset::NAME, garbage_collector::NAME];
        let enabled = |it: &Descriptor| hosted.contains(&it.name).then_some(EnabledBy::Name);
        registry::host(&mut manager, enabled, &settings).expect("hosted");
        let fences = &self.shared.fences;
        fences
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(fence.clone());
        let stop = CancellationToken::new();
        manager.elect(elector);
        let running = env.tasks.spawn(manager.run(stop.clone()));
        Process {
            clock: env.clock.clone(),
            fence,
            link,
            stop,
            running,
            _tasks: tasks,
        }
    }

    /// Starts a leader and a standby, and completes a Deployment.
    async fn start_pair(&self) -> (Process, Process) {
        let first = self.start("first", "steersman", 100);
        self.leads(&first).await;
        let second = self.start("second", "steersman", 100);
        self.deploy("before", 3).await;
        self.complete("before").await;
        self.sleep(30 * SECOND).await;
        (first, second)
    }

    fn writes(&self) -> Vec<Write> {
        self.shared.lock_writes().clone()
    }

    /// Returns the paths of objects that the garbage collector deleted although they had a live owner.
    fn collected_with_owner(&self) -> Vec<String> {
        let owned = self.shared.owned.lock().unwrap_or_else(PoisonError::into_inner);
        owned.clone()
    }

    /// Creates a Deployment with the label `app` set to its name.
    async fn deploy(&self, name: &str, replicas: i64) -> Value {
        let labels = json!({"app": name});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                             "spec": {"containers": [{"name": "main", "image": "one"}]}},
            },
        });
        self.create(&DEPLOYMENTS, &deployment).await
    }

    /// Waits until all replicas of a Deployment are up to date and available, without other pods.
    async fn complete(&self, name: &str) {
        self.until(&format!("{name} is complete"), async || {
            let Some(it) = self.read(&DEPLOYMENTS, name).await else {
                return false;
            };
            let count = |field: &str| it["status"][field].as_i64().unwrap_or(0);
            let all = it["spec"]["replicas"].as_i64().unwrap_or(0);
            let counted = ["replicas", "updatedReplicas", "availableReplicas"];
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && counted.iter().all(|it| count(it) == all)
                && self.pods(name).await == usize::try_from(all).unwrap_or(0)
        })
        .await;
    }

    /// Returns the number of pods with the label of a Deployment.
    async fn pods(&self, name: &str) -> usize {
        let pods = self.list(&PODS).await;
        pods.iter()
            .filter(|it| it["metadata"]["labels"]["app"] == name)
            .count()
    }

    async fn until(&self, condition: &str, holds: impl AsyncFn() -> bool) {
        if self.eventually(holds).await {
            return;
        }
        let writes = self.writes();
        let last = &writes[writes.len().saturating_sub(20)..];
        panic!(
            "timed out: {condition}; the last of {} writes: {last:#?}",
            writes.len()
        );
    }

    async fn leads(&self, process: &Process) {
        self.until("the process leads", async || process.leads()).await;
    }

    /// Asserts that the controllers write nothing for ten minutes.
    async fn assert_idle(&self) {
        self.sleep(60 * SECOND).await;
        let before = self.writes().len();
        self.sleep(600 * SECOND).await;
        let writes = self.writes();
        assert_eq!(writes.len(), before, "writes: {:#?}", &writes[before..]);
    }
}

impl Process {
    fn leads(&self) -> bool {
        self.fence.term().is_some()
    }

    fn cut(&self, cut: bool) {
        let (faults, any) = (&self.link.faults, Matcher::any);
        let fault = cut.then(|| (faults.on(any()).hang(), faults.hold_watches(any())));
        let previous = std::mem::replace(&mut *lock(&self.link.cut), fault);
        if let Some((rule, _)) = previous {
            rule.remove();
        }
    }

    /// Delays responses, or delivers the delayed ones.
    fn hold_responses(&self, held: bool) {
        let gate = held.then(|| self.link.faults.on(Matcher::any()).gate_answer());
        if let Some(previous) = std::mem::replace(&mut *lock(&self.link.held), gate) {
            previous.open();
        }
    }

    /// Suspends the process: its clock stops and nothing arrives.
    fn suspend(&self) {
        self.cut(true);
        self.hold_responses(true);
        self.clock.inject(Fault::Freeze);
    }

    /// Resumes the process. Responses arrive before a timer can end its term.
    fn resume(&self) {
        self.cut(false);
        self.hold_responses(false);
        self.clock.inject(Fault::Thaw);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
