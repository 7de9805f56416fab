//! The way to the API: it keeps what is asked for, breaks it when told, and can speak the aggregated form, which the sandbox
//! does not.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use coxswain_sandbox::{Door, ResponseBody};
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// It is answered with this code and body.
    Answer(u16, String),
    /// It is never answered.
    Hang,
}

type Rule = dyn Fn(&str) -> Option<Act> + Send + Sync;

#[derive(Clone)]
pub struct Way {
    door: Door,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    asked: Vec<String>,
    rule: Option<Arc<Rule>>,
    aggregated: bool,
    stale: BTreeSet<String>,
    /// How many documents are being read, and the most that were at once.
    reading: (usize, usize),
}

/// A document is being read.
struct Reading(Way);

impl Way {
    pub fn new(door: Door) -> Self {
        Self {
            door,
            state: Arc::default(),
        }
    }

    /// From now on `rule` says what becomes of a path.
    pub fn rule(&self, rule: impl Fn(&str) -> Option<Act> + Send + Sync + 'static) {
        self.with(|it| it.rule = Some(Arc::new(rule)));
    }

    pub fn heal(&self) {
        self.with(|it| it.rule = None);
    }

    /// From now on roots are answered in the aggregated form, in which these versions are stale.
    pub fn aggregate(&self, stale: &[&str]) {
        self.with(|it| {
            it.aggregated = true;
            it.stale = stale.iter().map(ToString::to_string).collect();
        });
    }

    /// What was asked for since the last time, with the paths of documents apart from the others.
    pub fn asked(&self) -> (Vec<String>, Vec<String>) {
        let asked = self.with(|it| std::mem::take(&mut it.asked));
        asked.into_iter().partition(|it| is_document(it))
    }

    /// The most documents that were read at once.
    pub fn most_at_once(&self) -> usize {
        self.with(|it| it.reading.1)
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self) -> Reading {
        self.with(|it| {
            it.reading.0 += 1;
            it.reading.1 = it.reading.1.max(it.reading.0);
        });
        Reading(self.clone())
    }

    async fn get(&mut self, path: &str) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let response = self.door.call(Request::get(path).body(Body::empty())?).await?;
        let body = response.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body)?)
    }

    /// What is below a root, in one answer.
    async fn aggregated(&mut self, root: &str) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let listed = self.get(root).await?;
        let core = json!([{"name": "", "versions": [{"groupVersion": "v1", "version": "v1"}]}]);
        let groups = if root == "/api" {
            core
        } else {
            listed["groups"].clone()
        };
        let mut items = Vec::new();
        for group in groups.as_array().into_iter().flatten() {
            let mut versions = Vec::new();
            for version in group["versions"].as_array().into_iter().flatten() {
                let name = version["groupVersion"].as_str().unwrap_or_default();
                if self.with(|it| it.stale.contains(name)) {
                    versions
                        .push(json!({"version": version["version"], "freshness": "Stale", "resources": []}));
                    continue;
                }
                let document = self.get(&format!("{root}/{name}")).await?;
                let resources = document["resources"].as_array().into_iter().flatten();
                let resources = resources.filter(|it| !it["name"].as_str().unwrap_or_default().contains('/'));
                let resources: Vec<Value> = resources
                    .map(|it| {
                        let scope = if it["namespaced"] == true { "Namespaced" } else { "Cluster" };
                        json!({"resource": it["name"], "responseKind": {"kind": it["kind"]}, "scope": scope, "verbs": it["verbs"]})
                    })
                    .collect();
                versions.push(
                    json!({"version": version["version"], "freshness": "Current", "resources": resources}),
                );
            }
            items.push(json!({"metadata": {"name": group["name"]}, "versions": versions}));
        }
        Ok(json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.with(|it| it.reading.0 -= 1);
    }
}

impl Service<Request<Body>> for Way {
    type Response = Response<ResponseBody>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let agent = request.headers()["user-agent"].to_str()?;
            if agent.ends_with("/admin") {
                return Ok(this.door.call(request).await?);
            }
            let _reading = is_document(&path).then(|| this.read());
            let (rule, aggregated) = this.with(|it| {
                it.asked.push(path.clone());
                (it.rule.clone(), it.aggregated)
            });
            match rule.and_then(|rule| rule(&path)) {
                Some(Act::Answer(code, body)) => {
                    let body = Full::new(Bytes::from(body)).boxed_unsync();
                    return Ok(Response::builder().status(code).body(body)?);
                }
                Some(Act::Hang) => std::future::pending().await,
                None => {}
            }
            let accept = request.headers()["accept"].to_str()?;
            if aggregated && is_root(&path) && accept.contains("as=APIGroupDiscoveryList") {
                let body = this.aggregated(&path).await?;
                let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
                let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                return Ok(Response::builder()
                    .header("content-type", content_type)
                    .body(body)?);
            }
            Ok(this.door.call(request).await?)
        })
    }
}

fn is_root(path: &str) -> bool {
    path == "/api" || path == "/apis"
}

fn is_document(path: &str) -> bool {
    let depth = path.split('/').count();
    match path.split('/').nth(1) {
        Some("api") => depth <= 3,
        _ => depth <= 4,
    }
}
