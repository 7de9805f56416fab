//! Encodes spans as an `ExportTraceServiceRequest`.

use bytes::Bytes;
use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
pub(super) use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, span::Link, span::SpanKind as Kind, status::StatusCode,
};
use prost::Message as _;
use steersman_manager::trace::{Attribute, FinishedSpan, SpanContext, SpanKind};

use crate::NAME;

/// The flag of W3C Trace Context.
const SAMPLED: u32 = 1;

/// Describes this process.
pub(super) fn resource(instance: &str) -> Resource {
    let text = |text: &str| Attribute::from(text);
    let attributes = [
        ("service.name", text(NAME)),
        ("service.version", text(env!("CARGO_PKG_VERSION"))),
        ("service.instance.id", text(instance)),
    ];
    Resource {
        attributes: attributes.map(key_value).to_vec(),
        ..Resource::default()
    }
}

pub(super) fn request(resource: &Resource, spans: Vec<FinishedSpan>) -> Bytes {
    let scope = InstrumentationScope {
        name: NAME.to_owned(),
        ..InstrumentationScope::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans: spans.into_iter().map(span).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    request.encode_to_vec().into()
}

fn span(span: FinishedSpan) -> Span {
    let (trace_id, span_id) = ids(span.context);
    let parent = span.parent.map(|parent| parent.to_be_bytes().to_vec());
    let kind = match span.kind {
        SpanKind::Internal => Kind::Internal,
        SpanKind::Client => Kind::Client,
        SpanKind::Consumer => Kind::Consumer,
    };
    let status = span.error.map(|message| Status {
        message,
        code: StatusCode::Error.into(),
    });
    Span {
        trace_id,
        span_id,
        parent_span_id: parent.unwrap_or_default(),
        flags: SAMPLED,
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end),
        attributes: span.attributes.into_iter().map(key_value).collect(),
        links: span.links.into_iter().map(link).collect(),
        status,
        ..Span::default()
    }
}

fn link(context: SpanContext) -> Link {
    let (trace_id, span_id) = ids(context);
    Link {
        trace_id,
        span_id,
        flags: SAMPLED,
        ..Link::default()
    }
}

fn ids(context: SpanContext) -> (Vec<u8>, Vec<u8>) {
    let SpanContext { trace_id, span_id } = context;
    (trace_id.to_be_bytes().to_vec(), span_id.to_be_bytes().to_vec())
}

fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or_default()
}

fn key_value((key, value): (&str, Attribute)) -> KeyValue {
    let value = match value {
        Attribute::Text(text) => Value::StringValue(text),
        Attribute::Number(number) => Value::IntValue(number),
    };
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
