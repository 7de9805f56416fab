//! A watch stream: one JSON object per line, read with a deadline each. Dropping it closes the connection.

use std::time::Duration;

use bytes::BytesMut;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use crate::{api::header_text, time};

/// An open watch.
pub struct Watch {
    request: String,
    headers: HeaderMap,
    /// `None` once the server has ended the stream.
    body: Option<Body>,
    /// The bytes after the last complete line.
    rest: BytesMut,
}

impl Watch {
    pub(crate) fn new(request: String, headers: HeaderMap, body: Body) -> Self {
        Self {
            request,
            headers,
            body: Some(body),
            rest: BytesMut::new(),
        }
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        header_text(&self.headers, name)
    }

    /// All headers of the answer.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Whether the server has ended the stream and all of it was read.
    pub fn has_ended(&self) -> bool {
        self.body.is_none()
    }

    /// The next event, or `None` when none comes within `limit` or the stream ends (then [`Watch::has_ended`]).
    pub async fn next(&mut self, limit: Duration) -> Option<Value> {
        time::within(limit, self.read()).await.flatten()
    }

    /// The next event. Panics if there is none within [`time::ANSWER`].
    pub async fn event(&mut self) -> Value {
        match self.next(time::ANSWER).await {
            Some(event) => event,
            None if self.has_ended() => panic!("{}: the stream ended, an event was expected", self.request),
            None => panic!("{}: no event within {:?}", self.request, time::ANSWER),
        }
    }

    /// Returns the object of the next event, which must have the type `kind`.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let mut event = self.event().await;
        assert!(
            event["type"] == kind,
            "{}: expected {kind}, got {event:#}",
            self.request
        );
        event["object"].take()
    }

    /// Cancel safe: `rest` holds the bytes that were read.
    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                let parsed = serde_json::from_slice(&line);
                return Some(parsed.unwrap_or_else(|error| {
                    panic!(
                        "{}: a line is not JSON: {error}: {}",
                        self.request,
                        String::from_utf8_lossy(&line)
                    )
                }));
            }
            match self.body.as_mut()?.frame().await {
                Some(Ok(frame)) => self
                    .rest
                    .extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Some(Err(_)) | None => self.body = None,
            }
        }
    }
}
