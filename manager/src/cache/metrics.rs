//! What caches show to the operator, under the labels of kube-controller-manager's `informer_*` series.
//!
//! All but the counters is computed when it is scraped. Several caches of one resource, in different projections, are
//! shown as one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGaugeVec, Opts};

use super::problem::Reason;
use super::shared::Numbers;
use crate::object::Resource;

const LABELS: [&str; 4] = ["name", "group", "version", "resource"];
/// The value of the label `name`.
const NAME: &str = "coxswain";

/// The series of all caches.
#[derive(Clone, Debug)]
pub(super) struct Series {
    queued: IntGaugeVec,
    version: IntGaugeVec,
    objects: IntGaugeVec,
    bytes: IntGaugeVec,
    undecodable: IntGaugeVec,
    age: GaugeVec,
    relists: IntCounterVec,
    silent: IntCounterVec,
    refused: IntCounterVec,
    restored: IntCounterVec,
    /// Held while they are shown, and while those of a cache are taken away.
    showing: Arc<Mutex<()>>,
}

/// What one cache counts.
#[derive(Debug)]
pub(super) struct Meter {
    relists: [(Reason, IntCounter); Reason::ALL.len()],
    /// Watches that were given up because nothing came.
    pub(super) silent: IntCounter,
    /// Lists that were older than what was seen.
    pub(super) refused: IntCounter,
    /// Times that the cache started over because the API's store was restored.
    pub(super) restored: IntCounter,
}

/// What the registry asks.
pub(super) struct Scrape<F> {
    pub(super) series: Series,
    /// All caches.
    pub(super) numbers: F,
}

impl Series {
    pub(super) fn new() -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &LABELS);
        let counter = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &LABELS);
        let [name, group, version, resource] = LABELS;
        Ok(Self {
            queued: gauge(
                "informer_queued_items",
                "[ALPHA] Number of objects with changes that the slowest subscriber of the cache has not taken.",
            )?,
            version: gauge(
                "informer_store_resource_version",
                "[ALPHA] The resource version that the cache has reached: its last 15 digits.",
            )?,
            objects: gauge("coxswain_cache_objects", "Number of objects in the cache.")?,
            bytes: gauge(
                "coxswain_cache_bytes",
                "About how much memory the objects in the cache take.",
            )?,
            undecodable: gauge(
                "coxswain_cache_undecodable_objects",
                "Number of objects that are there but could not be decoded.",
            )?,
            age: GaugeVec::new(
                Opts::new(
                    "coxswain_cache_age_seconds",
                    "Time since the cache was last known to show the present state: by an event, a bookmark or a list.",
                ),
                &LABELS,
            )?,
            relists: IntCounterVec::new(
                Opts::new(
                    "coxswain_cache_relists_total",
                    "Number of lists that were read after the first one, or tried, by reason.",
                ),
                &[name, group, version, resource, "reason"],
            )?,
            silent: counter(
                "coxswain_cache_watches_silent_total",
                "Number of watches that were reopened because nothing came, not even a bookmark.",
            )?,
            refused: counter(
                "coxswain_cache_older_lists_total",
                "Number of lists that were older than what had been seen, and were refused.",
            )?,
            restored: counter(
                "coxswain_cache_restarts_total",
                "Number of times that the cache started over because the API server's store was restored.",
            )?,
            showing: Arc::default(),
        })
    }

    /// The counters of one cache, there at 0 before anything happens.
    pub(super) fn meter(&self, resource: &Resource) -> Meter {
        let labels = labels(resource);
        let [name, group, version, plural] = labels;
        Meter {
            relists: Reason::ALL.map(|reason| {
                let labels = [name, group, version, plural, reason.label()];
                (reason, self.relists.with_label_values(&labels))
            }),
            silent: self.silent.with_label_values(&labels),
            refused: self.refused.with_label_values(&labels),
            restored: self.restored.with_label_values(&labels),
        }
    }

    /// While this is held, nothing is shown.
    pub(super) fn showing(&self) -> MutexGuard<'_, ()> {
        self.showing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the series of a resource away.
    pub(super) fn forget(&self, resource: &Resource) {
        let labels = labels(resource);
        let [name, group, version, plural] = labels;
        // The only error is that there is none, which is what is wanted.
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
        for counter in [&self.silent, &self.refused, &self.restored] {
            let _ = counter.remove_label_values(&labels);
        }
        for reason in Reason::ALL {
            let labels = [name, group, version, plural, reason.label()];
            let _ = self.relists.remove_label_values(&labels);
        }
    }

    fn show(&self, resource: &Resource, numbers: &Numbers) {
        let labels = labels(resource);
        let set = |gauge: &IntGaugeVec, value: usize| {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            gauge.with_label_values(&labels).set(value);
        };
        set(&self.queued, numbers.queued);
        set(&self.objects, numbers.objects);
        set(&self.bytes, numbers.bytes);
        set(&self.undecodable, numbers.undecodable);
        self.version.with_label_values(&labels).set(numbers.version);
        self.age.with_label_values(&labels).set(numbers.age.as_secs_f64());
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
            &self.silent,
            &self.refused,
            &self.restored,
        ]
    }
}

impl Meter {
    /// A list is read again.
    pub(super) fn relisted(&self, reason: Reason) {
        for (_, counter) in self.relists.iter().filter(|(it, _)| *it == reason) {
            counter.inc();
        }
    }
}

impl<F: Fn() -> Vec<(Resource, Numbers)> + Send + Sync> Collector for Scrape<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.series.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _showing = self.series.showing();
        let mut resources: BTreeMap<Resource, Numbers> = BTreeMap::new();
        for (resource, numbers) in (self.numbers)() {
            let all = resources.entry(resource).or_insert(Numbers {
                version: numbers.version,
                ..Numbers::default()
            });
            all.objects += numbers.objects;
            all.bytes += numbers.bytes;
            all.undecodable += numbers.undecodable;
            all.age = all.age.max(numbers.age);
            all.queued = all.queued.max(numbers.queued);
            all.version = all.version.min(numbers.version);
        }
        for (resource, numbers) in &resources {
            self.series.show(resource, numbers);
        }
        self.series
            .all()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

fn labels(resource: &Resource) -> [&str; 4] {
    [NAME, &resource.group, &resource.version, &resource.plural]
}
