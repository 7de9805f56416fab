//! Metrics with the names, labels and buckets of controller-runtime's webhook server.

use http::StatusCode;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use tokio::time::Instant;

use crate::env::Clock;
use crate::metrics::Registry;

#[derive(Clone, Debug)]
pub(super) struct RequestMetrics {
    total: IntCounterVec,
    latency: HistogramVec,
    in_flight: IntGaugeVec,
}

/// A request in flight, which is observed when it is dropped.
pub(super) struct InFlight<'a> {
    metrics: &'a RequestMetrics,
    path: &'a str,
    clock: &'a Clock,
    start: Instant,
    /// 504 until the request ends: it is dropped earlier if its client does not wait for the response.
    code: StatusCode,
}

impl RequestMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let name = |name: &str| format!("controller_runtime_webhook_{name}");
        let requests = Self {
            total: IntCounterVec::new(
                Opts::new(
                    name("requests_total"),
                    "[ALPHA] Total number of admission requests by HTTP status code.",
                ),
                &["webhook", "code"],
            )?,
            latency: HistogramVec::new(
                HistogramOpts::new(
                    name("latency_seconds"),
                    "[ALPHA] Histogram of the latency of processing admission requests",
                ),
                &["webhook"],
            )?,
            in_flight: IntGaugeVec::new(
                Opts::new(
                    name("requests_in_flight"),
                    "[ALPHA] Current number of admission requests being served.",
                ),
                &["webhook"],
            )?,
        };
        registry.register(Box::new(requests.total.clone()))?;
        registry.register(Box::new(requests.latency.clone()))?;
        registry.register(Box::new(requests.in_flight.clone()))?;
        Ok(requests)
    }

    /// Exposes the metrics of a path with the value 0.
    pub(super) fn init(&self, path: &str) {
        for code in ["200", "500"] {
            self.total.with_label_values(&[path, code]);
        }
        self.latency.with_label_values(&[path]);
        self.in_flight.with_label_values(&[path]);
    }

    pub(super) fn begin<'a>(&'a self, path: &'a str, clock: &'a Clock) -> InFlight<'a> {
        self.in_flight.with_label_values(&[path]).inc();
        InFlight {
            metrics: self,
            path,
            clock,
            start: clock.now(),
            code: StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl InFlight<'_> {
    /// Observes a request that is answered with this code.
    pub(super) fn end(mut self, code: StatusCode) {
        self.code = code;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let RequestMetrics {
            total,
            latency,
            in_flight,
        } = self.metrics;
        let took = self.clock.now() - self.start;
        in_flight.with_label_values(&[self.path]).dec();
        total.with_label_values(&[self.path, self.code.as_str()]).inc();
        latency
            .with_label_values(&[self.path])
            .observe(took.as_secs_f64());
    }
}
