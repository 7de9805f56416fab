//! The `workqueue_*` metrics of kube-controller-manager, and the age of the oldest item.
//!
//! They are updated when they are scraped. kube-controller-manager updates the age of unfinished work every 500 ms; that
//! needs a timer per queue and yields values up to 500 ms old. (A timer would also keep a paused clock from coming to rest.)

use std::time::Duration;

use crate::metrics::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, Opts, exponential_buckets};

/// The metrics of one queue.
#[derive(Clone, Debug)]
pub(super) struct Series {
    depth: IntGauge,
    adds: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    oldest: Gauge,
    retries: IntCounter,
}

/// Counts since the last scrape, kept under the lock of the queue: atomics would cost as much as an add, get and done
/// together.
#[derive(Debug)]
pub(super) struct Meter {
    adds: LocalIntCounter,
    queue_duration: LocalHistogram,
    work_duration: LocalHistogram,
    retries: LocalIntCounter,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauges {
    /// Accepted adds that have not been handed out.
    pub(super) depth: usize,
    /// The sum of the processing times.
    pub(super) unfinished: Duration,
    /// The longest processing time.
    pub(super) longest: Duration,
    /// The time that the oldest queued item has waited.
    pub(super) oldest: Duration,
}

/// Unregisters the metrics on drop, so that a queue can be rebuilt under its name.
#[derive(Debug)]
pub(super) struct Registration {
    registry: Registry,
    series: Series,
}

/// The collector that the registry calls.
struct Scrape<F> {
    series: Series,
    gauges: F,
}

impl Series {
    pub(super) fn new(name: &str, registry: &Registry) -> prometheus::Result<Self> {
        let opts = |metric: &str, help: &str| {
            Opts::new(format!("workqueue_{metric}"), format!("[BETA] {help}")).const_label("name", name)
        };
        let buckets = exponential_buckets(10e-9, 10.0, 10)?;
        let histogram = |metric: &str, help: &str| {
            Histogram::with_opts(HistogramOpts::from(opts(metric, help)).buckets(buckets.clone()))
        };
        Ok(Self {
            depth: IntGauge::with_opts(opts("depth", "Current depth of workqueue"))?,
            adds: IntCounter::with_opts(opts("adds_total", "Total number of adds handled by workqueue"))?,
            queue_duration: histogram(
                "queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
            )?,
            work_duration: histogram(
                "work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
            )?,
            unfinished: Gauge::with_opts(opts(
                "unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and hasn't been observed by \
                 work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by \
                 observing the rate at which this increases.",
            ))?,
            longest: Gauge::with_opts(opts(
                "longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
            ))?,
            oldest: Gauge::with_opts(
                Opts::new(
                    registry.prefixed("workqueue_oldest_item_seconds"),
                    "[ALPHA] Time that the oldest item has waited in the workqueue, without items in backoff; 0 if it is \
                     empty.",
                )
                .const_label("name", name),
            )?,
            retries: IntCounter::with_opts(opts(
                "retries_total",
                "Total number of retries handled by workqueue",
            ))?,
        })
    }

    pub(super) fn meter(&self) -> Meter {
        Meter {
            adds: self.adds.local(),
            queue_duration: self.queue_duration.local(),
            work_duration: self.work_duration.local(),
            retries: self.retries.local(),
        }
    }

    /// Registers the metrics with the value 0. `gauges` is called at every scrape: it flushes the meter and reads the queue
    /// under its lock.
    pub(super) fn register<F>(&self, registry: &Registry, gauges: F) -> prometheus::Result<Registration>
    where
        F: Fn() -> Gauges + Send + Sync + 'static,
    {
        let series = self.clone();
        registry.register(Box::new(Scrape { series, gauges }))?;
        Ok(Registration {
            registry: registry.clone(),
            series: self.clone(),
        })
    }

    fn all(&self) -> [&dyn Collector; 8] {
        [
            &self.depth,
            &self.adds,
            &self.queue_duration,
            &self.work_duration,
            &self.unfinished,
            &self.longest,
            &self.oldest,
            &self.retries,
        ]
    }
}

impl Meter {
    pub(super) fn added(&self) {
        self.adds.inc();
    }

    pub(super) fn handed_out(&self, waited: Duration) {
        self.queue_duration.observe(waited.as_secs_f64());
    }

    pub(super) fn done(&self, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
    }

    pub(super) fn retried(&self) {
        self.retries.inc();
    }

    pub(super) fn flush(&self) {
        self.adds.flush();
        self.queue_duration.flush();
        self.work_duration.flush();
        self.retries.flush();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let scrape = Scrape {
            series: self.series.clone(),
            gauges: Gauges::default,
        };
        // Fails only if the collector is not registered.
        let _ = self.registry.unregister(Box::new(scrape));
    }
}

impl<F: Fn() -> Gauges + Send + Sync> Collector for Scrape<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.series.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauges = (self.gauges)();
        self.series
            .depth
            .set(i64::try_from(gauges.depth).unwrap_or(i64::MAX));
        self.series.unfinished.set(gauges.unfinished.as_secs_f64());
        self.series.longest.set(gauges.longest.as_secs_f64());
        self.series.oldest.set(gauges.oldest.as_secs_f64());
        self.series
            .all()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}
