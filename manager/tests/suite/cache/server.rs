//! The sandbox's fault layer in front of the caches under test.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Response;
use serde_json::Value;
use steersman_sandbox::ApiService;
use steersman_sandbox::faults::{Effect, FaultService, Faults, Matcher, RecordedRequest};

/// A sandbox behind injected faults. Clones share it.
#[derive(Clone)]
pub struct Server {
    faults: Faults,
    /// Chooses the API server behind the faults.
    route: Faults,
    pub service: FaultService<FaultService<ApiService>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Any read that is not a watch.
    List,
    Watch,
}

/// The fault of a watch stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The stream ends in order.
    End,
    /// The connection breaks.
    Drop,
    /// The stream stays open without data.
    Silence,
}

impl Verb {
    pub fn is(self, request: &RecordedRequest) -> bool {
        match self {
            Self::List => !request.is_write() && request.verb != "watch",
            Self::Watch => request.verb == "watch",
        }
    }
}

/// Returns true if a server without `PartialObjectMetadata` can respond.
pub fn accepts_json(request: &RecordedRequest) -> bool {
    let media_types = request.header("accept").split(',');
    let parameters_aside = |it: &str| it.trim().trim_end_matches(";q=0.9") == "application/json";
    media_types.into_iter().any(parameters_aside)
}

/// Returns a `Status` with this code and reason.
pub fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","code":{code},"reason":"{reason}","message":"for the test"}}"#
    )
}

/// Returns an answer with this code and body, and Retry-After if it is not 0.
pub fn answer(code: u16, body: String, retry_after: u64) -> Effect {
    let mut response = Response::builder().status(code);
    if retry_after > 0 {
        response = response.header("retry-after", retry_after);
    }
    Effect::Reply(response.body(Bytes::from(body)).expect("a response"))
}

/// Rewrites the answer.
pub fn rewrite(rewrite: fn(&str) -> String) -> Effect {
    let change = move |value: &mut Value| {
        *value = serde_json::from_str(&rewrite(&value.to_string())).expect("JSON");
    };
    Effect::ChangeAnswer(Arc::new(change))
}

impl Server {
    pub fn new(service: ApiService) -> Self {
        let (faults, route) = (Faults::new(), Faults::new());
        Self {
            service: faults.wrap(route.wrap(service)),
            faults,
            route,
        }
    }

    /// Applies `rule` to requests until [`Server::heal`].
    pub fn inject_fault(&self, rule: impl FnMut(&RecordedRequest) -> Option<Effect> + Send + 'static) {
        let rule = Mutex::new(rule);
        self.faults.on(Matcher::any()).decide(move |request| {
            let mut rule = rule.lock().unwrap_or_else(PoisonError::into_inner);
            rule(request).unwrap_or(Effect::All(Vec::new()))
        });
    }

    /// Injects a fault into the next `times` requests of a verb.
    pub fn next(&self, verb: Verb, times: usize, fault: Effect) {
        let requests = Matcher::any().when(move |it| verb.is(it));
        self.faults.on(requests).times(times).effect(fault);
    }

    pub fn heal(&self) {
        self.faults.clear();
    }

    /// Injects a fault into all open streams.
    pub fn streams(&self, fault: StreamFault) {
        let any = Matcher::any();
        match fault {
            StreamFault::End => self.faults.end_watches(&any),
            StreamFault::Drop => self.faults.reset_watches(&any),
            StreamFault::Silence => self.faults.silence_watches(&any),
        };
    }

    /// Sends a line on all open streams.
    pub fn inject(&self, line: &str) {
        self.faults.send_line(&Matcher::any(), line);
    }

    /// Replaces the server behind the faults.
    pub fn switch(&self, service: ApiService) {
        self.route.clear();
        self.route.on(Matcher::any()).send_to(service);
    }

    pub fn log(&self) -> Vec<Arc<RecordedRequest>> {
        self.faults.requests(&Matcher::any())
    }

    /// Returns the Accept headers.
    pub fn accepts(&self) -> Vec<String> {
        let log = self.log();
        log.iter().map(|it| it.header("accept").to_owned()).collect()
    }

    /// Returns the number of requests of a verb, without probes of the version.
    pub fn count(&self, verb: Verb) -> usize {
        let is_probe = |it: &RecordedRequest| it.parameter("limit").as_deref() == Some("1");
        let counted = move |it: &RecordedRequest| verb.is(it) && (verb == Verb::Watch || !is_probe(it));
        self.faults.count(&Matcher::any().when(counted))
    }
}
