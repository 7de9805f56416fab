//! Seeds of the random tests.
//!
//! A random test runs a fixed set of seeds, the same on every commit, and as many fresh ones. Fresh seeds are derived from
//! the base seed: `.ci/run` derives `STEERSMAN_BASE_SEED` from the commit hash, so that every change runs new seeds and every
//! run of one commit runs the same. Without it the base seed is constant.
//!
//! `STEERSMAN_SEEDS` sets the number of seeds of each test, `STEERSMAN_SEED` runs exactly one. A test that panics prints the
//! command that replays its seed.

use std::{env, path::Path, thread, vec};

/// The base seed where `STEERSMAN_BASE_SEED` is not set.
const BASE: u64 = 7;

/// An iterator over the seeds that a test runs. Dropped by a panic, it prints the command that replays the current seed.
pub struct Seeds {
    rest: vec::IntoIter<u64>,
    current: Option<u64>,
}

/// Returns the seeds of a test: half of `count` are fixed, the others are fresh.
pub fn of(count: u64) -> Seeds {
    let seeds = match number("STEERSMAN_SEED") {
        Some(seed) => vec![seed],
        None => select(number("STEERSMAN_SEEDS").unwrap_or(count), base()),
    };
    Seeds {
        rest: seeds.into_iter(),
        current: None,
    }
}

/// Returns the base seed.
pub fn base() -> u64 {
    number("STEERSMAN_BASE_SEED").unwrap_or(BASE)
}

/// Returns the command that runs the current test with one seed only.
pub fn replay(seed: u64) -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let binary = env::current_exe().unwrap_or_default();
    let target = match target(&binary) {
        Some(name) if name == package.replace('-', "_") => " --lib".to_owned(),
        Some(name) => format!(" --test {name}"),
        None => String::new(),
    };
    let thread = thread::current();
    // Tests that libtest does not run have no name here; they are the only ones of their binary.
    let test = thread
        .name()
        .filter(|name| name.contains("::"))
        .unwrap_or_default();
    let command = format!("STEERSMAN_SEED={seed} cargo test -p {package}{target} {test}");
    command.trim_end().to_owned()
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.current = self.rest.next();
        self.current
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if let Some(seed) = self.current.filter(|_| thread::panicking()) {
            eprintln!("seed {seed} failed; replay it with: {}", replay(seed));
        }
    }
}

/// Returns `count` different seeds.
fn select(count: u64, base: u64) -> Vec<u64> {
    let fixed = count.div_ceil(2);
    // Above all fixed seeds, and short enough to type.
    let fresh = (fixed..count).map(|index| 1_000_000 + mix(base ^ mix(index)) % 999_000_000);
    (0..fixed).chain(fresh).collect()
}

/// Returns a number whose bits all depend on all bits of `value` (the finalizer of `SplitMix64`).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns the name of the cargo target of a test binary, whose file is called `name-hash`.
fn target(binary: &Path) -> Option<&str> {
    let (name, _) = binary.file_stem()?.to_str()?.rsplit_once('-')?;
    Some(name)
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|error| panic!("{name}={text:?}: {error}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_seed_changes_the_fresh_half_only() {
        let (one, other) = (select(20, 1), select(20, 2));
        assert_eq!(one, select(20, 1));
        assert_eq!(one[..10], other[..10]);
        assert!(one[10..].iter().all(|seed| !other.contains(seed)));
    }

    #[test]
    fn replay_names_package_target_and_test() {
        let command = "STEERSMAN_SEED=5 cargo test -p steersman-harness --lib seeds::tests::replay_names_package_target_and_test";
        assert_eq!(replay(5), command);
    }

    #[test]
    fn test_target_is_the_binary_name_without_its_hash() {
        assert_eq!(
            target(Path::new("target/debug/deps/suite-0f3c9a52")),
            Some("suite")
        );
        assert_eq!(target(Path::new("target/debug/deps/suite")), None);
    }
}
