//! The injected clock and random number generator: the only module that reads the machine's clock and entropy.
//!
//! Wall time is the start time plus the time that the runtime's clock has counted since, so that both advance together
//! under a paused clock. Runs with equal seeds generate equal names and uids.
//! Uids and generated names are derived from the seed and from the object that they belong to: an additional request for one
//! object does not rename the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::json::Text;

/// The alphabet of generated names: without vowels and characters that look alike, as in apimachinery.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Clock and generator of one sandbox.
#[derive(Clone)]
pub struct Env {
    wall_at_start: Timestamp,
    start: Instant,
    seed: u64,
    rng: Arc<Mutex<StdRng>>,
    /// The number of values drawn for each object; objects that share a slot share its count.
    drawn: Arc<Mutex<BTreeMap<u64, u32>>>,
    /// The last formatted time: all objects of one second share it.
    last_time: Arc<Mutex<(i64, Text)>>,
}

/// The number of counters of drawn values: bounds their memory.
const COUNTERS: u64 = 4096;

impl Env {
    /// The machine's clock and a seed from its entropy.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the machine's clock and entropy"
    )]
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now(), rand::rng().random())
    }

    /// The machine's clock and a given seed: uids and generated names repeat, times do not.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::starting_at(Timestamp::now(), seed)
    }

    /// A given time and seed, for reproducible runs.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's clock, which a test may have paused"
    )]
    pub fn starting_at(wall: Timestamp, seed: u64) -> Self {
        Self {
            wall_at_start: wall,
            start: Instant::now(),
            seed,
            rng: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
            drawn: Arc::default(),
            last_time: Arc::default(),
        }
    }

    /// An environment that continues like this one, on its own: the same clock, and copies of all counters.
    #[must_use]
    pub fn fork(&self) -> Self {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            rng: Arc::new(Mutex::new(StdRng::seed_from_u64(self.seed))),
            drawn: Arc::new(Mutex::new(drawn)),
            ..self.clone()
        }
    }

    /// Time that only goes forward, for deadlines.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's clock, which a test may have paused"
    )]
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Wall time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let elapsed = self.instant().duration_since(self.start);
        self.wall_at_start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Wall time as `metav1.Time` writes it: whole seconds, UTC.
    #[must_use]
    pub fn time(&self) -> Text {
        let now = self.now();
        let mut last = self.last_time.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != now.as_second() || last.1.is_empty() {
            *last = (now.as_second(), rfc3339(now).into());
        }
        last.1.clone()
    }

    /// Sleeps until `deadline`.
    pub async fn sleep_until(&self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
    }

    /// Sleeps for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.instant() + duration).await;
    }

    /// A uid of version 4 for a new object, which `collection` and `key` name.
    #[must_use]
    pub fn uid(&self, collection: &str, key: &str) -> String {
        let mut rng = self.rng_of(collection, key);
        let mut bytes: [u8; 16] = rng.random();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Five characters that complete the `generateName` of a new object; `key` is its namespace and that prefix.
    #[must_use]
    pub fn name_suffix(&self, collection: &str, key: &str) -> String {
        let mut rng = self.rng_of(collection, key);
        (0..5)
            .map(|_| char::from(NAME_ALPHABET[rng.random_range(0..NAME_ALPHABET.len())]))
            .collect()
    }

    /// The random numbers of one object: another sequence on each call, and the same sequences with the same seed.
    fn rng_of(&self, collection: &str, key: &str) -> StdRng {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in collection.bytes().chain([0]).chain(key.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let count = drawn.entry((hash >> 32) % COUNTERS).or_default();
        *count = count.wrapping_add(1);
        StdRng::seed_from_u64(self.seed ^ hash ^ u64::from(*count).rotate_left(32))
    }

    /// A number in `0..limit`.
    #[must_use]
    pub fn below(&self, limit: u64) -> u64 {
        self.rng().random_range(0..limit.max(1))
    }

    fn rng(&self) -> std::sync::MutexGuard<'_, StdRng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `2026-01-02T03:04:05Z`.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_version_4_and_repeat_with_the_seed() {
        let uid = |seed| Env::starting_at(Timestamp::UNIX_EPOCH, seed).uid("pods", "default/a");
        let [a, b] = [7, 7].map(uid);
        assert_eq!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(&a[14..15], "4");
        assert_ne!(a, uid(8));
    }

    #[test]
    fn draws_for_one_object_do_not_change_those_of_another() {
        let [one, other] = [7, 7].map(|seed| Env::starting_at(Timestamp::UNIX_EPOCH, seed));
        let first = one.uid("pods", "default/a");
        assert_ne!(
            first,
            one.uid("pods", "default/a"),
            "an object that is created again"
        );
        assert_eq!(one.uid("pods", "default/b"), other.uid("pods", "default/b"));
        let forked = one.fork();
        assert_eq!(one.uid("pods", "default/a"), forked.uid("pods", "default/a"));
    }

    #[tokio::test(start_paused = true)]
    async fn wall_time_moves_with_the_paused_clock() {
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0);
        for (advance, time) in [
            (Duration::ZERO, "1970-01-01T00:00:00Z"),
            (Duration::from_millis(999), "1970-01-01T00:00:00Z"),
            (Duration::from_millis(1), "1970-01-01T00:00:01Z"),
            (Duration::from_hours(1), "1970-01-01T01:00:01Z"),
        ] {
            tokio::time::advance(advance).await;
            assert_eq!(env.time(), time);
        }
    }
}
