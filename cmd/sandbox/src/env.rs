//! Time and chance, injected: the only place that asks the machine for either.
//!
//! Wall time is the time at the start plus what the runtime's clock has counted since, so that a test under a paused
//! clock sees both move together, and a seeded run gives the same names and uids each time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

/// The alphabet of generated names: no vowels, so that no word appears by chance, and nothing that looks alike.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Clock and generator of one sandbox.
#[derive(Clone)]
pub struct Env {
    wall_at_start: Timestamp,
    start: Instant,
    rng: Arc<Mutex<StdRng>>,
}

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

    /// A given time and seed, for runs that can be repeated.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's clock, which a test may have paused"
    )]
    pub fn starting_at(wall: Timestamp, seed: u64) -> Self {
        Self {
            wall_at_start: wall,
            start: Instant::now(),
            rng: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
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
    pub fn time(&self) -> String {
        rfc3339(self.now())
    }

    /// Sleeps until `deadline`.
    pub async fn sleep_until(&self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
    }

    /// Sleeps for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.instant() + duration).await;
    }

    /// A fresh version 4 UUID.
    #[must_use]
    pub fn uid(&self) -> String {
        let mut bytes: [u8; 16] = self.rng().random();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let n = u128::from_be_bytes(bytes);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            n >> 96,
            (n >> 80) & 0xffff,
            (n >> 64) & 0xffff,
            (n >> 48) & 0xffff,
            n & 0xffff_ffff_ffff
        )
    }

    /// The five characters that complete a `generateName`.
    #[must_use]
    pub fn name_suffix(&self) -> String {
        let mut rng = self.rng();
        (0..5)
            .map(|_| char::from(NAME_ALPHABET[rng.random_range(0..NAME_ALPHABET.len())]))
            .collect()
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
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_version_4_and_repeat_with_the_seed() {
        let [a, b] = [7, 7].map(|seed| Env::starting_at(Timestamp::UNIX_EPOCH, seed).uid());
        assert_eq!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(&a[14..15], "4");
        assert_ne!(a, Env::starting_at(Timestamp::UNIX_EPOCH, 8).uid());
    }

    #[tokio::test(start_paused = true)]
    async fn wall_time_moves_with_the_paused_clock() {
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0);
        env.sleep(Duration::from_hours(1)).await;
        assert_eq!(env.time(), "1970-01-01T01:00:00Z");
    }
}
