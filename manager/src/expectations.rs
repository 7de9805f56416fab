//! Expectations: creates and deletes that the cache does not show yet.
//!
//! They are kept by name and uid, not as counts, so that a duplicate or unrelated event cannot satisfy the wrong one. A
//! create or delete is recorded *before* its request is sent, and removed when a delta shows it or when it has certainly
//! failed.
//!
//! A create with an unknown outcome (no response, or a cancelled sync) does not block the next sync, which may resolve it;
//! but its name counts as an existing object until a delta or a live read shows otherwise. A live read that does not find the
//! object proves nothing while the request [may still arrive](Expectations::may_arrive): until then, use the name first for
//! the next create, so that only one of the two requests succeeds. A delete with an unknown outcome blocks: no other object may
//! be deleted in its place. A confirmed write blocks for at most [`EXPECTATIONS_TIMEOUT`]: an object that was created and
//! deleted between two lists is never shown.
//!
//! Expectations of a deleted owner are [forgotten](Expectations::forget); a new term starts [empty](Expectations::clear).
//!
//! ```
//! # use steersman_manager::object::MetaObject;
//! # let pod: MetaObject = serde_json::from_str(r#"{"metadata": {"namespace": "default", "name": "web-0"}}"#)?;
//! use steersman_manager::cache::Delta;
//! use steersman_manager::expectations::Expectations;
//! use steersman_manager::object::Key;
//!
//! let (expectations, owner) = (Expectations::new(), Key::new("default", "web"));
//! let now = steersman_manager::env::Clock::system().now();
//! expectations.expect_creates(&owner, ["web-0".into()], now);
//! expectations.create_succeeded(&owner, "web-0");
//! assert!(!expectations.satisfied(&owner, now)); // the next sync waits for the pod
//!
//! expectations.observe(&owner, &Delta::Added { new: pod.into(), initial: false });
//! assert!(expectations.satisfied(&owner, now));
//! # Ok::<_, serde_json::Error>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::cache::Delta;
use crate::client::CONDITIONAL_WRITE_TIMEOUT;
use crate::object::{Key, Object, Text, Uid};
use crate::revived;

/// The time after which confirmed writes no longer block a sync.
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_mins(5);
/// The time after which a create without response has arrived or never will: the deadline of the client, then that of the
/// server.
const ARRIVAL_TIMEOUT: Duration = CONDITIONAL_WRITE_TIMEOUT.saturating_mul(2);

/// The expectations of one controller.
#[derive(Debug, Default)]
pub struct Expectations {
    owners: Mutex<BTreeMap<Key, Pending>>,
}

/// The pending writes of one owner; never empty.
#[derive(Debug)]
struct Pending {
    creates: BTreeMap<Text, Create>,
    deletes: BTreeMap<Uid, Outcome>,
    /// The time of the last addition.
    since: Instant,
}

#[derive(Debug)]
struct Create {
    outcome: Outcome,
    /// The first time at which the request was known to have ended, without an object in the cache.
    ended: Option<Instant>,
    /// The `ended` of the previous request for the name.
    previous_ended: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// No response yet, or none at all.
    Unknown,
    /// Confirmed by the API server.
    Done,
}

impl Expectations {
    /// Returns no expectations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records creates that are about to be sent, by name.
    pub fn expect_creates(&self, owner: &Key, names: impl IntoIterator<Item = Text>, now: Instant) {
        self.add(owner, now, |pending| {
            for name in names {
                let create = pending.creates.entry(name).or_default();
                *create = Create {
                    previous_ended: create.ended.or(create.previous_ended),
                    ..Create::default()
                };
            }
        });
    }

    /// Records deletes that are about to be sent, by uid.
    pub fn expect_deletes(&self, owner: &Key, uids: impl IntoIterator<Item = Uid>, now: Instant) {
        self.add(owner, now, |pending| {
            pending
                .deletes
                .extend(uids.into_iter().map(|uid| (uid, Outcome::Unknown)));
        });
    }

    /// The API server has created the object.
    pub fn create_succeeded(&self, owner: &Key, name: &str) {
        self.change(owner, |pending| {
            // Absent if the delta was faster than the response.
            if let Some(create) = pending.creates.get_mut(name) {
                create.outcome = Outcome::Done;
            }
        });
    }

    /// Records that the request has ended, and the cache does not show the object: the outcome is unknown, even if it was
    /// confirmed.
    pub fn create_unknown(&self, owner: &Key, name: &str, now: Instant) {
        self.change(owner, |pending| {
            if let Some(create) = pending.creates.get_mut(name) {
                create.outcome = Outcome::Unknown;
                create.ended.get_or_insert(now);
                create.previous_ended = None;
            }
        });
    }

    /// The API server has deleted the object, or it is terminating.
    pub fn delete_succeeded(&self, owner: &Key, uid: &Uid) {
        self.change(owner, |pending| {
            // Absent if the delta was faster than the response.
            if let Some(outcome) = pending.deletes.get_mut(uid) {
                *outcome = Outcome::Done;
            }
        });
    }

    /// Records that the request has not created the object: it was rejected or not sent, or a live read does not find the object,
    /// and the request can no longer arrive. The name stays pending if an earlier request for it may still arrive.
    pub fn create_failed(&self, owner: &Key, name: &str) {
        self.change(owner, |pending| {
            let create = pending.creates.get_mut(name);
            match create.and_then(|it| Some((it.previous_ended.take()?, it))) {
                Some((ended, create)) => (create.outcome, create.ended) = (Outcome::Unknown, Some(ended)),
                None => drop(pending.creates.remove(name)),
            }
        });
    }

    /// The object was certainly not deleted by this request: it was rejected, not sent, or the object was gone already.
    pub fn delete_failed(&self, owner: &Key, uid: &Uid) {
        self.change(owner, |pending| {
            pending.deletes.remove(uid);
        });
    }

    /// Observes a delta of an object of this owner. A terminating object counts as deleted.
    pub fn observe<T: Object>(&self, owner: &Key, delta: &Delta<T>) {
        let meta = delta.latest().meta();
        let deleted = meta.is_terminating() || matches!(delta, Delta::Deleted { .. });
        self.change(owner, |pending| {
            pending.creates.remove(&meta.name);
            if deleted {
                pending.deletes.remove(&meta.uid);
            }
        });
    }

    /// Removes the expectations that the cache satisfies, for controllers that check at the start of a sync instead of
    /// observing deltas. `shown` gets the name of a create and whether it is confirmed, `gone` the uid of a delete.
    pub fn observe_cache(
        &self,
        owner: &Key,
        mut shown: impl FnMut(&Text, bool) -> bool,
        mut gone: impl FnMut(&Uid) -> bool,
    ) {
        self.change(owner, |pending| {
            pending
                .creates
                .retain(|name, create| !shown(name, create.outcome == Outcome::Done));
            pending.deletes.retain(|uid, _| !gone(uid));
        });
    }

    /// Reports whether the cache shows all confirmed writes for this owner, or the timeout has passed.
    #[must_use]
    pub fn satisfied(&self, owner: &Key, now: Instant) -> bool {
        let blocks = |it: &Create| it.outcome == Outcome::Done || revived!(R3);
        self.read(owner, |pending| {
            pending.has_timed_out(now)
                || (pending.deletes.is_empty() && !pending.creates.values().any(blocks))
        })
        .unwrap_or(true)
    }

    /// Returns the names that count as objects of this owner. The cache may show some of them already: count the union.
    #[must_use]
    pub fn pending_creates(&self, owner: &Key, now: Instant) -> BTreeSet<Text> {
        self.read(owner, |pending| {
            let timed_out = pending.has_timed_out(now);
            let counts = |it: &Create| it.outcome == Outcome::Unknown || !timed_out;
            let names = pending.creates.iter().filter(|(_, create)| counts(create));
            names.map(|(name, _)| name.clone()).collect()
        })
        .unwrap_or_default()
    }

    /// Reports whether a pending create may still reach the API server.
    #[must_use]
    pub fn may_arrive(&self, owner: &Key, name: &str, now: Instant) -> bool {
        let is_recent =
            |ended: Instant| now.saturating_duration_since(ended) <= ARRIVAL_TIMEOUT || revived!(R3);
        let create = self.read(owner, |pending| {
            Some(pending.creates.get(name)?.ended.is_none_or(is_recent))
        });
        create.flatten().unwrap_or(false)
    }

    /// Returns the uids of deletes that must be resolved: without a response, or not shown by the cache within the timeout.
    #[must_use]
    pub fn unknown_deletes(&self, owner: &Key, now: Instant) -> BTreeSet<Uid> {
        self.read(owner, |pending| {
            let timed_out = pending.has_timed_out(now);
            let unknown = |outcome: Outcome| outcome == Outcome::Unknown || timed_out;
            let uids = pending.deletes.iter().filter(|(_, outcome)| unknown(**outcome));
            uids.map(|(uid, _)| uid.clone()).collect()
        })
        .unwrap_or_default()
    }

    /// Removes the expectations of a deleted owner.
    pub fn forget(&self, owner: &Key) {
        self.owners(|owners| owners.remove(owner));
    }

    /// Removes all expectations, for a new term: another leader may have written since.
    pub fn clear(&self) {
        self.owners(BTreeMap::clear);
    }

    fn add(&self, owner: &Key, now: Instant, add: impl FnOnce(&mut Pending)) {
        if revived!(R4) {
            return;
        }
        self.owners(|owners| {
            let pending = owners.entry(owner.clone()).or_insert_with(|| Pending {
                creates: BTreeMap::new(),
                deletes: BTreeMap::new(),
                since: now,
            });
            if pending.has_timed_out(now) {
                // An expired expectation must not be renewed.
                pending.deletes.clear();
                pending
                    .creates
                    .retain(|_, create| create.outcome == Outcome::Unknown);
            }
            pending.since = now;
            add(pending);
        });
        self.change(owner, |_| ());
    }

    fn change(&self, owner: &Key, change: impl FnOnce(&mut Pending)) {
        self.owners(|owners| {
            let Some(pending) = owners.get_mut(owner) else {
                return;
            };
            change(pending);
            if pending.creates.is_empty() && pending.deletes.is_empty() {
                owners.remove(owner);
            }
        });
    }

    fn read<T>(&self, owner: &Key, read: impl FnOnce(&Pending) -> T) -> Option<T> {
        self.owners(|owners| owners.get(owner).map(read))
    }

    fn owners<T>(&self, with: impl FnOnce(&mut BTreeMap<Key, Pending>) -> T) -> T {
        with(&mut self.owners.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for Create {
    fn default() -> Self {
        Self {
            outcome: Outcome::Unknown,
            ended: None,
            previous_ended: None,
        }
    }
}

impl Pending {
    fn has_timed_out(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > EXPECTATIONS_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use crate::env::Clock;
    use crate::object::MetaObject;

    struct Fixture {
        it: Expectations,
        owner: Key,
        now: Instant,
    }

    fn fixture() -> Fixture {
        Fixture {
            it: Expectations::new(),
            owner: Key::new("ns", "set"),
            now: Clock::starting_at(Timestamp::UNIX_EPOCH).now(),
        }
    }

    impl Fixture {
        fn creates(&self, names: &[&str]) {
            let names = names.iter().copied().map(Text::from);
            self.it.expect_creates(&self.owner, names, self.now);
        }

        fn deletes(&self, uids: &[&str]) {
            let uids = uids.iter().copied().map(Uid::from);
            self.it.expect_deletes(&self.owner, uids, self.now);
        }

        fn created(&self, names: &[&str]) {
            self.creates(names);
            for name in names {
                self.it.create_succeeded(&self.owner, name);
            }
        }

        fn satisfied(&self) -> bool {
            self.it.satisfied(&self.owner, self.now)
        }

        fn pending_names(&self) -> Vec<String> {
            let names = self.it.pending_creates(&self.owner, self.now);
            names.iter().map(ToString::to_string).collect()
        }

        fn is_empty(&self) -> bool {
            self.it.owners(|owners| owners.is_empty())
        }
    }

    fn object(name: &str, deleting: bool) -> Arc<MetaObject> {
        let mut metadata = json!({"name": name, "uid": format!("uid-{name}")});
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).expect("an object"))
    }

    fn added(name: &str) -> Delta<MetaObject> {
        Delta::Added {
            new: object(name, false),
            initial: false,
        }
    }

    #[test]
    fn create_is_removed_by_its_own_delta() {
        let fixture = fixture();
        fixture.created(&["a", "b"]);
        assert!(!fixture.satisfied());
        fixture.it.observe(&fixture.owner, &added("a"));
        fixture.it.observe(&fixture.owner, &added("a"));
        fixture.it.observe(&fixture.owner, &added("c"));
        assert!(!fixture.satisfied());
        assert_eq!(fixture.pending_names(), ["b"]);
        fixture.it.observe(&fixture.owner, &added("b"));
        assert!(fixture.satisfied() && fixture.is_empty());
    }

    #[test]
    fn delta_before_the_response_counts() {
        let fixture = fixture();
        fixture.creates(&["a"]);
        fixture.it.observe(&fixture.owner, &added("a"));
        fixture.it.create_succeeded(&fixture.owner, "a");
        assert!(fixture.satisfied() && fixture.is_empty());
    }

    #[test]
    fn failed_writes_are_removed() {
        let fixture = fixture();
        fixture.created(&["a"]);
        fixture.creates(&["b"]);
        fixture.deletes(&["x"]);
        fixture.it.create_failed(&fixture.owner, "b");
        fixture.it.delete_failed(&fixture.owner, &Uid::from("x"));
        assert_eq!(fixture.pending_names(), ["a"]);
        fixture.it.observe(&fixture.owner, &added("a"));
        assert!(fixture.is_empty());
    }

    #[test]
    fn create_with_unknown_outcome_does_not_block_but_stays_pending() {
        let mut fixture = fixture();
        fixture.creates(&["lost"]);
        assert!(fixture.satisfied());
        fixture.now += 10 * EXPECTATIONS_TIMEOUT;
        assert_eq!(fixture.pending_names(), ["lost"]);
        fixture.created(&["more"]);
        assert_eq!(fixture.pending_names(), ["lost", "more"]);
        fixture.it.create_failed(&fixture.owner, "lost");
        assert_eq!(fixture.pending_names(), ["more"]);
    }

    #[test]
    fn create_may_arrive_until_both_deadlines_have_passed() {
        let mut fixture = fixture();
        let may_arrive = |fixture: &Fixture| fixture.it.may_arrive(&fixture.owner, "lost", fixture.now);
        assert!(!may_arrive(&fixture));
        fixture.created(&["lost"]);
        fixture.now += 2 * ARRIVAL_TIMEOUT;
        assert!(may_arrive(&fixture), "the request may wait for a rate limiter");
        for _ in 0..2 {
            fixture.it.create_unknown(&fixture.owner, "lost", fixture.now);
            assert!(may_arrive(&fixture) && fixture.satisfied());
            fixture.now += ARRIVAL_TIMEOUT / 2;
        }
        assert!(may_arrive(&fixture));
        fixture.now += Duration::from_millis(1);
        assert!(!may_arrive(&fixture));
        assert_eq!(fixture.pending_names(), ["lost"]);
        fixture.creates(&["lost"]);
        assert!(may_arrive(&fixture));
    }

    #[test]
    fn rejected_retry_does_not_extend_the_time_of_a_lost_create() {
        let mut fixture = fixture();
        fixture.created(&["lost"]);
        fixture.it.create_unknown(&fixture.owner, "lost", fixture.now);
        for _ in 0..2 {
            fixture.now += ARRIVAL_TIMEOUT / 2;
            fixture.it.create_unknown(&fixture.owner, "lost", fixture.now);
            fixture.creates(&["lost"]);
            fixture.it.create_failed(&fixture.owner, "lost");
            assert_eq!(fixture.pending_names(), ["lost"]);
        }
        assert!(fixture.it.may_arrive(&fixture.owner, "lost", fixture.now));
        fixture.now += Duration::from_millis(1);
        assert!(!fixture.it.may_arrive(&fixture.owner, "lost", fixture.now));
        fixture.it.create_failed(&fixture.owner, "lost");
        assert!(fixture.pending_names().is_empty());
    }

    #[test]
    fn delete_is_removed_when_object_is_terminating_or_deleted() {
        let fixture = fixture();
        fixture.deletes(&["uid-a", "uid-b"]);
        let (old, new) = (object("a", false), object("a", true));
        fixture.it.observe(
            &fixture.owner,
            &Delta::Updated {
                old: old.clone(),
                new: old.clone(),
            },
        );
        assert!(!fixture.satisfied());
        fixture.it.observe(&fixture.owner, &Delta::Updated { old, new });
        assert!(!fixture.satisfied());
        let last = object("b", false);
        fixture.it.observe(&fixture.owner, &Delta::Deleted { last });
        assert!(fixture.satisfied() && fixture.is_empty());
    }

    #[test]
    fn delete_is_unknown_without_response_or_after_timeout() {
        let mut fixture = fixture();
        fixture.deletes(&["x", "y"]);
        fixture.it.delete_succeeded(&fixture.owner, &Uid::from("x"));
        let unknown = |fixture: &Fixture| fixture.it.unknown_deletes(&fixture.owner, fixture.now);
        assert_eq!(unknown(&fixture), [Uid::from("y")].into());
        fixture.it.delete_succeeded(&fixture.owner, &Uid::from("y"));
        assert_eq!(unknown(&fixture), BTreeSet::new());
        assert!(!fixture.satisfied());
        fixture.now += EXPECTATIONS_TIMEOUT + Duration::from_millis(1);
        assert_eq!(unknown(&fixture), [Uid::from("x"), Uid::from("y")].into());
    }

    #[test]
    fn created_and_deleted_object_is_removed_by_its_delete() {
        let fixture = fixture();
        fixture.created(&["a"]);
        let last = object("a", false);
        fixture.it.observe(&fixture.owner, &Delta::Deleted { last });
        assert!(fixture.is_empty());
    }

    #[test]
    fn expectations_time_out_and_are_not_renewed() {
        let mut fixture = fixture();
        fixture.created(&["a"]);
        fixture.deletes(&["x"]);
        fixture.now += EXPECTATIONS_TIMEOUT;
        assert!(!fixture.satisfied());
        assert_eq!(fixture.pending_names(), ["a"]);
        fixture.now += Duration::from_millis(1);
        assert!(fixture.satisfied());
        assert_eq!(fixture.pending_names(), [""; 0]);
        fixture.created(&["b"]);
        fixture.it.observe(&fixture.owner, &added("b"));
        assert!(fixture.satisfied() && fixture.is_empty());
    }

    #[test]
    fn observing_the_cache_removes_what_it_shows() {
        let fixture = fixture();
        fixture.creates(&["lost", "shown"]);
        fixture.created(&["done"]);
        fixture.deletes(&["uid-a", "uid-b"]);
        fixture.it.observe_cache(
            &fixture.owner,
            |name, _| *name == "shown",
            |uid| *uid == Uid::from("uid-a"),
        );
        assert_eq!(fixture.pending_names(), ["done", "lost"]);
        assert!(!fixture.satisfied());
        fixture.it.observe_cache(&fixture.owner, |_, done| done, |_| true);
        assert_eq!(fixture.pending_names(), ["lost"]);
        assert!(fixture.satisfied());
        fixture.it.observe_cache(&fixture.owner, |_, _| true, |_| true);
        assert!(fixture.is_empty());
    }

    #[test]
    fn owners_are_independent_and_can_be_forgotten() {
        let fixture = fixture();
        let other = Key::new("ns", "other");
        fixture.created(&["a"]);
        assert!(fixture.it.satisfied(&other, fixture.now));
        fixture.it.observe(&other, &added("a"));
        assert!(!fixture.satisfied());
        fixture.it.forget(&fixture.owner);
        assert!(fixture.is_empty());
        fixture.created(&["a"]);
        fixture.it.clear();
        assert!(fixture.is_empty());
    }

    #[test]
    fn empty_expectations_are_not_stored() {
        let fixture = fixture();
        fixture.creates(&[]);
        fixture.deletes(&[]);
        assert!(fixture.is_empty());
    }
}
