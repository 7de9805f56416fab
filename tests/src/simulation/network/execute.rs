//! Executes requests on the API, and reports the commits.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use steersman_sandbox::ResponseBody;
use tower_service::Service as _;

use super::super::body::LinkBody;
use super::super::record::{self, Fact, Sender};
use super::{Execution, Open, State, WakeOne, Wire};

/// The resources whose writes are not counted.
const UNCOUNTED: [&str; 3] = ["leases.coordination.k8s.io", "events", "events.events.k8s.io"];

impl State {
    /// Sends a request to the API. It is executed at once, unless a stale watch cache has to catch up first.
    pub(super) fn execute(&mut self, wire: Box<Wire>) {
        let server = match wire.request.sender {
            Sender::Process(number) => self.processes[number].server,
            Sender::User => 0,
        };
        let execution = self.call(server, &wire);
        self.sequence += 1;
        let id = self.sequence;
        self.open.insert(id, Open::Execution(wire, execution));
        self.go_on(id);
    }

    fn call(&self, server: usize, wire: &Wire) -> Execution {
        let request = Request::from_parts(wire.parts.clone(), Full::new(wire.body.clone()));
        self.servers[server].clone().call(request)
    }

    /// Polls the executions and streams that were woken.
    pub(super) fn poll_woken(&mut self) {
        loop {
            let ids = std::mem::take(&mut *super::lock(&self.woken.0));
            if ids.is_empty() {
                return;
            }
            for id in ids {
                self.go_on(id);
            }
        }
    }

    /// Polls an execution or a stream.
    pub(super) fn go_on(&mut self, id: u64) {
        let waker = self.waker(id);
        let mut context = Context::from_waker(&waker);
        match self.open.remove(&id) {
            None => {}
            Some(Open::Stream(mut stream)) => {
                let is_open = stream.poll(&mut context, &mut self.sequence);
                self.open.extend(is_open.then_some((id, Open::Stream(stream))));
            }
            Some(Open::Execution(wire, mut execution)) => match execution.as_mut().poll(&mut context) {
                Poll::Pending => {
                    self.open.insert(id, Open::Execution(wire, execution));
                }
                Poll::Ready(Ok(response)) => self.executed(wire, response),
            },
        }
    }

    fn waker(&self, id: u64) -> Waker {
        Arc::new(WakeOne {
            id,
            woken: self.woken.clone(),
            is_set: AtomicBool::new(false),
        })
        .into()
    }

    fn executed(&mut self, wire: Box<Wire>, response: Response<ResponseBody>) {
        let number = wire.request.number;
        let code = response.status().as_u16();
        self.log(|| format!("execute #{number} {code}"));
        let at = self.at();
        self.observe(&Fact::Executed {
            request: number,
            at,
            code,
        });
        self.commit(Some(&wire.request));
        if wire.request.verb == "watch" && response.status().is_success() {
            let response = self.open_stream(&wire, response);
            self.respond_with(wire, response);
        } else {
            let response = response.map(|body| LinkBody::Whole(Some(whole(body))));
            self.respond_with(wire, response);
        }
    }

    /// Reports the commits of an execution.
    pub(super) fn commit(&mut self, request: Option<&record::Request>) {
        let commits = self.sandbox.take_commits();
        for commit in commits {
            let at = self.at();
            let commit = record::Commit {
                revision: commit.revision,
                at,
                collection: commit.collection,
                key: commit.key,
                before: commit.before,
                after: commit.after,
                request: request.map(|it| it.number),
                is_restored: false,
            };
            self.log(|| {
                let change = match (&commit.before, &commit.after) {
                    (None, _) => "create",
                    (_, None) => "remove",
                    _ => "change",
                };
                format!(
                    "commit {} {change} {} {}",
                    commit.revision, commit.collection, commit.key
                )
            });
            if commit.collection == "pods" {
                self.pod_changed(&commit);
            }
            if request.is_some_and(|it| it.sender != Sender::User)
                && !UNCOUNTED.contains(&commit.collection.as_str())
            {
                self.counts.writes += 1;
                self.last_write = super::now();
            }
            self.observe(&Fact::Commit(commit));
        }
    }

    /// Executes a request of the user, a node or a model at once. Returns the code and the body.
    pub(in super::super) fn execute_now(
        &mut self,
        method: http::Method,
        uri: &str,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> (u16, Bytes) {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = uri.parse().unwrap_or_default();
        request.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static(content_type),
        );
        let (parts, ()) = request.into_parts();
        let body = body.into();
        let recorded = self.record(Sender::User, &parts, &body);
        self.log(|| format!("user {}", super::send::describe(&recorded)));
        self.observe(&Fact::Sent(recorded.clone()));
        let wire = Wire {
            request: recorded,
            parts,
            body,
            reply: None,
            fault: None,
        };
        let mut execution = self.call(0, &wire);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(response)) = execution.as_mut().poll(&mut context) else {
            return (504, Bytes::new());
        };
        let code = response.status().as_u16();
        let at = self.at();
        self.observe(&Fact::Executed {
            request: wire.request.number,
            at,
            code,
        });
        self.commit(Some(&wire.request));
        (code, whole(response.into_body()))
    }
}

/// Returns a body that the API has sent at once.
fn whole(body: ResponseBody) -> Bytes {
    let mut body = std::pin::pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    match body.as_mut().poll_frame(&mut context) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}
