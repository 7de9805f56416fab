//! What a candidate may do, decided from what it has seen of the Lease. No I/O, no clock: time is passed in.
//!
//! Two questions are kept apart. Whether the Lease may be *taken*: when it has no holder, or its record has not been seen
//! to change for its lease duration, by our own monotonic clock; times in the record are never compared with ours. And
//! from when on its taker may *act* ([`View::clear_at`]): not while a holder that was seen, or that may have been missed,
//! can believe to be alive. They differ only when somebody else has deleted, emptied or rewritten the Lease; a release by
//! the holder itself can be told from that, and clears the way at once.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::Takeover;
use super::record::{Claim, Record, micros};
use crate::env::later;
use crate::object::{Key, Version};

/// What one candidate knows of the Lease.
#[derive(Debug)]
pub(super) struct View {
    key: Key,
    identity: String,
    lease_duration: Duration,
    known: Known,
    /// The newest version of the Lease that was seen, a deleted one included.
    newest: Version,
    /// Whether there was ever a Lease: then its absence is the work of somebody else.
    existed: bool,
    /// The last claim that was sent, done or not. A record that shows our name without it is that of a stranger.
    claim: Option<Sent>,
    /// When the record was last seen to change.
    observed_at: Option<Instant>,
    /// When its holder counts as gone; none if it has none.
    free_at: Option<Instant>,
    /// Until when a holder before us may believe to be alive.
    clear_at: Option<Instant>,
}

#[derive(Debug)]
enum Known {
    /// Nothing, or nothing that is certain any more: it has to be read.
    Nothing,
    Absent,
    There(Record),
    /// As it was before a write whose outcome is not known.
    Doubtful(Record),
}

/// A claim by which we can tell our own record from one that others have put our name on.
#[derive(Clone, Debug)]
struct Sent {
    /// The version of the record that it was to replace; none for a Lease that was to be created.
    over: Version,
    /// The Lease that it is on; none for one that was to be created, and has not been seen yet.
    uid: Option<String>,
    acquired: Timestamp,
    transitions: i64,
    takeover: Takeover,
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Read the Lease.
    Read,
    /// Create it, and hold it.
    Create(Value),
    /// Replace it: take it, or renew it.
    Replace(Value),
    /// Somebody holds it until then, if nothing is heard of it.
    Wait(Instant),
}

impl View {
    pub(super) fn new(key: Key, identity: String, lease_duration: Duration) -> Self {
        Self {
            key,
            identity,
            lease_duration,
            known: Known::Nothing,
            newest: Version::none(),
            existed: false,
            claim: None,
            observed_at: None,
            free_at: None,
            clear_at: None,
        }
    }

    /// The Lease was seen, or seen to be absent, at `now`.
    pub(super) fn observe(&mut self, now: Instant, seen: Option<Record>) {
        let last = std::mem::replace(&mut self.known, Known::Nothing);
        let last = match last {
            Known::There(record) | Known::Doubtful(record) => Some(record),
            Known::Nothing | Known::Absent => None,
        };
        let Some(seen) = seen else {
            if self.existed {
                self.bar(later(now, self.lease_duration));
            }
            self.free_at = None;
            self.known = Known::Absent;
            return;
        };
        if last.as_ref().is_none_or(|last| !last.says_the_same_as(&seen)) {
            self.changed(now, last.as_ref(), &seen);
        }
        self.settle(seen);
    }

    fn changed(&mut self, now: Instant, last: Option<&Record>, seen: &Record) {
        self.observed_at = Some(now);
        self.free_at = None;
        // Whoever has a longer lease than the record says loses nothing by waiting it out; a record that was tampered
        // with may say less than its holder believes.
        let expiry = later(
            now,
            seen.lease_duration().unwrap_or_default().max(self.lease_duration),
        );
        if self.is_ours(seen) {
            // Sent by us, and for all to see.
        } else if seen.holder().is_empty() {
            if self.is_orderly(last, seen) {
                self.clear_at = None;
            } else if self.existed || !seen.was_never_held() {
                self.bar(expiry);
            }
        } else {
            self.bar(expiry);
            self.free_at = Some(expiry);
        }
    }

    /// Whether the release of `seen` is that of the last holder. Whoever releases in this way has led, and has seen to it
    /// that nobody before it did any more; so it speaks for all terms before its own.
    fn is_orderly(&self, last: Option<&Record>, seen: &Record) -> bool {
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

    fn bar(&mut self, until: Instant) {
        self.clear_at = self.clear_at.max(Some(until));
    }

    fn is_ours(&self, record: &Record) -> bool {
        self.claim.as_ref().is_some_and(|claim| {
            record.holder() == self.identity
                && record.transitions() == claim.transitions
                && record.acquired() == Some(claim.acquired)
                && claim.uid.as_deref().is_none_or(|uid| uid == record.uid())
        })
    }

    /// A write of ours may or may not have been done: the Lease has to be read before it is written again.
    pub(super) fn doubt(&mut self) {
        self.known = match std::mem::replace(&mut self.known, Known::Nothing) {
            Known::There(record) | Known::Doubtful(record) => Known::Doubtful(record),
            Known::Nothing | Known::Absent => Known::Nothing,
        };
    }

    /// What to do at `now`, when the wall clock shows `wall`. A claim that it hands out counts as sent.
    pub(super) fn step(&mut self, now: Instant, wall: Timestamp) -> Step {
        match &self.known {
            Known::Nothing | Known::Doubtful(_) => Step::Read,
            Known::Absent => {
                let claim = self.new_claim(None, 0, wall, Takeover::Unclean);
                let lease = Record::create(&self.key, &self.say(&claim, wall));
                self.claim = Some(claim);
                Step::Create(lease)
            }
            Known::There(record) => {
                if let Some(until) = self.free_at.filter(|until| *until > now) {
                    return Step::Wait(until);
                }
                let claim = self.claim_on(record, wall);
                let lease = record.claim(&self.say(&claim, wall));
                self.claim = Some(claim);
                Step::Replace(lease)
            }
        }
    }

    fn claim_on(&self, record: &Record, wall: Timestamp) -> Sent {
        match &self.claim {
            Some(claim) if self.is_ours(record) => claim.clone(),
            _ => {
                let takeover = match record.written_versions() {
                    Some(versions) if self.clear_at.is_none() && record.released_by().is_some() => {
                        Takeover::Clean(versions)
                    }
                    _ => Takeover::Unclean,
                };
                let transitions = record.transitions().saturating_add(1).min(i32::MAX.into());
                self.new_claim(Some(record), transitions, wall, takeover)
            }
        }
    }

    /// A claim over the same record as the one before is the same claim: it may have been done already.
    fn new_claim(
        &self,
        record: Option<&Record>,
        transitions: i64,
        wall: Timestamp,
        takeover: Takeover,
    ) -> Sent {
        let over = record.map(Record::version).unwrap_or_default();
        let uid = record.map(|record| record.uid().to_owned());
        match &self.claim {
            Some(claim) if claim.over == over && claim.uid == uid && claim.transitions == transitions => {
                claim.clone()
            }
            _ => Sent {
                over,
                uid,
                acquired: micros(wall),
                transitions,
                takeover,
            },
        }
    }

    fn say(&self, claim: &Sent, wall: Timestamp) -> Claim<'_> {
        Claim {
            identity: &self.identity,
            lease_duration: self.lease_duration,
            acquired: claim.acquired,
            renewed: wall,
            transitions: claim.transitions,
        }
    }

    /// The Lease is as our write that was answered at `now` has made it.
    pub(super) fn wrote(&mut self, now: Instant, lease: Record) {
        self.observed_at = Some(now);
        self.free_at = None;
        self.settle(lease);
    }

    fn settle(&mut self, record: Record) {
        if self.is_ours(&record)
            && let Some(claim) = &mut self.claim
        {
            claim.uid = Some(record.uid().to_owned());
        }
        self.existed = true;
        self.newest = record.version();
        self.known = Known::There(record);
    }

    /// The Lease was seen to be deleted, and is at `version` by that.
    pub(super) fn observe_deletion(&mut self, now: Instant, version: Version) {
        self.observe(now, None);
        self.newest = version;
    }

    /// Whether the Lease, as last seen, is ours by our own claim.
    pub(super) fn is_held(&self) -> bool {
        match &self.known {
            Known::There(record) | Known::Doubtful(record) => self.is_ours(record),
            Known::Nothing | Known::Absent => false,
        }
    }

    /// Until when its holder, if it is us, has to wait before it acts.
    pub(super) fn clear_at(&self) -> Option<Instant> {
        self.clear_at
    }

    /// In which state the Lease was taken.
    pub(super) fn takeover(&self) -> Takeover {
        self.claim
            .as_ref()
            .map_or(Takeover::Unclean, |claim| claim.takeover.clone())
    }

    /// A term has ended: what was known of the one before it says nothing about a next one.
    pub(super) fn led(&mut self) {
        if let Some(claim) = &mut self.claim {
            claim.takeover = Takeover::Unclean;
        }
    }

    /// Gives up the claim, and leaves the record that it has left behind to others for `wait` from its last change: who
    /// could not renew for so long makes room, also if its writes arrive and only their answers do not.
    pub(super) fn lapse(&mut self, wait: Duration) {
        if self.claim.take().is_some() {
            self.free_at = self
                .free_at
                .max(self.observed_at.map(|changed| later(changed, wait)));
        }
    }

    /// The record that was last seen.
    pub(super) fn record(&self) -> Option<&Record> {
        match &self.known {
            Known::There(record) | Known::Doubtful(record) => Some(record),
            Known::Nothing | Known::Absent => None,
        }
    }

    /// The newest version that was seen.
    pub(super) fn newest(&self) -> &Version {
        &self.newest
    }

    /// Whether it has to be read before it can be written.
    pub(super) fn is_doubtful(&self) -> bool {
        matches!(self.known, Known::Nothing | Known::Doubtful(_))
    }
}

#[cfg(test)]
mod tests;
