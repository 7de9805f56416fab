//! Pods that end as soon as they are made are not replaced as fast as they end.
//!
//! A pod that was seen to end is owed a replacement. Replacements cost a token: [`BURST`] are there at once, and one comes
//! every [`INTERVAL`], so that no minute sees more than 60 of them. Pods that were deleted, or never were, cost nothing:
//! whoever deletes 100 pods gets 100 back at once.

use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_manager::object::Uid;
use tokio::time::Instant;

/// How many replacements need not wait.
pub const BURST: u32 = 10;
/// How long until another one may be made.
pub const INTERVAL: Duration = Duration::from_millis(1200);

/// What is owed to one owner.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    /// The pods that have ended and are still there: each is owed once.
    ended: BTreeSet<Uid>,
    owed: usize,
    /// When all tokens are there again; none if they are.
    full: Option<Instant>,
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
    /// These pods of the owner have ended, and are still there.
    pub fn see(&mut self, ended: impl IntoIterator<Item = Uid>) {
        let ended: BTreeSet<Uid> = ended.into_iter().collect();
        self.owed += ended.difference(&self.ended).count();
        self.ended = ended;
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

    /// Of `wanted` pods so many were made.
    pub fn made(&mut self, made: usize, wanted: usize, now: Instant) {
        let free = wanted.saturating_sub(self.owed);
        let replaced = made.saturating_sub(free).min(self.owed);
        self.owed -= replaced;
        let cost = INTERVAL.saturating_mul(u32::try_from(replaced).unwrap_or(u32::MAX));
        if !cost.is_zero() {
            self.full = Some(self.full.map_or(now, |full| full.max(now)) + cost);
        }
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
        self.full
            .map_or(Duration::ZERO, |full| full.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_manager::env::Clock;
    use jiff::Timestamp;

    fn uids(range: std::ops::Range<usize>) -> impl Iterator<Item = Uid> {
        range.map(|it| Uid::from(&*format!("u{it}")))
    }

    fn start() -> Instant {
        Clock::starting_at(Timestamp::UNIX_EPOCH).now()
    }

    #[test]
    fn what_did_not_end_waits_for_nothing() {
        let (mut it, now) = (Backoff::default(), start());
        for _ in 0..10 {
            let all = Allowed {
                now: 5000,
                more_in: None,
            };
            assert_eq!(it.allow(5000, now), all);
            it.made(5000, 5000, now);
        }
    }

    #[test]
    fn no_minute_sees_more_than_sixty_replacements() {
        let (mut it, mut now) = (Backoff::default(), start());
        let (mut ended, mut made): (usize, Vec<Instant>) = (100, Vec::new());
        for _ in 0..1000 {
            // All have ended, and all that was made has ended too; old ones are cleared away.
            it.see(uids(ended - 100..ended));
            let allowed = it.allow(100, now);
            it.made(allowed.now, 100, now);
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
        let (mut it, now) = (Backoff::default(), start());
        it.see(uids(0..500));
        assert_eq!(it.allow(0, now).now, 0);
        it.see(uids(0..500));
        // Scaled up: those are not replacements.
        assert_eq!(it.allow(40, now).now, 40);
    }

    #[test]
    fn of_a_mixed_lot_only_the_replacements_wait() {
        let (mut it, now) = (Backoff::default(), start());
        it.see(uids(0..30));
        let allowed = it.allow(50, now);
        assert_eq!(allowed.now, 20 + 10);
        assert!(allowed.more_in.is_some());
        it.made(30, 50, now);
        assert_eq!(it.allow(20, now).now, 0);
        assert_eq!(it.allow(20, now + INTERVAL).now, 1);
    }

    #[test]
    fn what_was_not_made_is_still_owed() {
        let (mut it, now) = (Backoff::default(), start());
        it.see(uids(0..5));
        assert_eq!(it.allow(5, now).now, 5);
        it.made(0, 5, now);
        assert_eq!(it.allow(5, now).now, 5);
        assert_eq!(it.owed, 5);
    }
}
