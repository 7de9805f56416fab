//! Exponential backoff with jitter.
//!
//! ```
//! use steersman_manager::backoff::Backoff;
//! use steersman_manager::env::{Clock, Rng};
//! use std::time::Duration;
//!
//! let (clock, rng) = (Clock::system(), Rng::from_entropy());
//! let mut backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(30)).jitter(0.5);
//! for least in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
//!     let delay = backoff.next(clock.now(), &rng).as_secs_f64();
//!     assert!((least..=1.5 * least).contains(&delay));
//! }
//! backoff.reset(); // after a success
//! ```

use std::time::Duration;

use tokio::time::Instant;

use crate::env::{Rng, later};

/// Delays between retries. Each delay is a multiple of the one before, up to a cap, plus a random jitter, so that many
/// clients do not retry at the same time.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    factor: u32,
    cap: Duration,
    jitter: f64,
    reset_after: Option<Duration>,
    failures: u32,
    /// The end of the last delay.
    retry_at: Option<Instant>,
}

impl Backoff {
    /// Doubles the delay from `first` up to `cap`, without jitter. Only [`Backoff::reset`] ends it.
    #[must_use]
    pub const fn exponential(first: Duration, cap: Duration) -> Self {
        Self {
            first,
            factor: 2,
            cap,
            jitter: 0.0,
            reset_after: None,
            failures: 0,
            retry_at: None,
        }
    }

    /// Multiplies the delay by `factor` at each failure. Defaults to 2.
    #[must_use]
    pub const fn factor(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Adds a random part of the delay, up to `jitter` times the delay, also beyond the cap. Defaults to 0.
    #[must_use]
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Starts over when no failure followed for this long after a delay. Defaults to never.
    #[must_use]
    pub const fn reset_after(mut self, healthy: Duration) -> Self {
        self.reset_after = Some(healthy);
        self
    }

    /// Returns the delay before the next retry, and counts a failure at `now`.
    pub fn next(&mut self, now: Instant, rng: &Rng) -> Duration {
        if self.is_healthy(now) {
            self.failures = 0;
        }
        let base = self.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        let longest = base.saturating_add(base.mul_f64(self.jitter));
        let delay = rng.between(base, longest);
        self.retry_at = Some(later(now, delay));
        delay
    }

    /// [`Backoff::next`], but at least the smaller of `retry_after`, the delay that the server requested, and `max`.
    pub fn next_at_least(
        &mut self,
        retry_after: Option<Duration>,
        max: Duration,
        now: Instant,
        rng: &Rng,
    ) -> Duration {
        let delay = self.next(now, rng).max(retry_after.unwrap_or_default().min(max));
        self.retry_at = Some(later(now, delay));
        delay
    }

    /// Returns the delay that follows this number of earlier failures, without jitter.
    #[must_use]
    pub fn after(&self, failures: u32) -> Duration {
        // A zero delay or a factor of 1 never reaches the cap; any other does within 128 steps.
        let delays = (0..failures.min(128)).try_fold(self.first, |delay, _| {
            delay.checked_mul(self.factor).filter(|delay| *delay < self.cap)
        });
        delays.map_or(self.cap, |delay| delay.min(self.cap))
    }

    /// Starts over with the first delay.
    pub fn reset(&mut self) {
        self.failures = 0;
        self.retry_at = None;
    }

    /// Returns true if the next failure is the first, or the first one after the time to reset.
    #[must_use]
    pub fn is_healthy(&self, now: Instant) -> bool {
        let resets = |retry_at| {
            self.reset_after
                .is_some_and(|after| now >= later(retry_at, after))
        };
        self.retry_at.is_none_or(resets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::env::Clock;
    use jiff::Timestamp;

    const FIRST: Duration = Duration::from_millis(800);
    const CAP: Duration = Duration::from_secs(30);
    const HEALTHY: Duration = Duration::from_mins(2);
    const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);
    const BACKOFF: Backoff = Backoff::exponential(FIRST, CAP).jitter(1.0).reset_after(HEALTHY);

    #[tokio::test(start_paused = true)]
    async fn delay_doubles_up_to_the_cap_and_starts_over_when_healthy() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let rng = Rng::from_seed(1);
        let mut backoff = BACKOFF;
        let mut least = FIRST;
        for _ in 0..10 {
            let wait = backoff.next(clock.now(), &rng);
            assert!((least..=2 * least).contains(&wait), "{wait:?} {least:?}");
            least = CAP.min(2 * least);
            clock.sleep(wait + HEALTHY / 2).await;
        }
        clock.sleep(HEALTHY).await;
        assert!(backoff.next(clock.now(), &rng) <= 2 * FIRST);
        assert!(backoff.next(clock.now(), &rng) >= 2 * FIRST);
        backoff.reset();
        assert!(backoff.next(clock.now(), &rng) <= 2 * FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_honoured_up_to_the_maximum() {
        let now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let rng = Rng::from_seed(1);
        let wait = |asked| {
            let mut backoff = BACKOFF;
            backoff.next_at_least(Some(asked), RETRY_AFTER_MAX, now, &rng)
        };
        assert_eq!(wait(Duration::from_secs(30)), Duration::from_secs(30));
        assert!(wait(Duration::ZERO) >= FIRST);
        assert_eq!(wait(Duration::from_hours(24)), RETRY_AFTER_MAX);
    }

    #[test]
    fn backoff_is_healthy_when_the_time_to_reset_has_passed() {
        let now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let mut backoff = BACKOFF;
        assert!(backoff.is_healthy(now));
        let reset_at = now + backoff.next(now, &Rng::from_seed(1)) + HEALTHY;
        assert!(!backoff.is_healthy(reset_at - Duration::from_nanos(1)));
        assert!(backoff.is_healthy(reset_at));
    }

    #[test]
    fn delay_without_jitter_is_a_function_of_the_failures() {
        let backoff = Backoff::exponential(FIRST, CAP).factor(3);
        let delays = [0, 1, 2, 3, 4, u32::MAX].map(|failures| backoff.after(failures).as_millis());
        assert_eq!(delays, [800, 2_400, 7_200, 21_600, 30_000, 30_000]);
        assert_eq!(
            Backoff::exponential(Duration::ZERO, CAP).after(u32::MAX),
            Duration::ZERO
        );
        assert_eq!(Backoff::exponential(CAP, FIRST).after(0), FIRST);
    }
}
