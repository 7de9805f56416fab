//! The token bucket of a client, for requests that wait for their token.
//!
//! Each wait reserves the moment at which its token comes in. A wait that is dropped before that moment gives it back, and the
//! next one that comes takes it over: requests that were cancelled do not delay those after them, and the rate is never
//! exceeded.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Limit;
use crate::env::{Clock, later};
use crate::queue::Bucket;

/// A token bucket that is waited for.
#[derive(Debug)]
pub(super) struct Tokens(Mutex<State>);

#[derive(Debug)]
struct State {
    bucket: Bucket,
    /// Moments that were reserved and given back.
    free: BTreeSet<Instant>,
}

/// A reserved moment. It is given back when this is dropped, unless it was used.
struct Reservation<'a> {
    tokens: &'a Tokens,
    due: Instant,
    used: bool,
}

impl Tokens {
    pub(super) fn new(Limit { qps, burst }: Limit) -> Self {
        // A rate that is not one (0, negative, not a number) would be a wait for ever; validation refuses it before.
        let interval = Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::from_secs(1));
        Self(Mutex::new(State {
            bucket: Bucket::new(interval, burst),
            free: BTreeSet::new(),
        }))
    }

    /// Returns another bucket of the same rate and burst, full.
    pub(super) fn full(&self) -> Self {
        Self(Mutex::new(State {
            bucket: self.state(|state| state.bucket.full()),
            free: BTreeSet::new(),
        }))
    }

    /// Waits for a token, and takes it.
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
            // Those that have passed are lost, as tokens that come into a full bucket are.
            state.free = state.free.split_off(&now);
            let free = state.free.pop_first();
            free.unwrap_or_else(|| later(now, state.bucket.reserve(now)))
        });
        Reservation {
            tokens: self,
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
            self.tokens.state(|state| state.free.insert(self.due));
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
    async fn waits_end_in_the_order_in_which_they_began() {
        let clock = clock();
        let tokens = Tokens::new(Limit { qps: 10.0, burst: 2 });
        let start = clock.now();
        let take = async || {
            tokens.take(&clock).await;
            clock.now() - start
        };
        let (a, b, c, d) = tokio::join!(take(), take(), take(), take());
        assert_eq!([a, b, c, d], [0, 0, 100, 200].map(ms));
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_waits_leave_their_tokens_to_those_that_come_later() {
        let clock = clock();
        let tokens = Tokens::new(Limit { qps: 10.0, burst: 1 });
        let start = clock.now();
        let take = async || {
            tokens.take(&clock).await;
            clock.now() - start
        };
        take().await;
        let dropped = async {
            let three = async { tokio::join!(take(), take(), take()) };
            assert!(clock.timeout(ms(50), three).await.is_none());
        };
        // One that waits behind them keeps its moment.
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
    async fn token_that_passed_unused_is_lost() {
        let clock = clock();
        let tokens = Tokens::new(Limit { qps: 10.0, burst: 1 });
        let start = clock.now();
        tokens.take(&clock).await;
        assert!(clock.timeout(ms(50), tokens.take(&clock)).await.is_none());
        clock.sleep(ms(100)).await;
        let (a, b) = tokio::join!(
            async {
                tokens.take(&clock).await;
                clock.now() - start
            },
            async {
                tokens.take(&clock).await;
                clock.now() - start
            }
        );
        assert_eq!([a, b], [200, 300].map(ms), "never two at once");
    }
}
