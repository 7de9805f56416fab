//! Metrics with the names, labels and buckets of controller-runtime's webhook server.

use std::time::Duration;

use crate::metrics::Registry;
use http::StatusCode;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts};

#[derive(Clone, Debug)]
pub(super) struct RequestMetrics {
    total: IntCounterVec,
    latency: HistogramVec,
    in_flight: IntGaugeVec,
}

/// Counts a request as in flight until dropped.
pub(super) struct InFlight(IntGauge);

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

    pub(super) fn begin(&self, path: &str) -> InFlight {
        let in_flight = self.in_flight.with_label_values(&[path]);
        in_flight.inc();
        InFlight(in_flight)
    }

    pub(super) fn observe_request(&self, path: &str, code: StatusCode, took: Duration) {
        self.total.with_label_values(&[path, code.as_str()]).inc();
        self.latency
            .with_label_values(&[path])
            .observe(took.as_secs_f64());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
