//! The order in which a scale-down deletes pods.
//!
//! It is the order of kube-controller-manager's `ActivePodsWithRanks`: not assigned to a node, pending, not ready, low
//! deletion cost, many related pods on the node, ready for a short time, many restarts, recently created.
//!
//! Upstream's comparison is not transitive: it compares two pods that became ready at different times in the same bucket by
//! uid, and two that became ready at the same time by restarts, so three pods can form a cycle. Here, pods that became ready
//! at the same time are adjacent, at the position of the smallest uid among them. This is a total order, and the same one
//! wherever upstream's is one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_manager::object::{Text, Uid};
use steersman_manager::selector::Selector;

use crate::support::pod::{Phase, Pod, Ready};

/// The number of active related pods by node.
pub(super) type NodeRanks = BTreeMap<Text, usize>;

/// The criteria that come before all times.
type Class = (bool, Phase, bool, i32, Reverse<usize>);

/// Returns the first `count` pods in the order of deletion.
pub(super) fn pods_to_delete(
    pods: &[Arc<Pod>],
    count: usize,
    ranks: &NodeRanks,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count >= pods.len() {
        return pods.to_vec();
    }
    let mut smallest_uid: BTreeMap<(Class, Option<Timestamp>), &Uid> = BTreeMap::new();
    for pod in pods {
        let uid = &pod.metadata.uid;
        let first = smallest_uid
            .entry((class(pod, ranks), ready_since(pod)))
            .or_insert(uid);
        *first = uid.min(first);
    }
    let key = |pod: &Pod| {
        let (class, since) = (class(pod, ranks), ready_since(pod));
        let group = smallest_uid.get(&(class, since)).copied().cloned();
        (
            class,
            bucket(since, now),
            group,
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

/// Returns the age as a power of two. An unknown time sorts first, then a time in the future.
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
