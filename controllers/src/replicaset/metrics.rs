//! Metrics, shared by the controllers of all kinds of owners.

use std::sync::Arc;

use jiff::Timestamp;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry};
use steersman_manager::object::Resource;

use super::Pod;

/// The metrics of the controllers. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    age_ratio: Histogram,
    stale: IntCounterVec,
}

impl Metrics {
    /// Registers the metrics, once per registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let help = "[ALPHA] The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). \
                    Should be <2.";
        let opts = HistogramOpts::new("replicaset_controller_sorting_deletion_age_ratio", help);
        let age_ratio = Histogram::with_opts(opts.buckets(vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0]))?;
        let help = "[ALPHA] Number of syncs skipped because a cache did not show the last write yet.";
        let opts = Opts::new("replicaset_controller_stale_sync_skips_total", help);
        let stale = IntCounterVec::new(opts, &["group", "resource"])?;
        registry.register(Box::new(age_ratio.clone()))?;
        registry.register(Box::new(stale.clone()))?;
        Ok(Self { age_ratio, stale })
    }

    /// Exports the skipped syncs of a resource as 0.
    pub(super) fn init_skips(&self, resource: &Resource) {
        self.stale.with_label_values(&[&resource.group, &resource.plural]);
    }

    pub(super) fn record_skip(&self, resource: &Resource) {
        self.stale
            .with_label_values(&[&resource.group, &resource.plural])
            .inc();
    }

    /// Records the ages of the pods selected for deletion. Nothing is selected if all pods are deleted.
    #[expect(clippy::cast_precision_loss, reason = "a small ratio")]
    pub(super) fn record_deletes(&self, selected: &[Arc<Pod>], pods: &[Arc<Pod>], now: Timestamp) {
        if selected.len() == pods.len() {
            return;
        }
        let age = |pod: &Arc<Pod>| {
            let created = pod.metadata.creation_timestamp.filter(|_| pod.is_ready())?;
            Some(now.duration_since(created).as_millis())
        };
        let Some(youngest @ 1..) = pods.iter().filter_map(age).min() else {
            return;
        };
        for age in selected.iter().filter_map(age) {
            self.age_ratio.observe((age / youngest) as f64);
        }
    }
}
