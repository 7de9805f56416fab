//! The requests of the product, counted by sender and operation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Method;
use http::request::Parts;
use tokio::time::Instant;

/// The kind of a request: its verb, or the purpose of those that do not depend on the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Post,
    Put,
    Patch,
    Delete,
    /// A write of an Event.
    Event,
    /// A read of discovery documents.
    Discover,
    /// A request of the leader election.
    Lease,
}

impl Verb {
    const fn is_write(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch | Self::Delete)
    }

    /// Whether requests of this kind are sent for an idle cluster too.
    const fn is_idle(self) -> bool {
        matches!(self, Self::Watch | Self::Discover | Self::Lease)
    }
}

/// The sender of the requests of the leader election.
const ELECTION: &str = "leader-election";
/// The sender of the requests of the caches.
pub(super) const CACHES: &str = "shared-informers";

/// The sender, which is the last part of the user agent, the verb, and the resource with its subresource.
type Operation = (String, Verb, String);

/// The numbers of requests. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Requests(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    counts: BTreeMap<Operation, u64>,
    last_write: Option<Instant>,
    last_busy: Option<Instant>,
    /// See [`Requests::record_writes`].
    writes: Option<Vec<Write>>,
}

/// The sender of a write, and the namespace of its object.
type Write = (String, String);

impl Requests {
    pub(super) fn count(&self, parts: &Parts, now: Instant) {
        let operation = operation(parts);
        let verb = operation.1;
        let mut state = self.state();
        if let Some(writes) = &mut state.writes
            && verb.is_write()
        {
            writes.push((operation.0.clone(), namespace(parts)));
        }
        *state.counts.entry(operation).or_default() += 1;
        if verb.is_write() {
            state.last_write = Some(now);
        }
        if !verb.is_idle() {
            state.last_busy = Some(now);
        }
    }

    /// Starts a new record of the order of writes.
    pub(super) fn record_writes(&self) {
        self.state().writes = Some(Vec::new());
    }

    /// Returns the number of writes of one controller for other namespaces before its first write for this one; the most of all
    /// controllers. The writes of a controller count from the first write of the one before, which causes its own. None if one of
    /// them has not written yet.
    pub(super) fn writes_before(&self, controllers: &[&str], namespace: &str) -> Option<u64> {
        let state = self.state();
        let mut writes = state.writes.as_deref().unwrap_or_default();
        let mut most = 0;
        for controller in controllers {
            let first = writes
                .iter()
                .position(|it| it.0 == *controller && it.1 == namespace)?;
            let before = writes[..first].iter().filter(|it| it.0 == *controller);
            most = most.max(before.count() as u64);
            writes = &writes[first..];
        }
        Some(most)
    }

    /// Forgets the requests so far.
    pub(super) fn reset(&self) {
        self.state().counts.clear();
    }

    /// Returns the number of requests for which `selects` the sender, the verb and the resource.
    pub(super) fn sum(&self, selects: impl Fn(&str, Verb, &str) -> bool) -> u64 {
        let state = self.state();
        let selected = state
            .counts
            .iter()
            .filter(|((sender, verb, resource), _)| selects(sender, *verb, resource));
        selected.map(|(_, count)| *count).sum()
    }

    /// Returns the numbers of requests by verb.
    pub(super) fn by_verb(&self) -> BTreeMap<Verb, u64> {
        let mut counts = BTreeMap::new();
        for ((_, verb, _), count) in &self.state().counts {
            *counts.entry(*verb).or_default() += count;
        }
        counts
    }

    /// Returns the numbers of requests by sender.
    pub(super) fn by_sender(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for ((sender, _, _), count) in &self.state().counts {
            *counts.entry(sender.clone()).or_default() += count;
        }
        counts
    }

    /// Returns the number of resources that are cached: that the caches have listed or watched.
    pub(super) fn cached(&self) -> u64 {
        let state = self.state();
        let of_caches = state.counts.keys().filter(|(sender, _, _)| sender == CACHES);
        let mut resources: Vec<&str> = of_caches.map(|(_, _, resource)| resource.as_str()).collect();
        resources.sort_unstable();
        resources.dedup();
        resources.len() as u64
    }

    /// Returns the operations with the most requests, for a message.
    pub(super) fn most(&self, number: usize) -> String {
        let state = self.state();
        let mut counts: Vec<_> = state.counts.iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let texts = counts
            .iter()
            .take(number)
            .map(|((sender, verb, resource), count)| format!("{sender} {verb:?} {resource}: {count}"));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Returns the time of the last write, except those of Leases and Events.
    pub(super) fn last_write(&self) -> Option<Instant> {
        self.state().last_write
    }

    /// Returns the time of the last request that an idle product does not send.
    pub(super) fn last_busy(&self) -> Option<Instant> {
        self.state().last_busy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn operation(parts: &Parts) -> Operation {
    let agent = parts.headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let sender = agent.rsplit('/').next().unwrap_or_default().to_owned();
    let mut segments = parts.uri.path().split('/').filter(|it| !it.is_empty());
    // The root, the group unless it is core, and the version.
    let before = if segments.next() == Some("api") { 1 } else { 2 };
    let mut segments: Vec<&str> = segments.skip(before).collect();
    if segments.len() > 2 && segments[0] == "namespaces" && segments[2] != "status" {
        segments.drain(..2);
    }
    let Some(resource) = segments.first() else {
        return (sender, Verb::Discover, String::new());
    };
    let named = segments.len() > 1;
    let resource = match segments.get(2) {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => (*resource).to_owned(),
    };
    let query = parts.uri.query().unwrap_or_default();
    let watches = query
        .split('&')
        .any(|it| matches!(it, "watch=1" | "watch=true" | "watch"));
    let verb = match parts.method {
        _ if sender == ELECTION => Verb::Lease,
        Method::GET if watches => Verb::Watch,
        Method::GET if named => Verb::Get,
        Method::GET => Verb::List,
        _ if resource == "events" => Verb::Event,
        Method::POST => Verb::Post,
        Method::PUT => Verb::Put,
        Method::PATCH => Verb::Patch,
        _ => Verb::Delete,
    };
    (sender, verb, resource)
}

/// Returns the namespace of a request; empty without one.
fn namespace(parts: &Parts) -> String {
    let mut segments = parts.uri.path().split('/');
    segments.find(|it| *it == "namespaces");
    segments.next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn writes_before_those_of_a_namespace_are_counted_by_controller() {
        let requests = Requests::default();
        requests.record_writes();
        let writes = |sender: &str, namespace: &str| {
            let uri = format!("/api/v1/namespaces/{namespace}/pods");
            let request = Request::post(uri).header("user-agent", format!("steersman/{sender}"));
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            requests.count(&parts, crate::load::wall_now().into());
        };
        for (sender, namespace) in [
            ("a", "x"),
            ("b", "x"),
            ("a", "y"),
            ("a", "x"),
            ("b", "x"),
            ("b", "x"),
        ] {
            writes(sender, namespace);
        }
        assert_eq!(requests.writes_before(&["a", "b"], "y"), None);
        writes("b", "y");
        assert_eq!(requests.writes_before(&["a"], "y"), Some(1));
        assert_eq!(requests.writes_before(&["a", "b"], "y"), Some(2));
    }

    #[test]
    fn requests_are_counted_by_sender_verb_and_resource() {
        const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b";
        for (sender, method, uri, verb, resource) in [
            ("gc", Method::GET, "/apis", Verb::Discover, ""),
            ("gc", Method::GET, "/api/v1", Verb::Discover, ""),
            ("gc", Method::GET, "/apis/apps/v1", Verb::Discover, ""),
            (
                "gc",
                Method::GET,
                "/api/v1/namespaces?limit=500",
                Verb::List,
                "namespaces",
            ),
            ("gc", Method::GET, "/api/v1/namespaces/a", Verb::Get, "namespaces"),
            (
                "gc",
                Method::GET,
                "/api/v1/pods?watch=true&x=y",
                Verb::Watch,
                "pods",
            ),
            (
                "gc",
                Method::DELETE,
                "/api/v1/namespaces/a/pods/b",
                Verb::Delete,
                "pods",
            ),
            (
                "gc",
                Method::POST,
                "/api/v1/namespaces/a/pods/b/binding",
                Verb::Post,
                "pods/binding",
            ),
            (
                "gc",
                Method::POST,
                "/api/v1/namespaces/a/events",
                Verb::Event,
                "events",
            ),
            ("gc", Method::GET, LEASE, Verb::Get, "leases"),
            (ELECTION, Method::PUT, LEASE, Verb::Lease, "leases"),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(uri)
                .header("user-agent", format!("steersman/{sender}"));
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(
                operation(&parts),
                (sender.to_owned(), verb, resource.to_owned()),
                "{uri}"
            );
        }
    }
}
