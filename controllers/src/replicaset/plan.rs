//! Decides the actions of one sync, without a client or a clock.
//!
//! Invariant: active pods, creates of unknown outcome and planned creates together never exceed `spec.replicas`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_manager::env::Rng;
use steersman_manager::object::Text;
use steersman_manager::owner::{self, Claim};
use steersman_manager::selector::Selector;

use super::backoff::Budget;
use super::deletion_order::{NodeRanks, pods_to_delete};
use super::{BURST_REPLICAS, Owner, Pod, naming};

/// Everything that one sync observed.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) owner: &'a Owner,
    pub(super) claims: Claims,
    /// Live reads resolved all requests of unknown outcome. No action is safe otherwise.
    pub(super) is_resolved: bool,
    /// The owner may adopt pods: a live read found it unchanged and not terminating.
    pub(super) may_adopt: bool,
    /// The cache shows all successful creates and deletes of earlier syncs.
    pub(super) is_satisfied: bool,
    /// The names of creates that the cache does not show. They count as pods.
    pub(super) pending_creates: BTreeSet<Text>,
    /// The pending creates without a pod: a live read did not find it, but the request may still arrive.
    pub(super) not_found: BTreeSet<Text>,
    /// The names of pods that cannot be decoded and may belong to the owner.
    pub(super) undecodable: BTreeSet<Text>,
    /// Empty unless there are too many pods.
    pub(super) ranks: NodeRanks,
    pub(super) budget: Budget,
    /// The time for which creates are suspended because the namespace is terminating.
    pub(super) creates_suspended_for: Option<Duration>,
    /// The seed of the names of new pods.
    pub(super) name_seed: u64,
}

/// The pods of interest to an owner, by what it does with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// The active pods of the owner, including those to adopt.
    pub(super) active: Vec<Arc<Pod>>,
    pub(super) adopt: Vec<Arc<Pod>>,
    pub(super) release: Vec<Arc<Pod>>,
    /// The number of its terminating pods that have not finished.
    pub(super) terminating: usize,
    /// Its finished pods that are not terminating.
    pub(super) finished: Vec<Arc<Pod>>,
}

/// The actions of one sync, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) adopt: Vec<Arc<Pod>>,
    /// None if this sync neither creates nor deletes pods and does not evaluate their number.
    pub(super) scale: Option<Scale>,
}

/// The creates or deletes of one sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scale {
    /// The number of missing pods, up to [`BURST_REPLICAS`].
    pub(super) missing: usize,
    /// The names of the pods to create now; the other missing ones wait. Names of earlier attempts come first.
    pub(super) create: Vec<Text>,
    /// The pods to delete, first those that are missed least.
    pub(super) delete: Vec<Arc<Pod>>,
    /// The time until suspended creates continue.
    pub(super) wake_up: Option<Duration>,
}

/// Decides the actions of one sync.
pub(super) fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let claims = &snapshot.claims;
    let mut plan = Plan::default();
    if snapshot.is_resolved {
        plan.release.clone_from(&claims.release);
        if snapshot.may_adopt {
            plan.adopt.clone_from(&claims.adopt);
            plan.scale = snapshot.may_scale().then(|| scale(snapshot, now));
        }
    }
    plan
}

fn scale(snapshot: &Snapshot<'_>, now: Timestamp) -> Scale {
    let difference = snapshot.missing();
    let burst = |count: i64| {
        usize::try_from(count.max(0))
            .unwrap_or(usize::MAX)
            .min(BURST_REPLICAS)
    };
    let missing = burst(difference);
    let allowed = match snapshot.creates_suspended_for {
        Some(_) => 0,
        None => snapshot.budget.allowed(missing),
    };
    let surplus = burst(difference.saturating_neg());
    let active = &snapshot.claims.active;
    Scale {
        missing,
        create: names(snapshot, allowed),
        delete: match surplus {
            0 => Vec::new(),
            _ => pods_to_delete(active, surplus, &snapshot.ranks, now),
        },
        wake_up: snapshot.creates_suspended_for.filter(|_| missing > 0),
    }
}

/// Returns names for new pods. Names of earlier attempts come first, so that the number of creates of unknown outcome does
/// not grow.
fn names(snapshot: &Snapshot<'_>, count: usize) -> Vec<Text> {
    let base = naming::base(&snapshot.owner.metadata.name);
    let rng = Rng::from_seed(snapshot.name_seed);
    let mut names: Vec<Text> = snapshot.not_found.iter().take(count).cloned().collect();
    let mut taken: BTreeSet<Text> = names.iter().cloned().collect();
    while names.len() < count {
        let name = naming::name(&base, &rng);
        if taken.insert(name.clone()) {
            names.push(name);
        }
    }
    names
}

impl Snapshot<'_> {
    /// Reports whether this sync may create or delete pods.
    pub(super) fn may_scale(&self) -> bool {
        self.is_satisfied && !self.owner.metadata.is_terminating()
    }

    /// Returns the number of missing pods; negative if there are too many.
    pub(super) fn missing(&self) -> i64 {
        let mut uncertain = &self.pending_creates - &self.not_found;
        let missing = self.missing_without(&uncertain);
        if missing <= 0 {
            return missing;
        }
        // A pod that cannot be decoded prevents a create, but does not lead to the deletion of another pod.
        uncertain.extend(self.undecodable.iter().cloned());
        self.missing_without(&uncertain).max(0)
    }

    /// Returns the number of missing pods if each name in `uncertain` is the name of a pod.
    fn missing_without(&self, uncertain: &BTreeSet<Text>) -> i64 {
        let active = &self.claims.active;
        let shown = active.iter().filter(|it| uncertain.contains(&it.metadata.name));
        let count = active.len() + uncertain.len() - shown.count();
        let replicas = self.owner.replicas();
        replicas.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// Classifies the pods of a namespace for `owner`. Finished and terminating pods are neither adopted nor released.
pub(super) fn claims<'a>(
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
                    claims.finished.push(Arc::clone(pod));
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

#[cfg(test)]
mod tests;
