//! The series of the collector.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use coxswain_manager::object::Resource;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use super::graph::Deed;

/// The series. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    objects: IntCounterVec,
    lookups: IntCounterVec,
    unsynced: IntGaugeVec,
    unlisted: IntCounterVec,
    /// Those that are shown in `unsynced`.
    shown: Arc<Mutex<BTreeSet<String>>>,
}

impl Metrics {
    /// Registers them, once per registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let unsynced = IntGaugeVec::new(
            Opts::new(
                "coxswain_garbage_collector_unsynced",
                "[ALPHA] 1 for each kind of which it is not known what there is.",
            ),
            &["resource"],
        )?;
        registry.register(Box::new(unsynced.clone()))?;
        Ok(Self {
            objects: counter(
                "coxswain_garbage_collector_objects_total",
                "[ALPHA] What was done to objects; with dry_run, what would have been done.",
                &["action", "dry_run"],
            )?,
            lookups: counter(
                "coxswain_garbage_collector_lookups_total",
                "[ALPHA] Owners that were asked for, by what the API server said.",
                &["result"],
            )?,
            unlisted: counter(
                "coxswain_garbage_collector_unlisted_total",
                "[ALPHA] Owners whose dependents of a kind were let go without a list of that kind.",
                &["resource"],
            )?,
            unsynced,
            shown: Arc::default(),
        })
    }

    pub(super) fn acted(&self, deed: &Deed, dry_run: bool) {
        let action = match deed {
            Deed::Delete(_) => "delete",
            Deed::RemoveOwners { .. } => "remove_owners",
            Deed::Unblock { .. } => "unblock",
            Deed::RemoveFinalizer { .. } => "remove_finalizer",
        };
        let dry_run = if dry_run { "true" } else { "false" };
        self.objects.with_label_values(&[action, dry_run]).inc();
    }

    pub(super) fn looked_up(&self, result: &str) {
        self.lookups.with_label_values(&[result]).inc();
    }

    pub(super) fn unlisted(&self, resource: &Resource, owners: usize) {
        let unlisted = self.unlisted.with_label_values(&[resource.to_string()]);
        unlisted.inc_by(owners as u64);
    }

    /// These kinds are unsynced, and no others.
    pub(super) fn unsynced<'a>(&self, resources: impl Iterator<Item = &'a Resource>) {
        let now: BTreeSet<String> = resources.map(ToString::to_string).collect();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in shown.difference(&now) {
            // Not there is as good as taken out.
            let _ = self.unsynced.remove_label_values(&[gone]);
        }
        for resource in &now {
            self.unsynced.with_label_values(&[resource]).set(1);
        }
        *shown = now;
    }
}
