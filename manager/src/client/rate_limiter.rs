//! The rate limiter of a client: a token bucket whose waits can be cancelled.
//!
//! Each wait reserves the time at which its token becomes available. A cancelled wait returns its reservation to the next
//! request: cancelled requests do not delay later ones, and the rate is never exceeded.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimit;
use crate::env::{Clock, later};
use crate::queue::Bucket;

#[derive(Debug)]
pub(super) struct RateLimiter(Mutex<State>);

#[derive(Debug)]
struct State {
    bucket: Bucket,
    /// Reservations that were returned.
    free: BTreeSet<Instant>,
}

/// A reserved token. Dropping it returns the token, unless it was used.
struct Reservation<'a> {
    limiter: &'a RateLimiter,
    due: Instant,
    used: bool,
}

impl RateLimiter {
    pub(super) fn new(RateLimit { qps, burst }: RateLimit) -> Self {
        // Validation rejects a rate that is zero, negative or not a number.
        let interval = Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::from_secs(1));
        Self(Mutex::new(State {
            bucket: Bucket::new(interval, burst),
            free: BTreeSet::new(),
        }))
    }

    /// Returns a limiter of the same rate and burst with all its tokens.
    pub(super) fn full(&self) -> Self {
        Self(Mutex::new(State {
            bucket: self.state(|state| state.bucket.full()),
            free: BTreeSet::new(),
        }))
    }

    /// Waits for a token and takes it.
    pub(super) async fn take(&self, clock: &Clock) {
        let now = clock.now();
        let mut reservation = self.reserve(now);
        if reservation.due > now {
            clock.sleep_until(reservation.due).await;
        }
        reservation.used = true;
    }

    fn reserve(&self, now: Instant) -> Reservation<'_> {
        let due = self.state(|state| {
            // Reservations in the past are lost, like the tokens of a full bucket.
            state.free = state.free.split_off(&now);
            let free = state.free.pop_first();
            free.unwrap_or_else(|| later(now, state.bucket.reserve(now)))
        });
        Reservation {
            limiter: self,
            due,
            used: false,
        }
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.limiter.state(|state| state.free.insert(self.due));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    fn clock() -> Clock {
        Clock::starting_at(Timestamp::UNIX_EPOCH)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn waits_end_in_order() {
        let clock = clock();
        let limiter = RateLimiter::new(RateLimit { qps: 10.0, burst: 2 });
        let start = clock.now();
        let take = async || {
            limiter.take(&clock).await;
            clock.now() - start
        };
        let (a, b, c, d) = tokio::join!(take(), take(), take(), take());
        assert_eq!([a, b, c, d], [0, 0, 100, 200].map(ms));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_waits_return_their_tokens() {
        let clock = clock();
        let limiter = RateLimiter::new(RateLimit { qps: 10.0, burst: 1 });
        let start = clock.now();
        let take = async || {
            limiter.take(&clock).await;
            clock.now() - start
        };
        take().await;
        let dropped = async {
            let three = async { tokio::join!(take(), take(), take()) };
            assert!(clock.timeout(ms(50), three).await.is_none());
        };
        // A wait behind the cancelled ones keeps its reservation.
        let behind = async {
            clock.sleep(ms(10)).await;
            take().await
        };
        let later = async {
            clock.sleep(ms(60)).await;
            tokio::join!(take(), take(), take(), take())
        };
        let ((), behind, (a, b, c, d)) = tokio::join!(dropped, behind, later);
        assert_eq!([a, b, c], [100, 200, 300].map(ms));
        assert_eq!([behind, d], [400, 500].map(ms));
    }

    #[tokio::test(start_paused = true)]
    async fn returned_token_in_the_past_is_lost() {
        let clock = clock();
        let limiter = RateLimiter::new(RateLimit { qps: 10.0, burst: 1 });
        let start = clock.now();
        limiter.take(&clock).await;
        assert!(clock.timeout(ms(50), limiter.take(&clock)).await.is_none());
        clock.sleep(ms(100)).await;
        let (a, b) = tokio::join!(
            async {
                limiter.take(&clock).await;
                clock.now() - start
            },
            async {
                limiter.take(&clock).await;
                clock.now() - start
            }
        );
        assert_eq!([a, b], [200, 300].map(ms), "never two at once");
    }
}
