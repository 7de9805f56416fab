//! The `controller_runtime_*` metrics, with the names, labels and buckets of controller-runtime, so that its dashboards work.

use std::time::Duration;

use crate::metrics::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts};

/// The metrics of one controller. They are unregistered when this is dropped.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    series: Series,
}

#[derive(Clone, Debug)]
struct Series {
    total: IntCounterVec,
    errors: IntCounter,
    terminal_errors: IntCounter,
    panics: IntCounter,
    timeouts: IntCounter,
    time: Histogram,
    max_concurrent: IntGauge,
    active: IntGauge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Requeue,
    RequeueAfter,
    Error,
    TerminalError,
    Panic,
    Timeout,
    /// The end of the term interrupted it. Not counted.
    Fenced,
}

impl Outcome {
    /// Whether the key is added again without an event.
    pub(super) fn requeues(self) -> bool {
        !matches!(self, Self::Success | Self::TerminalError | Self::Fenced)
    }

    pub(super) fn is_failure(self) -> bool {
        !matches!(
            self,
            Self::Success | Self::Requeue | Self::RequeueAfter | Self::Fenced
        )
    }

    /// The name in traces.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
            Self::TerminalError => "terminal_error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Fenced => "fenced",
        }
    }
}

/// Counts one active worker until it is dropped.
pub(super) struct Active(IntGauge);

const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];
const SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

impl Metrics {
    /// Registers all metrics of `controller`, so that they are exported as 0 before the first reconcile.
    pub(super) fn register(
        controller: &str,
        workers: usize,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let series = Series::new(controller)?;
        for result in RESULTS {
            series.total.with_label_values(&[result]);
        }
        series
            .max_concurrent
            .set(i64::try_from(workers).unwrap_or(i64::MAX));
        registry.register(Box::new(series.clone()))?;
        Ok(Self {
            registry: registry.clone(),
            series,
        })
    }

    pub(super) fn ended(&self, outcome: Outcome, duration: Duration) {
        let series = &self.series;
        series.time.observe(duration.as_secs_f64());
        let result = match outcome {
            Outcome::Success => "success",
            Outcome::Requeue => "requeue",
            Outcome::RequeueAfter => "requeue_after",
            Outcome::Error | Outcome::TerminalError | Outcome::Panic | Outcome::Timeout => "error",
            Outcome::Fenced => return,
        };
        series.total.with_label_values(&[result]).inc();
        if result == "error" {
            series.errors.inc();
        }
        match outcome {
            Outcome::TerminalError => series.terminal_errors.inc(),
            Outcome::Panic => series.panics.inc(),
            Outcome::Timeout => series.timeouts.inc(),
            _ => {}
        }
    }

    pub(super) fn active(&self) -> Active {
        self.series.active.inc();
        Active(self.series.active.clone())
    }
}

impl Series {
    fn new(controller: &str) -> prometheus::Result<Self> {
        let opts = |metric: &str, help: &str| {
            Opts::new(
                format!("controller_runtime_{metric}"),
                format!("[ALPHA] {help} per controller"),
            )
            .const_label("controller", controller)
        };
        let counter = |metric: &str, help: &str| IntCounter::with_opts(opts(metric, help));
        let gauge = |metric: &str, help: &str| IntGauge::with_opts(opts(metric, help));
        Ok(Self {
            total: IntCounterVec::new(
                opts("reconcile_total", "Total number of reconciliations"),
                &["result"],
            )?,
            errors: counter("reconcile_errors_total", "Total number of reconciliation errors")?,
            terminal_errors: counter(
                "terminal_reconcile_errors_total",
                "Total number of reconciliation errors that are not retried",
            )?,
            panics: counter("reconcile_panics_total", "Total number of reconciliation panics")?,
            timeouts: counter(
                "reconcile_timeouts_total",
                "Total number of reconciliations that timed out",
            )?,
            time: Histogram::with_opts(
                HistogramOpts::from(opts(
                    "reconcile_time_seconds",
                    "Length of time of a reconciliation",
                ))
                .buckets(SECONDS.to_vec()),
            )?,
            max_concurrent: gauge(
                "max_concurrent_reconciles",
                "Maximum number of concurrent reconciliations",
            )?,
            active: gauge("active_workers", "Number of workers that are reconciling")?,
        })
    }

    fn all(&self) -> [&dyn Collector; 8] {
        [
            &self.total,
            &self.errors,
            &self.terminal_errors,
            &self.panics,
            &self.timeouts,
            &self.time,
            &self.max_concurrent,
            &self.active,
        ]
    }
}

/// One collector for all metrics, so that they are registered together or not at all.
impl Collector for Series {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        // The only error is that it is not registered.
        let _ = self.registry.unregister(Box::new(self.series.clone()));
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.dec();
    }
}
