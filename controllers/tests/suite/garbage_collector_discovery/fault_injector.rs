//! The way to the API: it keeps what is asked for, breaks it when told, and leads to a server that does not know the aggregated
//! form unless told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coxswain_sandbox::Door;
use http::header::ACCEPT;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::intercept::{Intercept, Reply, respond};

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is answered with this code and body.
    Response(u16, String),
    /// It is never answered.
    Hang,
}

type Rule = dyn Fn(&str) -> Option<Fault> + Send + Sync;

#[derive(Clone)]
pub struct FaultInjector {
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
struct Reading(FaultInjector);

impl FaultInjector {
    pub fn new(door: Door) -> Self {
        Self {
            door,
            state: Arc::default(),
        }
    }

    /// From now on `rule` says what becomes of a path.
    pub fn rule(&self, rule: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static) {
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

    /// A document, in the plain form, as the server answers it now.
    pub async fn document(&self, path: &str) -> String {
        let request = Request::get(path).header(ACCEPT, "application/json");
        let request = request.body(Body::empty()).expect("a request");
        let answer = self.door.clone().call(request).await.expect("an answer");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        String::from_utf8_lossy(&body).into_owned()
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

    /// The answer of a root in the aggregated form, with what is stale.
    async fn aggregated(&mut self, request: Request<Body>) -> Reply {
        let (parts, body) = self.door.call(request).await?.into_parts();
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

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.with(|it| it.reading.0 -= 1);
    }
}

impl Intercept for FaultInjector {
    async fn handle(mut self, mut request: Request<Body>) -> Reply {
        let path = request.uri().path().to_owned();
        let agent = request.headers()["user-agent"].to_str()?;
        if agent.ends_with("/admin") {
            return Ok(self.door.call(request).await?);
        }
        let _reading = is_document(&path).then(|| self.read());
        let (rule, aggregated) = self.with(|it| {
            it.asked.push(path.clone());
            (it.rule.clone(), it.aggregated)
        });
        match rule.and_then(|rule| rule(&path)) {
            Some(Fault::Response(code, body)) => {
                return respond(code, body);
            }
            Some(Fault::Hang) => std::future::pending().await,
            None => {}
        }
        if !is_root(&path) {
            return Ok(self.door.call(request).await?);
        }
        if aggregated {
            return self.aggregated(request).await;
        }
        let plain = HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, plain);
        Ok(self.door.call(request).await?)
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
