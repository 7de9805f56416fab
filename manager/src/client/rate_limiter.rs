//! The rate limiter of a client: a token bucket whose waits can be cancelled, and whose rate can change.
//!
//! Each wait reserves the time at which its token becomes available. A cancelled wait returns its reservation to the next
//! request: cancelled requests do not delay later ones, and the rate is never exceeded. A change of the rate starts with a
//! full bucket, and all waits reserve again.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimit;
use crate::env::{Clock, later};
use crate::queue::Bucket;
use crate::sync::watch;

/// The rate limit of several clients, each with its own tokens. It can change at run time. Clones share it.
#[derive(Clone, Debug)]
pub struct SharedRateLimit(watch::Sender<Option<RateLimit>>);

impl SharedRateLimit {
    /// None is unlimited.
    #[must_use]
    pub fn new(limit: Option<RateLimit>) -> Self {
        Self(watch::Sender::new(limit))
    }

    /// Changes the limit, for waiting requests too.
    pub fn set(&self, limit: Option<RateLimit>) {
        self.0.send_if_modified(|current| {
            let is_new = *current != limit;
            *current = limit;
            is_new
        });
    }
}

#[derive(Debug)]
pub(super) struct RateLimiter {
    limit: watch::Receiver<Option<RateLimit>>,
    /// Multiplies the requests per second.
    factor: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The limit of the bucket.
    limit: Option<RateLimit>,
    /// Counts changes of the limit.
    generation: u64,
    bucket: Bucket,
    /// Reservations that were returned.
    free: BTreeSet<Instant>,
}

/// A reserved token. Dropping it returns the token, unless it was used or the limit has changed.
struct Reservation<'a> {
    limiter: &'a RateLimiter,
    generation: u64,
    due: Instant,
    used: bool,
}

impl RateLimiter {
    pub(super) fn new(limit: &SharedRateLimit, factor: f64) -> Self {
        Self::with_receiver(limit.0.subscribe(), factor)
    }

    fn with_receiver(limit: watch::Receiver<Option<RateLimit>>, factor: f64) -> Self {
        Self {
            limit,
            factor,
            state: Mutex::new(State {
                limit: None,
                generation: 0,
                bucket: Bucket::new(Duration::ZERO, 0),
                free: BTreeSet::new(),
            }),
        }
    }

    /// Returns a limiter of the same rate and burst with all its tokens.
    pub(super) fn full(&self) -> Self {
        Self::with_receiver(self.limit.clone(), self.factor)
    }

    /// Waits for a token and takes it.
    pub(super) async fn take(&self, clock: &Clock) {
        // Boxed to keep the futures of callers small.
        Box::pin(self.wait(clock)).await;
    }

    async fn wait(&self, clock: &Clock) {
        let mut limit = self.limit.clone();
        loop {
            limit.mark_unchanged();
            let now = clock.now();
            let Some(mut reservation) = self.reserve(now) else {
                return;
            };
            if reservation.due > now {
                tokio::select! {
                    biased;
                    () = clock.sleep_until(reservation.due) => {}
                    // Disabled if the limit cannot change any more.
                    Ok(()) = limit.changed() => continue,
                }
            }
            reservation.used = true;
            return;
        }
    }

    /// Returns none if the rate is not limited.
    fn reserve(&self, now: Instant) -> Option<Reservation<'_>> {
        let (generation, due) = self.state(|state| {
            let limit = *self.limit.borrow();
            if state.limit != limit {
                state.limit = limit;
                state.generation += 1;
                state.free.clear();
                state.bucket = bucket(limit, self.factor);
            }
            limit?;
            // Reservations in the past are lost, like the tokens of a full bucket.
            state.free = state.free.split_off(&now);
            let free = state.free.pop_first();
            let due = free.unwrap_or_else(|| later(now, state.bucket.reserve(now)));
            Some((state.generation, due))
        })?;
        Some(Reservation {
            limiter: self,
            generation,
            due,
            used: false,
        })
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.limiter.state(|state| {
                if state.generation == self.generation {
                    state.free.insert(self.due);
                }
            });
        }
    }
}

fn bucket(limit: Option<RateLimit>, factor: f64) -> Bucket {
    let RateLimit { qps, burst } = limit.unwrap_or(RateLimit { qps: 1.0, burst: 0 });
    // Validation rejects a rate that is zero, negative or not a number.
    let interval = Duration::try_from_secs_f64(1.0 / (qps * factor)).unwrap_or(Duration::from_secs(1));
    Bucket::new(interval, burst)
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    fn clock() -> Clock {
        Clock::starting_at(Timestamp::UNIX_EPOCH)
    }

    fn limiter(qps: f64, burst: u32) -> (RateLimiter, SharedRateLimit) {
        let shared = SharedRateLimit::new(Some(RateLimit { qps, burst }));
        (RateLimiter::new(&shared, 1.0), shared)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn waits_end_in_order() {
        let clock = clock();
        let (limiter, _) = limiter(10.0, 2);
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
        let (limiter, _) = limiter(10.0, 1);
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
        let (limiter, _) = limiter(10.0, 1);
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

    #[tokio::test(start_paused = true)]
    async fn changed_rate_applies_to_waits() {
        let clock = clock();
        let (limiter, shared) = limiter(1.0, 1);
        let double = RateLimiter::new(&shared, 2.0);
        let start = clock.now();
        let take = async |limiter: &RateLimiter| {
            limiter.take(&clock).await;
            (clock.now() - start).as_millis()
        };
        let change = async {
            clock.sleep(ms(50)).await;
            let limit = RateLimit { qps: 10.0, burst: 1 };
            shared.set(Some(limit));
            // Not a change: it would refill the bucket.
            shared.set(Some(limit));
        };
        // Waits reserve again in any order.
        let three = async |limiter: &RateLimiter| {
            let mut times = <[u128; 3]>::from(tokio::join!(take(limiter), take(limiter), take(limiter)));
            times.sort_unstable();
            times
        };
        let (single, doubled, ()) = tokio::join!(three(&limiter), three(&double), change);
        assert_eq!(single, [0, 50, 150]);
        assert_eq!(doubled, [0, 50, 100], "the factor is kept");
        let unlimited = async {
            clock.sleep(ms(10)).await;
            shared.set(None);
        };
        let (waited, ()) = tokio::join!(take(&limiter), unlimited);
        assert_eq!((waited, take(&limiter).await), (160, 160));
        shared.set(Some(RateLimit { qps: 10.0, burst: 1 }));
        assert_eq!((take(&limiter).await, take(&limiter).await), (160, 260));
    }
}
