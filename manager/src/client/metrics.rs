//! The `rest_client_*` metrics, with the names, labels and buckets of client-go.

use std::time::Duration;

use crate::metrics::Registry;
use http::Method;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

/// The metrics of one transport.
#[derive(Debug)]
pub(super) struct Metrics {
    host: String,
    requests: IntCounterVec,
    duration: HistogramVec,
    limiter: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
}

const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const BYTES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

impl Metrics {
    pub(super) fn register(host: &str, registry: &Registry) -> prometheus::Result<Self> {
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let opts = HistogramOpts::new(format!("rest_client_{name}"), format!("[ALPHA] {help}"));
            let series = HistogramVec::new(opts.buckets(buckets.to_vec()), &["verb", "host"])?;
            registry.register(Box::new(series.clone()))?;
            Ok::<_, prometheus::Error>(series)
        };
        let requests = IntCounterVec::new(
            Opts::new(
                "rest_client_requests_total",
                "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
            ),
            &["code", "method", "host"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        Ok(Self {
            host: host.to_owned(),
            requests,
            duration: histogram(
                "request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            )?,
            limiter: histogram(
                "rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            )?,
            request_size: histogram(
                "request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
                &BYTES,
            )?,
            response_size: histogram(
                "response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
                &BYTES,
            )?,
        })
    }

    /// Counts a request by its status code, or `<error>` without a response.
    pub(super) fn answered(&self, method: &Method, verb: &str, code: &str, took: Duration) {
        let labels = [code, method.as_str(), &self.host];
        self.requests.with_label_values(&labels).inc();
        observe(&self.duration, verb, &self.host, took.as_secs_f64());
    }

    pub(super) fn limited(&self, verb: &str, waited: Duration) {
        observe(&self.limiter, verb, &self.host, waited.as_secs_f64());
    }

    pub(super) fn sent(&self, verb: &str, bytes: usize) {
        observe(&self.request_size, verb, &self.host, size(bytes));
    }

    pub(super) fn received(&self, verb: &str, bytes: usize) {
        observe(&self.response_size, verb, &self.host, size(bytes));
    }
}

fn observe(series: &HistogramVec, verb: &str, host: &str, value: f64) {
    series.with_label_values(&[verb, host]).observe(value);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "an exact size is not required in a histogram"
)]
fn size(bytes: usize) -> f64 {
    bytes as f64
}
