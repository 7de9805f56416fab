//! Decides from the Lease whether its holder is alive. Without I/O or a clock: time is passed in.
//!
//! As in the election, a holder is alive until its record has not changed for the lease duration, by the local monotonic clock;
//! timestamps in the record are ignored. An observer, unlike a candidate, does not write the Lease, so only a read can disprove
//! the expiry: a holder is considered dead only when a read that was sent after the expiry returns the record unchanged. A
//! silent watch is not proof.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use steersman_manager::env::later;

use super::State;

/// Used if the record has no lease duration: kube-controller-manager's default.
const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(15);
/// The observed state stays valid this long without a watch: a restart of the API server must not restart every controller.
const UNWATCHED_GRACE: Duration = Duration::from_secs(10);

/// The fields of a Lease that identify a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease {
    uid: Value,
    spec: Value,
}

/// The observed history of the Lease.
#[derive(Debug)]
pub(super) struct ObservedLease {
    /// The last observed record; none if the Lease did not exist.
    lease: Option<Lease>,
    /// The last holder, unless it released the Lease. Kept when the Lease is deleted: its holder does not notice.
    holder: Option<Holder>,
    /// Send time of the last successful read.
    read: Option<Instant>,
    /// Set while there is no watch.
    unwatched: Option<Unwatched>,
}

#[derive(Debug)]
struct Holder {
    identity: String,
    /// Expiry, unless the record changes.
    expires_at: Instant,
}

#[derive(Debug)]
struct Unwatched {
    /// Time at which the observed state becomes stale.
    stale_at: Instant,
    /// None before the first attempt.
    reason: Option<String>,
}

impl Lease {
    pub(super) fn new(object: &Value) -> Self {
        Self {
            uid: object["metadata"]["uid"].clone(),
            spec: object["spec"].clone(),
        }
    }

    /// Empty if the Lease is not held.
    fn holder(&self) -> &str {
        self.spec["holderIdentity"].as_str().unwrap_or_default()
    }

    fn duration(&self) -> Duration {
        let seconds = self.spec["leaseDurationSeconds"].as_u64();
        seconds
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_LEASE_DURATION, Duration::from_secs)
    }
}

impl ObservedLease {
    /// Starts without any observation.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            lease: None,
            holder: None,
            read: None,
            unwatched: Some(Unwatched {
                stale_at: now,
                reason: None,
            }),
        }
    }

    /// Records the Lease, or its absence, at `now`.
    pub(super) fn observe(&mut self, now: Instant, lease: Option<Lease>) {
        if self.lease == lease {
            return;
        }
        if let Some(lease) = &lease {
            let identity = lease.holder();
            self.holder = (!identity.is_empty()).then(|| Holder {
                identity: identity.to_owned(),
                expires_at: later(now, lease.duration()),
            });
        }
        self.lease = lease;
    }

    /// Records the response, at `now`, to a read that was sent at `sent`.
    pub(super) fn observe_read(&mut self, sent: Instant, now: Instant, lease: Option<Lease>) {
        self.observe(now, lease);
        self.read = Some(sent);
    }

    /// Records that a watch was opened.
    pub(super) fn watch_opened(&mut self) {
        self.unwatched = None;
    }

    /// Records that there is no watch at `now`.
    pub(super) fn watch_lost(&mut self, now: Instant, reason: String) {
        let stale_at = self.stale_at().unwrap_or(later(now, UNWATCHED_GRACE));
        let reason = Some(reason);
        self.unwatched = Some(Unwatched { stale_at, reason });
    }

    /// Returns the expiry if the Lease must be read then to confirm it; none if it is not held.
    pub(super) fn read_due(&self) -> Option<Instant> {
        let expires_at = self.holder.as_ref()?.expires_at;
        self.read
            .is_none_or(|read| read < expires_at)
            .then_some(expires_at)
    }

    /// Returns the time at which the state becomes stale without a watch.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        self.unwatched.as_ref().map(|it| it.stale_at)
    }

    pub(super) fn state(&self, now: Instant) -> State {
        if let Some(Unwatched { stale_at, reason }) = &self.unwatched
            && *stale_at <= now
        {
            let unknown = |reason| State::Unknown { reason };
            return reason.clone().map_or(State::Unread, unknown);
        }
        match (&self.holder, &self.lease) {
            (Some(holder), _) if self.read_due().is_some() => State::Alive {
                holder: holder.identity.clone(),
            },
            (_, Some(_)) => State::Expired,
            (_, None) => State::Absent,
        }
    }
}
