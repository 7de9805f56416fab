//! What to do, decided without a client or a clock.
//!
//! [`claims`] sorts the `ReplicaSets` that may concern a Deployment, [`plan`] says what becomes of those that are its own.
//! A plan is one step: the next is made when the caches show what this one has written.

use std::collections::BTreeMap;
use std::sync::Arc;

use coxswain_manager::object::{Text, Uid};
use coxswain_manager::owner::{self, Claim};
use coxswain_manager::selector::Selector;

use super::bounds::Bounds;
use super::new_replica_set::{Creation, creation, size};
use super::rollback::{self, Rollback};
use super::sets::Sets;
use super::{ReplicaSet, cleanup, recreate, revision, rolling, scale};
use crate::support::annotations;
use crate::support::deployment::Deployment;
use crate::support::pod_template::Canonical;

/// What the `ReplicaSets` that may concern a Deployment are to it.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Its own.
    pub ours: Vec<Arc<ReplicaSet>>,
    /// To be adopted.
    pub adopt: Vec<Arc<ReplicaSet>>,
    /// To be let go.
    pub release: Vec<Arc<ReplicaSet>>,
}

/// All that a step is decided from.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// The Deployment.
    pub deployment: &'a Deployment,
    /// How far it may go.
    pub bounds: Bounds,
    /// Its `ReplicaSets`.
    pub sets: &'a [Arc<ReplicaSet>],
    /// How many pods of each have not ended; those that have none are not in it. Only looked at for Recreate.
    pub running: &'a BTreeMap<Uid, usize>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The `ReplicaSet` to be made for the present template.
    pub create: Option<Creation>,
    /// All there are, as they shall be.
    pub sets: Sets,
    /// Those to be deleted.
    pub delete: Vec<Arc<ReplicaSet>>,
    /// Back to another template.
    pub rollback: Option<Rollback>,
    /// The revision that the Deployment shall have.
    pub revision: Option<Text>,
    /// Whether it is to be said how the rollout goes.
    pub judged: bool,
}

/// What the `ReplicaSets` are to `deployment`. None that is on its way out is adopted or let go.
#[must_use]
pub fn claims<'a>(
    deployment: &Deployment,
    selector: &Selector,
    sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>,
) -> Claims {
    let mut claims = Claims::default();
    for set in sets {
        let labels = &set.metadata.labels;
        // One without labels is nobody's.
        let matches = labels.iter().next().is_some() && selector.matches(labels);
        let list = match owner::claim(&deployment.metadata, &set.metadata, matches) {
            Claim::Owned => &mut claims.ours,
            Claim::Adopt => &mut claims.adopt,
            Claim::Release => &mut claims.release,
            Claim::Ignore => continue,
        };
        list.push(Arc::clone(set));
    }
    claims
}

/// The next step.
#[must_use]
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let Snapshot {
        deployment,
        bounds,
        sets,
        running,
    } = snapshot;
    let template = Canonical::of(&deployment.template().text);
    let mut plan = Plan {
        sets: Sets::of(deployment, &template, sets),
        ..Plan::default()
    };
    if deployment.metadata.is_terminating() {
        return plan;
    }
    keep_up(&mut plan.sets, deployment);
    let creating = |sets: &Sets, size: i64| Some(creation(deployment, &template, bounds, sets, size));
    let requested = rollback::requested(deployment);
    if deployment.is_paused() || (requested.is_none() && scale::is_due(&plan.sets, bounds)) {
        scale::sync(&mut plan.sets, bounds, deployment.status.replicas);
        if deployment.is_paused() && requested.is_none() {
            plan.delete = cleanup::excess(&plan.sets, deployment.history_limit());
        }
    } else if let Some(to) = requested {
        match plan.sets.new {
            // What is left has a revision too, to come back to. Its pods may not be due yet.
            None => {
                let size = if bounds.rolling {
                    size(bounds, &plan.sets)
                } else {
                    0
                };
                plan.create = creating(&plan.sets, size);
            }
            Some(_) => plan.rollback = Some(rollback::plan(deployment, &template, &plan.sets, to)),
        }
    } else {
        plan.judged = true;
        if bounds.rolling {
            if plan.sets.new.is_none() {
                plan.create = creating(&plan.sets, size(bounds, &plan.sets));
            }
            let coming = plan.create.as_ref().map_or(0, |it| it.replicas);
            rolling::step(&mut plan.sets, bounds, coming);
        } else if recreate::retire(&mut plan.sets, bounds, running) {
            match &mut plan.sets.new {
                None => plan.create = creating(&plan.sets, bounds.replicas),
                Some(new) if new.replicas != bounds.replicas => new.scale(bounds.replicas, bounds),
                Some(_) => {}
            }
        }
        let moves = plan.create.is_some() || plan.sets.all().any(|it| it.replicas != it.object.replicas());
        if !moves && deployment.status.is_complete(deployment) {
            plan.delete = cleanup::excess(&plan.sets, deployment.history_limit());
        }
    }
    plan.revision = match &plan.create {
        Some(create) => Some(create.revision.to_string().into()),
        None => plan.sets.new.as_ref().and_then(super::sets::Set::revision),
    };
    plan
}

/// Gives the new one what it has from the Deployment, apart from its size.
fn keep_up(sets: &mut Sets, deployment: &Deployment) {
    let next = revision::next(sets.old.iter().map(|it| &it.object.annotations));
    if let Some(new) = &mut sets.new {
        new.annotations = revision::changes(deployment, &new.object.annotations, next);
        if new.changed {
            let mark = revision::mark(&deployment.template().text);
            new.annotations.insert(annotations::CHANGED.into(), mark);
        }
        new.min_ready_seconds = deployment.min_ready_seconds();
    }
}

#[cfg(test)]
mod tests;
