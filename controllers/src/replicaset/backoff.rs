//! Pods that end as soon as they are made are not replaced as fast as they end.
//!
//! A pod that was seen to end is owed a replacement, and so is one that somebody took away within [`YOUNG`] of its making,
//! before it ever served. Replacements cost a token: one comes every [`INTERVAL`], and up to [`BURST`] are kept, so that no
//! minute sees more than 60 of them. There are none to begin with, or each new process would have another burst. Pods that
//! were deleted in their time, or never were, cost nothing: whoever deletes 100 pods gets 100 back at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::object::{Text, Uid};
use tokio::time::Instant;

use super::Pod;

/// How many replacements need not wait.
pub const BURST: u32 = 10;
/// How long until another one may be made.
pub const INTERVAL: Duration = Duration::from_millis(1200);
/// How old a pod has to be for its end to be nobody's concern, if it has never served.
pub const YOUNG: Duration = Duration::from_mins(1);

/// What is owed to one owner.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// The pods that have ended and are still there: each is owed once.
    ended: BTreeSet<Uid>,
    /// The names of those that were made a short time ago, and have not served yet.
    young: BTreeMap<Text, Instant>,
    owed: usize,
    /// When all tokens are there.
    full: Instant,
}

/// How many pods may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// How many.
    pub now: usize,
    /// When there will be another one, if that is not all.
    pub more_in: Option<Duration>,
}

impl Backoff {
    /// Nothing is owed, and there are no tokens.
    #[must_use]
    pub fn starting_at(now: Instant) -> Self {
        Self {
            ended: BTreeSet::new(),
            young: BTreeMap::new(),
            owed: 0,
            full: now + INTERVAL * BURST,
        }
    }

    /// These pods of the owner have ended and are still there, and these are active. Of the names in `unseen` it is not
    /// known.
    pub fn see(&mut self, ended: &[Arc<Pod>], active: &[Arc<Pod>], unseen: &BTreeSet<Text>, now: Instant) {
        let uids: BTreeSet<Uid> = ended.iter().map(|it| it.metadata.uid.clone()).collect();
        self.owed += uids.difference(&self.ended).count();
        self.ended = uids;
        self.young.retain(|_, made| now.duration_since(*made) < YOUNG);
        if self.young.is_empty() {
            return;
        }
        self.took(ended);
        let active: BTreeMap<&Text, &Pod> = active.iter().map(|it| (&it.metadata.name, &**it)).collect();
        let owed = &mut self.owed;
        self.young.retain(|name, _| {
            let gone = !active.contains_key(name) && !unseen.contains(name);
            *owed += usize::from(gone);
            !gone && active.get(name).is_none_or(|pod| !pod.is_ready())
        });
    }

    /// These pods are gone for a reason that is known.
    pub fn took(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods {
            self.young.remove(&pod.metadata.name);
        }
    }

    /// How many of `wanted` pods may be made now.
    pub fn allow(&mut self, wanted: usize, now: Instant) -> Allowed {
        // What is not wanted is not owed: the owner was scaled down, or somebody else has made pods for it.
        self.owed = self.owed.min(wanted);
        let tokens = self.tokens(now);
        let held = self.owed.saturating_sub(tokens);
        Allowed {
            now: wanted - held,
            more_in: (held > 0).then(|| self.next_token(tokens, now)),
        }
    }

    /// Of `wanted` pods these were made, or may have been.
    pub fn made(&mut self, names: Vec<Text>, wanted: usize, now: Instant) {
        let free = wanted.saturating_sub(self.owed);
        let replaced = names.len().saturating_sub(free).min(self.owed);
        self.young.extend(names.into_iter().map(|name| (name, now)));
        self.owed -= replaced;
        let cost = INTERVAL.saturating_mul(u32::try_from(replaced).unwrap_or(u32::MAX));
        self.full = self.full.max(now) + cost;
    }

    /// How many tokens are there.
    fn tokens(&self, now: Instant) -> usize {
        let missing = self.missing(now).as_nanos().div_ceil(INTERVAL.as_nanos());
        (BURST as usize).saturating_sub(usize::try_from(missing).unwrap_or(usize::MAX))
    }

    /// When there will be another one than these.
    fn next_token(&self, tokens: usize, now: Instant) -> Duration {
        let tokens = u32::try_from(tokens).unwrap_or(BURST).min(BURST);
        let until = (self.missing(now) + INTERVAL * (tokens + 1)).saturating_sub(INTERVAL * BURST);
        until.max(Duration::from_millis(1))
    }

    fn missing(&self, now: Instant) -> Duration {
        self.full.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_manager::env::Clock;
    use jiff::Timestamp;

    fn pods(range: std::ops::Range<usize>) -> Vec<Arc<Pod>> {
        let pod = |i: usize| {
            let mut pod = Pod::default();
            pod.metadata.uid = Uid::from(&*format!("u{i}"));
            pod.metadata.name = name(i);
            Arc::new(pod)
        };
        range.map(pod).collect()
    }

    fn name(i: usize) -> Text {
        format!("p{i}").into()
    }

    fn names(range: std::ops::Range<usize>) -> Vec<Text> {
        range.map(name).collect()
    }

    impl Backoff {
        fn ended(&mut self, range: std::ops::Range<usize>, now: Instant) {
            self.see(&pods(range), &[], &BTreeSet::new(), now);
        }
    }

    /// One that has all its tokens.
    fn full() -> (Backoff, Instant) {
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        (Backoff::starting_at(start), start + INTERVAL * BURST)
    }

    #[test]
    fn what_did_not_end_waits_for_nothing() {
        let (mut it, now) = full();
        for _ in 0..10 {
            let all = Allowed {
                now: 5000,
                more_in: None,
            };
            assert_eq!(it.allow(5000, now), all);
            it.made(names(0..5000), 5000, now);
            it.took(&pods(0..5000));
        }
    }

    #[test]
    fn no_minute_sees_more_than_sixty_replacements() {
        let (mut it, mut now) = full();
        let (mut ended, mut made): (usize, Vec<Instant>) = (100, Vec::new());
        for _ in 0..1000 {
            // All have ended, and all that was made has ended too; old ones are cleared away.
            it.ended(ended - 100..ended, now);
            let allowed = it.allow(100, now);
            it.made(names(ended..ended + allowed.now), 100, now);
            ended += allowed.now;
            made.extend(std::iter::repeat_n(now, allowed.now));
            now += allowed.more_in.unwrap_or(Duration::from_millis(1));
        }
        assert!(made.len() > 900, "it goes on: {}", made.len());
        for (i, first) in made.iter().enumerate() {
            let minute = made[i..]
                .iter()
                .take_while(|it| **it - *first < Duration::from_mins(1));
            assert!(minute.count() <= 60);
        }
    }

    #[test]
    fn an_old_pod_that_ended_is_owed_nothing_when_nothing_is_wanted() {
        let (mut it, now) = full();
        it.ended(0..500, now);
        assert_eq!(it.allow(0, now).now, 0);
        it.ended(0..500, now);
        // Scaled up: those are not replacements.
        assert_eq!(it.allow(40, now).now, 40);
    }

    #[test]
    fn of_a_mixed_lot_only_the_replacements_wait() {
        let (mut it, now) = full();
        it.ended(0..30, now);
        let allowed = it.allow(50, now);
        assert_eq!(allowed.now, 20 + 10);
        assert!(allowed.more_in.is_some());
        it.made(names(50..80), 50, now);
        assert_eq!(it.allow(20, now).now, 0);
        assert_eq!(it.allow(20, now + INTERVAL).now, 1);
    }

    #[test]
    fn what_was_not_made_is_still_owed() {
        let (mut it, now) = full();
        it.ended(0..5, now);
        assert_eq!(it.allow(5, now).now, 5);
        it.made(Vec::new(), 5, now);
        assert_eq!(it.allow(5, now).now, 5);
        assert_eq!(it.owed, 5);
    }

    #[test]
    fn there_is_no_burst_to_begin_with() {
        let (mut it, full) = full();
        let start = full - INTERVAL * BURST;
        it.ended(0..20, start);
        assert_eq!(it.allow(20, start).now, 0);
        assert_eq!(it.allow(20, start + INTERVAL).now, 1);
        assert_eq!(it.allow(20, full + Duration::from_mins(9)).now, 10);
    }

    #[test]
    fn what_is_taken_away_before_it_served_is_owed_once() {
        let (mut it, now) = full();
        it.made(names(0..6), 6, now);
        let (here, unseen) = (pods(0..2), BTreeSet::from([name(2)]));
        // One has ended, one was deleted by the owner.
        it.took(&pods(4..5));
        it.see(&pods(3..4), &here, &unseen, now);
        assert_eq!(it.owed, 2, "3 has ended, 5 is gone");
        it.see(&pods(3..4), &here, &unseen, now);
        assert_eq!(it.owed, 2);
        // One that has served is free to go, and so is one that is old.
        let mut served = pods(0..1);
        Arc::make_mut(&mut served[0]).ready = crate::replicaset::Ready::Since(None);
        it.see(&[], &[served, pods(1..2)].concat(), &unseen, now);
        it.see(&[], &pods(1..2), &unseen, now);
        it.see(&[], &[], &unseen, now + YOUNG);
        assert_eq!(it.owed, 2);
    }
}
