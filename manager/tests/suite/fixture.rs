//! A sandbox with a fault-injecting client, for the tests of small modules.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use coxswain_manager::client::{Client, Transport};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::object::{Key, Resource};
use coxswain_sandbox::{ApiService, Env as SandboxEnv, ResponseBody, Sandbox};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use prometheus::Registry;
use serde_json::Value;
use tower_service::Service;

const START: i64 = 1_800_000_000;

/// A sandbox with a client that may write.
pub struct Fixture {
    pub env: Env,
    pub registry: Registry,
    pub transport: Transport,
    pub client: Client,
    faults: Faults,
    writes: Arc<AtomicUsize>,
    pub tasks: TaskSet,
}

/// The faults of the next writes, in order.
type Faults = Arc<Mutex<Vec<Fault>>>;

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before the API server receives the request.
    Lost,
    /// The API server handles the request and its response is lost.
    ResponseLost,
    /// No response.
    Hangs,
    /// A proxy responds with this status.
    Code(u16),
    /// A proxy responds with 503 and this Retry-After in seconds.
    RetryAfter(u32),
}

/// A transport that injects faults.
struct FaultInjector {
    api_service: ApiService,
    faults: Faults,
    writes: Arc<AtomicUsize>,
}

pub fn fixture() -> Fixture {
    let start = Timestamp::from_second(START).expect("a time");
    let sandbox = Sandbox::builder()
        .env(SandboxEnv::starting_at(start, 7))
        .start()
        .expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let registry = Registry::new();
    let (faults, writes) = (Faults::default(), Arc::default());
    let service = FaultInjector {
        api_service: sandbox.service(),
        faults: Faults::clone(&faults),
        writes: Arc::clone(&writes),
    };
    let transport =
        Transport::from_service(service, "sandbox", "test", &env.clock, &registry).expect("a transport");
    Fixture {
        client: transport.unfenced("test", None),
        env,
        registry,
        transport,
        faults,
        writes,
        tasks,
    }
}

impl Fixture {
    pub async fn create(&self, resource: &Resource, namespace: &str, body: &Value) -> Value {
        let created = self.client.create(resource, namespace, body.to_string().into());
        created.await.expect("created")
    }

    pub async fn get(&self, resource: &Resource, key: &Key) -> Value {
        self.client.get(resource, key).await.expect("an object")
    }

    pub fn inject(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults.into_iter().collect();
    }

    /// Returns the number of writes sent.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// Returns the number of faults that are left.
    pub fn faults_left(&self) -> usize {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Service<Request<Body>> for FaultInjector {
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_write = request.method() != Method::GET;
        self.writes.fetch_add(usize::from(is_write), Ordering::Relaxed);
        let fault = {
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            (is_write && !faults.is_empty()).then(|| faults.remove(0))
        };
        send(&mut self.api_service, request, fault)
    }
}

/// Sends a request to the sandbox, with a fault.
pub fn send(
    api_service: &mut ApiService,
    request: Request<Body>,
    fault: Option<Fault>,
) -> BoxFuture<'static, io::Result<Response<ResponseBody>>> {
    let lost = || Err(io::Error::other("connection reset"));
    let request = match fault {
        Some(Fault::Lost) => return Box::pin(async move { lost() }),
        Some(Fault::Hangs) => return Box::pin(std::future::pending()),
        Some(Fault::Code(_) | Fault::RetryAfter(_)) => {
            Request::get("/nowhere").body(Body::empty()).expect("a request")
        }
        Some(Fault::ResponseLost) | None => request,
    };
    let response = api_service.call(request);
    Box::pin(async move {
        let mut response = response.await.unwrap_or_else(|never: Infallible| match never {});
        match fault {
            Some(Fault::ResponseLost) => return lost(),
            Some(Fault::Code(code)) => *response.status_mut() = code.try_into().expect("a code"),
            Some(Fault::RetryAfter(seconds)) => {
                *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                response.headers_mut().insert("retry-after", seconds.into());
            }
            _ => {}
        }
        Ok(response)
    })
}
