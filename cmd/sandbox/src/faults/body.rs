//! Bodies of answers: changed, slow, or a watch that is held or cut.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::Response;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use serde_json::Value;
use tokio::sync::mpsc;

use super::effect::Change;
use super::service::sleep;
use super::{Cut, Effect, Faults, RecordedRequest};
use crate::service::BoxError;
use crate::storage::changes::Changed;

/// The body of an answer that passed a fault layer.
pub type FaultBody = UnsyncBoxBody<Bytes, BoxError>;

/// A command to an open watch.
pub(super) enum Command {
    End,
    Reset,
    Silence,
    Send(Bytes),
}

pub(super) fn full(bytes: Bytes) -> FaultBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Applies the effects on the body of an answer.
pub(super) async fn with_effects(
    faults: &Faults,
    request: &Arc<RecordedRequest>,
    response: Response<FaultBody>,
    effects: &[Effect],
) -> Response<FaultBody> {
    let changes: Vec<Arc<Change>> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ChangeAnswer(change) => Some(change.clone()),
            _ => None,
        })
        .collect();
    if request.verb == "watch" && response.status().is_success() {
        let cuts = effects.iter().filter_map(|effect| match effect {
            Effect::CutWatch(cut) => Some(*cut),
            _ => None,
        });
        let cuts = cuts.collect();
        return response.map(|body| Watch::new(faults, request, body, changes, cuts).into_body());
    }
    if changes.is_empty() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(collected) = body.collect().await else {
        return Response::from_parts(parts, full(Bytes::new()));
    };
    parts.headers.remove(http::header::CONTENT_LENGTH);
    Response::from_parts(parts, full(changed(collected.to_bytes(), &changes)))
}

/// Delivers a body byte by byte.
pub(super) fn slow(body: FaultBody, per_byte: Duration) -> FaultBody {
    let bytes = BodyStream::new(body).flat_map(|frame| {
        let data = frame.ok().and_then(|it| it.into_data().ok()).unwrap_or_default();
        stream::iter((0..data.len()).map(move |at| data.slice(at..=at)))
    });
    let delayed = bytes.then(move |byte| async move {
        sleep(per_byte).await;
        Ok(Frame::data(byte))
    });
    StreamBody::new(delayed).boxed_unsync()
}

fn changed(bytes: Bytes, changes: &[Arc<Change>]) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else {
        return bytes;
    };
    for change in changes {
        change(&mut value);
    }
    value.to_string().into()
}

/// An open watch.
struct Watch {
    faults: Faults,
    request: Arc<RecordedRequest>,
    body: FaultBody,
    changes: Vec<Arc<Change>>,
    cuts: Vec<Cut>,
    commands: mpsc::UnboundedReceiver<Command>,
    holds_changed: Changed,
    /// The incomplete last line.
    rest: BytesMut,
    is_silent: bool,
    end: Option<End>,
}

#[derive(Clone, Copy)]
enum End {
    Regular,
    Reset,
    Done,
}

impl Watch {
    fn new(
        faults: &Faults,
        request: &Arc<RecordedRequest>,
        body: FaultBody,
        changes: Vec<Arc<Change>>,
        cuts: Vec<Cut>,
    ) -> Self {
        let (sender, commands) = mpsc::unbounded_channel();
        faults.state().open_watches.push((request.clone(), sender));
        Self {
            faults: faults.clone(),
            request: request.clone(),
            body,
            changes,
            cuts,
            commands,
            holds_changed: faults.shared.holds_changed.subscribe(),
            rest: BytesMut::new(),
            is_silent: false,
            end: None,
        }
    }

    fn into_body(self) -> FaultBody {
        let frames = stream::unfold(self, |mut watch| async move {
            let frame = watch.next().await?;
            Some((frame.map(Frame::data), watch))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            match self.end {
                Some(End::Regular | End::Done) => return None,
                Some(End::Reset) => {
                    self.end = Some(End::Done);
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset).into()));
                }
                None => {}
            }
            if self.cuts.iter().any(|cut| matches!(cut, Cut::Events(0))) {
                self.end = Some(End::Regular);
                continue;
            }
            if self.cuts.iter().any(|cut| matches!(cut, Cut::Bytes(0))) {
                self.end = Some(End::Reset);
                continue;
            }
            let is_held = self.is_silent || self.faults.is_held(&self.request);
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(Command::Send(_)) if self.is_silent => {}
                    Some(Command::Send(line)) => return Some(Ok(line)),
                    Some(Command::Silence) => self.is_silent = true,
                    Some(Command::Reset) => self.end = Some(End::Reset),
                    Some(Command::End) | None => self.end = Some(End::Regular),
                },
                () = self.holds_changed.changed() => {}
                frame = self.body.frame(), if !is_held => match frame {
                    None => self.end = Some(End::Regular),
                    Some(Err(error)) => {
                        self.end = Some(End::Done);
                        return Some(Err(error));
                    }
                    Some(Ok(frame)) => {
                        let data = self.delivered(frame.into_data().unwrap_or_default());
                        if !data.is_empty() {
                            return Some(Ok(data));
                        }
                    }
                },
            }
        }
    }

    /// Returns the part of the data that is delivered, with its changes.
    fn delivered(&mut self, data: Bytes) -> Bytes {
        let data = if self.changes.is_empty() {
            data
        } else {
            self.changed_lines(&data)
        };
        let mut end = data.len();
        for cut in &mut self.cuts {
            match cut {
                Cut::Bytes(left) => {
                    end = end.min(*left);
                    *left -= end;
                }
                Cut::Events(left) => {
                    let lines = data.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
                    let mut seen = 0;
                    for (at, _) in lines.take(*left) {
                        seen += 1;
                        if seen == *left {
                            end = end.min(at + 1);
                        }
                    }
                    *left -= seen;
                }
            }
        }
        data.slice(..end)
    }

    /// Changes complete lines, and keeps the incomplete one.
    fn changed_lines(&mut self, data: &[u8]) -> Bytes {
        self.rest.extend_from_slice(data);
        let mut lines = BytesMut::new();
        while let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line = self.rest.split_to(at + 1).freeze();
            lines.extend_from_slice(&changed(line.slice(..at), &self.changes));
            lines.extend_from_slice(b"\n");
        }
        lines.freeze()
    }
}
