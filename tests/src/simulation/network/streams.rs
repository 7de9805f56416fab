//! The watches of processes: events of one watch stay in order, those of different watches do not.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use steersman_sandbox::ResponseBody;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::body::{LinkBody, reset};
use super::super::fault::{Class, Fault, Target};
use super::super::record::{Fact, Sender};
use super::{Open, State, Wire, now, wake_at};

/// An open watch.
pub(super) struct Stream {
    pub(super) process: usize,
    /// The number of the request.
    request: usize,
    pub(super) collection: String,
    body: Pin<Box<ResponseBody>>,
    /// Events on the way, each with its sequence number.
    events: VecDeque<(u64, Bytes)>,
    sender: mpsc::UnboundedSender<io::Result<Bytes>>,
    /// Whether the response has arrived, so that the process can read events.
    is_answered: bool,
    late_until: Option<Instant>,
    /// Half-open: nothing arrives any more.
    pub(super) is_silent: bool,
    has_ended: bool,
}

impl Stream {
    /// Reads the next events from the API. Returns whether the watch is still open.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, sequence: &mut u64) -> bool {
        if self.sender.is_closed() {
            return false;
        }
        while !self.has_ended {
            match self.body.as_mut().poll_frame(context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(frame))) => {
                    let data = frame.into_data().unwrap_or_default();
                    let mut start = 0;
                    for (at, _) in data.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
                        *sequence += 1;
                        self.events.push_back((*sequence, data.slice(start..=at)));
                        start = at + 1;
                    }
                }
                Poll::Ready(_) => self.has_ended = true,
            }
        }
        !self.has_ended || self.is_silent || !self.events.is_empty()
    }

    /// Returns the sequence number of the next event, if one can be delivered.
    pub(super) fn ready(&self, now: Instant) -> Option<u64> {
        if self.is_silent || !self.is_answered || self.late_until.is_some_and(|until| until > now) {
            return None;
        }
        self.events.front().map(|it| it.0)
    }
}

impl State {
    /// The events of the open watches of a resource are late. A short time is not a fault.
    pub(in super::super) fn delay_events(&mut self, collection: &str, time: Duration) {
        self.log(|| format!("events of {collection} are late by {time:?}"));
        let until = now() + time;
        wake_at(until);
        for open in self.open.values_mut() {
            if let Open::Stream(stream) = open
                && stream.collection == collection
            {
                stream.late_until = Some(until);
            }
        }
    }

    pub(super) fn open_stream(
        &mut self,
        wire: &Wire,
        response: Response<ResponseBody>,
    ) -> Response<LinkBody> {
        let Sender::Process(process) = wire.request.sender else {
            return response.map(|_| LinkBody::Whole(None));
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let (parts, body) = response.into_parts();
        self.sequence += 1;
        let id = self.sequence;
        let stream = Stream {
            process,
            request: wire.request.number,
            collection: wire.request.collection.clone(),
            body: Box::pin(body),
            events: VecDeque::new(),
            sender,
            is_answered: false,
            late_until: None,
            is_silent: false,
            has_ended: false,
        };
        self.open.insert(id, Open::Stream(Box::new(stream)));
        self.go_on(id);
        Response::from_parts(parts, LinkBody::Parts(receiver))
    }

    /// Records that the response of a watch has arrived.
    pub(super) fn watch_answered(&mut self, request: usize) {
        for open in self.open.values_mut() {
            if let Open::Stream(stream) = open
                && stream.request == request
            {
                stream.is_answered = true;
            }
        }
    }

    /// Delivers the next event of a watch.
    pub(super) fn deliver_event(&mut self, id: u64) {
        let Some(Open::Stream(mut stream)) = self.open.remove(&id) else {
            return;
        };
        if let Some(fault) = self.fault_of_event() {
            self.count_fault(fault);
            if !self.inject_into(&mut stream, fault) {
                return;
            }
            if stream.ready(now()).is_none() {
                self.open.insert(id, Open::Stream(stream));
                return;
            }
        }
        let Some((_, event)) = stream.events.pop_front() else {
            return;
        };
        self.counts.events += 1;
        self.log(|| {
            let text = String::from_utf8_lossy(&event);
            let text: String = text.chars().take(160).collect();
            format!("event to {} {} {text}", stream.process, stream.collection)
        });
        let revision = revision(&event);
        let is_open = stream.sender.send(Ok(event)).is_ok();
        if let Some(revision) = revision.filter(|_| is_open) {
            self.delivered.push(Fact::Delivered {
                process: stream.process,
                collection: stream.collection.clone(),
                revision,
                request: stream.request,
            });
        }
        if is_open && (!stream.has_ended || !stream.events.is_empty()) {
            self.open.insert(id, Open::Stream(stream));
        }
    }

    fn fault_of_event(&mut self) -> Option<Fault> {
        let number = self.counts.events;
        let at = self
            .faults
            .iter()
            .position(|it| it.class.target() == Target::Event && it.at <= number)?;
        Some(self.faults.remove(at))
    }

    /// Applies a fault to a watch. Returns whether the watch is still open.
    fn inject_into(&mut self, stream: &mut Stream, fault: Fault) -> bool {
        let seconds = Duration::from_secs(u64::from(1 + fault.variant % 60));
        match fault.class {
            Class::F15 => match fault.variant % 3 {
                0 => return false,
                1 => {
                    let _ = stream.sender.send(Err(reset()));
                    return false;
                }
                _ => stream.is_silent = true,
            },
            Class::F16 => {
                let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
                let _ = stream.sender.send(Ok(format!("{event}\n").into()));
                return false;
            }
            Class::F17 => {
                let server = self.processes[stream.process].server;
                let revision = revision_before(stream, self.sandbox.revision());
                self.servers[server].lag().hold_at(&stream.collection, revision);
                self.end_lag(server, Duration::from_mins(10));
            }
            Class::F18 => {
                let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"etcdserver: leader changed","reason":"InternalError","code":500}}"#;
                let _ = stream.sender.send(Ok(format!("{event}\n").into()));
                return false;
            }
            Class::F19 => {
                let process = stream.process;
                let server = self.processes[process].server;
                let behind = [1, 3, 10, 100, 10_000][fault.variant as usize % 5];
                let revision = self.sandbox.revision().saturating_sub(behind).max(1);
                self.servers[server].lag().hold_all_at(revision);
                self.end_lag(server, seconds);
                if fault.variant.is_multiple_of(2) {
                    self.crash(Sender::Process(process));
                    return false;
                }
                // The process connects again, and reads the stale state.
                return fault.variant.is_multiple_of(3);
            }
            Class::F20 => {
                let until = now() + seconds;
                wake_at(until);
                stream.late_until = Some(until);
            }
            Class::F21 => {
                self.sandbox.compact(self.sandbox.revision());
                return false;
            }
            Class::F22 => {
                if let Some((sequence, event)) = stream.events.front().cloned() {
                    stream.events.push_front((sequence, event));
                }
            }
            Class::F23 => {
                self.sandbox.compact(self.sandbox.revision());
                self.refuse(stream.process, &stream.collection, seconds);
                return false;
            }
            _ => {}
        }
        true
    }
}

/// Returns the revision before the next event of a watch.
fn revision_before(stream: &Stream, newest: u64) -> u64 {
    let next = stream.events.front().and_then(|(_, event)| revision(event));
    next.map_or(newest, |next| next.saturating_sub(1))
}

/// Returns the resourceVersion of an object or a list.
pub(crate) fn revision(json: &[u8]) -> Option<u64> {
    const FIELD: &[u8] = b"\"resourceVersion\":\"";
    let at = json.windows(FIELD.len()).position(|it| it == FIELD)?;
    let digits = json
        .get(at + FIELD.len()..)?
        .iter()
        .take_while(|it| it.is_ascii_digit());
    Some(digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}
