//! An API that refuses, and objects that stay: it comes to rest, or asks ever less often.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use coxswain_controllers::hollow_kubelet::guarded;
use coxswain_manager::manager::{Manager, Options as ManagerOptions};
use coxswain_manager::serve::Checks;
use coxswain_sandbox::{Door, ResponseBody};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::Either;
use kube::client::Body;
use tower_service::Service;

use super::*;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Which requests are refused, with which code.
type Refuses = fn(&Request<Body>) -> Option<u16>;

/// The most often that something is tried in ten minutes which always fails: 5 ms doubled 17 times is 10.9 minutes.
const TRIES: usize = 18;

/// So many requests are a hot loop.
const MANY: usize = 1000;

/// A door at which some requests are refused, and all are counted.
#[derive(Clone)]
struct Refusing {
    door: Door,
    refuses: Refuses,
    log: Arc<Mutex<Vec<String>>>,
}

impl Service<Request<Body>> for Refusing {
    type Response = Response<Either<Body, ResponseBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Either<Body, ResponseBody>>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let many = {
                let mut log = this.log.lock().expect("a log");
                log.push(line);
                log.len() > MANY
            };
            if many {
                // Or the clock would never move.
                std::future::pending::<()>().await;
            }
            if let Some(code) = (this.refuses)(&request) {
                let refused = Response::builder().status(code).header("retry-after", "0");
                return Ok(refused.body(Either::Left(Body::empty()))?);
            }
            let (parts, body) = this.door.call(request).await?.into_parts();
            Ok(Response::from_parts(parts, Either::Right(body)))
        })
    }
}

impl Refusing {
    /// How many requests there were that begin with this, so far.
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

fn refusing(options: Options, refuses: Refuses) -> (Bed, Refusing) {
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    let sandbox = Sandbox::new(SandboxOptions {
        env: SandboxEnv::starting_at(start, 7),
        ..SandboxOptions::default()
    });
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let door = Refusing {
        door: sandbox.door(),
        refuses,
        log: Arc::default(),
    };
    let around = |registry: &Registry| {
        Transport::from_service(sandbox.door(), "sandbox", "test", &env.clock, registry).expect("a way")
    };
    let transport = Transport::from_service(door.clone(), "sandbox", "test", &env.clock, &Registry::new());
    let bed = Bed {
        client: around(&Registry::new()).unfenced("test", None),
        transport: transport.expect("a way"),
        env,
        options,
        _tasks: tasks,
    };
    (bed, door)
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_finalizers_hold_is_deleted_once() {
    let (bed, door) = refusing(at_once(), |_| None);
    bed.host();
    let held = bed
        .pod("held", &json!({"metadata": {"finalizers": ["x.io/held"]}}))
        .await;
    let gated = json!({
        "metadata": {"finalizers": ["x.io/held"]},
        "spec": {"schedulingGates": [{"name": "x.io/gate"}]},
    });
    let unbound = bed.pod("unbound", &gated).await;
    bed.until(async |bed| bed.get("held").await["status"]["phase"] == "Running")
        .await;
    bed.delete(&held).await;
    bed.delete(&unbound).await;
    bed.env.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(door.count("DELETE /api/v1/namespaces/default/pods/held"), 1);
    let writes = door.writes();
    bed.env.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(door.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn what_is_always_refused_is_tried_ever_less_often() {
    let cases: [(Refuses, &str); 4] = [
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
    for (refuses, request) in cases {
        let (bed, door) = refusing(at_once(), refuses);
        bed.host();
        bed.pod("p", &json!({})).await;
        bed.env.clock.sleep(Duration::from_mins(10)).await;
        let tries = door.count(request);
        assert!((2..=TRIES).contains(&tries), "{request}: {tries}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_cannot_be_read_are_not_asked_for_in_a_hot_loop() {
    let outside = Options::default();
    let (bed, door) = refusing(outside.clone(), |it| {
        (it.uri().path() == "/api/v1/nodes" && it.method() == Method::GET).then_some(429)
    });
    let options = ManagerOptions {
        name: "coxswain",
        limit: None,
        scope: Scope::default(),
        start_interval: Duration::ZERO,
        shutdown_timeout: None,
    };
    let registry = Registry::new();
    let mut manager = Manager::new(
        &bed.env,
        &registry,
        &Checks::new(),
        bed.transport.clone(),
        options,
    )
    .expect("a manager");
    let controller = guarded(&manager, outside, 1).expect("a controller");
    manager.add(controller);
    drop(bed.env.tasks.spawn(manager.run(None, CancellationToken::new())));
    bed.env.clock.sleep(Duration::from_mins(1)).await;
    let asks = door.count("GET /api/v1/nodes");
    assert!((2..60).contains(&asks), "{asks} requests");
}
