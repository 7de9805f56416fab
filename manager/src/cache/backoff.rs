//! How long a reflector waits after something went wrong.

use std::time::Duration;

use tokio::time::Instant;

use crate::env::{Rng, later};

pub(super) const FIRST: Duration = Duration::from_millis(800);
/// The first one for a kind that the server does not know: it may just have been defined, and be known at any moment.
pub(super) const FIRST_UNKNOWN: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// After this long without a wait, the next one is the first again.
const HEALTHY: Duration = Duration::from_mins(2);
/// No server is believed that asks for more.
const LONGEST_ASKED: Duration = Duration::from_mins(5);

/// The waits of one feed: twice as long each time, with as much again by chance, so that the caches of many managers do
/// not come back in step.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// The wait before chance.
    last: Duration,
    /// When the last wait ended.
    ended: Option<Instant>,
}

impl Backoff {
    /// The next wait; not shorter than the server asked for. If it is the first, it is `first` before chance.
    pub(super) fn next(
        &mut self,
        first: Duration,
        asked: Option<Duration>,
        now: Instant,
        rng: &Rng,
    ) -> Duration {
        let healthy = self.ended.is_none_or(|ended| now >= later(ended, HEALTHY));
        self.last = if healthy {
            first
        } else {
            LONGEST.min(2 * self.last)
        };
        let wait = rng.between(self.last, 2 * self.last);
        let wait = wait.max(asked.unwrap_or_default().min(LONGEST_ASKED));
        self.ended = Some(later(now, wait));
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::env::Clock;
    use jiff::Timestamp;

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_limit_and_health_ends_them() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let rng = Rng::from_seed(1);
        let mut backoff = Backoff::default();
        let mut least = FIRST;
        for _ in 0..10 {
            let wait = backoff.next(FIRST, None, clock.now(), &rng);
            assert!((least..=2 * least).contains(&wait), "{wait:?} {least:?}");
            least = LONGEST.min(2 * least);
            clock.sleep(wait + HEALTHY / 2).await;
        }
        clock.sleep(HEALTHY).await;
        assert!(backoff.next(FIRST, None, clock.now(), &rng) <= 2 * FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_asks_for_is_kept_within_reason() {
        let now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let rng = Rng::from_seed(1);
        let wait = |asked| Backoff::default().next(FIRST, Some(asked), now, &rng);
        assert_eq!(wait(Duration::from_secs(30)), Duration::from_secs(30));
        assert!(wait(Duration::ZERO) >= FIRST);
        assert_eq!(wait(Duration::from_hours(24)), LONGEST_ASKED);
    }
}
