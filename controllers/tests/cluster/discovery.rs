//! The kinds of a server: the same in both forms of its documents, and a new one soon.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use coxswain_controllers::garbage_collector::discovery::Discovery;
use coxswain_controllers::garbage_collector::kinds::{Kind, Kinds};
use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::client::Transport;
use coxswain_manager::env::{Env, TaskSet};
use coxswain_tests::{Cluster, Need, Test, fixtures, test, time};
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use kube::client::Body;
use prometheus::Registry;
use serde_json::json;
use tower_service::Service;

use crate::controllers::WAIT_MAX;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(both_forms_of_the_documents_say_the_same).needs(Need::Ours),
        test!(new_kind_is_published_and_watched).needs(Need::Ours),
    ]
}

/// The way to the server, on which the aggregated form is not known if it is `plain`.
#[derive(Clone)]
struct Way {
    client: kube::Client,
    plain: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

struct Bed {
    discovery: Discovery,
    caches: Caches,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: TaskSet,
}

impl Service<Request<Body>> for Way {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        if self.plain && (path == "/api" || path == "/apis") {
            let plain = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::ACCEPT, plain);
        }
        self.asked.lock().expect("no panic").push(path);
        let client = self.client.clone();
        Box::pin(async move { client.send(request).await })
    }
}

fn start(c: &Cluster, plain: bool) -> Bed {
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = Registry::new();
    let way = Way {
        client: c.client(),
        plain,
        asked: Arc::default(),
    };
    let transport =
        Transport::from_service(way.clone(), "server", "test", &env.clock, &registry).expect("a way");
    let reader = transport.client("reader", None);
    let caches = Caches::new(&env, reader, Scope::default(), &registry).expect("caches");
    let client = transport.client("discovery", None);
    let discovery = Discovery::start(&env, &caches, client, &registry).expect("fresh series");
    Bed {
        discovery,
        caches,
        asked: way.asked,
        _tasks: tasks,
    }
}

impl Bed {
    async fn kinds(&self) -> Arc<Kinds> {
        let mut kinds = self.discovery.kinds();
        let known = time::within(WAIT_MAX, kinds.wait_for(Option::is_some)).await;
        let known = known.expect("in time").expect("it lives");
        known.clone().expect("some")
    }

    /// The number of documents of one version that were read.
    fn versions(&self) -> usize {
        let asked = self.asked.lock().expect("no panic");
        let of_all = |path: &str| path == "/api" || path == "/apis";
        asked
            .iter()
            .filter(|path| is_document(path) && !of_all(path))
            .count()
    }
}

fn is_document(path: &str) -> bool {
    match path.split('/').nth(1) {
        Some("api") => path.split('/').count() <= 3,
        _ => path.split('/').count() <= 4,
    }
}

async fn both_forms_of_the_documents_say_the_same(c: Cluster) {
    let (plain, any) = (start(&c, true), start(&c, false));
    // Other tests define kinds of their own: while a group comes or goes, its documents may be listed and not there.
    let alike = time::eventually(WAIT_MAX, async || {
        let (expected, kinds) = (plain.kinds().await, any.kinds().await);
        let whole = plain.discovery.problems().is_empty() && any.discovery.problems().is_empty();
        (whole && own(&kinds) == own(&expected)).then_some((expected, kinds))
    });
    let Some((expected, kinds)) = alike.await else {
        let of = async |bed: &Bed| (own(&*bed.kinds().await), bed.discovery.problems());
        panic!("{:#?}\n{:#?}", of(&plain).await, of(&any).await);
    };
    assert!(own(&kinds).contains(&"apps/v1 deployments".to_owned()));
    for kind in expected.collected().iter().filter(|it| is_own(it)) {
        assert_eq!(kinds.resolve(&kind.api_version, &kind.kind), Some(kind));
    }
    if !c.is_sandbox() && c.version() >= (1, 30) {
        assert_eq!(any.versions(), 0, "in one answer each");
    }
}

/// Built-in kinds: other tests define custom ones meanwhile.
fn own(kinds: &Kinds) -> Vec<String> {
    let collected = kinds.collected().iter().filter(|it| is_own(it));
    let collected = collected.map(|it| format!("{} {}", it.api_version, it.resource.plural));
    collected.collect()
}

fn is_own(kind: &Kind) -> bool {
    !kind.resource.group.contains('.')
}

async fn new_kind_is_published_and_watched(c: Cluster) {
    let bed = start(&c, false);
    bed.kinds().await;
    let mut kinds = bed.discovery.kinds();
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
    let told = time::within(WAIT_MAX, kinds.wait_for(|it| known(it).is_some())).await;
    let kind = known(&told.expect("known").expect("it lives")).expect("it is there");
    let cache = bed.caches.metadata(&kind.resource);
    let filled = time::within(WAIT_MAX, cache.synced()).await;
    assert!(filled.is_some(), "{}", cache.status());

    fixtures::undefine(&c, "newcomer").await;
    let gone = time::within(WAIT_MAX, kinds.wait_for(|it| known(it).is_none())).await;
    gone.expect("gone").expect("it lives");
    bed.caches.forget_metadata(&kind.resource);
}
