//! Traces, as a collector receives them over OTLP/HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustix::process::Signal;
use steersman_harness::metrics::{self, Reference};
use steersman_harness::{fixtures, time};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::sandbox;

/// A collector on a loopback port. Dropping it stops it.
struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Span>>>,
    _serving: JoinSet<()>,
}

impl Collector {
    async fn start(status: StatusCode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let spans: Arc<Mutex<Vec<Span>>> = Arc::default();
        let received = Arc::clone(&spans);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.expect("a connection");
                let received = Arc::clone(&received);
                let service = service_fn(move |request| answer(request, Arc::clone(&received), status));
                let builder = hyper::server::conn::http1::Builder::new();
                connections.spawn(async move {
                    // The process may close the connection at its end.
                    let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self {
            url: format!("http://{address}"),
            spans,
            _serving: serving,
        }
    }

    fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the span with this id.
    fn span(&self, id: &[u8]) -> Option<Span> {
        self.spans().into_iter().find(|span| span.span_id == id)
    }
}

async fn answer(
    request: Request<Incoming>,
    received: Arc<Mutex<Vec<Span>>>,
    status: StatusCode,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.uri().path(), "/v1/traces");
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    assert!(
        !request.headers().contains_key("traceparent"),
        "exports are not traced"
    );
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let export = ExportTraceServiceRequest::decode(body).expect("a request");
    let spans = export.resource_spans.into_iter().flat_map(|it| it.scope_spans);
    let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
    received.extend(spans.flat_map(|it| it.spans));
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    Ok(response)
}

fn text<'a>(span: &'a Span, key: &str) -> &'a str {
    let attribute = span.attributes.iter().find(|it| it.key == key);
    match attribute.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

#[tokio::test]
async fn watch_event_queue_reconcile_and_request_are_one_trace() {
    let collector = Collector::start(StatusCode::OK).await;
    let endpoint = format!("--tracing-endpoint={}", collector.url);
    let program = sandbox::start(&[&endpoint, "--v=2"]).await;
    sandbox::leads(&program).await;
    let api = sandbox::api(&program).await;
    let sets = fixtures::apps("default", "replicasets");
    api.post(&sets, fixtures::replica_set("traced")).await.expect(201);

    let chain = time::eventually(time::ANSWER, async || {
        let is_event = |span: &Span| {
            span.name == "watch event" && text(span, "name") == "traced" && text(span, "eventType") == "ADDED"
        };
        let spans = collector.spans();
        let event = spans.iter().find(|span| is_event(span))?;
        let post = spans
            .iter()
            .find(|span| span.name == "POST pods" && span.trace_id == event.trace_id)?;
        let reconcile = collector.span(&post.parent_span_id)?;
        let queue = collector.span(&reconcile.parent_span_id)?;
        Some((event.clone(), queue, reconcile, post.clone()))
    });
    let Some((event, queue, reconcile, post)) = chain.await else {
        let names: Vec<_> = collector.spans().into_iter().map(|it| it.name).collect();
        panic!("no trace: {names:?}\n{}", program.log());
    };
    assert!(event.parent_span_id.is_empty());
    assert_eq!(text(&event, "resource"), "replicasets.apps");
    assert!(!text(&event, "resourceVersion").is_empty());
    assert_eq!((&*queue.name, &queue.parent_span_id), ("queue", &event.span_id));
    assert_eq!(reconcile.name, "reconcile");
    assert_eq!(text(&reconcile, "controller"), "replicaset-controller");
    let object = ["kind", "namespace", "name"].map(|key| text(&reconcile, key));
    assert_eq!(object, ["ReplicaSet", "default", "traced"]);
    assert_eq!(
        text(&reconcile, "result"),
        "requeue_after",
        "until it observes its pods"
    );
    let request = ["url.template", "namespace", "verb"].map(|key| text(&post, key));
    assert_eq!(
        request,
        ["/api/v1/namespaces/{namespace}/pods", "default", "POST"]
    );
    assert!(post.status.is_none(), "{:?}", post.status);
    for span in [&event, &queue, &reconcile, &post] {
        assert_eq!(span.trace_id, event.trace_id);
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    assert!(event.start_time_unix_nano <= queue.start_time_unix_nano);
    assert!(queue.end_time_unix_nano <= reconcile.start_time_unix_nano);

    // A log line of the reconcile has the id of its trace.
    let id = event
        .trace_id
        .iter()
        .fold(0_u128, |id, byte| id << 8 | u128::from(*byte));
    assert!(
        program.log().contains(&format!("traceID=\"{id:032x}\"")),
        "{}",
        program.log()
    );
    // The process counts the spans when the response arrives, after the collector has received them.
    let exported = "tracing_exported_spans_total";
    let counted = time::eventually(time::ANSWER, async || {
        program.metric(exported).await.filter(|count| *count > 3.0)
    });
    assert!(counted.await.is_some(), "{:?}", program.metric(exported).await);
}

#[tokio::test]
async fn failing_collector_delays_neither_work_nor_shutdown() {
    let collector = Collector::start(StatusCode::SERVICE_UNAVAILABLE).await;
    let endpoint = format!("--tracing-endpoint={}", collector.url);
    let program = sandbox::start(&[&endpoint]).await;
    sandbox::leads(&program).await;
    let dropped = "tracing_dropped_spans_total{reason=\"export_failed\"}";
    let counted = time::eventually(time::ANSWER, async || {
        program.metric(dropped).await.filter(|count| *count > 0.0)
    });
    assert!(counted.await.is_some(), "{}", program.log());
    program.signal(Signal::TERM);
    let ended = program.ends_within(time::ANSWER).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let warnings = ended.stderr.matches("Failed to export spans").count();
    assert_eq!(warnings, 1, "{}", ended.stderr);
}

#[tokio::test]
async fn metrics_of_traces_are_in_the_reference() {
    let collector = Collector::start(StatusCode::OK).await;
    let endpoint = format!("--tracing-endpoint={}", collector.url);
    let program = sandbox::start(&[&endpoint]).await;
    let page = program.endpoints().get("/metrics").await.text();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let of_traces = |mut rows: BTreeMap<String, String>| {
        rows.retain(|name, _| name.starts_with("tracing_"));
        rows
    };
    let reference = of_traces(Reference::read(&root).rows);
    assert_eq!(of_traces(metrics::rows(&page)), reference, "docs/metrics.md");
    assert!(!reference.is_empty());
}
