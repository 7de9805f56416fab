//! Export of traces to an OpenTelemetry collector, over OTLP/HTTP with Protobuf.
//!
//! The manager records spans itself instead of through the OpenTelemetry SDK: a span of `tracing` stays open until its
//! children are closed, so that the time in the queue would include the reconcile, and the SDK has threads and clocks of its
//! own. One task sends batches, one at a time and each once. Spans that it cannot send are dropped and counted; it never
//! delays a worker. Its requests are not part of a trace.

mod encode;
mod endpoint;

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use prometheus::{IntCounter, IntCounterVec, Opts};
use steersman_config::Tracing;
use steersman_manager::env::{Clock, Env};
use steersman_manager::metrics::Registry;
use steersman_manager::trace::{FinishedSpan, Tracer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The maximum number of spans of a request.
const BATCH_MAX: usize = 512;
/// The time that a span waits for others of its batch.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// The deadline of a request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bounds sending the remaining spans after the manager has stopped.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    #[error("--tracing-endpoint {url}: {reason}")]
    Endpoint { url: String, reason: String },
    #[error("cannot register the metrics of traces: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The running export.
pub(crate) struct Traces {
    tracer: Tracer,
    clock: Clock,
    stop: CancellationToken,
    exporting: JoinHandle<()>,
}

struct Exporter<C> {
    client: Client<C, Full<Bytes>>,
    uri: Uri,
    resource: encode::Resource,
    clock: Clock,
    accepted: IntCounter,
    failed: IntCounter,
    /// Whether the last request failed: only the first failure of a series is logged.
    failing: bool,
}

/// The reason why a batch was not accepted.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the collector did not answer within {} s", EXPORT_TIMEOUT.as_secs())]
    Timeout,
    #[error("{0}")]
    Request(#[from] hyper_util::client::legacy::Error),
    #[error("{0}")]
    Build(#[from] http::Error),
    #[error("the collector answered with {0}")]
    Status(http::StatusCode),
}

impl Traces {
    /// Starts the export; none without an endpoint.
    pub(crate) fn start(
        config: &Tracing,
        env: &Env,
        registry: &Registry,
    ) -> Result<Option<Self>, TracesError> {
        let Some(url) = &config.endpoint else {
            return Ok(None);
        };
        let invalid = |reason: String| TracesError::Endpoint {
            url: url.clone(),
            reason,
        };
        let uri = endpoint::parse(url).map_err(|reason| invalid(reason.to_owned()))?;
        // The connector of the Kubernetes client: it trusts the certificate authorities of the system.
        let connector = kube::Config::new(uri.clone()).rustls_https_connector();
        let connector = connector.map_err(|error| invalid(error.to_string()))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        let dropped = IntCounterVec::new(
            Opts::new(
                "tracing_dropped_spans_total",
                "[ALPHA] Number of spans that were not exported, by reason.",
            ),
            &["reason"],
        )?;
        let accepted = IntCounter::new(
            "tracing_exported_spans_total",
            "[ALPHA] Number of spans that the collector has accepted.",
        )?;
        registry.register(Box::new(dropped.clone()))?;
        registry.register(Box::new(accepted.clone()))?;
        let full = dropped.with_label_values(&["queue_full"]);
        let (tracer, spans) = Tracer::new(env, config.sampling_rate_per_million, full);
        let exporter = Exporter {
            client,
            uri,
            resource: encode::resource(&format!("{:016x}", env.rng.number())),
            clock: env.clock.clone(),
            accepted,
            failed: dropped.with_label_values(&["export_failed"]),
            failing: false,
        };
        let stop = CancellationToken::new();
        Ok(Some(Self {
            tracer,
            clock: env.clock.clone(),
            exporting: env.tasks.spawn(exporter.run(spans, stop.clone())),
            stop,
        }))
    }

    pub(crate) fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Sends the remaining spans, within a bound.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // A panic at the end changes nothing.
        let _ = self.clock.timeout(FLUSH_TIMEOUT, self.exporting).await;
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Exporter<C> {
    async fn run(mut self, mut spans: mpsc::Receiver<FinishedSpan>, stop: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                () = stop.cancelled() => 0,
                received = spans.recv_many(&mut batch, BATCH_MAX) => received,
            };
            // Stopped, or no tracer is left.
            if received == 0 {
                break;
            }
            self.fill(&mut batch, &mut spans, &stop).await;
            self.export(mem::take(&mut batch)).await;
        }
        spans.close();
        while spans.recv_many(&mut batch, BATCH_MAX).await > 0 {
            self.export(mem::take(&mut batch)).await;
        }
    }

    /// Waits for more spans of a batch.
    async fn fill(
        &self,
        batch: &mut Vec<FinishedSpan>,
        spans: &mut mpsc::Receiver<FinishedSpan>,
        stop: &CancellationToken,
    ) {
        let full = async {
            while batch.len() < BATCH_MAX {
                let room = BATCH_MAX - batch.len();
                if spans.recv_many(batch, room).await == 0 {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = full => {}
            () = self.clock.sleep(BATCH_DELAY) => {}
        }
    }

    async fn export(&mut self, batch: Vec<FinishedSpan>) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let sent = self.clock.timeout(EXPORT_TIMEOUT, self.send(batch)).await;
        match sent.unwrap_or(Err(ExportError::Timeout)) {
            Ok(()) => {
                self.accepted.inc_by(count);
                if mem::take(&mut self.failing) {
                    tracing::info!("Exporting spans again");
                }
            }
            Err(error) => {
                self.failed.inc_by(count);
                if !mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, spans = count, "Failed to export spans");
                }
            }
        }
    }

    async fn send(&self, batch: Vec<FinishedSpan>) -> Result<(), ExportError> {
        let request = Request::post(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .body(Full::from(encode::request(&self.resource, batch)))?;
        let status = self.client.request(request).await?.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(ExportError::Status(status))
        }
    }
}
