//! The `leader_election_*` series, with the names and the label of client-go: dashboards exist.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The series of one Lease.
#[derive(Debug)]
pub(super) struct Metrics {
    /// 1 while this process leads.
    pub(super) leading: IntGauge,
    /// Renewals that needed a read.
    pub(super) slow: IntCounter,
}

impl Metrics {
    pub(super) fn register(name: &str, registry: &Registry) -> prometheus::Result<Self> {
        let leading = IntGaugeVec::new(
            Opts::new(
                "leader_election_master_status",
                "[ALPHA] Whether this process holds the lease and leads: 1 if it does, 0 if it stands by.",
            ),
            &["name"],
        )?;
        let slow = IntCounterVec::new(
            Opts::new(
                "leader_election_slowpath_total",
                "[ALPHA] Renewals that had to read the lease before they could write it.",
            ),
            &["name"],
        )?;
        registry.register(Box::new(leading.clone()))?;
        registry.register(Box::new(slow.clone()))?;
        // Both are there from the start, at 0.
        Ok(Self {
            leading: leading.with_label_values(&[name]),
            slow: slow.with_label_values(&[name]),
        })
    }
}
