//! The random number generator of a manager.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A seeded generator. Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub struct Rng(Arc<Mutex<StdRng>>);

impl Rng {
    /// Returns an unpredictable generator.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that reads the machine's entropy"
    )]
    pub fn from_entropy() -> Self {
        Self::from_seed(rand::rng().random())
    }

    /// Returns the sequence of this seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Returns any number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.draw(RngExt::random)
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    #[must_use]
    pub fn below(&self, limit: u64) -> u64 {
        self.draw(|rng| rng.random_range(0..limit.max(1)))
    }

    /// Returns a duration from `shortest` to `longest`, inclusive; `shortest` if `longest` is shorter.
    #[must_use]
    pub fn between(&self, shortest: Duration, longest: Duration) -> Duration {
        self.draw(|rng| rng.random_range(shortest..=longest.max(shortest)))
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_the_sequence_and_clones_share_it() {
        let (a, b) = (Rng::from_seed(7), Rng::from_seed(7));
        let shared = b.clone();
        let of_a = [a.number(), a.number(), a.number()];
        assert_eq!(of_a, [b.number(), shared.number(), b.number()]);
        assert_ne!(of_a[0], Rng::from_seed(8).number());
    }

    #[test]
    fn bounds_are_respected_even_if_empty() {
        let rng = Rng::from_seed(0);
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(1));
        for _ in 0..1000 {
            assert!(rng.below(3) < 3);
            assert!((short..=long).contains(&rng.between(short, long)));
        }
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(long, short), long);
    }
}
