//! The seven `workqueue_*` series, with the names, label and buckets of kube-controller-manager: dashboards exist.
//!
//! Those that count events are counted as they happen. The age of the work in process is computed when it is asked for:
//! kube-controller-manager does so every 500 ms, but a scrape then sees a value that is up to 500 ms old, and every queue
//! costs a timer that fires all day. (It would also keep a paused clock from ever coming to rest.)

use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry, exponential_buckets,
};

/// The series of one queue.
#[derive(Clone, Debug)]
pub(super) struct Series {
    depth: IntGauge,
    adds: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    retries: IntCounter,
}

/// Series in a registry, taken out again when this is dropped: a queue may be built again under its name.
#[derive(Debug)]
pub(super) struct Registration {
    registry: Registry,
    series: Series,
}

/// What the registry asks.
struct Scrape<F> {
    series: Series,
    ages: F,
}

impl Series {
    pub(super) fn new(name: &str) -> prometheus::Result<Self> {
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
            retries: IntCounter::with_opts(opts(
                "retries_total",
                "Total number of retries handled by workqueue",
            ))?,
        })
    }

    pub(super) fn added(&self) {
        self.depth.inc();
        self.adds.inc();
    }

    pub(super) fn handed_out(&self, waited: Duration) {
        self.depth.dec();
        self.queue_duration.observe(waited.as_secs_f64());
    }

    pub(super) fn done(&self, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
    }

    pub(super) fn retried(&self) {
        self.retries.inc();
    }

    /// Registers the series, so that they are there at 0 before anything happens. `ages` tells, at every scrape, how long
    /// each item in process has been there: all together, and the longest.
    pub(super) fn register<F>(&self, registry: &Registry, ages: F) -> prometheus::Result<Registration>
    where
        F: Fn() -> (Duration, Duration) + Send + Sync + 'static,
    {
        let series = self.clone();
        registry.register(Box::new(Scrape { series, ages }))?;
        Ok(Registration {
            registry: registry.clone(),
            series: self.clone(),
        })
    }

    fn all(&self) -> [&dyn Collector; 7] {
        [
            &self.depth,
            &self.adds,
            &self.queue_duration,
            &self.work_duration,
            &self.unfinished,
            &self.longest,
            &self.retries,
        ]
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let scrape = Scrape {
            series: self.series.clone(),
            ages: Default::default,
        };
        // The only error is that it is not registered, which is what is wanted.
        let _ = self.registry.unregister(Box::new(scrape));
    }
}

impl<F: Fn() -> (Duration, Duration) + Send + Sync> Collector for Scrape<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.series.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (unfinished, longest) = (self.ages)();
        self.series.unfinished.set(unfinished.as_secs_f64());
        self.series.longest.set(longest.as_secs_f64());
        self.series
            .all()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}
