//! A bounded cache of decisions of the API server.
//!
//! - A decision is kept for its time to live. Positive and negative ones are kept apart: random tokens evict other
//!   rejected tokens, never an accepted one. A full segment evicts the decision that expires first.
//! - Concurrent requests with one key share one review. Other reviews need a slot (see `review_slots`).
//! - Failures are not decisions and are not kept.
//! - Keys are keyed digests: a token is not held in memory after its request.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, WeakShared};
use ring::hmac;
use tokio::time::Instant;

use super::review_slots::ReviewSlots;
use crate::env::{Clock, Env};

/// The positive decisions of one cache, and the negative ones.
pub(super) const DECISIONS_MAX: usize = 4096;

/// The reason why there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum NoDecision {
    /// Too many reviews are in flight.
    TooManyReviews,
    /// The API server did not answer, or rejected the review.
    Unavailable,
}

/// The times to live of decisions. Zero disables caching.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimesToLive {
    pub(super) positive: Duration,
    pub(super) negative: Duration,
}

/// A cache of decisions: a value if the decision is positive, none otherwise.
pub(super) struct DecisionCache<V> {
    clock: Clock,
    digest_key: hmac::Key,
    ttl: TimesToLive,
    slots: Arc<ReviewSlots>,
    state: Mutex<State<V>>,
}

type Digest = [u8; 32];
type Outcome<V> = Result<Option<V>, NoDecision>;
type Review<V> = BoxFuture<'static, Outcome<V>>;

struct State<V> {
    positive: Segment<V>,
    negative: Segment<()>,
    in_flight: BTreeMap<Digest, WeakShared<Review<V>>>,
}

struct Segment<V> {
    decisions: BTreeMap<Digest, (Instant, V)>,
    /// In the order of expiry. A digest that was decided again is contained twice; only the last one counts.
    expiry: VecDeque<(Instant, Digest)>,
}

impl<V: Clone + Send + Sync + 'static> DecisionCache<V> {
    pub(super) fn new(env: &Env, ttl: TimesToLive, slots: Arc<ReviewSlots>) -> Arc<Self> {
        let secret: Vec<u8> = (0..4).flat_map(|_| env.rng.number().to_le_bytes()).collect();
        Arc::new(Self {
            clock: env.clock.clone(),
            digest_key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            ttl,
            slots,
            state: Mutex::new(State {
                positive: Segment::default(),
                negative: Segment::default(),
                in_flight: BTreeMap::new(),
            }),
        })
    }

    /// Returns the decision on `key` from the cache, or by `review` for a request of `peer`.
    pub(super) async fn decide<F>(
        self: &Arc<Self>,
        key: &[u8],
        peer: IpAddr,
        review: impl FnOnce() -> F,
    ) -> Outcome<V>
    where
        F: Future<Output = Outcome<V>> + Send + 'static,
    {
        let digest = self.digest(key);
        let shared = {
            let mut state = self.state();
            if let Some(decision) = state.cached(&digest, self.clock.now()) {
                return decision;
            }
            let in_flight = state.in_flight.get(&digest).and_then(WeakShared::upgrade);
            if let Some(shared) = in_flight {
                shared
            } else {
                let Some(slot) = self.slots.acquire(peer) else {
                    return Err(NoDecision::TooManyReviews);
                };
                let (cache, review) = (self.clone(), review());
                let review = async move {
                    let outcome = review.await;
                    cache.store(digest, &outcome);
                    drop(slot);
                    outcome
                };
                let shared = review.boxed().shared();
                // A review ends early if all its requests are cancelled. The number of others is bounded by the slots.
                state.in_flight.retain(|_, review| review.upgrade().is_some());
                if let Some(weak) = shared.downgrade() {
                    state.in_flight.insert(digest, weak);
                }
                shared
            }
        };
        shared.await
    }

    fn store(&self, digest: Digest, outcome: &Outcome<V>) {
        let mut state = self.state();
        state.in_flight.remove(&digest);
        let now = self.clock.now();
        match outcome {
            Ok(Some(value)) => state
                .positive
                .insert(digest, value.clone(), now, self.ttl.positive),
            Ok(None) => state.negative.insert(digest, (), now, self.ttl.negative),
            Err(_) => {}
        }
    }

    fn digest(&self, key: &[u8]) -> Digest {
        let mut digest = Digest::default();
        let tag = hmac::sign(&self.digest_key, key);
        digest.copy_from_slice(tag.as_ref());
        digest
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let state = self.state();
        state.positive.decisions.len() + state.negative.decisions.len() + state.in_flight.len()
    }
}

impl<V: Clone> State<V> {
    fn cached(&mut self, digest: &Digest, now: Instant) -> Option<Outcome<V>> {
        self.positive.expire(now);
        self.negative.expire(now);
        if let Some((_, value)) = self.positive.decisions.get(digest) {
            return Some(Ok(Some(value.clone())));
        }
        self.negative.decisions.contains_key(digest).then_some(Ok(None))
    }
}

impl<V> Segment<V> {
    fn insert(&mut self, digest: Digest, value: V, now: Instant, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        self.expire(now);
        let expiry = crate::env::later(now, ttl);
        self.decisions.insert(digest, (expiry, value));
        self.expiry.push_back((expiry, digest));
        while self.expiry.len() > DECISIONS_MAX {
            self.evict_first();
        }
    }

    fn expire(&mut self, now: Instant) {
        while self.expiry.front().is_some_and(|(expiry, _)| *expiry <= now) {
            self.evict_first();
        }
    }

    fn evict_first(&mut self) {
        if let Some((expiry, digest)) = self.expiry.pop_front()
            && self.decisions.get(&digest).is_some_and(|(it, _)| *it == expiry)
        {
            self.decisions.remove(&digest);
        }
    }
}

impl<V> Default for Segment<V> {
    fn default() -> Self {
        Self {
            decisions: BTreeMap::new(),
            expiry: VecDeque::new(),
        }
    }
}
