//! The state of the Lease as one candidate observes it, and the decisions that follow. No I/O; the time is passed in.
//!
//! Two decisions are separate. The Lease may be *acquired* when it has no holder, or when its record has not changed for its
//! lease duration by the local monotonic clock; times in the record are never compared with local ones. The new holder may
//! *lead* from [`LeaseState::earliest_start`] on, when no previous holder, observed or missed, can still believe that it is
//! the leader. The two differ only if another client has deleted, cleared or rewritten the Lease. A release by the holder
//! itself is recognised, and permits leading immediately.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::record::{Claim, Record, micros};
use crate::client::Takeover;
use crate::env::later;
use crate::object::{Key, Version};

/// The Lease as observed by one candidate.
#[derive(Debug)]
pub(super) struct LeaseState {
    key: Key,
    identity: String,
    lease_duration: Duration,
    observed: Observed,
    /// The newest resourceVersion observed, including that of a deleted Lease.
    newest: Version,
    /// Whether a Lease was ever observed: then its absence is the work of another client.
    existed: bool,
    /// The last claim sent, whether written or not. A record with our identity but another claim is not ours.
    claim: Option<SentClaim>,
    /// The time of the last observed change of the record.
    observed_at: Option<Instant>,
    /// The expiry of the record; none if it has no holder.
    expires_at: Option<Instant>,
    /// The time until which a previous holder may believe that it is the leader.
    earliest_start: Option<Instant>,
}

#[derive(Debug)]
enum Observed {
    /// Nothing is known for certain: the Lease must be read.
    Unknown,
    Absent,
    Present(Record),
    /// The record before a write with unknown outcome.
    Outdated(Record),
}

/// Identifies a record that this candidate has written.
#[derive(Clone, Debug)]
struct SentClaim {
    /// The version of the record to replace; none for a create.
    over: Version,
    /// None for a create that was not observed yet.
    uid: Option<String>,
    acquired: Timestamp,
    transitions: i64,
    takeover: Takeover,
}

/// The next step of a candidate.
#[derive(Debug)]
pub(super) enum Step {
    Read,
    Create(Value),
    /// Acquires or renews the Lease.
    Replace(Value),
    /// Another candidate holds the Lease until then, unless it changes.
    Wait(Instant),
}

impl LeaseState {
    pub(super) fn new(key: Key, identity: String, lease_duration: Duration) -> Self {
        Self {
            key,
            identity,
            lease_duration,
            observed: Observed::Unknown,
            newest: Version::none(),
            existed: false,
            claim: None,
            observed_at: None,
            expires_at: None,
            earliest_start: None,
        }
    }

    /// Records an observation of the Lease; none if it is absent.
    pub(super) fn observe(&mut self, now: Instant, seen: Option<Record>) {
        let last = std::mem::replace(&mut self.observed, Observed::Unknown);
        let last = match last {
            Observed::Present(record) | Observed::Outdated(record) => Some(record),
            Observed::Unknown | Observed::Absent => None,
        };
        let Some(seen) = seen else {
            if self.existed {
                self.delay_start(later(now, self.lease_duration));
            }
            self.expires_at = None;
            self.observed = Observed::Absent;
            return;
        };
        if last.as_ref().is_none_or(|last| !last.has_same_spec(&seen)) {
            self.changed(now, last.as_ref(), &seen);
        }
        self.store(seen);
    }

    fn changed(&mut self, now: Instant, last: Option<&Record>, seen: &Record) {
        self.observed_at = Some(now);
        self.expires_at = None;
        // A longer wait than the record says is safe. A record that was tampered with may say less than its holder assumes.
        let expiry = later(
            now,
            seen.lease_duration().unwrap_or_default().max(self.lease_duration),
        );
        if self.is_ours(seen) {
            // Our own write.
        } else if seen.holder().is_empty() {
            if self.is_release_by_holder(last, seen) {
                self.earliest_start = None;
            } else if self.existed || !seen.was_never_held() {
                self.delay_start(expiry);
            }
        } else {
            self.delay_start(expiry);
            self.expires_at = Some(expiry);
        }
    }

    /// Reports whether `seen` was released by the last holder. A candidate that releases in this way was the leader, and
    /// no earlier leader was active any more; so the release covers all earlier terms.
    fn is_release_by_holder(&self, last: Option<&Record>, seen: &Record) -> bool {
        let Some(by) = seen.released_by() else {
            return false;
        };
        match last {
            None => !self.existed,
            Some(last) if last.uid() != seen.uid() => false,
            Some(last) if last.transitions() == seen.transitions() => last.holder() == by,
            Some(last) => last.transitions() < seen.transitions(),
        }
    }

    fn delay_start(&mut self, until: Instant) {
        self.earliest_start = self.earliest_start.max(Some(until));
    }

    fn is_ours(&self, record: &Record) -> bool {
        self.claim.as_ref().is_some_and(|claim| {
            record.holder() == self.identity
                && record.transitions() == claim.transitions
                && record.acquired() == Some(claim.acquired)
                && claim.uid.as_deref().is_none_or(|uid| uid == record.uid())
        })
    }

    /// A write has an unknown outcome: the Lease must be read before the next write.
    pub(super) fn invalidate(&mut self) {
        self.observed = match std::mem::replace(&mut self.observed, Observed::Unknown) {
            Observed::Present(record) | Observed::Outdated(record) => Observed::Outdated(record),
            Observed::Unknown | Observed::Absent => Observed::Unknown,
        };
    }

    /// Returns the next step. A claim in it counts as sent.
    pub(super) fn step(&mut self, now: Instant, wall: Timestamp) -> Step {
        match &self.observed {
            Observed::Unknown | Observed::Outdated(_) => Step::Read,
            Observed::Absent => {
                let claim = self.new_claim(None, 0, wall, Takeover::Unclean);
                let lease = Record::create(&self.key, &self.to_claim(&claim, wall));
                self.claim = Some(claim);
                Step::Create(lease)
            }
            Observed::Present(record) => {
                if let Some(until) = self.expires_at.filter(|until| *until > now) {
                    return Step::Wait(until);
                }
                let claim = self.claim_on(record, wall);
                let lease = record.claim(&self.to_claim(&claim, wall));
                self.claim = Some(claim);
                Step::Replace(lease)
            }
        }
    }

    fn claim_on(&self, record: &Record, wall: Timestamp) -> SentClaim {
        match &self.claim {
            Some(claim) if self.is_ours(record) => claim.clone(),
            _ => {
                let takeover = match record.written_versions() {
                    Some(versions) if self.earliest_start.is_none() && record.released_by().is_some() => {
                        Takeover::Clean(versions)
                    }
                    _ => Takeover::Unclean,
                };
                let transitions = record.transitions().saturating_add(1).min(i32::MAX.into());
                self.new_claim(Some(record), transitions, wall, takeover)
            }
        }
    }

    /// A claim over the same record as the previous one is the same claim, which may have been written already.
    fn new_claim(
        &self,
        record: Option<&Record>,
        transitions: i64,
        wall: Timestamp,
        takeover: Takeover,
    ) -> SentClaim {
        let over = record.map(Record::version).unwrap_or_default();
        let uid = record.map(|record| record.uid().to_owned());
        match &self.claim {
            Some(claim) if claim.over == over && claim.uid == uid && claim.transitions == transitions => {
                claim.clone()
            }
            _ => SentClaim {
                over,
                uid,
                acquired: micros(wall),
                transitions,
                takeover,
            },
        }
    }

    fn to_claim(&self, claim: &SentClaim, wall: Timestamp) -> Claim<'_> {
        Claim {
            identity: &self.identity,
            lease_duration: self.lease_duration,
            acquired: claim.acquired,
            renewed: wall,
            transitions: claim.transitions,
        }
    }

    /// Records a successful write.
    pub(super) fn record_write(&mut self, now: Instant, lease: Record) {
        self.observed_at = Some(now);
        self.expires_at = None;
        self.store(lease);
    }

    fn store(&mut self, record: Record) {
        if self.is_ours(&record)
            && let Some(claim) = &mut self.claim
        {
            claim.uid = Some(record.uid().to_owned());
        }
        self.existed = true;
        self.newest = record.version();
        self.observed = Observed::Present(record);
    }

    /// Records the deletion of the Lease at `version`.
    pub(super) fn observe_deletion(&mut self, now: Instant, version: Version) {
        self.observe(now, None);
        self.newest = version;
    }

    /// Reports whether the Lease, as last observed, carries our claim.
    pub(super) fn is_held(&self) -> bool {
        match &self.observed {
            Observed::Present(record) | Observed::Outdated(record) => self.is_ours(record),
            Observed::Unknown | Observed::Absent => false,
        }
    }

    /// The time from which the holder may lead; none if it may lead immediately.
    pub(super) fn earliest_start(&self) -> Option<Instant> {
        self.earliest_start
    }

    /// The takeover of the current claim.
    pub(super) fn takeover(&self) -> Takeover {
        self.claim
            .as_ref()
            .map_or(Takeover::Unclean, |claim| claim.takeover.clone())
    }

    /// Ends a term: the takeover says nothing about a next term.
    pub(super) fn end_term(&mut self) {
        if let Some(claim) = &mut self.claim {
            claim.takeover = Takeover::Unclean;
        }
    }

    /// Gives up the claim and leaves the record to other candidates for `wait` from its last change. A candidate that could
    /// not renew for so long makes room, even if its writes arrive and only the responses are lost.
    pub(super) fn give_up_claim(&mut self, wait: Duration) {
        if self.claim.take().is_some() {
            self.expires_at = self
                .expires_at
                .max(self.observed_at.map(|changed| later(changed, wait)));
        }
    }

    /// Returns the record last observed.
    pub(super) fn record(&self) -> Option<&Record> {
        match &self.observed {
            Observed::Present(record) | Observed::Outdated(record) => Some(record),
            Observed::Unknown | Observed::Absent => None,
        }
    }

    pub(super) fn newest(&self) -> &Version {
        &self.newest
    }

    /// Reports whether the Lease must be read before it is written.
    pub(super) fn needs_read(&self) -> bool {
        matches!(self.observed, Observed::Unknown | Observed::Outdated(_))
    }
}

#[cfg(test)]
mod tests;
