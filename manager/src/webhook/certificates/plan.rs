//! What the leader does next about certificates and the bundles that clients verify them with.
//!
//! A renewal goes in three writes, and between any two of them, and if any of them is late or lost, every replica serves
//! something that every client can verify:
//!
//! 1. *Stage*: a new pair is put beside the one that is served, and its authority beside the one that is trusted.
//! 2. *Inject*: both authorities are put into the configurations of the webhooks.
//! 3. *Promote*: the new pair is served. The old authority stays trusted, for replicas that have not noticed, until a few more
//!    have come; by then what it has signed has ended. To trust it longer would harm nobody: its key is gone.
//!
//! Promote has to be certain of Inject. So configurations are read *before* the Secret, and every write depends on the version
//! that was read: whoever stages something else after that makes the promotion fail, and whoever has not seen what was staged
//! has read the configurations before it was injected, and cannot take it out of them any more.
//!
//! Stage has to know who is trusted by what may be served from memory, although the Secret may be spoilt. For that the
//! configurations are read once more *after* the Secret: whatever was ever promoted is in them by then.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use super::held::{Fitness, Held};
use super::inject::Configuration;
use super::pair::{Authority, bundle};

/// So many authorities are trusted beside a new one, at most: the latest. One is made every two thirds of a life, or when
/// something is spoilt; each has to stay for a life.
const MAX_KEPT: usize = 3;

/// The next write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// None is needed.
    Nothing,
    /// There is no Secret: it is created, with a staged pair and nothing to serve.
    Create,
    /// A new pair is made and staged.
    Stage {
        /// Why the one that is served will not do; none if it only grows old.
        broken: Option<String>,
    },
    /// What the Secret says is to be trusted is put into the configurations that say otherwise.
    Inject,
    /// What was staged is served from now on.
    Promote,
}

/// Decides on what was read: the configurations that there are first, then the Secret.
pub(crate) fn decide(
    configurations: &[&Configuration],
    held: Option<&Held>,
    name: &str,
    now: Timestamp,
) -> Step {
    let Some(held) = held else {
        return Step::Create;
    };
    let current = held.fitness(&held.current, name, now);
    let next = held.fitness(&held.next, name, now);
    let trusted = bundle(&held.authorities);
    // What is of no use is not injected: it may be that what is injected already still is.
    let useful = next == Fitness::Fresh || !matches!(current, Fitness::Useless(_));
    if useful && !configurations.iter().all(|it| it.carries(&trusted)) {
        return Step::Inject;
    }
    match (current, next) {
        (_, Fitness::Fresh) => Step::Promote,
        (Fitness::Fresh, _) => Step::Nothing,
        (Fitness::Old, _) => Step::Stage { broken: None },
        (Fitness::Useless(reason), _) => Step::Stage { broken: Some(reason) },
    }
}

/// Who stays trusted when something new is staged. The configurations are read after the Secret: if that is spoilt, what it
/// had may still be served from memory, and only they know its authority.
///
/// If there are too many, somebody else has put some there, or spoils the Secret again and again. Needed first is what has signed
/// what is served; then what most places agree on: nobody spoils all of them at once; then the latest.
pub(crate) fn kept(
    held: &Held,
    configurations: &[&Configuration],
    name: &str,
    now: Timestamp,
) -> Vec<Authority> {
    let injected = configurations.iter().map(|it| it.authorities());
    let places: Vec<Vec<Authority>> = injected.chain([held.authorities.clone()]).collect();
    let mut all: Vec<Authority> = Vec::new();
    for authority in places.iter().flatten() {
        if !all.contains(authority) {
            all.push(authority.clone());
        }
    }
    all.sort_by_key(|authority| {
        let agree = places.iter().filter(|it| it.contains(authority)).count();
        (held.current.is_verified_by(authority, name, now), agree)
    });
    all.split_off(all.len().saturating_sub(MAX_KEPT))
}
