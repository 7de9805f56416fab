//! Limits the rate at which pods that do not run are replaced.
//!
//! A replacement costs a token if the pod never became Ready or ended within `SHORT_RUN` of its start: a kubelet rejected it,
//! or it crashed. So does the replacement of a pod that another client deletes within [`SHORT_LIFETIME`] of its creation,
//! before it became Ready. A new owner has [`TOKENS_MAX`] tokens and gets one every [`TOKEN_INTERVAL`], so no minute has more
//! than 60 replacements. Pods that ran and pods that were deleted later are replaced at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_manager::object::{Text, Uid};
use steersman_manager::revived;
use tokio::time::Instant;

use crate::support::pod::{Pod, Run};

/// The maximum number of tokens, and the number that a new owner has.
const TOKENS_MAX: u32 = 10;
const TOKEN_INTERVAL: Duration = Duration::from_millis(1200);
/// The age below which the deletion of a pod that never became Ready costs a token.
const SHORT_LIFETIME: Duration = Duration::from_secs(10);
/// The time for which a created pod is remembered until it becomes Ready.
const RECENT: Duration = Duration::from_mins(1);

/// The token bucket of one owner.
#[derive(Clone, Debug)]
pub(super) struct ReplacementBackoff {
    /// The finished pods that still exist: each is charged once. None before the first observation.
    finished: Option<BTreeSet<Uid>>,
    /// The pods created within [`RECENT`] that have not become Ready, by name, and the time of the create.
    recent: BTreeMap<Text, Instant>,
    /// The number of pending replacements that cost a token.
    charged: usize,
    /// The time at which the bucket is full.
    full_at: Instant,
}

/// The replacements that cost a token, and the tokens that are left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    charged: usize,
    tokens: usize,
}

impl Budget {
    /// Returns the number of pods that may be created now, of `wanted`. A replacement that is not wanted costs nothing: the
    /// owner was scaled down, or another client created pods for it.
    pub(super) fn allowed(self, wanted: usize) -> usize {
        if revived!(R1) {
            return wanted;
        }
        wanted - self.charged.min(wanted).saturating_sub(self.tokens)
    }
}

impl ReplacementBackoff {
    /// Returns a full bucket.
    pub(super) fn starting_at(now: Instant) -> Self {
        Self {
            finished: None,
            recent: BTreeMap::new(),
            charged: 0,
            full_at: now,
        }
    }

    /// Charges the pods that ended since the last call. `pending` are the names of creates that the cache does not show;
    /// `wall` is the wall clock at `now`.
    pub(super) fn observe(
        &mut self,
        finished: &[Arc<Pod>],
        active: &[Arc<Pod>],
        pending: &BTreeSet<Text>,
        now: Instant,
        wall: Timestamp,
    ) {
        self.recent
            .retain(|_, created| now.duration_since(*created) < RECENT);
        let known = self.finished.take();
        let uids: BTreeSet<Uid> = finished.iter().map(|it| it.metadata.uid.clone()).collect();
        for pod in finished {
            let meta = &pod.metadata;
            if known.as_ref().is_some_and(|it| it.contains(&meta.uid)) {
                continue;
            }
            // A recently created pod cannot have run before a restart of its kubelet.
            let rejected = matches!(pod.run, Run::Unknown(_)) && self.recent.contains_key(&meta.name);
            let early = rejected || pod.ended_early(known.is_some().then_some(wall));
            self.charged += usize::from(early || revived!(B1));
        }
        self.finished = Some(uids);
        if self.recent.is_empty() {
            return;
        }
        self.exempt(finished);
        let active: BTreeMap<&Text, &Pod> = active.iter().map(|it| (&it.metadata.name, &**it)).collect();
        let charged = &mut self.charged;
        self.recent.retain(|name, created| {
            let gone = !active.contains_key(name) && !pending.contains(name);
            *charged += usize::from(gone && now.duration_since(*created) < SHORT_LIFETIME);
            !gone && active.get(name).is_none_or(|pod| !pod.is_ready())
        });
    }

    /// Does not charge the end of these pods.
    pub(super) fn exempt(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods {
            self.recent.remove(&pod.metadata.name);
        }
    }

    pub(super) fn budget(&self, now: Instant) -> Budget {
        Budget {
            charged: self.charged,
            tokens: self.tokens(now),
        }
    }

    /// Records the pods that were created, or may have been, of `wanted`. Returns the time until the next token if more pods
    /// wait for one. With a full bucket, pods are missing because creates fail, and the retries have their own backoff.
    pub(super) fn record_creates(
        &mut self,
        names: Vec<Text>,
        wanted: usize,
        now: Instant,
    ) -> Option<Duration> {
        self.charged = self.charged.min(wanted);
        let free = wanted - self.charged;
        let replaced = names.len().saturating_sub(free).min(self.charged);
        self.recent.extend(names.into_iter().map(|name| (name, now)));
        self.charged -= replaced;
        let cost = TOKEN_INTERVAL.saturating_mul(u32::try_from(replaced).unwrap_or(u32::MAX));
        self.full_at = self.full_at.max(now) + cost;
        let tokens = self.tokens(now);
        (self.charged > tokens && tokens < TOKENS_MAX as usize).then(|| self.next_token(tokens, now))
    }

    fn tokens(&self, now: Instant) -> usize {
        let missing = self.missing(now).as_nanos().div_ceil(TOKEN_INTERVAL.as_nanos());
        (TOKENS_MAX as usize).saturating_sub(usize::try_from(missing).unwrap_or(usize::MAX))
    }

    /// Returns the time until there are more than `tokens`.
    fn next_token(&self, tokens: usize, now: Instant) -> Duration {
        let tokens = u32::try_from(tokens).unwrap_or(TOKENS_MAX).min(TOKENS_MAX);
        let until =
            (self.missing(now) + TOKEN_INTERVAL * (tokens + 1)).saturating_sub(TOKEN_INTERVAL * TOKENS_MAX);
        until.max(Duration::from_millis(1))
    }

    fn missing(&self, now: Instant) -> Duration {
        self.full_at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use steersman_manager::env::Clock;

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

    impl ReplacementBackoff {
        fn finish(&mut self, range: std::ops::Range<usize>, now: Instant) {
            self.observe(&pods(range), &[], &BTreeSet::new(), now, Timestamp::UNIX_EPOCH);
        }

        fn allow(&self, wanted: usize, now: Instant) -> usize {
            self.budget(now).allowed(wanted)
        }
    }

    fn full() -> (ReplacementBackoff, Instant) {
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        (ReplacementBackoff::starting_at(start), start)
    }

    #[test]
    fn pods_that_did_not_end_are_created_at_once() {
        let (mut it, now) = full();
        for _ in 0..10 {
            assert_eq!(it.allow(5000, now), 5000);
            assert_eq!(it.record_creates(names(0..5000), 5000, now), None);
            it.exempt(&pods(0..5000));
        }
    }

    #[test]
    fn at_most_sixty_replacements_per_minute() {
        let (mut it, mut now) = full();
        let (mut finished, mut created): (usize, Vec<Instant>) = (100, Vec::new());
        for _ in 0..1000 {
            // All pods have ended, the created ones too; old ones are removed.
            it.finish(finished - 100..finished, now);
            let allowed = it.allow(100, now);
            let more_in = it.record_creates(names(finished..finished + allowed), 100, now);
            finished += allowed;
            created.extend(std::iter::repeat_n(now, allowed));
            now += more_in.unwrap_or(Duration::from_millis(1));
        }
        assert!(created.len() > 900, "replacements continue: {}", created.len());
        for (i, first) in created.iter().enumerate() {
            let minute = created[i..]
                .iter()
                .take_while(|it| **it - *first < Duration::from_mins(1));
            assert!(minute.count() <= 60);
        }
    }

    #[test]
    fn finished_pod_without_replacement_is_not_charged() {
        let (mut it, now) = full();
        it.finish(0..500, now);
        assert_eq!(it.allow(0, now), 0);
        it.record_creates(Vec::new(), 0, now);
        it.finish(0..500, now);
        // A scale-up is not a replacement.
        assert_eq!(it.allow(40, now), 40);
    }

    #[test]
    fn only_charged_replacements_of_a_batch_wait() {
        let (mut it, now) = full();
        it.finish(0..30, now);
        assert_eq!(it.allow(50, now), 20 + 10);
        assert_eq!(it.record_creates(names(50..80), 50, now), Some(TOKEN_INTERVAL));
        assert_eq!(it.charged, 20);
        assert_eq!(it.allow(20, now), 0);
        assert_eq!(it.allow(20, now + TOKEN_INTERVAL), 1);
    }

    #[test]
    fn failed_create_stays_charged() {
        let (mut it, now) = full();
        it.finish(0..5, now);
        assert_eq!(it.allow(5, now), 5);
        it.record_creates(Vec::new(), 5, now);
        assert_eq!(it.allow(5, now), 5);
        assert_eq!(it.charged, 5);
        it.finish(0..50, now);
        assert_eq!(it.allow(50, now), 10);
        assert_eq!(it.record_creates(Vec::new(), 50, now), None, "the bucket is full");
    }

    #[test]
    fn next_token_is_waited_for_if_tokens_do_not_suffice() {
        // Five of the pods are replaced; the other creates fail.
        for (finished, created, wait) in [(20, 5, Some(TOKEN_INTERVAL)), (10, 5, None)] {
            let (mut it, now) = full();
            it.finish(0..finished, now);
            let names = names(finished..finished + created);
            assert_eq!(it.record_creates(names, finished, now), wait, "{finished}");
            assert_eq!(it.allow(finished - created, now), 5);
        }
    }

    #[test]
    fn tokens_start_at_the_maximum_and_never_exceed_it() {
        let (mut it, start) = full();
        it.finish(0..40, start);
        assert_eq!(it.allow(40, start), 10);
        it.record_creates(names(40..50), 40, start);
        it.finish(0..50, start);
        assert_eq!(it.allow(40, start), 0);
        assert_eq!(it.allow(40, start + TOKEN_INTERVAL), 1);
        assert_eq!(it.allow(40, start + Duration::from_mins(9)), 10);
    }

    #[test]
    fn pod_that_did_not_run_costs_a_token() {
        let time = |second: i64| Timestamp::from_second(second).expect("a time");
        let (mut it, now) = full();
        let with = |run: Run, range: std::ops::Range<usize>| {
            let mut pods = pods(range);
            for pod in &mut pods {
                Arc::make_mut(pod).run = run;
            }
            pods
        };
        let mut charged = |finished: &[Arc<Pod>]| {
            let before = it.charged;
            it.observe(finished, &[], &BTreeSet::new(), now, time(100));
            it.charged - before
        };
        // At the first observation the time of the end is unknown.
        assert_eq!(charged(&with(Run::Unknown(time(0)), 0..5)), 5);
        assert_eq!(charged(&with(Run::Unknown(time(0)), 5..10)), 0);
        assert_eq!(charged(&with(Run::Unknown(time(95)), 10..15)), 5);
        assert_eq!(charged(&with(Run::Long, 15..20)), 0);
        assert_eq!(charged(&with(Run::Ready(Some(time(0))), 20..25)), 0);
        assert_eq!(charged(&with(Run::Short, 25..30)), 5);
        // Created by the controller, and never observed Ready.
        it.record_creates(names(30..35), 5 + it.charged, now);
        it.observe(
            &with(Run::Unknown(time(0)), 30..35),
            &[],
            &BTreeSet::new(),
            now,
            time(100),
        );
        assert_eq!(it.charged, 5 + 5 + 5 + 5);
    }

    #[test]
    fn pod_deleted_before_it_became_ready_is_charged_once() {
        let (mut it, now) = full();
        it.record_creates(names(0..6), 6, now);
        let (active, pending) = (pods(0..2), BTreeSet::from([name(2)]));
        // Pod 3 has finished, pod 4 was deleted by the controller.
        it.exempt(&pods(4..5));
        it.observe(&pods(3..4), &active, &pending, now, Timestamp::UNIX_EPOCH);
        assert_eq!(it.charged, 2, "3 has finished, 5 is gone");
        it.observe(&pods(3..4), &active, &pending, now, Timestamp::UNIX_EPOCH);
        assert_eq!(it.charged, 2);
        // Deleting a pod that was Ready or is older costs nothing.
        let mut ready = pods(0..1);
        Arc::make_mut(&mut ready[0]).ready = crate::support::pod::Ready::Since(None);
        it.observe(
            &[],
            &[ready, pods(1..2)].concat(),
            &pending,
            now,
            Timestamp::UNIX_EPOCH,
        );
        it.observe(&[], &pods(1..2), &pending, now, Timestamp::UNIX_EPOCH);
        it.observe(
            &[],
            &pods(1..2),
            &pending,
            now + SHORT_LIFETIME,
            Timestamp::UNIX_EPOCH,
        );
        it.observe(&[], &[], &pending, now + SHORT_LIFETIME, Timestamp::UNIX_EPOCH);
        assert_eq!(it.charged, 2);
    }

    #[test]
    fn observed_pod_is_charged_if_it_is_gone_before_it_became_ready() {
        let (mut it, now) = full();
        it.record_creates(names(0..2), 2, now);
        let pending = BTreeSet::from([name(1)]);
        it.observe(&[], &pods(0..1), &pending, now, Timestamp::UNIX_EPOCH);
        assert_eq!(it.charged, 0, "one is active, one is pending");
        it.observe(&[], &[], &pending, now, Timestamp::UNIX_EPOCH);
        assert_eq!(it.charged, 1);
        it.observe(&[], &[], &BTreeSet::new(), now, Timestamp::UNIX_EPOCH);
        assert_eq!(it.charged, 2);
    }
}
