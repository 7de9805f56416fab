//! Response bodies at one byte per second: requests end at their deadline, their number is bounded, and caches converge.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use coxswain_manager::cache::{Cache, Caches, Scope};
use coxswain_manager::client::{Client, ClientError, Patch, Transport};
use coxswain_manager::env::{Clock, Env, TaskSet};
use coxswain_manager::object::{Key, MetaObject, Resource};
use coxswain_sandbox::{ApiService, BoxError, ResponseBody, Sandbox};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use jiff::Timestamp;
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};
use tower_service::Service;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const SECOND: Duration = Duration::from_secs(1);

/// Requests whose responses are slow.
type Selector = fn(&Request<Body>) -> bool;

fn any(_: &Request<Body>) -> bool {
    true
}

fn watches(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|it| it.contains("watch="))
}

/// An API server that sends the bodies of selected responses at one byte per second.
#[derive(Clone)]
struct Slow {
    service: ApiService,
    clock: Clock,
    selected: Arc<Mutex<Option<Selector>>>,
    requests: Arc<AtomicUsize>,
}

impl Slow {
    fn select(&self, selected: Option<Selector>) {
        *self.selected.lock().unwrap_or_else(PoisonError::into_inner) = selected;
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Service<Request<Body>> for Slow {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut service, clock) = (self.service.clone(), self.clock.clone());
        self.requests.fetch_add(1, Ordering::Relaxed);
        let selected = *self.selected.lock().unwrap_or_else(PoisonError::into_inner);
        let slow = selected.is_some_and(|selected| selected(&request));
        Box::pin(async move {
            let response = service.call(request).await?;
            Ok(if slow {
                response.map(|body| byte_by_byte(body, clock))
            } else {
                response
            })
        })
    }
}

fn byte_by_byte(body: ResponseBody, clock: Clock) -> ResponseBody {
    let bytes = BodyStream::new(body).flat_map(|frame| {
        let data = frame.ok().and_then(|it| it.into_data().ok()).unwrap_or_default();
        stream::iter((0..data.len()).map(move |at| data.slice(at..=at)))
    });
    let delayed = bytes.then(move |byte: Bytes| {
        let clock = clock.clone();
        async move {
            clock.sleep(SECOND).await;
            Ok(Frame::data(byte))
        }
    });
    StreamBody::new(delayed).boxed_unsync()
}

struct Fixture {
    env: Env,
    slow: Slow,
    transport: Transport,
    client: Client,
    _tasks: TaskSet,
}

fn fixture() -> Fixture {
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
    let sandbox = Sandbox::builder()
        .env(coxswain_sandbox::Env::starting_at(Timestamp::UNIX_EPOCH, 1))
        .start()
        .expect("a sandbox");
    let slow = Slow {
        service: sandbox.service(),
        clock: env.clock.clone(),
        selected: Arc::default(),
        requests: Arc::default(),
    };
    let transport = Transport::from_service(slow.clone(), "sandbox", "test", &env.clock, &Registry::new());
    let transport = transport.expect("a transport");
    Fixture {
        client: transport.unfenced("test", None),
        env,
        slow,
        transport,
        _tasks: tasks,
    }
}

impl Fixture {
    async fn create(&self, name: &str) -> Result<Value, ClientError> {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.client
            .create(&MAPS, "default", body.to_string().into())
            .await
    }

    fn caches(&self) -> Caches {
        let reader = self.transport.client("reader", None);
        Caches::new(&self.env, reader, Scope::default(), &Registry::new()).expect("caches")
    }
}

#[tokio::test(start_paused = true)]
async fn slow_body_fails_a_request_at_its_deadline() {
    let f = fixture();
    f.create("a").await.expect("created");
    f.slow.select(Some(any));
    let key = Key::new("default", "a");
    let begun = f.env.clock.now();
    let read: Result<Value, _> = f.client.get(&MAPS, &key).await;
    assert!(matches!(read, Err(ClientError::Timeout { .. })), "{read:?}");
    assert_eq!(f.env.clock.now() - begun, 30 * SECOND);

    // The API server has executed it: the outcome is unknown, not a failure.
    let created = f.create("b").await.expect_err("too slow");
    assert!(created.is_unknown_outcome(), "{created:?}");
    assert_eq!(f.env.clock.now() - begun, 60 * SECOND);
    let change = json!({"data": {"a": "b"}});
    let patched: Result<Value, _> = f.client.patch(&MAPS, &key, Patch::merge(&change)).await;
    assert!(patched.expect_err("too slow").is_unknown_outcome());
    assert_eq!(f.env.clock.now() - begun, 63 * SECOND);

    // An error whose Status does not arrive.
    let missing: Result<Value, _> = f.client.get(&MAPS, &Key::new("default", "missing")).await;
    let missing = missing.expect_err("not found");
    assert!(
        !missing.is_not_found("missing"),
        "no proof of absence: {missing:?}"
    );
    assert_eq!(f.env.clock.now() - begun, 93 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn slow_lists_are_retried_with_backoff_and_the_cache_syncs_after_recovery() {
    let f = fixture();
    f.create("a").await.expect("created");
    f.slow.select(Some(any));
    let before = f.slow.requests();
    let caches = f.caches();
    let maps: Cache<MetaObject> = caches.of(&MAPS);
    f.env.clock.sleep(600 * SECOND).await;
    assert!(!maps.is_synced());
    // Each list takes its deadline of 30 s. The backoff grows from 0.8 s to 30 s, plus as much jitter.
    let lists = f.slow.requests() - before;
    assert!((10..=13).contains(&lists), "{lists} requests in ten minutes");
    f.slow.select(None);
    // The list in flight, and the longest backoff.
    let synced = f.env.clock.timeout(91 * SECOND, maps.synced()).await;
    assert!(synced.is_some());
    assert_eq!(maps.len(), 1);
}

/// Each watch receives bytes, but no event within the idle timeout.
#[tokio::test(start_paused = true)]
async fn slow_watches_do_not_keep_the_cache_stale() {
    let f = fixture();
    f.create("a").await.expect("created");
    f.slow.select(Some(watches));
    let caches = f.caches();
    let maps: Cache<MetaObject> = caches.of(&MAPS);
    maps.synced().await;
    f.env.clock.sleep(SECOND).await;
    f.create("b").await.expect("created");
    let before = f.slow.requests();
    // Two watches of 150 s without an event, then a list.
    f.env.clock.sleep(310 * SECOND).await;
    assert_eq!(maps.len(), 2, "the cache is stale");
    f.env.clock.sleep(3600 * SECOND).await;
    let requests = f.slow.requests() - before;
    assert!(requests < 80, "{requests} requests in an hour");
}
