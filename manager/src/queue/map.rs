//! The one hashed map of the queue.
//!
//! The order of std's maps differs from run to run, which is why they are banned. This one is never iterated, so that its
//! order cannot show, and its seed comes from `Env`, so that a run can be repeated and yet nobody can choose names of
//! objects that all fall together. Every item is looked up three times. With few items queued a tree costs the same; with
//! 100,000 it cost 1.4 times as much when they came in the order of their names, and 2.8 times when they did not
//! (`cargo bench -p coxswain-manager --bench queue`).

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

#[expect(clippy::disallowed_types, reason = "seeded, and never iterated")]
pub(super) type Map<K, V> = std::collections::HashMap<K, V, SeedableRandomState>;
pub(super) use std::collections::hash_map::Entry;

pub(super) fn seeded<K, V>(seed: u64) -> Map<K, V> {
    Map::with_hasher(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
}
