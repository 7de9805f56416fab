//! Another number of pods is wanted: all that have pods get their share of it, before anything is rolled out.
//!
//! Shares are those of the sizes, so that a rollout which is half done is half done afterwards. What rounding leaves goes
//! to the largest. Going down, pods that serve are spared where there are others: no step takes one of the least there must
//! be.

use super::bounds::Bounds;
use super::revision;
use super::sets::{Set, Sets};
use crate::support::annotations::MAX;

/// Whether one of those that have pods was last scaled for another number of pods than is wanted. With several of them
/// and no rolling update there are no shares to be had: that rollout goes on.
#[must_use]
pub fn is_due(sets: &Sets, bounds: &Bounds) -> bool {
    let active: Vec<&Set> = sets.all().filter(|it| it.is_active()).collect();
    (bounds.rolling || active.len() == 1) && active.iter().any(|it| is_stale(it, bounds))
}

fn is_stale(set: &Set, bounds: &Bounds) -> bool {
    set.desired().is_some_and(|it| it != bounds.replicas)
}

/// Sizes of all of them, for the number of pods that is wanted. `told` is how many the Deployment last said there are.
pub fn sync(sets: &mut Sets, bounds: &Bounds, told: i64) {
    let active = sets.all().filter(|it| it.is_active()).count();
    if active <= 1 {
        if let Some(set) = only(sets, active)
            && (set.replicas != bounds.replicas || is_stale(set, bounds))
        {
            // One that has that size by other hands has to know of it too, or it would be due for ever.
            set.scale(bounds.replicas, bounds);
        }
    } else if sets.new.as_ref().is_some_and(|it| is_saturated(it, bounds)) {
        for set in sets.old.iter_mut().filter(|it| it.is_active()) {
            set.scale(0, bounds);
        }
    } else if bounds.rolling {
        proportional(sets, bounds, told);
    }
}

/// The one that has pods; if none has, the new one, or the newest.
fn only(sets: &mut Sets, active: usize) -> Option<&mut Set> {
    if active == 1 {
        return sets.all_mut().find(|it| it.is_active());
    }
    sets.new.as_mut().or(sets.old.last_mut())
}

/// Whether it alone is all that is wanted.
fn is_saturated(new: &Set, bounds: &Bounds) -> bool {
    let wanted = bounds.replicas;
    new.desired() == Some(wanted) && new.replicas == wanted && new.available() == wanted
}

fn proportional(sets: &mut Sets, bounds: &Bounds, told: i64) {
    let allowed = if bounds.replicas > 0 { bounds.limit() } else { 0 };
    let (least, available) = (bounds.min_available(), sets.available());
    let mut active: Vec<&mut Set> = sets.all_mut().filter(|it| it.is_active()).collect();
    let to_add = allowed - active.iter().map(|it| it.replicas).sum::<i64>();
    // The largest first; of equal ones the newest if they grow, the oldest if they shrink.
    active.sort_by_cached_key(|it| it.age());
    if to_add > 0 {
        active.reverse();
    }
    active.sort_by_key(|it| std::cmp::Reverse(it.replicas));
    let mut left = to_add;
    let mut sizes: Vec<i64> = Vec::new();
    for set in &active {
        let share = share(set, bounds, told);
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

/// By how many pods one grows, for all of them to keep their proportion. One that does not say how many there could be in
/// all goes by how many there are in all.
fn share(set: &Set, bounds: &Bounds, told: i64) -> i64 {
    if bounds.replicas == 0 {
        return -set.replicas;
    }
    let annotations = &set.object.annotations;
    let before = revision::number(annotations, MAX).filter(|it| *it > 0);
    let before = before.unwrap_or(told);
    if before <= 0 {
        return 0;
    }
    // Halves are rounded up.
    let twice = 2 * i128::from(set.replicas) * i128::from(bounds.limit());
    let share = (twice + i128::from(before)) / (2 * i128::from(before));
    i64::try_from(share).unwrap_or(i64::MAX) - set.replicas
}

/// Moves what is taken from pods that serve to pods that do not, as far as more than `most` of the former would go.
fn spare(sets: &[&mut Set], sizes: &mut [i64], most: i64) {
    let lost = |set: &Set, size: i64| (set.available() - size).max(0);
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
