//! Cache metrics, with the labels of kube-controller-manager's `informer_*` metrics.
//!
//! Gauges are computed by a scrape. The caches of one resource, in different projections, are reported as one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGaugeVec, Opts};

use crate::metrics::Registry;
use crate::object::Resource;

/// The labels besides `name`, which is the name of the manager.
const LABELS: [&str; 3] = ["group", "version", "resource"];

/// The metrics of all caches.
#[derive(Clone, Debug)]
pub(super) struct CacheMetrics {
    queued: IntGaugeVec,
    version: IntGaugeVec,
    objects: IntGaugeVec,
    bytes: IntGaugeVec,
    undecodable: IntGaugeVec,
    age: GaugeVec,
    relists: IntCounterVec,
    idle_watches: IntCounterVec,
    older_lists: IntCounterVec,
    restores: IntCounterVec,
    /// Held during a scrape, and while the metrics of a cache are removed.
    scraping: Arc<Mutex<()>>,
}

/// The statistics of the caches of a resource for its metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheStats {
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
    pub(crate) undecodable: usize,
    /// The time since the last event, bookmark or list.
    pub(crate) age: Duration,
    pub(super) version: i64,
    /// The largest backlog of a subscriber.
    pub(super) queued: usize,
}

/// The reason of a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RelistReason {
    /// [`Cache::relist`](crate::cache::Cache::relist) was called.
    Requested,
    /// The version that the cache has reached has expired (410 Gone).
    Expired,
    /// The API server is behind the cache.
    Older,
    /// The resource is not served or forbidden.
    Unserved,
    Error,
}

impl RelistReason {
    pub(super) const ALL: [Self; 5] = [
        Self::Requested,
        Self::Expired,
        Self::Older,
        Self::Unserved,
        Self::Error,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Requested => "asked",
            Self::Expired => "expired",
            Self::Older => "older",
            Self::Unserved => "unserved",
            Self::Error => "error",
        }
    }
}

/// The counters of one cache.
#[derive(Debug)]
pub(super) struct Counters {
    relists: [(RelistReason, IntCounter); RelistReason::ALL.len()],
    /// Watches that were closed because they were idle.
    pub(super) idle_watches: IntCounter,
    /// Lists that were older than the cache.
    pub(super) older_lists: IntCounter,
    /// Resets of the cache because the store of the API server was restored.
    pub(super) restores: IntCounter,
}

/// The collector that the registry scrapes.
pub(super) struct CacheCollector<F> {
    pub(super) series: CacheMetrics,
    /// Returns the statistics of each resource.
    pub(super) stats: F,
}

impl CacheMetrics {
    /// Returns the metrics of the caches of `manager`, named for `registry`.
    pub(super) fn new(manager: &str, registry: &Registry) -> prometheus::Result<Self> {
        let own = |name: &str| registry.prefixed(name);
        let opts = |name: &str, help: &str| Opts::new(name, help).const_label("name", manager);
        let gauge = |name: &str, help: &str| IntGaugeVec::new(opts(name, help), &LABELS);
        let counter = |name: &str, help: &str| IntCounterVec::new(opts(name, help), &LABELS);
        let [group, version, resource] = LABELS;
        Ok(Self {
            queued: gauge(
                "informer_queued_items",
                "[ALPHA] Number of objects with changes that the slowest subscriber of the cache has not received.",
            )?,
            version: gauge(
                "informer_store_resource_version",
                "[ALPHA] Last 15 digits of the resource version that the cache has reached.",
            )?,
            objects: gauge(&own("cache_objects"), "[ALPHA] Number of objects in the cache.")?,
            bytes: gauge(
                &own("cache_bytes"),
                "[ALPHA] Approximate memory size of the objects in the cache.",
            )?,
            undecodable: gauge(
                &own("cache_undecodable_objects"),
                "[ALPHA] Number of objects that could not be decoded.",
            )?,
            age: GaugeVec::new(
                opts(
                    &own("cache_age_seconds"),
                    "[ALPHA] Time since the last event, bookmark or list of the cache.",
                ),
                &LABELS,
            )?,
            relists: IntCounterVec::new(
                opts(
                    &own("cache_relists_total"),
                    "[ALPHA] Number of attempted lists after the first one, by reason.",
                ),
                &[group, version, resource, "reason"],
            )?,
            idle_watches: counter(
                &own("cache_watches_silent_total"),
                "[ALPHA] Number of watches that were reopened because they received neither an event nor a bookmark.",
            )?,
            older_lists: counter(
                &own("cache_older_lists_total"),
                "[ALPHA] Number of lists that were rejected because they were older than the cache.",
            )?,
            restores: counter(
                &own("cache_restarts_total"),
                "[ALPHA] Number of times that the cache was rebuilt because the store of the API server was restored from a backup.",
            )?,
            scraping: Arc::default(),
        })
    }

    /// Returns the counters of one cache, initialized to 0.
    pub(super) fn counters(&self, resource: &Resource) -> Counters {
        let labels = labels(resource);
        let [group, version, plural] = labels;
        Counters {
            relists: RelistReason::ALL.map(|reason| {
                let labels = [group, version, plural, reason.label()];
                (reason, self.relists.with_label_values(&labels))
            }),
            idle_watches: self.idle_watches.with_label_values(&labels),
            older_lists: self.older_lists.with_label_values(&labels),
            restores: self.restores.with_label_values(&labels),
        }
    }

    /// Blocks scrapes.
    pub(super) fn scraping(&self) -> MutexGuard<'_, ()> {
        self.scraping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the metrics of a resource.
    pub(super) fn forget(&self, resource: &Resource) {
        let labels = labels(resource);
        let [group, version, plural] = labels;
        // Fails only if there is none.
        for gauge in [
            &self.queued,
            &self.version,
            &self.objects,
            &self.bytes,
            &self.undecodable,
        ] {
            let _ = gauge.remove_label_values(&labels);
        }
        let _ = self.age.remove_label_values(&labels);
        for counter in [&self.idle_watches, &self.older_lists, &self.restores] {
            let _ = counter.remove_label_values(&labels);
        }
        for reason in RelistReason::ALL {
            let labels = [group, version, plural, reason.label()];
            let _ = self.relists.remove_label_values(&labels);
        }
    }

    fn set(&self, resource: &Resource, stats: &CacheStats) {
        let labels = labels(resource);
        let set = |gauge: &IntGaugeVec, value: usize| {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            gauge.with_label_values(&labels).set(value);
        };
        set(&self.queued, stats.queued);
        set(&self.objects, stats.objects);
        set(&self.bytes, stats.bytes);
        set(&self.undecodable, stats.undecodable);
        self.version.with_label_values(&labels).set(stats.version);
        self.age.with_label_values(&labels).set(stats.age.as_secs_f64());
    }

    fn all(&self) -> [&dyn Collector; 10] {
        [
            &self.queued,
            &self.version,
            &self.objects,
            &self.bytes,
            &self.undecodable,
            &self.age,
            &self.relists,
            &self.idle_watches,
            &self.older_lists,
            &self.restores,
        ]
    }
}

impl Counters {
    pub(super) fn relisted(&self, reason: RelistReason) {
        for (_, counter) in self.relists.iter().filter(|(it, _)| *it == reason) {
            counter.inc();
        }
    }
}

impl<F: Fn() -> Vec<(Resource, CacheStats)> + Send + Sync> Collector for CacheCollector<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.series.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _scraping = self.series.scraping();
        for (resource, stats) in (self.stats)() {
            self.series.set(&resource, &stats);
        }
        self.series
            .all()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

fn labels(resource: &Resource) -> [&str; 3] {
    [&resource.group, &resource.version, &resource.plural]
}
