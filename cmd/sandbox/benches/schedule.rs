//! Prints the time of a fork and of single requests to it: `cargo bench -p coxswain-sandbox --bench schedule`.
//!
//! A simulation forks a prepared sandbox for each schedule and sends some dozens of requests in the process. Each round does
//! the same; the median of the rounds is printed, in microseconds. Times depend on the machine; compare them between two
//! versions on one machine.

use std::time::{Duration, Instant};

use bytes::Bytes;
use coxswain_sandbox::{ApiService, Env, ResponseBody, Sandbox};
use futures_util::FutureExt as _;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// The number of requests of each kind in one round.
const COUNT: u32 = 10;

fn main() {
    // `cargo test --benches` only wants to know that it builds and runs.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        2_000
    } else {
        2
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // Timers of watches need the context of a runtime; nothing waits for it.
    let _context = runtime.enter();
    for (title, managed_fields) in [("default options", true), ("without managed fields", false)] {
        println!("{title}:");
        let base = base(managed_fields);
        let mut times: Vec<(&str, Vec<Duration>)> = Vec::new();
        for _ in 0..rounds {
            let mut round = Round { times: Vec::new() };
            round.run(&base);
            for (at, (name, time)) in round.times.into_iter().enumerate() {
                if times.len() == at {
                    times.push((name, Vec::new()));
                }
                times[at].1.push(time);
            }
        }
        for (name, mut times) in times {
            times.sort_unstable();
            println!("{name:>32}: {:8.2}", times[times.len() / 2].as_secs_f64() * 1e6);
        }
    }
}

/// A sandbox with a `ReplicaSet` and ten pods.
fn base(managed_fields: bool) -> Sandbox {
    let env = Env::starting_at(jiff::Timestamp::UNIX_EPOCH, 7);
    let builder = Sandbox::builder().env(env).managed_fields(managed_fields);
    let sandbox = builder.start().expect("a sandbox");
    let mut service = sandbox.service();
    done(&mut service, request(Method::POST, SETS, &replica_set()), 201);
    for n in 0..COUNT {
        done(&mut service, request(Method::POST, PODS, &pod("old", n)), 201);
    }
    sandbox
}

/// The times of one round.
struct Round {
    times: Vec<(&'static str, Duration)>,
}

impl Round {
    fn run(&mut self, base: &Sandbox) {
        let fork = self.time("fork", 1, || base.fork());
        let mut service = fork.service();
        let service = &mut service;
        let first = request(Method::POST, PODS, &pod("first", 0));
        self.time("first create pod", 1, || done(service, first, 201));
        let create = requests(|n| request(Method::POST, PODS, &pod("new", n)));
        self.send("create pod", service, create, 201);
        let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.7", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let patch = requests(|n| request(Method::PATCH, &format!("{PODS}/new-{n}/status"), &status));
        self.send("merge patch pod status", service, patch, 200);
        let put = requests(|n| {
            let mut set = replica_set();
            set["status"] =
                json!({"replicas": n, "readyReplicas": n, "availableReplicas": n, "observedGeneration": 1});
            request(Method::PUT, &format!("{SETS}/web/status"), &set)
        });
        self.send("update replicaset status", service, put, 200);
        let get = requests(|n| request(Method::GET, &format!("{PODS}/new-{n}"), &Value::Null));
        self.send("get pod", service, get, 200);
        let delete = requests(|n| {
            let path = format!("{PODS}/new-{n}?gracePeriodSeconds=0");
            request(Method::DELETE, &path, &Value::Null)
        });
        self.send("delete pod", service, delete, 200);
        let delete = request(
            Method::DELETE,
            &format!("{PODS}/first-0?gracePeriodSeconds=0"),
            &Value::Null,
        );
        done(service, delete, 200);
        let list = requests(|_| request(Method::GET, PODS, &Value::Null));
        self.send("list 10 pods", service, list, 200);
        self.watch(service);
        drop(service.clone());
        self.time("drop fork", 1, || drop(fork));
    }

    fn watch(&mut self, service: &mut ApiService) {
        let list = response(service, request(Method::GET, PODS, &Value::Null), 200);
        let list: Value = serde_json::from_slice(&content(list)).expect("JSON");
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
        let path = format!("{PODS}?watch=1&allowWatchBookmarks=true&resourceVersion={version}");
        let open = requests(|_| request(Method::GET, &path, &Value::Null));
        let mut watches = self.time("open watch", COUNT, || {
            let open = open.into_iter().map(|it| response(service, it, 200).into_body());
            open.collect::<Vec<_>>()
        });
        for watch in &mut watches {
            assert!(watch.frame().now_or_never().is_none(), "no change yet");
        }
        let path = format!("{PODS}/old-0");
        let [mut change, mut read] = [Duration::ZERO; 2];
        for n in 0..COUNT {
            let labels = json!({"metadata": {"labels": {"n": n.to_string()}}});
            let patch = request(Method::PATCH, &path, &labels);
            let start = now();
            done(service, patch, 200);
            change += start.elapsed();
            let start = now();
            for watch in &mut watches {
                let frame = watch.frame().now_or_never().flatten().expect("an event");
                drop(frame.expect("bodies do not fail"));
                assert!(watch.frame().now_or_never().is_none(), "one event");
            }
            read += start.elapsed();
        }
        self.times.push(("patch with 10 watches", change / COUNT));
        self.times.push(("watch event", read / COUNT / COUNT));
        self.time("close watch", COUNT, || drop(watches));
    }

    fn send(
        &mut self,
        name: &'static str,
        service: &mut ApiService,
        requests: Vec<Request<Full<Bytes>>>,
        code: u16,
    ) {
        self.time(name, COUNT, || {
            for request in requests {
                done(service, request, code);
            }
        });
    }

    fn time<T>(&mut self, name: &'static str, count: u32, work: impl FnOnce() -> T) -> T {
        let start = now();
        let done = work();
        self.times.push((name, start.elapsed() / count));
        done
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark is about real time")]
fn now() -> Instant {
    Instant::now()
}

fn requests(request: impl Fn(u32) -> Request<Full<Bytes>>) -> Vec<Request<Full<Bytes>>> {
    (0..COUNT).map(request).collect()
}

fn request(method: Method, path: &str, body: &Value) -> Request<Full<Bytes>> {
    let bytes = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let kind = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("content-type", kind)
        .header("user-agent", "coxswain/0.1.0")
        .body(Full::new(bytes))
        .expect("a request")
}

/// Sends a request and reads the answer.
fn done(service: &mut ApiService, request: Request<Full<Bytes>>, code: u16) {
    drop(content(response(service, request, code)));
}

fn response(service: &mut ApiService, request: Request<Full<Bytes>>, code: u16) -> Response<ResponseBody> {
    let Ok(response) = service.call(request).now_or_never().expect("no request waits");
    if response.status() != code {
        panic!("{}", String::from_utf8_lossy(&content(response)));
    }
    response
}

fn content(response: Response<ResponseBody>) -> Bytes {
    let body = response.into_body().collect().now_or_never();
    body.expect("a whole body")
        .expect("bodies do not fail")
        .to_bytes()
}

fn replica_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "pod-template-hash": "5d8c7f9b6"}},
        "spec": {
            "replicas": 10, "selector": {"matchLabels": {"app": "web", "pod-template-hash": "5d8c7f9b6"}},
            "template": template(),
        },
    })
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web", "pod-template-hash": "5d8c7f9b6"}},
        "spec": {"containers": [
            {"name": "main", "image": "registry.example.com/web:1.2.3", "ports": [{"containerPort": 80}]}
        ]},
    })
}

fn pod(prefix: &str, n: u32) -> Value {
    let mut pod = template();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = format!("{prefix}-{n}").into();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "01234567-89ab-4cde-8f01-23456789abcd",
        "controller": true, "blockOwnerDeletion": true,
    }]);
    pod
}
