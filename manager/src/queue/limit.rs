//! Rate limiters: how long an item that failed has to wait.
//!
//! They are client-go's, with its defaults. What is added is in [`Retries`]: a failure counts once per backoff window.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::env::later;

/// Decides how long an item waits before it is tried again.
pub trait RateLimiter<K>: Debug + Send {
    /// Counts a failure of `item` and says how long to wait.
    fn when(&mut self, item: &K, now: Instant) -> Duration;
    /// `item` has succeeded, or is given up: it starts afresh.
    fn forget(&mut self, item: &K);
    /// How many failures of `item` count.
    fn num_requeues(&self, item: &K) -> u32;
}

/// The limiter of every controller of kube-controller-manager: 5 ms, 10 ms, ... 1000 s per item, and 10 per second with a
/// burst of 100 for all items of the queue together.
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

/// `base`, twice `base`, four times `base` ... up to `max`, per item.
#[derive(Debug)]
pub struct Exponential<K> {
    backoff: Backoff,
    failures: BTreeMap<K, u32>,
}

/// A few fast retries, then slow ones, per item.
#[derive(Debug)]
pub struct FastSlow<K> {
    fast: Duration,
    slow: Duration,
    fast_retries: u32,
    failures: BTreeMap<K, u32>,
}

/// A token bucket for all items together. A token is reserved for every failure and never given back, so that under a
/// lasting storm the wait grows without bound.
#[derive(Debug)]
pub struct Bucket {
    /// The time in which one token comes in.
    interval: Duration,
    burst: u32,
    /// When the bucket will be full again; none if it has never been touched.
    full_at: Option<Instant>,
}

/// The longest wait that any of several limiters asks for. All of them are asked, and charged, every time.
#[derive(Debug)]
pub struct MaxOf<K>(Vec<Box<dyn RateLimiter<K>>>);

/// Another limiter, with a longest wait.
#[derive(Debug)]
pub struct MaxWait<L> {
    inner: L,
    max: Duration,
}

/// The limiter of one queue and the windows that it has opened.
///
/// An item that waits for its retry can be added by an event, and fail again before its time has come. client-go doubles
/// its backoff each time, so that a busy object that fails is soon put off by a quarter of an hour (kubernetes#132805).
/// Here that failure belongs to the window that is open: it changes nothing, and the retry comes when it was due.
#[derive(Debug)]
pub(super) struct Retries<K> {
    limiter: Box<dyn RateLimiter<K>>,
    /// When the backoff of an item ends. An item that was forgotten is not here.
    windows: BTreeMap<K, Instant>,
}

impl<K> Exponential<K> {
    /// Waits of `base`, doubled with every failure, of at most `max`.
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
    /// Waits of `fast` for the first `fast_retries` failures, of `slow` for those after them.
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
    /// A full bucket of `burst` tokens that gets one back every `interval`.
    #[must_use]
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            burst,
            full_at: None,
        }
    }

    /// Another bucket of this rate and burst, full.
    #[must_use]
    pub fn full(&self) -> Self {
        Self::new(self.interval, self.burst)
    }

    /// Takes a token and says how long to wait for it. In whole nanoseconds, so that no token is early by rounding.
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
    /// All of these.
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
    /// `inner`, but never longer than `max`.
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

impl<K: Clone + Ord> Retries<K> {
    pub(super) fn new(limiter: Box<dyn RateLimiter<K>>) -> Self {
        Self {
            limiter,
            windows: BTreeMap::new(),
        }
    }

    /// How long `item`, which has failed, waits.
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

/// The failures of `item` before this one, which is counted.
fn count<K: Clone + Ord>(failures: &mut BTreeMap<K, u32>, item: &K) -> u32 {
    if let Some(failures) = failures.get_mut(item) {
        let before = *failures;
        *failures = before.saturating_add(1);
        return before;
    }
    failures.insert(item.clone(), 1);
    0
}
