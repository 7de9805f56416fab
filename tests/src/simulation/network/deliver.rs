//! Delivers one message.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde_json::Value;
use steersman_manager::env;
use tokio::sync::{mpsc, oneshot};

use super::super::body::{LinkBody, reset};
use super::super::fault::Class;
use super::super::record::{Fact, Request, Sender};
use super::faults::{Effect, status};
use super::send::is_write;
use super::{Answer, Content, Ending, State, Wire, wake_at};

impl State {
    /// Returns the slot of a process to start.
    pub(super) fn deliver(&mut self, content: Content) -> Option<usize> {
        match content {
            Content::Request(wire) => self.arrive(wire),
            Content::Answer(wire, answer) => self.answer(*wire, answer),
            Content::Node(key) => self.run_node(&key),
            Content::Turn(turn) => turn.start(),
            Content::Start(slot) => return Some(slot),
            Content::End(Ending::Lag(server)) => {
                self.log(|| format!("API server {server} catches up"));
                self.servers[server].lag().release();
            }
            Content::End(Ending::Thaw(process)) => {
                self.log(|| format!("the clock of process {process} continues"));
                self.processes[process].clock.inject(env::Fault::Thaw);
            }
        }
        None
    }

    /// A request arrives at the API, or does not.
    fn arrive(&mut self, mut wire: Box<Wire>) {
        let variant = wire.fault.map_or(0, |it| it.variant);
        let is_gone = wire.reply.as_ref().is_some_and(oneshot::Sender::is_closed);
        if is_gone && self.random.percent(50) {
            // The sender has given up: the request was cancelled before it arrived.
            return;
        }
        match self.outage(&wire.request) {
            Some(Effect::Refuse(code)) => return self.respond(wire, code),
            Some(Effect::NotServed) => return self.respond_not_served(wire),
            Some(Effect::Disconnect) => return self.fail(*wire),
            Some(Effect::Delay(_)) | None => {}
        }
        if self.changes_templates {
            wire.body = changed_template(&wire);
        }
        match wire.fault.map(|it| it.class) {
            Some(Class::F05) => self.fail(*wire),
            Some(Class::F13) => {
                self.log(|| format!("no response to #{}", wire.request.number));
                // Dropped with its reply: the sender waits.
            }
            Some(Class::F07) => self.respond(wire, 409),
            Some(Class::F08) => self.respond(wire, 4091),
            Some(Class::F09) => self.respond(wire, 404),
            Some(Class::F10) => self.respond(wire, 422),
            Some(Class::F11) => self.respond(wire, 429),
            Some(Class::F12) => {
                self.start_outage(&wire.request, variant);
                self.respond(wire, if variant.is_multiple_of(2) { 503 } else { 500 });
            }
            Some(Class::Late) => {
                let late = Wire {
                    request: wire.request.clone(),
                    parts: wire.parts.clone(),
                    body: wire.body.clone(),
                    reply: None,
                    fault: None,
                };
                let delay = Duration::from_secs(u64::from(1 + variant % 40));
                self.push(Content::Request(Box::new(late)), Some(delay));
                self.fail(*wire);
            }
            Some(Class::F06) => {
                let again = Wire {
                    request: wire.request.clone(),
                    parts: wire.parts.clone(),
                    body: wire.body.clone(),
                    reply: None,
                    fault: None,
                };
                wire.fault = None;
                self.execute(wire);
                self.push(
                    Content::Request(Box::new(again)),
                    Some(Duration::from_millis(u64::from(variant % 3) * 500)),
                );
            }
            _ => self.execute(wire),
        }
    }

    /// The request was executed, and its response is on the way.
    pub(super) fn respond_with(&mut self, wire: Box<Wire>, response: Response<LinkBody>) {
        match wire.fault.map(|it| it.class) {
            Some(Class::F02) => {
                self.coverage.after(&wire.request);
                self.crash(wire.request.sender);
            }
            Some(Class::F04) => self.fail(*wire),
            Some(Class::F14) => {
                let response = slow(response);
                self.push(Content::Answer(wire, Ok(response)), None);
            }
            _ => {
                if let Some(Effect::Delay(time)) = self.outage(&wire.request) {
                    self.report(Class::F14);
                    self.push(Content::Answer(wire, Ok(response)), Some(time));
                } else {
                    self.transmit(Content::Answer(wire, Ok(response)));
                }
            }
        }
    }

    /// An API server that does not serve the resource yet has no handler for its path.
    fn respond_not_served(&mut self, wire: Box<Wire>) {
        let mut response = Response::new(LinkBody::Whole(Some("404 page not found\n".into())));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        self.push(Content::Answer(wire, Ok(response)), None);
    }

    /// The API refuses the request without executing it. The code 4091 is a conflict with an existing object.
    fn respond(&mut self, wire: Box<Wire>, code: u16) {
        let (code, reason) = if code == 4091 {
            (409, "AlreadyExists")
        } else {
            (code, "")
        };
        let body = status(code, reason, &wire.request);
        let mut response = Response::new(LinkBody::Whole(Some(body.into())));
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if code == 429 {
            let seconds = 1 + wire.fault.map_or(0, |it| it.variant) % 30;
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        self.push(Content::Answer(wire, Ok(response)), None);
    }

    /// The connection breaks.
    pub(super) fn fail(&mut self, wire: Wire) {
        self.push(Content::Answer(Box::new(wire), Err(reset())), None);
    }

    fn answer(&mut self, wire: Wire, answer: Answer) {
        let Wire {
            request,
            reply,
            fault,
            ..
        } = wire;
        let Some(reply) = reply else {
            return;
        };
        let code = answer.as_ref().ok().map(|it| it.status().as_u16());
        self.log(|| format!("answer #{} {code:?}", request.number));
        let at = self.at();
        self.observe(&Fact::Answered {
            request: request.number,
            at,
            code,
        });
        if let (Sender::Process(process), "list", Ok(response)) = (request.sender, request.verb, &answer)
            && let LinkBody::Whole(Some(body)) = response.body()
            && response.status().is_success()
            && let Some(revision) = super::streams::revision(body)
        {
            // The process applies it before the next step.
            self.delivered.push(Fact::Delivered {
                process,
                collection: request.collection.clone(),
                revision,
                request: request.number,
            });
        }
        if request.verb == "watch" && answer.is_ok() {
            self.watch_answered(request.number);
        }
        let _ = reply.send(answer);
        if fault.is_some_and(|it| it.class == Class::F03) {
            self.crash(request.sender);
        } else if is_write(&request) {
            self.coverage.seen(&request);
        }
    }
}

/// Returns the body of a request after a webhook that adds an annotation to the templates of new `ReplicaSets`.
fn changed_template(wire: &Wire) -> Bytes {
    let Request { verb, collection, .. } = &wire.request;
    if *verb != "create" || collection != "replicasets.apps" {
        return wire.body.clone();
    }
    let Ok(mut object) = serde_json::from_slice::<Value>(&wire.body) else {
        return wire.body.clone();
    };
    object["spec"]["template"]["metadata"]["annotations"]["example.com/injected"] = "true".into();
    object.to_string().into()
}

/// Splits a response into parts that arrive one second after another.
fn slow(response: Response<LinkBody>) -> Response<LinkBody> {
    response.map(|body| {
        let LinkBody::Whole(Some(content)) = body else {
            return body;
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let size = content.len().div_ceil(8).max(1);
        let parts = content.chunks(size).map(bytes::Bytes::copy_from_slice);
        for (second, part) in parts.enumerate() {
            let at = super::now() + Duration::from_secs(second as u64);
            let sender = sender.clone();
            later(at, sender, part);
        }
        LinkBody::Parts(receiver)
    })
}

#[expect(clippy::disallowed_methods, reason = "a part of a response on the way")]
fn later(
    at: tokio::time::Instant,
    sender: mpsc::UnboundedSender<io::Result<bytes::Bytes>>,
    part: bytes::Bytes,
) {
    wake_at(at);
    tokio::spawn(async move {
        tokio::time::sleep_until(at).await;
        let _ = sender.send(Ok(part));
    });
}
