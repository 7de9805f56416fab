//! Scaling during a rollout: a change of `spec.replicas` is distributed over all active `ReplicaSets` before the
//! rollout proceeds.
//!
//! The distribution is proportional to the sizes, and the largest `ReplicaSet` gets the rounding remainder. A
//! scale-down removes unavailable pods first and keeps the minimum number of available ones.

use super::bounds::Bounds;
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};
use super::revision;
use crate::support::annotations::MAX_REPLICAS;

/// Reports whether an active `ReplicaSet` was last scaled for another `spec.replicas`. With Recreate and several active
/// `ReplicaSets` the rollout proceeds instead.
#[must_use]
pub fn is_due(sets: &ReplicaSets, bounds: &Bounds) -> bool {
    let active: Vec<&PlannedReplicaSet> = sets.all().filter(|it| it.is_active()).collect();
    (bounds.rolling || active.len() == 1) && active.iter().any(|it| is_stale(it, bounds))
}

fn is_stale(set: &PlannedReplicaSet, bounds: &Bounds) -> bool {
    set.desired().is_some_and(|it| it != bounds.replicas)
}

/// Plans the sizes for the desired number of pods. `status_replicas` is the last reported number of pods.
pub fn sync(sets: &mut ReplicaSets, bounds: &Bounds, status_replicas: i64) {
    let active = sets.all().filter(|it| it.is_active()).count();
    if active <= 1 {
        if let Some(set) = only(sets, active)
            && (set.replicas != bounds.replicas || is_stale(set, bounds))
        {
            // The annotations are updated even if a user has already set the size; otherwise it stays due.
            set.scale(bounds.replicas, bounds);
        }
    } else if sets.new.as_ref().is_some_and(|it| is_saturated(it, bounds)) {
        for set in sets.old.iter_mut().filter(|it| it.is_active()) {
            set.scale(0, bounds);
        }
    } else if bounds.rolling {
        proportional(sets, bounds, status_replicas);
    }
}

/// Returns the active `ReplicaSet`; if none is active, the new one or else the newest.
fn only(sets: &mut ReplicaSets, active: usize) -> Option<&mut PlannedReplicaSet> {
    if active == 1 {
        return sets.all_mut().find(|it| it.is_active());
    }
    sets.new.as_mut().or(sets.old.last_mut())
}

/// Reports whether the new `ReplicaSet` has all desired pods available.
fn is_saturated(new: &PlannedReplicaSet, bounds: &Bounds) -> bool {
    let wanted = bounds.replicas;
    new.desired() == Some(wanted) && new.replicas == wanted && new.available() == wanted
}

fn proportional(sets: &mut ReplicaSets, bounds: &Bounds, status_replicas: i64) {
    let allowed = if bounds.replicas > 0 {
        bounds.max_replicas()
    } else {
        0
    };
    let (least, available) = (bounds.min_available(), sets.available());
    let mut active: Vec<&mut PlannedReplicaSet> = sets.all_mut().filter(|it| it.is_active()).collect();
    let to_add = allowed - active.iter().map(|it| it.replicas).sum::<i64>();
    // Largest first; among equals, newest first to grow and oldest first to shrink.
    active.sort_by_cached_key(|it| it.age());
    if to_add > 0 {
        active.reverse();
    }
    active.sort_by_key(|it| std::cmp::Reverse(it.replicas));
    let mut left = to_add;
    let mut sizes: Vec<i64> = Vec::new();
    for set in &active {
        let share = share(set, bounds, status_replicas);
        let share = if to_add > 0 {
            share.clamp(0, left)
        } else {
            share.clamp(left, 0)
        };
        sizes.push(set.replicas + share);
        left -= share;
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + left).max(0);
    }
    if to_add < 0 {
        spare(&active, &mut sizes, (available - least).max(0));
    }
    for (set, size) in active.into_iter().zip(sizes) {
        set.scale(size, bounds);
    }
}

/// Returns the proportional change of the size. Without the max-replicas annotation it is relative to
/// `status_replicas`.
fn share(set: &PlannedReplicaSet, bounds: &Bounds, status_replicas: i64) -> i64 {
    if bounds.replicas == 0 {
        return -set.replicas;
    }
    let annotations = &set.object.annotations;
    let before = revision::number(annotations, MAX_REPLICAS).filter(|it| *it > 0);
    let before = before.unwrap_or(status_replicas);
    if before <= 0 {
        return 0;
    }
    // Rounds half up.
    let twice = 2 * i128::from(set.replicas) * i128::from(bounds.max_replicas());
    let share = (twice + i128::from(before)) / (2 * i128::from(before));
    i64::try_from(share).unwrap_or(i64::MAX) - set.replicas
}

/// Moves removals from available to unavailable pods if more than `most` available pods would be removed.
fn spare(sets: &[&mut PlannedReplicaSet], sizes: &mut [i64], most: i64) {
    let lost = |set: &PlannedReplicaSet, size: i64| (set.available() - size).max(0);
    let mut over = sets
        .iter()
        .zip(&*sizes)
        .map(|(set, size)| lost(set, *size))
        .sum::<i64>()
        - most;
    for at in (0..sets.len()).rev() {
        let back = lost(sets[at], sizes[at]).min(over.max(0));
        sizes[at] += back;
        over -= back;
        let mut owed = back;
        for (set, size) in sets.iter().zip(sizes.iter_mut()) {
            let idle = (*size - set.available()).clamp(0, owed);
            *size -= idle;
            owed -= idle;
        }
    }
}

#[cfg(test)]
mod tests;
