//! Prints what the sandbox can do: `cargo bench -p steersman-sandbox`.
//!
//! 50,000 small objects are written, listed, watched and counted, through the API service and without a socket. Times depend on
//! the machine; compare them between two versions on one machine, not between machines.

use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use steersman_sandbox::{ApiService, Limits, Sandbox};
use tower_service::Service as _;

const OBJECTS: u32 = 50_000;
const PODS: &str = "/api/v1/namespaces/default/pods";

fn main() {
    // `cargo test --benches` only wants to know that it builds and runs.
    let objects = if std::env::args().any(|a| a == "--bench") {
        OBJECTS
    } else {
        500
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(run(objects));
}

async fn run(objects: u32) {
    let history = Limits {
        entries: 2 * objects as usize,
        bytes: usize::MAX,
    };
    let sandbox = Sandbox::builder().history(history).start().expect("a sandbox");
    let service = sandbox.service();
    let from = sandbox.revision();
    let before = resident();
    let new_pods = requests(objects, |n| request(Method::POST, PODS, &pod(n)));
    measure("create", objects, send_all(&service, new_pods)).await;
    let created = sandbox.revision();
    let (count, bytes) = sandbox.size();
    println!("{count} objects, {} bytes of JSON each", bytes / count.max(1));
    println!(
        "{} bytes of memory for each, with its history",
        (resident().saturating_sub(before)) / u64::from(objects)
    );
    let annotated = json!({"metadata": {"annotations": {"n": "1"}}});
    let patches = requests(objects, |n| {
        request(Method::PATCH, &format!("{PODS}/pod-{n}"), &annotated)
    });
    measure("patch", objects, send_all(&service, patches)).await;
    let by_label = format!("{PODS}?labelSelector=shard%3D7");
    for (name, path) in [("list", PODS), ("list by label", &by_label)] {
        let list = requests(1, |_| request(Method::GET, path, &Value::Null));
        measure(name, objects, send_all(&service, list)).await;
    }
    measure("watch, replay of the creates", objects, async {
        let path = format!("{PODS}?watch=1&resourceVersion={from}");
        watch(&service, &path, created - from).await;
    })
    .await;
    let deletes = requests(objects, |n| {
        request(Method::DELETE, &format!("{PODS}/pod-{n}"), &Value::Null)
    });
    measure("delete", objects, send_all(&service, deletes)).await;
}

/// Builds requests, so that the measurements contain the work of the sandbox only.
fn requests(count: u32, request: impl Fn(u32) -> Request<Full<Bytes>>) -> Vec<Request<Full<Bytes>>> {
    (0..count).map(request).collect()
}

async fn measure(what: &str, objects: u32, work: impl Future<Output = ()>) {
    #[expect(clippy::disallowed_methods, reason = "a benchmark is about real time")]
    let start = Instant::now();
    work.await;
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {:.0} objects/s", f64::from(objects) / seconds);
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
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    request.body(Full::new(bytes)).expect("a request")
}

async fn send_all(service: &ApiService, requests: Vec<Request<Full<Bytes>>>) {
    for request in requests {
        send(service, request).await;
    }
}

async fn send(service: &ApiService, request: Request<Full<Bytes>>) {
    let Ok(response) = service.clone().call(request).await;
    let status = response.status();
    let answer = response
        .into_body()
        .collect()
        .await
        .expect("bodies do not fail")
        .to_bytes();
    assert!(status.is_success(), "{}", String::from_utf8_lossy(&answer));
}

/// Reads a watch until it has brought `events`.
async fn watch(service: &ApiService, path: &str, events: u64) {
    let request = Request::get(path)
        .body(Full::new(Bytes::new()))
        .expect("a request");
    let Ok(response) = service.clone().call(request).await;
    let mut body = response.into_body();
    let mut seen = 0;
    while seen < events {
        let frame = body
            .frame()
            .await
            .expect("more to come")
            .expect("bodies do not fail");
        let data = frame.into_data().unwrap_or_default();
        seen += data.split(|b| *b == b'\n').count() as u64 - 1;
    }
}

fn pod(n: u32) -> Value {
    json!({
        "metadata": {"name": format!("pod-{n}"), "labels": {"app": "web", "shard": (n % 100).to_string()}},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/web:1.2.3", "ports": [{"containerPort": 80}]}]},
    })
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4096
}
