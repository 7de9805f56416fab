//! Limits how fast pods that do not run are replaced.
//!
//! A replacement costs a token if the pod never became Ready or ended within `SHORT_RUN` of its
//! start: a kubelet rejected it, or it crashed. So does a replacement of a pod that another client deletes within
//! [`SHORT_LIFE`] of its creation, before it became Ready. There are [`BURST`] tokens to begin with, and one more every
//! [`INTERVAL`], so that no minute has more than 60 replacements. Pods that ran, and pods that were deleted later, are
//! replaced at once, however many they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::object::{Text, Uid};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::support::pod::{Pod, Run};

/// The number of tokens of a new owner, and the most that are kept.
pub const BURST: u32 = 10;
/// The time until another token is there.
pub const INTERVAL: Duration = Duration::from_millis(1200);
/// A pod that is deleted sooner than this after its creation, before it became Ready, costs a token.
pub const SHORT_LIFE: Duration = Duration::from_secs(10);
/// The time for which the engine remembers that it created a pod that has not become Ready.
pub const YOUNG: Duration = Duration::from_mins(1);

/// The replacements that one owner has to wait for.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// The finished pods that are still there. Each is counted once. None before the first look.
    ended: Option<BTreeSet<Uid>>,
    /// The names of pods created within [`YOUNG`] that have not become Ready, with the time of the creation.
    young: BTreeMap<Text, Instant>,
    /// The number of replacements that cost a token.
    owed: usize,
    /// The time at which all tokens are there.
    full: Instant,
}

/// The replacements that cost a token, and the tokens that are left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    owed: usize,
    tokens: usize,
}

impl Budget {
    /// Returns the number of pods that may be created now, of `wanted`. A replacement that is not wanted costs nothing: the
    /// owner was scaled down, or another client created pods for it.
    pub fn allowed(self, wanted: usize) -> usize {
        wanted - self.owed.min(wanted).saturating_sub(self.tokens)
    }
}

impl Backoff {
    /// Returns a backoff with all its tokens.
    #[must_use]
    pub fn starting_at(now: Instant) -> Self {
        Self {
            ended: None,
            young: BTreeMap::new(),
            owed: 0,
            full: now,
        }
    }

    /// Counts the pods that ended since the last call. `ended` are the finished pods of the owner, `active` its active
    /// ones; the outcome of creates under the names in `unseen` is unknown. `wall` is the time of the clock that `now` is.
    pub fn observe(
        &mut self,
        ended: &[Arc<Pod>],
        active: &[Arc<Pod>],
        unseen: &BTreeSet<Text>,
        now: Instant,
        wall: Timestamp,
    ) {
        self.young.retain(|_, made| now.duration_since(*made) < YOUNG);
        let known = self.ended.take();
        let uids: BTreeSet<Uid> = ended.iter().map(|it| it.metadata.uid.clone()).collect();
        for pod in ended {
            let meta = &pod.metadata;
            if known.as_ref().is_some_and(|it| it.contains(&meta.uid)) {
                continue;
            }
            // A pod that was created a short time ago did not run before its kubelet restarted.
            let rejected = matches!(pod.run, Run::Unknown(_)) && self.young.contains_key(&meta.name);
            let early = rejected || pod.ended_early(known.is_some().then_some(wall));
            self.owed += usize::from(early);
        }
        self.ended = Some(uids);
        if self.young.is_empty() {
            return;
        }
        self.exempt(ended);
        let active: BTreeMap<&Text, &Pod> = active.iter().map(|it| (&it.metadata.name, &**it)).collect();
        let owed = &mut self.owed;
        self.young.retain(|name, made| {
            let gone = !active.contains_key(name) && !unseen.contains(name);
            *owed += usize::from(gone && now.duration_since(*made) < SHORT_LIFE);
            !gone && active.get(name).is_none_or(|pod| !pod.is_ready())
        });
    }

    /// These pods are gone for a reason that is known.
    pub fn exempt(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods {
            self.young.remove(&pod.metadata.name);
        }
    }

    /// Returns the replacements that cost a token, and the tokens.
    pub fn budget(&self, now: Instant) -> Budget {
        Budget {
            owed: self.owed,
            tokens: self.tokens(now),
        }
    }

    /// Records the pods that were created, or may have been, of `wanted`. Returns the time until the next token, if more pods
    /// wait for one. A full bucket gets no more tokens: then creates fail for another reason, and their retries have a backoff
    /// of their own.
    pub fn record_creates(&mut self, names: Vec<Text>, wanted: usize, now: Instant) -> Option<Duration> {
        self.owed = self.owed.min(wanted);
        let free = wanted - self.owed;
        let replaced = names.len().saturating_sub(free).min(self.owed);
        self.young.extend(names.into_iter().map(|name| (name, now)));
        self.owed -= replaced;
        let cost = INTERVAL.saturating_mul(u32::try_from(replaced).unwrap_or(u32::MAX));
        self.full = self.full.max(now) + cost;
        let tokens = self.tokens(now);
        (self.owed > tokens && tokens < BURST as usize).then(|| self.next_token(tokens, now))
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
            self.observe(&pods(range), &[], &BTreeSet::new(), now, Timestamp::UNIX_EPOCH);
        }

        fn allow(&self, wanted: usize, now: Instant) -> usize {
            self.budget(now).allowed(wanted)
        }
    }

    fn full() -> (Backoff, Instant) {
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        (Backoff::starting_at(start), start)
    }

    #[test]
    fn what_did_not_end_waits_for_nothing() {
        let (mut it, now) = full();
        for _ in 0..10 {
            assert_eq!(it.allow(5000, now), 5000);
            assert_eq!(it.record_creates(names(0..5000), 5000, now), None);
            it.exempt(&pods(0..5000));
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
            let more_in = it.record_creates(names(ended..ended + allowed), 100, now);
            ended += allowed;
            made.extend(std::iter::repeat_n(now, allowed));
            now += more_in.unwrap_or(Duration::from_millis(1));
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
        assert_eq!(it.allow(0, now), 0);
        it.record_creates(Vec::new(), 0, now);
        it.ended(0..500, now);
        // Scaled up: those are not replacements.
        assert_eq!(it.allow(40, now), 40);
    }

    #[test]
    fn of_a_mixed_lot_only_the_replacements_wait() {
        let (mut it, now) = full();
        it.ended(0..30, now);
        assert_eq!(it.allow(50, now), 20 + 10);
        assert_eq!(it.record_creates(names(50..80), 50, now), Some(INTERVAL));
        assert_eq!(it.allow(20, now), 0);
        assert_eq!(it.allow(20, now + INTERVAL), 1);
    }

    #[test]
    fn what_was_not_made_is_still_owed() {
        let (mut it, now) = full();
        it.ended(0..5, now);
        assert_eq!(it.allow(5, now), 5);
        it.record_creates(Vec::new(), 5, now);
        assert_eq!(it.allow(5, now), 5);
        assert_eq!(it.owed, 5);
        it.ended(0..50, now);
        assert_eq!(it.allow(50, now), 10);
        assert_eq!(
            it.record_creates(Vec::new(), 50, now),
            None,
            "no token is missing"
        );
    }

    #[test]
    fn tokens_are_full_at_the_start_and_never_more_than_that() {
        let (mut it, start) = full();
        it.ended(0..40, start);
        assert_eq!(it.allow(40, start), 10);
        it.record_creates(names(40..50), 40, start);
        it.ended(0..50, start);
        assert_eq!(it.allow(40, start), 0);
        assert_eq!(it.allow(40, start + INTERVAL), 1);
        assert_eq!(it.allow(40, start + Duration::from_mins(9)), 10);
    }

    #[test]
    fn only_pods_that_did_not_run_cost_a_token() {
        let time = |second: i64| Timestamp::from_second(second).expect("a time");
        let (mut it, now) = full();
        let with = |run: Run, range: std::ops::Range<usize>| {
            let mut pods = pods(range);
            for pod in &mut pods {
                Arc::make_mut(pod).run = run;
            }
            pods
        };
        let mut owed = |ended: &[Arc<Pod>]| {
            let before = it.owed;
            it.observe(ended, &[], &BTreeSet::new(), now, time(100));
            it.owed - before
        };
        // At the first look the time of the end is not known.
        assert_eq!(owed(&with(Run::Unknown(time(0)), 0..5)), 5);
        assert_eq!(owed(&with(Run::Unknown(time(0)), 5..10)), 0);
        assert_eq!(owed(&with(Run::Unknown(time(95)), 10..15)), 5);
        assert_eq!(owed(&with(Run::Long, 15..20)), 0);
        assert_eq!(owed(&with(Run::Ready(Some(time(0))), 20..25)), 0);
        assert_eq!(owed(&with(Run::Short, 25..30)), 5);
        // Created by the engine, and never seen Ready.
        it.record_creates(names(30..35), 5 + it.owed, now);
        it.observe(
            &with(Run::Unknown(time(0)), 30..35),
            &[],
            &BTreeSet::new(),
            now,
            time(100),
        );
        assert_eq!(it.owed, 5 + 5 + 5 + 5);
    }

    #[test]
    fn what_is_taken_away_before_it_served_is_owed_once() {
        let (mut it, now) = full();
        it.record_creates(names(0..6), 6, now);
        let (here, unseen) = (pods(0..2), BTreeSet::from([name(2)]));
        // One has ended, one was deleted by the owner.
        it.exempt(&pods(4..5));
        it.observe(&pods(3..4), &here, &unseen, now, Timestamp::UNIX_EPOCH);
        assert_eq!(it.owed, 2, "3 has ended, 5 is gone");
        it.observe(&pods(3..4), &here, &unseen, now, Timestamp::UNIX_EPOCH);
        assert_eq!(it.owed, 2);
        // One that has served is free to go, and so is one that is old.
        let mut served = pods(0..1);
        Arc::make_mut(&mut served[0]).ready = crate::support::pod::Ready::Since(None);
        it.observe(
            &[],
            &[served, pods(1..2)].concat(),
            &unseen,
            now,
            Timestamp::UNIX_EPOCH,
        );
        it.observe(&[], &pods(1..2), &unseen, now, Timestamp::UNIX_EPOCH);
        it.observe(&[], &pods(1..2), &unseen, now + SHORT_LIFE, Timestamp::UNIX_EPOCH);
        it.observe(&[], &[], &unseen, now + SHORT_LIFE, Timestamp::UNIX_EPOCH);
        assert_eq!(it.owed, 2);
    }
}
