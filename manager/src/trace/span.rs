//! Spans as an exporter receives them.

use std::borrow::Cow;

use jiff::Timestamp;

/// The position of a span.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    pub trace_id: u128,
    pub span_id: u64,
}

/// The role of a span in an exchange, as in OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within this process.
    Internal,
    /// A request that this process sends.
    Client,
    /// Receipt of a message.
    Consumer,
}

/// The value of an attribute.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Number(i64),
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct FinishedSpan {
    #[expect(missing_docs, reason = "plain data")]
    pub context: SpanContext,
    /// The span id of the parent; none starts a trace.
    pub parent: Option<u64>,
    /// Of a small set of names: it contains no object.
    pub name: Cow<'static, str>,
    #[expect(missing_docs, reason = "plain data")]
    pub kind: SpanKind,
    #[expect(missing_docs, reason = "plain data")]
    pub start: Timestamp,
    #[expect(missing_docs, reason = "plain data")]
    pub end: Timestamp,
    #[expect(missing_docs, reason = "plain data")]
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Spans of other traces that caused this one.
    pub links: Vec<SpanContext>,
    /// The reason of a failure; none after a success.
    pub error: Option<String>,
}

impl SpanContext {
    /// Returns the `traceparent` header of W3C Trace Context. Every context is sampled.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace_id, self.span_id)
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}
