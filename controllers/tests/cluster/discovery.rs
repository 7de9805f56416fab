//! Discovery of the kinds of an API server.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use kube::client::Body;
use serde_json::json;
use steersman_controllers::garbage_collector::discovery::Discovery;
use steersman_controllers::garbage_collector::kinds::{Kind, Kinds};
use steersman_harness::{Cluster, Need, Test, fixtures, test, time};
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use tower_service::Service;

use crate::controllers::WAIT_MAX;

pub fn tests() -> Vec<Test> {
    vec![
        test!(aggregated_and_unaggregated_discovery_publish_the_same_kinds).needs(Need::Ours),
        test!(new_kind_is_published_and_cached).needs(Need::Ours),
    ]
}

/// Records the paths of requests and disables aggregated discovery if `unaggregated`.
#[derive(Clone)]
struct Interceptor {
    client: kube::Client,
    unaggregated: bool,
    requests: Arc<Mutex<Vec<String>>>,
}

struct Fixture {
    discovery: Discovery,
    caches: Caches,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: TaskSet,
}

impl Service<Request<Body>> for Interceptor {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        if self.unaggregated && (path == "/api" || path == "/apis") {
            let unaggregated = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::ACCEPT, unaggregated);
        }
        self.requests.lock().expect("no panic").push(path);
        let client = self.client.clone();
        Box::pin(async move { client.send(request).await })
    }
}

fn start(c: &Cluster, unaggregated: bool) -> Fixture {
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = Registry::new("steersman");
    let interceptor = Interceptor {
        client: c.client(),
        unaggregated,
        requests: Arc::default(),
    };
    let transport = Transport::from_service(interceptor.clone(), "server", "test", &env.clock, &registry)
        .expect("unregistered metrics");
    let reader = transport.reader("reader", None);
    let caches = Caches::new(&env, reader, Scope::default(), &registry).expect("caches");
    let client = transport.reader("discovery", None);
    let discovery = Discovery::start(&env, &caches, client, &registry).expect("unregistered metrics");
    Fixture {
        discovery,
        caches,
        requests: interceptor.requests,
        _tasks: tasks,
    }
}

impl Fixture {
    async fn kinds(&self) -> Arc<Kinds> {
        let mut kinds = self.discovery.kinds();
        let known = time::within(WAIT_MAX, kinds.wait_for(Option::is_some)).await;
        let known = known.expect("in time").expect("discovery runs");
        known.clone().expect("some")
    }

    /// Returns the number of reads of group-version documents.
    fn versions(&self) -> usize {
        let requests = self.requests.lock().expect("no panic");
        let is_root = |path: &str| path == "/api" || path == "/apis";
        requests
            .iter()
            .filter(|path| is_document(path) && !is_root(path))
            .count()
    }
}

fn is_document(path: &str) -> bool {
    match path.split('/').nth(1) {
        Some("api") => path.split('/').count() <= 3,
        _ => path.split('/').count() <= 4,
    }
}

async fn aggregated_and_unaggregated_discovery_publish_the_same_kinds(c: Cluster) {
    let (unaggregated, any) = (start(&c, true), start(&c, false));
    // Other tests create and delete CRDs: a listed group may have no document.
    let same = time::eventually(WAIT_MAX, async || {
        let (expected, kinds) = (unaggregated.kinds().await, any.kinds().await);
        let complete = unaggregated.discovery.problems().is_empty() && any.discovery.problems().is_empty();
        (complete && builtin(&kinds) == builtin(&expected)).then_some((expected, kinds))
    });
    let Some((expected, kinds)) = same.await else {
        let of = async |f: &Fixture| (builtin(&*f.kinds().await), f.discovery.problems());
        panic!("{:#?}\n{:#?}", of(&unaggregated).await, of(&any).await);
    };
    assert!(builtin(&kinds).contains(&"apps/v1 deployments".to_owned()));
    for kind in expected.collected().iter().filter(|it| is_builtin(it)) {
        assert_eq!(kinds.resolve(&kind.api_version, &kind.kind), Some(kind));
    }
    if !c.is_sandbox() && c.version() >= (1, 30) {
        assert_eq!(any.versions(), 0, "group-version documents were read");
    }
}

/// Returns the built-in kinds: other tests create custom ones.
fn builtin(kinds: &Kinds) -> Vec<String> {
    let collected = kinds.collected().iter().filter(|it| is_builtin(it));
    let collected = collected.map(|it| format!("{} {}", it.api_version, it.resource.plural));
    collected.collect()
}

fn is_builtin(kind: &Kind) -> bool {
    !kind.resource.group.contains('.')
}

async fn new_kind_is_published_and_cached(c: Cluster) {
    let f = start(&c, false);
    f.kinds().await;
    let mut kinds = f.discovery.kinds();
    let known = |kinds: &Option<Arc<Kinds>>| {
        let kinds = kinds.as_ref()?;
        kinds
            .collected()
            .iter()
            .find(|it| &*it.kind == "Newcomer")
            .cloned()
    };
    let body = fixtures::definition("newcomer", &json!({}));
    c.api().post(fixtures::CRDS, body).await.expect(201);
    let published = time::within(WAIT_MAX, kinds.wait_for(|it| known(it).is_some())).await;
    let kind = known(&published.expect("in time").expect("discovery runs")).expect("the kind");
    let cache = f.caches.metadata(&kind.resource);
    let synced = time::within(WAIT_MAX, cache.synced()).await;
    assert!(synced.is_some(), "{}", cache.status());

    fixtures::undefine(&c, "newcomer").await;
    let removed = time::within(WAIT_MAX, kinds.wait_for(|it| known(it).is_none())).await;
    removed.expect("in time").expect("discovery runs");
    f.caches.forget_metadata(&kind.resource);
}
