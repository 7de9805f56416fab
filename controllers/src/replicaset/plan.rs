//! What to do, decided without a client or a clock.
//!
//! [`claims`] sorts the pods that may concern an owner, [`manage`] says which to make and which to delete. With `n` names
//! of unknown outcome, what is there plus `n` plus what is made is never more than what is wanted.

use std::collections::BTreeSet;
use std::sync::Arc;

use coxswain_manager::object::Text;
use coxswain_manager::owner::{self, Claim};
use coxswain_manager::selector::Selector;
use jiff::Timestamp;

use super::victims::{self, Crowds};
use super::{BURST, Owner, Pod};

/// What the pods that may concern an owner are to it.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Active and its own, those to be adopted included.
    pub active: Vec<Arc<Pod>>,
    /// To be adopted.
    pub adopt: Vec<Arc<Pod>>,
    /// To be let go.
    pub release: Vec<Arc<Pod>>,
    /// Its own and on their way out.
    pub terminating: usize,
    /// Its own and finished, without those that are being deleted.
    pub ended: Vec<Arc<Pod>>,
}

/// What to do about the number of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// How many more are to be made, now.
    pub create: usize,
    /// Those to be deleted.
    pub delete: Vec<Arc<Pod>>,
}

/// What the pods are to `owner`. Of those that have ended or are on their way out none is adopted or let go.
#[must_use]
pub fn claims<'a>(
    owner: &Owner,
    selector: &Selector,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
) -> Claims {
    let mut claims = Claims::default();
    for pod in pods {
        let matches = selector.matches(&pod.metadata.labels);
        let claim = owner::claim(&owner.metadata, &pod.metadata, matches);
        match claim {
            Claim::Owned if pod.has_finished() => {
                if !pod.metadata.is_terminating() {
                    claims.ended.push(Arc::clone(pod));
                }
            }
            Claim::Owned if pod.metadata.is_terminating() => claims.terminating += 1,
            Claim::Owned => claims.active.push(Arc::clone(pod)),
            Claim::Adopt if pod.is_active() => {
                claims.adopt.push(Arc::clone(pod));
                claims.active.push(Arc::clone(pod));
            }
            Claim::Release if pod.is_active() => claims.release.push(Arc::clone(pod)),
            Claim::Adopt | Claim::Release | Claim::Ignore => {}
        }
    }
    claims
}

/// How many pods are missing (positive) or too many (negative). A name in `unknown` that the cache does not show counts
/// as a pod.
#[must_use]
pub fn missing(replicas: i64, active: &[Arc<Pod>], unknown: &BTreeSet<Text>) -> i64 {
    let shown = active.iter().filter(|it| unknown.contains(&it.metadata.name));
    let there = active.len() + unknown.len() - shown.count();
    replicas.saturating_sub(i64::try_from(there).unwrap_or(i64::MAX))
}

/// What to do about so many `missing` pods. At most [`BURST`] at once.
#[must_use]
pub fn manage(missing: i64, active: &[Arc<Pod>], crowds: &Crowds, now: Timestamp) -> Plan {
    let burst = |count: u64| usize::try_from(count).unwrap_or(BURST).min(BURST);
    match missing {
        0 => Plan::default(),
        1.. => Plan {
            create: burst(missing.unsigned_abs()),
            delete: Vec::new(),
        },
        _ => Plan {
            create: 0,
            delete: victims::choose(active, burst(missing.unsigned_abs()), crowds, now),
        },
    }
}

/// How many active pods match one of the selectors, by node: what the application has there, in all its versions.
#[must_use]
pub fn crowds<'a>(selectors: &[&Selector], pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> Crowds {
    let mut crowds = Crowds::new();
    for pod in pods {
        if pod.is_active() && selectors.iter().any(|it| it.matches(&pod.metadata.labels)) {
            *crowds.entry(pod.node.clone()).or_default() += 1;
        }
    }
    crowds
}

#[cfg(test)]
mod tests;
