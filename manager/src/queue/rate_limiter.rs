//! Rate limiters of client-go, with its defaults: the delay before a failed item is retried.
//!
//! In addition [`Backoffs`] counts a failure once per backoff window.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::env::later;

/// Decides the delay before an item is retried.
pub trait RateLimiter<K>: Debug + Send {
    /// Counts a failure of `item` and returns the delay.
    fn when(&mut self, item: &K, now: Instant) -> Duration;
    /// Resets the failures of an item that has succeeded or is given up.
    fn forget(&mut self, item: &K);
    /// Returns the number of failures that count.
    fn num_requeues(&self, item: &K) -> u32;
}

/// The default of kube-controller-manager: 5 ms, 10 ms, ... 1000 s per item, and a token bucket of 10 qps with a burst of
/// 100 for all items of the queue.
#[must_use]
pub fn default_limiter<K: Clone + Ord + Debug + Send + 'static>() -> MaxOf<K> {
    MaxOf::new(vec![
        Box::new(Exponential::new(
            Duration::from_millis(5),
            Duration::from_secs(1000),
        )),
        Box::new(Bucket::new(Duration::from_millis(100), 100)),
    ])
}

/// Exponential backoff per item: `base`, doubled with each failure, up to `max`.
#[derive(Debug)]
pub struct Exponential<K> {
    backoff: Backoff,
    failures: BTreeMap<K, u32>,
}

/// A number of fast retries, then slow ones, per item.
#[derive(Debug)]
pub struct FastSlow<K> {
    fast: Duration,
    slow: Duration,
    fast_retries: u32,
    failures: BTreeMap<K, u32>,
}

/// A token bucket for all items. Every failure reserves a token that is never returned, so that the delay grows without
/// bound while failures exceed the rate.
#[derive(Debug)]
pub struct Bucket {
    /// The time per token.
    interval: Duration,
    burst: u32,
    /// The time at which the bucket is full again; none if it was never used.
    full_at: Option<Instant>,
}

/// The longest delay of several limiters. All of them are charged every time.
#[derive(Debug)]
pub struct MaxOf<K>(Vec<Box<dyn RateLimiter<K>>>);

/// Limits the delay of another limiter.
#[derive(Debug)]
pub struct MaxWait<L> {
    inner: L,
    max: Duration,
}

/// The limiter of one queue and its open backoff windows.
///
/// An item that waits for its retry can be added by an event and fail again before the retry is due. client-go doubles its
/// backoff each time, so that a busy failing object is soon delayed by a quarter of an hour (kubernetes#132805). Here a
/// failure within an open window changes nothing, and the retry comes when it was due.
#[derive(Debug)]
pub(super) struct Backoffs<K> {
    limiter: Box<dyn RateLimiter<K>>,
    /// The end of the backoff of each item that was not forgotten.
    windows: BTreeMap<K, Instant>,
}

impl<K> Exponential<K> {
    /// Returns a limiter without failures.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            backoff: Backoff::exponential(base, max),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Ord + Debug + Send> RateLimiter<K> for Exponential<K> {
    fn when(&mut self, item: &K, _now: Instant) -> Duration {
        let failures = count(&mut self.failures, item);
        self.backoff.after(failures)
    }

    fn forget(&mut self, item: &K) {
        self.failures.remove(item);
    }

    fn num_requeues(&self, item: &K) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

impl<K> FastSlow<K> {
    /// Returns a limiter with `fast_retries` retries after `fast`, then retries after `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_retries: u32) -> Self {
        Self {
            fast,
            slow,
            fast_retries,
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Ord + Debug + Send> RateLimiter<K> for FastSlow<K> {
    fn when(&mut self, item: &K, _now: Instant) -> Duration {
        if count(&mut self.failures, item) < self.fast_retries {
            self.fast
        } else {
            self.slow
        }
    }

    fn forget(&mut self, item: &K) {
        self.failures.remove(item);
    }

    fn num_requeues(&self, item: &K) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

impl Bucket {
    /// Returns a full bucket of `burst` tokens that refills one token per `interval`.
    #[must_use]
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            burst,
            full_at: None,
        }
    }

    /// Returns a full bucket with the same rate and burst.
    #[must_use]
    pub fn full(&self) -> Self {
        Self::new(self.interval, self.burst)
    }

    /// Takes a token and returns the delay until it is available. Computed in whole nanoseconds, so that rounding never
    /// makes a token available early.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let missing = self.full_at.map_or(Duration::ZERO, |at| at.duration_since(now));
        let missing = missing.saturating_add(self.interval);
        self.full_at = Some(later(now, missing));
        missing.saturating_sub(self.interval.saturating_mul(self.burst))
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&mut self, _item: &K, now: Instant) -> Duration {
        self.reserve(now)
    }

    fn forget(&mut self, _item: &K) {}

    fn num_requeues(&self, _item: &K) -> u32 {
        0
    }
}

impl<K> MaxOf<K> {
    /// Combines limiters.
    #[must_use]
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self(limiters)
    }
}

impl<K: Debug> RateLimiter<K> for MaxOf<K> {
    fn when(&mut self, item: &K, now: Instant) -> Duration {
        self.0.iter_mut().fold(Duration::ZERO, |longest, limiter| {
            longest.max(limiter.when(item, now))
        })
    }

    fn forget(&mut self, item: &K) {
        self.0.iter_mut().for_each(|limiter| limiter.forget(item));
    }

    fn num_requeues(&self, item: &K) -> u32 {
        self.0
            .iter()
            .map(|limiter| limiter.num_requeues(item))
            .max()
            .unwrap_or(0)
    }
}

impl<L> MaxWait<L> {
    /// Limits the delays of `inner` to `max`.
    #[must_use]
    pub fn new(inner: L, max: Duration) -> Self {
        Self { inner, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for MaxWait<L> {
    fn when(&mut self, item: &K, now: Instant) -> Duration {
        self.inner.when(item, now).min(self.max)
    }

    fn forget(&mut self, item: &K) {
        self.inner.forget(item);
    }

    fn num_requeues(&self, item: &K) -> u32 {
        self.inner.num_requeues(item)
    }
}

impl<K: Clone + Ord> Backoffs<K> {
    pub(super) fn new(limiter: Box<dyn RateLimiter<K>>) -> Self {
        Self {
            limiter,
            windows: BTreeMap::new(),
        }
    }

    /// Returns the delay of a failed item.
    pub(super) fn when(&mut self, item: &K, now: Instant) -> Duration {
        if let Some(end) = self.windows.get(item)
            && *end > now
        {
            return end.duration_since(now);
        }
        let wait = self.limiter.when(item, now);
        self.windows.insert(item.clone(), later(now, wait));
        wait
    }

    pub(super) fn forget(&mut self, item: &K) {
        self.windows.remove(item);
        self.limiter.forget(item);
    }

    pub(super) fn num_requeues(&self, item: &K) -> u32 {
        self.limiter.num_requeues(item)
    }
}

/// Counts a failure. Returns the number of failures before it.
fn count<K: Clone + Ord>(failures: &mut BTreeMap<K, u32>, item: &K) -> u32 {
    if let Some(failures) = failures.get_mut(item) {
        let before = *failures;
        *failures = before.saturating_add(1);
        return before;
    }
    failures.insert(item.clone(), 1);
    0
}
