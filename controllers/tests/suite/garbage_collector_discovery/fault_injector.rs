//! A fault injector for discovery. It disables aggregated discovery unless `aggregate` was called.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coxswain_sandbox::ApiService;
use http::header::ACCEPT;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::intercept::{Intercept, Reply, respond};

#[derive(Clone, Debug)]
pub enum Fault {
    Response(u16, String),
    Hang,
}

type Decide = dyn Fn(&str) -> Option<Fault> + Send + Sync;

#[derive(Clone)]
pub struct FaultInjector {
    service: ApiService,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: Vec<String>,
    decide: Option<Arc<Decide>>,
    aggregated: bool,
    stale: BTreeSet<String>,
    /// Number of concurrent reads of documents, and its maximum.
    reads: (usize, usize),
}

struct ReadGuard(FaultInjector);

impl FaultInjector {
    pub fn new(service: ApiService) -> Self {
        Self {
            service,
            state: Arc::default(),
        }
    }

    /// Chooses faults by path.
    pub fn inject(&self, decide: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static) {
        self.with(|it| it.decide = Some(Arc::new(decide)));
    }

    pub fn clear_faults(&self) {
        self.with(|it| it.decide = None);
    }

    /// Enables aggregated discovery, in which the group-versions of `stale` are stale.
    pub fn aggregate(&self, stale: &[&str]) {
        self.with(|it| {
            it.aggregated = true;
            it.stale = stale.iter().map(ToString::to_string).collect();
        });
    }

    /// Returns the paths requested since the last call: discovery documents and others.
    pub fn take_requests(&self) -> (Vec<String>, Vec<String>) {
        let requests = self.with(|it| std::mem::take(&mut it.requests));
        requests.into_iter().partition(|it| is_document(it))
    }

    /// Returns a document in the unaggregated form.
    pub async fn document(&self, path: &str) -> String {
        let request = Request::get(path).header(ACCEPT, "application/json");
        let request = request.body(Body::empty()).expect("a request");
        let response = self.service.clone().call(request).await.expect("a response");
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        String::from_utf8_lossy(&body).into_owned()
    }

    pub fn max_concurrent_reads(&self) -> usize {
        self.with(|it| it.reads.1)
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start_read(&self) -> ReadGuard {
        self.with(|it| {
            it.reads.0 += 1;
            it.reads.1 = it.reads.1.max(it.reads.0);
        });
        ReadGuard(self.clone())
    }

    /// Responds with an aggregated root in which versions are marked as stale.
    async fn aggregated(&mut self, request: Request<Body>) -> Reply {
        let (parts, body) = self.service.call(request).await?.into_parts();
        let mut list: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
        for group in list["items"].as_array_mut().into_iter().flatten() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            for version in group["versions"].as_array_mut().into_iter().flatten() {
                let of_group = version["version"].as_str().unwrap_or_default();
                let full = if name.is_empty() {
                    of_group.to_owned()
                } else {
                    format!("{name}/{of_group}")
                };
                if self.with(|it| it.stale.contains(&full)) {
                    version["freshness"] = json!("Stale");
                    version["resources"] = json!([]);
                }
            }
        }
        let body = Full::new(Bytes::from(list.to_string())).boxed_unsync();
        Ok(Response::from_parts(parts, body))
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.0.with(|it| it.reads.0 -= 1);
    }
}

impl Intercept for FaultInjector {
    async fn handle(mut self, mut request: Request<Body>) -> Reply {
        let path = request.uri().path().to_owned();
        let agent = request.headers()["user-agent"].to_str()?;
        if agent.ends_with("/admin") {
            return Ok(self.service.call(request).await?);
        }
        let _read = is_document(&path).then(|| self.start_read());
        let (decide, aggregated) = self.with(|it| {
            it.requests.push(path.clone());
            (it.decide.clone(), it.aggregated)
        });
        match decide.and_then(|decide| decide(&path)) {
            Some(Fault::Response(code, body)) => return respond(code, body),
            Some(Fault::Hang) => std::future::pending().await,
            None => {}
        }
        if !is_root(&path) {
            return Ok(self.service.call(request).await?);
        }
        if aggregated {
            return self.aggregated(request).await;
        }
        let plain = HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, plain);
        Ok(self.service.call(request).await?)
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
