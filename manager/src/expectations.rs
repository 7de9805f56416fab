//! What a controller has done and its cache has not shown yet.
//!
//! By name, not by number: an event that comes twice, or is about something else, cannot settle the wrong account. Per
//! owner there are the names of objects that were asked to be created, and the uids of those that were asked to be
//! deleted. Both are written down *before* the request is sent, and struck off when a delta shows them, or when it is
//! certain that the request did nothing.
//!
//! A create whose outcome is not known (no answer, or a sync that was cut off) does not hold up the next sync, which may
//! find out; but its name counts as an object that is there, until a delta or a later read says otherwise. A delete whose
//! outcome is not known does hold it up: found out or not, nothing else may be deleted in its place. Whatever is known to
//! be done holds the next sync up, for [`EXPECTATIONS_TIMEOUT`] at most: an object that came and went between two lists is never shown.
//!
//! An owner that is gone is [forgotten](Expectations::forget), and a new term starts [empty](Expectations::clear).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::cache::Delta;
use crate::object::{Key, Object, Text, Uid};

/// How long the cache may take to show what was done.
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_mins(5);

/// The expectations of one controller.
#[derive(Debug, Default)]
pub struct Expectations {
    owners: Mutex<BTreeMap<Key, Open>>,
}

/// What is open for one owner; never empty.
#[derive(Debug)]
struct Open {
    creates: BTreeMap<Text, Outcome>,
    deletes: BTreeMap<Uid, Outcome>,
    /// When something was added last.
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Not answered, or not yet.
    Unknown,
    /// The server said that it is done.
    Done,
}

impl Expectations {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Objects with these names are about to be created.
    pub fn expect_creates(&self, owner: &Key, names: impl IntoIterator<Item = Text>, now: Instant) {
        self.add(owner, now, |open| {
            open.creates
                .extend(names.into_iter().map(|name| (name, Outcome::Unknown)));
        });
    }

    /// The objects with these uids are about to be deleted.
    pub fn expect_deletes(&self, owner: &Key, uids: impl IntoIterator<Item = Uid>, now: Instant) {
        self.add(owner, now, |open| {
            open.deletes
                .extend(uids.into_iter().map(|uid| (uid, Outcome::Unknown)));
        });
    }

    /// The server said that it has created this one.
    pub fn create_succeeded(&self, owner: &Key, name: &str) {
        self.change(owner, |open| {
            // Not there: the delta was faster than the answer.
            if let Some(outcome) = open.creates.get_mut(name) {
                *outcome = Outcome::Done;
            }
        });
    }

    /// The server said that it has deleted this one, or that it is on its way out.
    pub fn delete_succeeded(&self, owner: &Key, uid: &Uid) {
        self.change(owner, |open| {
            // Not there: the delta was faster than the answer.
            if let Some(outcome) = open.deletes.get_mut(uid) {
                *outcome = Outcome::Done;
            }
        });
    }

    /// This one was certainly not created: the server refused, it was never sent, or a later read has shown that it is not
    /// there.
    pub fn create_failed(&self, owner: &Key, name: &str) {
        self.change(owner, |open| {
            open.creates.remove(name);
        });
    }

    /// This one was certainly not deleted by us: the server refused, or it was never sent; or it was gone before.
    pub fn delete_failed(&self, owner: &Key, uid: &Uid) {
        self.change(owner, |open| {
            open.deletes.remove(uid);
        });
    }

    /// The cache shows a change of an object of this owner. One that is being deleted counts as deleted.
    pub fn observe<T: Object>(&self, owner: &Key, delta: &Delta<T>) {
        let meta = delta.latest().meta();
        let deleted = meta.is_terminating() || matches!(delta, Delta::Deleted { .. });
        self.change(owner, |open| {
            open.creates.remove(&meta.name);
            if deleted {
                open.deletes.remove(&meta.uid);
            }
        });
    }

    /// Strikes off what the cache shows now, for a controller that asks at the start of a sync instead of following
    /// deltas. `shown` is given the name of a create and whether it is known to be done, `gone` the uid of a delete.
    pub fn observe_cache(
        &self,
        owner: &Key,
        mut shown: impl FnMut(&Text, bool) -> bool,
        mut gone: impl FnMut(&Uid) -> bool,
    ) {
        self.change(owner, |open| {
            open.creates
                .retain(|name, outcome| !shown(name, *outcome == Outcome::Done));
            open.deletes.retain(|uid, _| !gone(uid));
        });
    }

    /// Whether the cache shows all that is known to be done for this owner, or has had its time.
    #[must_use]
    pub fn satisfied(&self, owner: &Key, now: Instant) -> bool {
        self.look(owner, |open| {
            open.is_late(now)
                || (open.deletes.is_empty() && !open.creates.values().any(|it| *it == Outcome::Done))
        })
        .unwrap_or(true)
    }

    /// The names that count as objects of this owner although the cache may not show them. Some it does show, if their
    /// delta has not come here yet: count the union.
    #[must_use]
    pub fn pending_creates(&self, owner: &Key, now: Instant) -> BTreeSet<Text> {
        self.look(owner, |open| {
            let late = open.is_late(now);
            let counts = |outcome: Outcome| outcome == Outcome::Unknown || !late;
            let names = open.creates.iter().filter(|(_, outcome)| counts(**outcome));
            names.map(|(name, _)| name.clone()).collect()
        })
        .unwrap_or_default()
    }

    /// The uids of which it has to be found out whether they were deleted: nobody has answered, or the cache has had its
    /// time to show it.
    #[must_use]
    pub fn unknown_deletes(&self, owner: &Key, now: Instant) -> BTreeSet<Uid> {
        self.look(owner, |open| {
            let late = open.is_late(now);
            let doubtful = |outcome: Outcome| outcome == Outcome::Unknown || late;
            let uids = open.deletes.iter().filter(|(_, outcome)| doubtful(**outcome));
            uids.map(|(uid, _)| uid.clone()).collect()
        })
        .unwrap_or_default()
    }

    /// The owner is gone.
    pub fn forget(&self, owner: &Key) {
        self.owners(|owners| owners.remove(owner));
    }

    /// A new term: what the last one expected says nothing about what another leader did since.
    pub fn clear(&self) {
        self.owners(BTreeMap::clear);
    }

    fn add(&self, owner: &Key, now: Instant, add: impl FnOnce(&mut Open)) {
        self.owners(|owners| {
            let open = owners.entry(owner.clone()).or_insert_with(|| Open {
                creates: BTreeMap::new(),
                deletes: BTreeMap::new(),
                since: now,
            });
            if open.is_late(now) {
                // What has had its time must not get another one.
                open.deletes.clear();
                open.creates.retain(|_, outcome| *outcome == Outcome::Unknown);
            }
            open.since = now;
            add(open);
        });
        self.change(owner, |_| ());
    }

    fn change(&self, owner: &Key, change: impl FnOnce(&mut Open)) {
        self.owners(|owners| {
            let Some(open) = owners.get_mut(owner) else { return };
            change(open);
            if open.creates.is_empty() && open.deletes.is_empty() {
                owners.remove(owner);
            }
        });
    }

    fn look<T>(&self, owner: &Key, look: impl FnOnce(&Open) -> T) -> Option<T> {
        self.owners(|owners| owners.get(owner).map(look))
    }

    fn owners<T>(&self, with: impl FnOnce(&mut BTreeMap<Key, Open>) -> T) -> T {
        with(&mut self.owners.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Open {
    fn is_late(&self, now: Instant) -> bool {
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

    struct Bed {
        it: Expectations,
        owner: Key,
        now: Instant,
    }

    fn bed() -> Bed {
        Bed {
            it: Expectations::new(),
            owner: Key::new("ns", "set"),
            now: Clock::starting_at(Timestamp::UNIX_EPOCH).now(),
        }
    }

    impl Bed {
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

        fn pending(&self) -> Vec<String> {
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
    fn each_name_is_struck_off_by_its_own_delta_and_once() {
        let bed = bed();
        bed.created(&["a", "b"]);
        assert!(!bed.satisfied());
        bed.it.observe(&bed.owner, &added("a"));
        bed.it.observe(&bed.owner, &added("a"));
        bed.it.observe(&bed.owner, &added("c"));
        assert!(!bed.satisfied());
        assert_eq!(bed.pending(), ["b"]);
        bed.it.observe(&bed.owner, &added("b"));
        assert!(bed.satisfied() && bed.is_empty());
    }

    #[test]
    fn a_delta_that_overtakes_the_answer_counts() {
        let bed = bed();
        bed.creates(&["a"]);
        bed.it.observe(&bed.owner, &added("a"));
        bed.it.create_succeeded(&bed.owner, "a");
        assert!(bed.satisfied() && bed.is_empty());
    }

    #[test]
    fn a_refusal_lowers() {
        let bed = bed();
        bed.created(&["a"]);
        bed.creates(&["b"]);
        bed.deletes(&["x"]);
        bed.it.create_failed(&bed.owner, "b");
        bed.it.delete_failed(&bed.owner, &Uid::from("x"));
        assert_eq!(bed.pending(), ["a"]);
        bed.it.observe(&bed.owner, &added("a"));
        assert!(bed.is_empty());
    }

    #[test]
    fn an_unknown_outcome_holds_nobody_up_but_counts_for_ever() {
        let mut bed = bed();
        bed.creates(&["lost"]);
        assert!(bed.satisfied());
        bed.now += 10 * EXPECTATIONS_TIMEOUT;
        assert_eq!(bed.pending(), ["lost"]);
        bed.created(&["more"]);
        assert_eq!(bed.pending(), ["lost", "more"]);
        bed.it.create_failed(&bed.owner, "lost");
        assert_eq!(bed.pending(), ["more"]);
    }

    #[test]
    fn deletes_are_seen_when_they_begin_or_when_they_are_over() {
        let bed = bed();
        bed.deletes(&["uid-a", "uid-b"]);
        let (old, new) = (object("a", false), object("a", true));
        bed.it.observe(
            &bed.owner,
            &Delta::Updated {
                old: old.clone(),
                new: old.clone(),
            },
        );
        assert!(!bed.satisfied());
        bed.it.observe(&bed.owner, &Delta::Updated { old, new });
        assert!(!bed.satisfied());
        let last = object("b", false);
        bed.it.observe(&bed.owner, &Delta::Deleted { last });
        assert!(bed.satisfied() && bed.is_empty());
    }

    #[test]
    fn a_delete_is_in_doubt_until_it_is_answered_and_again_when_it_is_late() {
        let mut bed = bed();
        bed.deletes(&["x", "y"]);
        bed.it.delete_succeeded(&bed.owner, &Uid::from("x"));
        let doubtful = |bed: &Bed| bed.it.unknown_deletes(&bed.owner, bed.now);
        assert_eq!(doubtful(&bed), [Uid::from("y")].into());
        bed.it.delete_succeeded(&bed.owner, &Uid::from("y"));
        assert_eq!(doubtful(&bed), BTreeSet::new());
        assert!(!bed.satisfied());
        bed.now += EXPECTATIONS_TIMEOUT + Duration::from_millis(1);
        assert_eq!(doubtful(&bed), [Uid::from("x"), Uid::from("y")].into());
    }

    #[test]
    fn what_came_and_went_unseen_is_struck_off_by_its_end() {
        let bed = bed();
        bed.created(&["a"]);
        let last = object("a", false);
        bed.it.observe(&bed.owner, &Delta::Deleted { last });
        assert!(bed.is_empty());
    }

    #[test]
    fn patience_ends_and_is_not_renewed_for_what_is_late() {
        let mut bed = bed();
        bed.created(&["a"]);
        bed.deletes(&["x"]);
        bed.now += EXPECTATIONS_TIMEOUT;
        assert!(!bed.satisfied());
        assert_eq!(bed.pending(), ["a"]);
        bed.now += Duration::from_millis(1);
        assert!(bed.satisfied());
        assert_eq!(bed.pending(), [""; 0]);
        bed.created(&["b"]);
        bed.it.observe(&bed.owner, &added("b"));
        assert!(bed.satisfied() && bed.is_empty());
    }

    #[test]
    fn a_look_at_the_cache_settles_as_deltas_do() {
        let bed = bed();
        bed.creates(&["lost", "shown"]);
        bed.created(&["done"]);
        bed.deletes(&["uid-a", "uid-b"]);
        bed.it.observe_cache(
            &bed.owner,
            |name, _| *name == "shown",
            |uid| *uid == Uid::from("uid-a"),
        );
        assert_eq!(bed.pending(), ["done", "lost"]);
        assert!(!bed.satisfied());
        bed.it.observe_cache(&bed.owner, |_, done| done, |_| true);
        assert_eq!(bed.pending(), ["lost"]);
        assert!(bed.satisfied());
        bed.it.observe_cache(&bed.owner, |_, _| true, |_| true);
        assert!(bed.is_empty());
    }

    #[test]
    fn owners_are_apart_and_can_be_forgotten() {
        let bed = bed();
        let other = Key::new("ns", "other");
        bed.created(&["a"]);
        assert!(bed.it.satisfied(&other, bed.now));
        bed.it.observe(&other, &added("a"));
        assert!(!bed.satisfied());
        bed.it.forget(&bed.owner);
        assert!(bed.is_empty());
        bed.created(&["a"]);
        bed.it.clear();
        assert!(bed.is_empty());
    }

    #[test]
    fn expecting_nothing_leaves_nothing_behind() {
        let bed = bed();
        bed.creates(&[]);
        bed.deletes(&[]);
        assert!(bed.is_empty());
    }
}
