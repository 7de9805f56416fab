//! The metrics of the collector.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use steersman_manager::object::Resource;

use super::graph::{Operation, Sizes};

/// The labels of the writes.
const ACTIONS: [&str; 4] = ["delete", "remove_owners", "unblock", "remove_finalizer"];
/// The labels of live reads.
const LOOKUPS: [&str; 5] = ["error", "not_found", "other_uid", "solid", "waiting"];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    objects: IntCounterVec,
    lookups: IntCounterVec,
    unsynced: IntGaugeVec,
    graph: IntGaugeVec,
    unlisted: IntCounterVec,
    /// The labels of `unsynced`.
    shown: Arc<Mutex<BTreeSet<String>>>,
}

impl Metrics {
    /// Registers the metrics. A registry accepts them once.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let unsynced = IntGaugeVec::new(
            Opts::new(
                "steersman_garbage_collector_unsynced",
                "[ALPHA] 1 for each resource that has not synced.",
            ),
            &["resource"],
        )?;
        registry.register(Box::new(unsynced.clone()))?;
        let graph = IntGaugeVec::new(
            Opts::new(
                "steersman_garbage_collector_graph_objects",
                "[ALPHA] Number of objects in the graph: observed objects, virtual owners, and absent owners with dependents.",
            ),
            &["state"],
        )?;
        registry.register(Box::new(graph.clone()))?;
        let metrics = Self {
            objects: counter(
                "steersman_garbage_collector_objects_total",
                "[ALPHA] Number of writes, by action. With dry_run, writes that would have been sent.",
                &["action", "dry_run"],
            )?,
            lookups: counter(
                "steersman_garbage_collector_lookups_total",
                "[ALPHA] Number of live reads of owners, by result.",
                &["result"],
            )?,
            unlisted: counter(
                "steersman_garbage_collector_unlisted_total",
                "[ALPHA] Number of owners whose dependents were orphaned without a list of the resource.",
                &["resource"],
            )?,
            unsynced,
            graph,
            shown: Arc::default(),
        };
        // Exported as 0 before the first change.
        for action in ACTIONS {
            for dry_run in ["false", "true"] {
                metrics.objects.with_label_values(&[action, dry_run]);
            }
        }
        for result in LOOKUPS {
            metrics.lookups.with_label_values(&[result]);
        }
        metrics.graph(Sizes::default());
        Ok(metrics)
    }

    pub(super) fn acted(&self, operation: &Operation, dry_run: bool) {
        let action = match operation {
            Operation::Delete(_) => "delete",
            Operation::RemoveOwners { .. } => "remove_owners",
            Operation::Unblock { .. } => "unblock",
            Operation::RemoveFinalizer { .. } => "remove_finalizer",
        };
        let dry_run = if dry_run { "true" } else { "false" };
        self.objects.with_label_values(&[action, dry_run]).inc();
    }

    pub(super) fn looked_up(&self, result: &str) {
        self.lookups.with_label_values(&[result]).inc();
    }

    pub(super) fn graph(&self, sizes: Sizes) {
        let Sizes {
            observed,
            virtual_owners,
            absent,
        } = sizes;
        for (state, size) in [
            ("observed", observed),
            ("virtual", virtual_owners),
            ("absent", absent),
        ] {
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            self.graph.with_label_values(&[state]).set(size);
        }
    }

    pub(super) fn unlisted(&self, resource: &Resource, owners: usize) {
        let unlisted = self.unlisted.with_label_values(&[resource.to_string()]);
        unlisted.inc_by(owners as u64);
    }

    /// Replaces the set of unsynced kinds.
    pub(super) fn unsynced<'a>(&self, resources: impl Iterator<Item = &'a Resource>) {
        let now: BTreeSet<String> = resources.map(ToString::to_string).collect();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in shown.difference(&now) {
            // A label that does not exist is removed already.
            let _ = self.unsynced.remove_label_values(&[gone]);
        }
        for resource in &now {
            self.unsynced.with_label_values(&[resource]).set(1);
            // Exported as 0 before the first one.
            self.unlisted.with_label_values(&[resource]);
        }
        *shown = now;
    }
}
