//! Which pods go first when there are too many.
//!
//! The order of kube-controller-manager: unassigned, pending, not ready, cheap, crowded, not ready for long, often
//! restarted, young. Its comparison is no order: it compares two ready pods by uid if they became ready at different times
//! of about the same length ago, and by their restarts if at the same time, so three pods can beat each other in a
//! circle. Here pods that became ready at the same time stay together, in the place of the one with the smallest uid: that
//! is an order, and the same one wherever theirs is.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use coxswain_manager::object::{Text, Uid};
use coxswain_manager::selector::Selector;
use jiff::Timestamp;

use crate::support::pod::{Phase, Pod, Ready};

/// How many active pods of the same application are on each node.
pub(super) type NodeRanks = BTreeMap<Text, usize>;

/// What decides before time does.
type Class = (bool, Phase, bool, i32, Reverse<usize>);

/// The `count` pods that go first, of those given.
pub(super) fn pods_to_delete(
    pods: &[Arc<Pod>],
    count: usize,
    ranks: &NodeRanks,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count >= pods.len() {
        return pods.to_vec();
    }
    let mut first_of: BTreeMap<(Class, Option<Timestamp>), &Uid> = BTreeMap::new();
    for pod in pods {
        let uid = &pod.metadata.uid;
        let first = first_of
            .entry((class(pod, ranks), ready_since(pod)))
            .or_insert(uid);
        *first = uid.min(first);
    }
    let key = |pod: &Pod| {
        let (class, since) = (class(pod, ranks), ready_since(pod));
        let together = first_of.get(&(class, since)).copied().cloned();
        (
            class,
            bucket(since, now),
            together,
            Reverse(pod.restarts),
            Reverse(pod.sidecar_restarts),
            bucket(pod.metadata.creation_timestamp, now),
            pod.metadata.uid.clone(),
        )
    };
    let mut sorted = pods.to_vec();
    sorted.sort_by_cached_key(|pod| key(pod));
    sorted.truncate(count);
    sorted
}

fn class(pod: &Pod, ranks: &NodeRanks) -> Class {
    (
        !pod.node.is_empty(),
        pod.phase,
        pod.is_ready(),
        pod.deletion_cost(),
        Reverse(ranks.get(&pod.node).copied().unwrap_or(0)),
    )
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    match pod.ready {
        Ready::Since(since) => since,
        Ready::No => None,
    }
}

/// How long ago, in powers of two: what is unknown comes first, then what is not over yet.
fn bucket(time: Option<Timestamp>, now: Timestamp) -> i32 {
    let Some(time) = time else { return i32::MIN };
    let age = now.as_nanosecond() - time.as_nanosecond();
    match u128::try_from(age) {
        Ok(age @ 1..) => i32::try_from(age.ilog2()).unwrap_or(i32::MAX),
        _ => -1,
    }
}

/// Counts the active pods that match one of the selectors, by node.
pub(super) fn ranks_by_node<'a>(
    selectors: &[&Selector],
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
) -> NodeRanks {
    let mut ranks = NodeRanks::new();
    for pod in pods {
        if pod.is_active() && selectors.iter().any(|it| it.matches(&pod.metadata.labels)) {
            *ranks.entry(pod.node.clone()).or_default() += 1;
        }
    }
    ranks
}

#[cfg(test)]
mod tests;
