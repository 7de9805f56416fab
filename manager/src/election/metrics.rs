//! The `leader_election_*` metrics of client-go.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::metrics::Registry;

#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) leading: IntGauge,
    /// Renewals that had to read the Lease first.
    pub(super) slow: IntCounter,
}

impl Metrics {
    pub(super) fn register(name: &str, registry: &Registry) -> prometheus::Result<Self> {
        let leading = IntGaugeVec::new(
            Opts::new(
                "leader_election_master_status",
                "[ALPHA] Whether this process is the leader: 1 for the leader, 0 for a standby.",
            ),
            &["name"],
        )?;
        let slow = IntCounterVec::new(
            Opts::new(
                "leader_election_slowpath_total",
                "[ALPHA] Number of renewals that had to read the lease before writing it.",
            ),
            &["name"],
        )?;
        registry.register(Box::new(leading.clone()))?;
        registry.register(Box::new(slow.clone()))?;
        // Both are exposed with the value 0.
        Ok(Self {
            leading: leading.with_label_values(&[name]),
            slow: slow.with_label_values(&[name]),
        })
    }
}
