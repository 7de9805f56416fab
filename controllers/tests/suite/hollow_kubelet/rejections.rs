//! Rejected requests and blocked objects: the controller settles or backs off.

use bytes::Bytes;
use http::{Method, Response};
use steersman_controllers::hollow_kubelet::guarded;
use steersman_manager::health::Checks;
use steersman_manager::manager::{Manager, Options as ManagerOptions};
use steersman_sandbox::faults::{Effect, Faults, Matcher, RecordedRequest, Refusal};

use super::*;

/// Returns the status code of a rejected request.
type Reject = fn(&RecordedRequest) -> Option<u16>;

/// Bound on attempts in ten minutes: 5 ms doubled 17 times is 10.9 minutes.
const MAX_ATTEMPTS: usize = 18;

/// More requests are a hot loop.
const HOT_LOOP: usize = 1000;

/// Returns the number of requests that start with `begin`.
fn count(faults: &Faults, begin: &str) -> usize {
    faults.count(&Matcher::any().when({
        let begin = begin.to_owned();
        move |it| format!("{} {}", it.method, it.path).starts_with(&begin)
    }))
}

/// Returns an answer that may be retried at once: 404 as by a webhook that names the pod, other codes without a body.
fn rejection(code: u16) -> Effect {
    if code == 404 {
        return Effect::Refuse(Refusal::new(code).details(json!({"name": "p"})));
    }
    let response = Response::builder().status(code).header("retry-after", "0");
    Effect::Reply(response.body(Bytes::new()).expect("a response"))
}

fn rejecting(options: Options, reject: Reject) -> (Fixture, Faults) {
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    let sandbox = Sandbox::builder()
        .env(SandboxEnv::starting_at(start, 7))
        .start()
        .expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let faults = Faults::new();
    // Otherwise the paused clock would never advance.
    faults.on(Matcher::any()).after(HOT_LOOP).hang();
    faults.on(Matcher::any()).decide(move |it| match reject(it) {
        Some(code) => rejection(code),
        None => Effect::Pass,
    });
    let around = |registry: &Registry| {
        Transport::from_service(sandbox.service(), "sandbox", "test", &env.clock, registry)
            .expect("a transport")
    };
    let service = faults.wrap(sandbox.service());
    let transport = Transport::from_service(
        service,
        "sandbox",
        "test",
        &env.clock,
        &Registry::new("steersman"),
    );
    let fixture = Fixture {
        client: around(&Registry::new("steersman")).unfenced("test", None),
        transport: transport.expect("a transport"),
        env,
        options,
        _tasks: tasks,
    };
    (fixture, faults)
}

#[tokio::test(start_paused = true)]
async fn pod_with_finalizers_is_deleted_once() {
    let (fixture, faults) = rejecting(at_once(), |_| None);
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
    assert_eq!(count(&faults, "DELETE /api/v1/namespaces/default/pods/held"), 1);
    let writes = faults.count(&Matcher::writes());
    fixture.env.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(faults.count(&Matcher::writes()), writes);
}

#[tokio::test(start_paused = true)]
async fn rejected_requests_are_retried_with_backoff() {
    let cases: [(Reject, &str); 5] = [
        (
            |it| it.path.ends_with("/pods/p/binding").then_some(404),
            "POST /api/v1/namespaces/default/pods/p/binding",
        ),
        (
            |it| it.path.ends_with("/pods/p/binding").then_some(403),
            "POST /api/v1/namespaces/default/pods/p/binding",
        ),
        (
            |it| it.path.ends_with("/pods/p/status").then_some(422),
            "PATCH /api/v1/namespaces/default/pods/p/status",
        ),
        (
            |it| it.path.ends_with("/pods/p/status").then_some(429),
            "PATCH /api/v1/namespaces/default/pods/p/status",
        ),
        (
            |it| (it.method == Method::POST && it.path == "/api/v1/nodes").then_some(403),
            "POST /api/v1/nodes",
        ),
    ];
    for (reject, request) in cases {
        let (fixture, faults) = rejecting(at_once(), reject);
        fixture.host();
        fixture.pod("p", &json!({})).await;
        fixture.env.clock.sleep(Duration::from_mins(10)).await;
        let attempts = count(&faults, request);
        assert!((2..=MAX_ATTEMPTS).contains(&attempts), "{request}: {attempts}");
    }
}

fn manager(fixture: &Fixture) -> Manager {
    let options = ManagerOptions::new("steersman");
    let (registry, checks, transport) = (
        Registry::new("steersman"),
        Checks::new(),
        fixture.transport.clone(),
    );
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
    let controller = guarded(&manager, manager.reader("test"), outside, 1).expect("a controller");
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
    let (fixture, faults) = rejecting(outside.clone(), |it| {
        (it.path == "/api/v1/nodes" && it.method == Method::GET).then_some(429)
    });
    let mut manager = manager(&fixture);
    let controller = guarded(&manager, manager.reader("test"), outside, 1).expect("a controller");
    manager.add(controller);
    drop(fixture.env.tasks.spawn(manager.run(CancellationToken::new())));
    fixture.env.clock.sleep(Duration::from_mins(1)).await;
    let lists = count(&faults, "GET /api/v1/nodes");
    assert!((2..60).contains(&lists), "{lists} requests");
}
