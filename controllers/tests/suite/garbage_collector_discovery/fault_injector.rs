//! The sandbox's fault layer for discovery. It disables aggregated discovery unless `aggregate` was called.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_manager::client::Transport;
use steersman_manager::env::Clock;
use steersman_manager::metrics::Registry;
use steersman_sandbox::ApiService;
use steersman_sandbox::faults::{Effect, FaultService, Faults, Matcher, RecordedRequest, RuleHandle};
use tower_service::Service as _;

#[derive(Clone)]
pub struct FaultInjector {
    faults: Faults,
    service: FaultService<ApiService>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    fault: Option<RuleHandle>,
    /// Forces or marks the roots.
    roots: Option<RuleHandle>,
    /// Number of concurrent reads of documents, and its maximum.
    reads: (usize, usize),
}

struct ReadGuard(Arc<Mutex<State>>);

impl FaultInjector {
    pub fn new(service: ApiService) -> Self {
        let faults = Faults::new();
        let this = Self {
            service: faults.wrap(service),
            faults,
            state: Arc::default(),
        };
        let state = this.state.clone();
        let documents = discovered().when(|it| is_document(&it.path));
        this.faults.on(documents).around(move |_| {
            let guard = ReadGuard::new(&state);
            // The guard ends with the request, also if it is cancelled.
            async { async move |_: u16| drop(guard) }
        });
        this.roots(|roots| {
            roots.change_headers(|headers| {
                headers.insert(ACCEPT, "application/json".parse().expect("a header"));
            })
        });
        this
    }

    pub fn transport(&self, clock: &Clock, registry: &Registry) -> Transport {
        let transport = Transport::from_service(self.service.clone(), "sandbox", "test", clock, registry);
        transport.expect("unregistered metrics")
    }

    /// Chooses faults by path.
    pub fn inject(&self, decide: impl Fn(&str) -> Option<Effect> + Send + Sync + 'static) {
        self.clear_faults();
        let rule = self.faults.on(discovered());
        let rule = rule.decide(move |it| decide(&it.path).unwrap_or(Effect::All(Vec::new())));
        lock(&self.state).fault = Some(rule);
    }

    pub fn clear_faults(&self) {
        if let Some(rule) = lock(&self.state).fault.take() {
            rule.remove();
        }
    }

    /// Enables aggregated discovery, in which the group-versions of `stale` are stale.
    pub fn aggregate(&self, stale: &[&str]) {
        let stale: BTreeSet<String> = stale.iter().map(ToString::to_string).collect();
        self.roots(|roots| roots.change_answer(move |list| mark_stale(list, &stale)));
    }

    fn roots(&self, add: impl FnOnce(steersman_sandbox::faults::RuleBuilder<'_>) -> RuleHandle) {
        let is_root = |it: &RecordedRequest| it.path == "/api" || it.path == "/apis";
        let rule = add(self.faults.on(discovered().when(is_root)));
        if let Some(previous) = lock(&self.state).roots.replace(rule) {
            previous.remove();
        }
    }

    /// Returns the paths requested since the last call: discovery documents and others.
    pub fn take_requests(&self) -> (Vec<String>, Vec<String>) {
        let requests = self.faults.requests(&discovered());
        self.faults.forget();
        let paths = requests.iter().map(|it| it.path.clone());
        paths.partition(|it| is_document(it))
    }

    /// Returns a document in the unaggregated form.
    pub async fn document(&self, path: &str) -> String {
        let request = Request::get(path).header(ACCEPT, "application/json");
        let request = request.body(Body::empty()).expect("a request");
        let response = self.service.inner().clone().call(request).await;
        let body = response.expect("a response").into_body().collect();
        String::from_utf8_lossy(&body.await.expect("a body").to_bytes()).into_owned()
    }

    pub fn max_concurrent_reads(&self) -> usize {
        lock(&self.state).reads.1
    }
}

impl ReadGuard {
    fn new(state: &Arc<Mutex<State>>) -> Self {
        let reads = &mut lock(state).reads;
        reads.0 += 1;
        reads.1 = reads.1.max(reads.0);
        Self(state.clone())
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        lock(&self.0).reads.0 -= 1;
    }
}

/// Matches the requests of the product.
fn discovered() -> Matcher {
    Matcher::any().when(|it| !it.header("user-agent").ends_with("/admin"))
}

/// Marks group-versions of an aggregated root as stale.
fn mark_stale(list: &mut Value, stale: &BTreeSet<String>) {
    for group in list["items"].as_array_mut().into_iter().flatten() {
        let name = group["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for version in group["versions"].as_array_mut().into_iter().flatten() {
            let of_group = version["version"].as_str().unwrap_or_default();
            let full = if name.is_empty() {
                of_group.to_owned()
            } else {
                format!("{name}/{of_group}")
            };
            if stale.contains(&full) {
                version["freshness"] = json!("Stale");
                version["resources"] = json!([]);
            }
        }
    }
}

fn is_document(path: &str) -> bool {
    let depth = path.split('/').count();
    match path.split('/').nth(1) {
        Some("api") => depth <= 3,
        _ => depth <= 4,
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
