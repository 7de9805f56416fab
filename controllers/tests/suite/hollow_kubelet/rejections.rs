//! Rejected requests and blocked objects: the controller settles or backs off.

use std::sync::{Arc, Mutex};

use coxswain_controllers::hollow_kubelet::guarded;
use coxswain_manager::manager::{Manager, Options as ManagerOptions};
use coxswain_manager::serve::Checks;
use coxswain_sandbox::ApiService;
use http::{Method, Request};
use kube::client::Body;
use tower_service::Service;

use super::*;
use crate::intercept::{self, Intercept, Reply, respond};

/// Returns the status code of a rejected request.
type Reject = fn(&Request<Body>) -> Option<u16>;

/// Bound on attempts in ten minutes: 5 ms doubled 17 times is 10.9 minutes.
const MAX_ATTEMPTS: usize = 18;

/// More requests are a hot loop.
const HOT_LOOP: usize = 1000;

/// A transport that records requests and rejects some.
#[derive(Clone)]
struct RejectingTransport {
    service: ApiService,
    reject: Reject,
    log: Arc<Mutex<Vec<String>>>,
}

impl Intercept for RejectingTransport {
    async fn handle(mut self, request: Request<Body>) -> Reply {
        let line = format!("{} {}", request.method(), request.uri().path());
        let many = {
            let mut log = self.log.lock().expect("a log");
            log.push(line);
            log.len() > HOT_LOOP
        };
        if many {
            // Otherwise the paused clock would never advance.
            std::future::pending::<()>().await;
        }
        if let Some(code) = (self.reject)(&request) {
            let mut rejected = respond(code, "")?;
            rejected.headers_mut().insert("retry-after", "0".parse()?);
            return Ok(rejected);
        }
        Ok(self.service.call(request).await?)
    }
}

impl RejectingTransport {
    /// The number of requests that start with `begin`.
    fn count(&self, begin: &str) -> usize {
        let log = self.log.lock().expect("a log");
        log.iter().filter(|line| line.starts_with(begin)).count()
    }

    fn writes(&self) -> usize {
        ["POST", "PATCH", "PUT", "DELETE"]
            .map(|it| self.count(it))
            .iter()
            .sum()
    }
}

fn rejecting(options: Options, reject: Reject) -> (Fixture, RejectingTransport) {
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    let sandbox = Sandbox::builder()
        .env(SandboxEnv::starting_at(start, 7))
        .start()
        .expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let service = RejectingTransport {
        service: sandbox.service(),
        reject,
        log: Arc::default(),
    };
    let around = |registry: &Registry| {
        Transport::from_service(sandbox.service(), "sandbox", "test", &env.clock, registry)
            .expect("a transport")
    };
    let transport = intercept::transport(service.clone(), &env.clock, &Registry::new());
    let fixture = Fixture {
        client: around(&Registry::new()).unfenced("test", None),
        transport,
        env,
        options,
        _tasks: tasks,
    };
    (fixture, service)
}

#[tokio::test(start_paused = true)]
async fn pod_with_finalizers_is_deleted_once() {
    let (fixture, service) = rejecting(at_once(), |_| None);
    fixture.host();
    let held = fixture
        .pod("held", &json!({"metadata": {"finalizers": ["x.io/held"]}}))
        .await;
    let gated = json!({
        "metadata": {"finalizers": ["x.io/held"]},
        "spec": {"schedulingGates": [{"name": "x.io/gate"}]},
    });
    let unbound = fixture.pod("unbound", &gated).await;
    fixture
        .until(async |fixture| fixture.get("held").await["status"]["phase"] == "Running")
        .await;
    fixture.delete(&held).await;
    fixture.delete(&unbound).await;
    fixture.env.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(service.count("DELETE /api/v1/namespaces/default/pods/held"), 1);
    let writes = service.writes();
    fixture.env.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(service.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn rejected_requests_are_retried_with_backoff() {
    let cases: [(Reject, &str); 4] = [
        (
            |it| it.uri().path().ends_with("/pods/p/binding").then_some(403),
            "POST /api/v1/namespaces/default/pods/p/binding",
        ),
        (
            |it| it.uri().path().ends_with("/pods/p/status").then_some(422),
            "PATCH /api/v1/namespaces/default/pods/p/status",
        ),
        (
            |it| it.uri().path().ends_with("/pods/p/status").then_some(429),
            "PATCH /api/v1/namespaces/default/pods/p/status",
        ),
        (
            |it| (it.method() == Method::POST && it.uri().path() == "/api/v1/nodes").then_some(403),
            "POST /api/v1/nodes",
        ),
    ];
    for (reject, request) in cases {
        let (fixture, service) = rejecting(at_once(), reject);
        fixture.host();
        fixture.pod("p", &json!({})).await;
        fixture.env.clock.sleep(Duration::from_mins(10)).await;
        let attempts = service.count(request);
        assert!((2..=MAX_ATTEMPTS).contains(&attempts), "{request}: {attempts}");
    }
}

fn manager(fixture: &Fixture) -> Manager {
    let options = ManagerOptions {
        name: "coxswain",
        limit: None,
        scope: Scope::default(),
        start_interval: Duration::ZERO,
        shutdown_timeout: None,
    };
    let (registry, checks, transport) = (Registry::new(), Checks::new(), fixture.transport.clone());
    Manager::new(&fixture.env, &registry, &checks, transport, options).expect("a manager")
}

#[tokio::test(start_paused = true)]
async fn refusal_ends_with_the_term() {
    let outside = Options::default();
    let (fixture, _) = rejecting(outside.clone(), |_| None);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "foreign"}});
    let body = node.to_string().into();
    let created: Result<Value, _> = fixture.client.create(&NODES, "", body).await;
    created.expect("created");
    let manager = manager(&fixture);
    let controller = guarded(&manager, manager.client("test"), outside, 1).expect("a controller");
    let fence = Fence::new(fixture.env.clock.clone());
    let (term, stop) = (fence.open_forever(), CancellationToken::new());
    let refused = async {
        while controller.health().is_ok() {
            fixture.env.clock.sleep(Duration::from_secs(1)).await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(controller.run(&fence, term, stop.clone()), refused);
    assert!(ended.is_ok());
    assert!(controller.health().is_ok(), "a standby is healthy");
}

#[tokio::test(start_paused = true)]
async fn failing_node_list_is_retried_without_a_hot_loop() {
    let outside = Options::default();
    let (fixture, service) = rejecting(outside.clone(), |it| {
        (it.uri().path() == "/api/v1/nodes" && it.method() == Method::GET).then_some(429)
    });
    let mut manager = manager(&fixture);
    let controller = guarded(&manager, manager.client("test"), outside, 1).expect("a controller");
    manager.add(controller);
    drop(
        fixture
            .env
            .tasks
            .spawn(manager.run(None, CancellationToken::new())),
    );
    fixture.env.clock.sleep(Duration::from_mins(1)).await;
    let lists = service.count("GET /api/v1/nodes");
    assert!((2..60).contains(&lists), "{lists} requests");
}
