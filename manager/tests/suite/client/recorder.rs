//! A test double of an API server: the sandbox's fault layer answers every request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use steersman_manager::client::Transport;
use steersman_manager::env::Clock;
use steersman_manager::metrics::Registry;
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Effect, Faults, Matcher, RecordedRequest};

/// Answers with 200 and `{}` unless an answer is queued.
pub struct RecordingServer {
    faults: Faults,
}

impl RecordingServer {
    pub fn new(clock: &Clock, registry: &Registry) -> (Self, Transport) {
        let (faults, default) = (Faults::new(), Faults::new());
        default.on(Matcher::any()).reply(200, "{}");
        let sandbox = Sandbox::builder().start().expect("a sandbox");
        let service = faults.wrap(default.wrap(sandbox.service()));
        let transport = Transport::from_service(service, "api.test", "steersman/test", clock, registry);
        (Self { faults }, transport.expect("fresh metrics"))
    }

    pub fn requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.faults.requests(&Matcher::any())
    }

    /// Queues the answer to the next request.
    pub fn answer(&self, answer: Effect) {
        self.faults.on(Matcher::any()).times(1).effect(answer);
    }

    /// Queues an answer with a code, headers and body.
    pub fn respond(&self, code: u16, headers: &[(&str, &str)], body: &str) {
        let mut response = Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(Bytes::from(body.to_owned()));
        self.answer(Effect::Reply(response.expect("a response")));
    }

    /// Queues an answer with 200 and a body that never arrives.
    pub fn stall(&self) {
        let stalled = Effect::SlowBody(Duration::MAX);
        self.answer(Effect::All(vec![stalled, Effect::reply(200, "{}")]));
    }

    pub fn status(&self, code: u16, reason: &str, more: &str) {
        let body = format!(
            r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"said the server","reason":"{reason}","code":{code}{more}}}"#
        );
        self.respond(code, &[], &body);
    }
}
