//! The hash map of the queue.
//!
//! std's hash maps are banned because their iteration order differs between runs. This map is never iterated. Its seed comes
//! from `Env`: runs are reproducible, and an attacker cannot choose object names that collide. A tree is as fast with few
//! items; with 100,000 it takes 1.4 times as long for items in the order of their names, and 2.8 times otherwise
//! (`cargo bench -p steersman-manager --bench queue`).

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

#[expect(clippy::disallowed_types, reason = "seeded, and never iterated")]
pub(super) type Map<K, V> = std::collections::HashMap<K, V, SeedableRandomState>;
pub(super) use std::collections::hash_map::Entry;

pub(super) fn seeded_map<K, V>(seed: u64) -> Map<K, V> {
    Map::with_hasher(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
}
