//! S5 for Deployments: no step of a rollout exceeds `replicas + maxSurge`, or falls below `replicas - maxUnavailable` available
//! pods, relative to the generations that the controller may have observed.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{Change, Context, Found};
use super::history::History;
use super::model::{Detail, Object};
use super::requests::{Actor, Sent};
use super::symbols::{DEPLOYMENT, DEPLOYMENT_AGENT, DEPLOYMENTS, REPLICA_SETS, Symbol};
use super::view::{Amount, DeploymentSpec, RollingUpdate};

/// The bounds of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) replicas: i64,
    /// The maximum number of pods.
    pub(super) most: i64,
    /// The minimum number of available pods; none for Recreate.
    pub(super) least: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rollouts {
    bounds: BTreeMap<Symbol, History<Bounds>>,
    sets: BTreeMap<Symbol, Set>,
    /// Revision and actor of each change of the `ReplicaSets` of a Deployment.
    changes: BTreeMap<Symbol, Vec<(u64, Option<Actor>)>>,
}

/// A `ReplicaSet` of a Deployment.
#[derive(Clone, Debug)]
struct Set {
    deployment: Option<Symbol>,
    size: i64,
    available: History<i64>,
}

/// The sums over the `ReplicaSets` of a Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    size: i64,
    available: i64,
}

/// A change of the size of a `ReplicaSet` by the controller.
#[derive(Clone, Copy, Debug)]
struct Step {
    deployment: Symbol,
    /// The revision of `ReplicaSets` that the controller has observed at least.
    shown: u64,
    before: Sums,
    after: Sums,
    /// The `ReplicaSet` has shrunk, and had more available pods than its new size at each revision that the controller may
    /// have observed last.
    removes_available: bool,
}

impl Bounds {
    pub(super) fn of(spec: &DeploymentSpec) -> Self {
        let replicas = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        if strategy.is_some_and(|it| it.type_ == "Recreate") {
            return Self {
                replicas,
                most: replicas,
                least: None,
            };
        }
        let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
        let amount = |field: fn(&RollingUpdate) -> Option<&Amount>, round| {
            rolling
                .and_then(field)
                .map_or(0, |it| it.resolve(replicas, round))
        };
        let surge = amount(|it| it.max_surge.as_ref(), 99);
        let unavailable = amount(|it| it.max_unavailable.as_ref(), 0);
        // Otherwise the rollout could not proceed.
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };
        Self {
            replicas,
            most: replicas.saturating_add(surge),
            least: Some(replicas - unavailable.min(replicas)),
        }
    }
}

impl Amount {
    /// Returns the number of pods. `round` is 99 to round a percentage up, 0 to round it down.
    fn resolve(&self, of: i64, round: i64) -> i64 {
        match self {
            Self::Count(count) => *count,
            Self::Share(share) => {
                let share: i64 = share.trim_end_matches('%').parse().unwrap_or(0);
                (share.saturating_mul(of).saturating_add(round)) / 100
            }
        }
    }
}

impl Rollouts {
    pub(super) fn commit(&mut self, context: &Context, change: &Change, found: &mut Found) {
        let new = context.model.get(change.uid);
        match new.or(change.old.as_ref()).map(|it| it.collection) {
            Some(DEPLOYMENTS) => {
                if let Some(Detail::Deployment { bounds, .. }) = new.map(|it| &it.detail) {
                    let history = self.bounds.entry(change.uid).or_default();
                    history.push(change.revision, *bounds);
                } else {
                    self.bounds.remove(&change.uid);
                    self.changes.remove(&change.uid);
                }
            }
            Some(REPLICA_SETS) => self.commit_set(context, change, new, found),
            _ => {}
        }
    }

    fn commit_set(&mut self, context: &Context, change: &Change, new: Option<&Object>, found: &mut Found) {
        let before = self.sets.get(&change.uid).cloned();
        let after = new.and_then(|it| observe(before.as_ref(), change.revision, it));
        let of = |it: &Option<Set>| it.as_ref().map(|it| (it.deployment, it.size));
        let (was, is) = (of(&before), of(&after));
        if was == is {
            self.replace(change.uid, after);
            return;
        }
        let is_resized = was.map(|it| it.1) != is.map(|it| it.1);
        // Two if a reference was changed.
        let deployments: BTreeSet<Symbol> = [&after, &before]
            .into_iter()
            .flatten()
            .filter_map(|it| it.deployment)
            .collect();
        let step = change
            .by(DEPLOYMENT_AGENT)
            .filter(|it| !it.is_repeated() && !it.late);
        let resized = step.filter(|_| is_resized);
        let deployment = [is, was].into_iter().flatten().find_map(|it| it.0);
        let sums = resized.zip(deployment).map(|(sent, deployment)| {
            let shown = context.requests.known_revision(sent, REPLICA_SETS);
            (sent, deployment, shown, self.sums(context, deployment, shown))
        });
        let size = is.map_or(0, |it| it.1);
        let shrunk = before.as_ref().filter(|it| it.size > size);
        let removes_available = |shown, delivered| {
            let lowest = shrunk.and_then(|it| it.available.between(shown, delivered).min());
            lowest.is_some_and(|it| it > size)
        };
        self.replace(change.uid, after);
        if let Some((sent, deployment, shown, sums)) = sums {
            let delivered = context.requests.delivered_revision(sent, REPLICA_SETS);
            let step = Step {
                deployment,
                shown,
                before: sums,
                after: self.sums(context, deployment, shown),
                removes_available: removes_available(shown, delivered),
            };
            self.check_step(context, change, sent, &step, found);
            if let Some(old) = change.old.as_ref().filter(|_| new.is_none()) {
                check_removal(context, change, sent, old, found);
            }
        }
        let by = step.and_then(|it| it.actor);
        for deployment in deployments {
            self.changes
                .entry(deployment)
                .or_default()
                .push((change.revision, by));
        }
    }

    fn replace(&mut self, uid: Symbol, set: Option<Set>) {
        match set {
            Some(set) => self.sets.insert(uid, set),
            None => self.sets.remove(&uid),
        };
    }

    /// Returns the size, and the number of available pods that remain when the sizes are reached. The controller may act on
    /// each number of available pods since `shown`.
    fn sums(&self, context: &Context, deployment: Symbol, shown: u64) -> Sums {
        let sets = context
            .model
            .dependents(deployment)
            .filter_map(|it| self.sets.get(&it.uid));
        let mut sums = Sums {
            size: 0,
            available: 0,
        };
        for set in sets.filter(|it| it.deployment == Some(deployment)) {
            sums.size += set.size;
            let available = set.available.since(shown).max().unwrap_or(0);
            sums.available += available.min(set.size);
        }
        sums
    }

    fn check_step(&self, context: &Context, change: &Change, sent: &Sent, step: &Step, found: &mut Found) {
        let Step {
            deployment,
            shown,
            before,
            after,
            removes_available,
        } = *step;
        let (Some(owner), Some(bounds)) = (context.model.get(deployment), self.bounds.get(&deployment))
        else {
            return;
        };
        let changes = self.changes.get(&deployment).into_iter().flatten();
        let mut unknown = changes.filter(|(revision, by)| sent.may_ignore(*revision, *by, shown));
        if unknown.next().is_some() {
            // Another client has changed a ReplicaSet without the knowledge of the controller.
            return;
        }
        let known = context.requests.known_revision(sent, DEPLOYMENTS);
        let most = bounds.since(known).map(|it| it.most).max();
        if let Some(most) = most.filter(|it| after.size > before.size && after.size > *it) {
            found.add(
                "S5",
                format!(
                    "the ReplicaSets of {} have {} replicas after the step at revision {} by {}, of at most {most} since \
                     revision {known}",
                    context.name(owner),
                    after.size,
                    change.revision,
                    context.sender(sent),
                ),
            );
        }
        let least = bounds.since(known).map(|it| it.least.unwrap_or(i64::MIN)).min();
        if let Some(least) = least.filter(|it| removes_available && after.available < *it) {
            found.add(
                "S5",
                format!(
                    "{} has {} available pods after the step at revision {} by {}, of at least {least} since revision \
                     {known}",
                    context.name(owner),
                    after.available,
                    change.revision,
                    context.sender(sent),
                ),
            );
        }
    }
}

fn observe(before: Option<&Set>, revision: u64, new: &Object) -> Option<Set> {
    let Detail::Set {
        replicas, available, ..
    } = new.detail
    else {
        return None;
    };
    let controller = new.controller().filter(|it| it.kind == DEPLOYMENT);
    let mut set = Set {
        deployment: controller.map(|it| it.uid),
        size: replicas,
        available: before.map(|it| it.available.clone()).unwrap_or_default(),
    };
    set.available.push(revision, available);
    Some(set)
}

/// Checks that a deleted `ReplicaSet` has no pods.
fn check_removal(context: &Context, change: &Change, sent: &Sent, old: &Object, found: &mut Found) {
    let Detail::Set { replicas, pods, .. } = old.detail else {
        return;
    };
    if replicas != 0 || pods != 0 {
        found.add(
            "S5",
            format!(
                "{} was deleted at revision {} by {} with spec.replicas {replicas} and status.replicas {pods}",
                context.name(old),
                change.revision,
                context.sender(sent),
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    #[test]
    fn surge_is_rounded_up_and_unavailable_down() {
        let bounds = |replicas: i64, surge: Value, unavailable: Value| {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let spec = json!({"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
            let bounds = Bounds::of(&serde_json::from_value(spec).expect("a spec"));
            (bounds.most, bounds.least)
        };
        assert_eq!(bounds(10, json!("25%"), json!("25%")), (13, Some(8)));
        assert_eq!(bounds(3, json!(1), json!(0)), (4, Some(3)));
        assert_eq!(bounds(5, json!("0%"), json!("10%")), (5, Some(4)));
        assert_eq!(bounds(3, json!(9), json!(9)), (12, Some(0)));
        let recreate = json!({"replicas": 2, "strategy": {"type": "Recreate"}});
        let recreate = Bounds::of(&serde_json::from_value(recreate).expect("a spec"));
        assert_eq!((recreate.most, recreate.least), (2, None));
    }
}
