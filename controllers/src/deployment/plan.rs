//! The next step of a Deployment, decided without a client or a clock.
//!
//! [`claims`] classifies the candidate `ReplicaSets`; [`plan`] decides about the owned ones. A plan is one step: the
//! next one is made when the caches show its writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_manager::object::{Text, Uid};
use steersman_manager::owner::{self, Claim};
use steersman_manager::selector::Selector;

use super::bounds::Bounds;
use super::new_replica_set::{NewReplicaSet, new_replica_set, rolling_size};
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};
use super::rollback::{self, Rollback};
use super::{ReplicaSet, cleanup, recreate, revision, rolling, scale};
use crate::support::annotations;
use crate::support::deployment::Deployment;

/// The candidate `ReplicaSets` of a Deployment by what to do with them.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Claims {
    pub owned: Vec<Arc<ReplicaSet>>,
    pub adopt: Vec<Arc<ReplicaSet>>,
    pub release: Vec<Arc<ReplicaSet>>,
}

/// The observed state that a plan is based on.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct Snapshot<'a> {
    pub deployment: &'a Deployment,
    pub bounds: Bounds,
    /// The owned `ReplicaSets`.
    pub sets: &'a [Arc<ReplicaSet>],
    /// The number of pods of each `ReplicaSet` that have not finished, if not 0. Only used for Recreate.
    pub running: &'a BTreeMap<Uid, usize>,
}

/// One step of a Deployment.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The `ReplicaSet` to create for the current template.
    pub create: Option<NewReplicaSet>,
    /// The existing `ReplicaSets` with their planned state.
    pub sets: ReplicaSets,
    /// The `ReplicaSets` to delete.
    pub delete: Vec<Arc<ReplicaSet>>,
    /// The answer to a rollback request.
    pub rollback: Option<Rollback>,
    /// The revision of the Deployment.
    pub revision: Option<Text>,
    /// The status reports the progress of the rollout.
    pub reports_progress: bool,
}

/// Classifies the candidate `ReplicaSets`. A terminating one is neither adopted nor released.
#[must_use]
pub fn claims<'a>(
    deployment: &Deployment,
    selector: &Selector,
    sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>,
) -> Claims {
    let mut claims = Claims::default();
    for set in sets {
        let labels = &set.metadata.labels;
        // A ReplicaSet without labels is never adopted.
        let matches = labels.iter().next().is_some() && selector.matches(labels);
        let list = match owner::claim(&deployment.metadata, &set.metadata, matches) {
            Claim::Owned => &mut claims.owned,
            Claim::Adopt => &mut claims.adopt,
            Claim::Release => &mut claims.release,
            Claim::Ignore => continue,
        };
        list.push(Arc::clone(set));
    }
    claims
}

/// Plans the next step.
#[must_use]
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let Snapshot {
        deployment,
        bounds,
        sets,
        running,
    } = snapshot;
    let mut plan = Plan {
        sets: ReplicaSets::of(deployment, sets),
        ..Plan::default()
    };
    if deployment.metadata.is_terminating() {
        return plan;
    }
    sync_metadata(&mut plan.sets, deployment);
    let create = |sets: &ReplicaSets, size: i64| Some(new_replica_set(deployment, bounds, sets, size));
    let requested = rollback::requested(deployment);
    if deployment.is_paused() || (requested.is_none() && scale::is_due(&plan.sets, bounds)) {
        scale::sync(&mut plan.sets, bounds, deployment.status.replicas);
        if deployment.is_paused() && requested.is_none() {
            plan.delete = cleanup::excess(&plan.sets, deployment.history_limit());
        }
    } else if let Some(to) = requested {
        match plan.sets.new {
            // The current template needs a ReplicaSet with a revision before the rollback replaces it.
            None => {
                let size = if bounds.rolling {
                    rolling_size(bounds, &plan.sets)
                } else {
                    0
                };
                plan.create = create(&plan.sets, size);
            }
            Some(_) => plan.rollback = Some(rollback::plan(deployment, &plan.sets, to)),
        }
    } else {
        plan.reports_progress = true;
        if bounds.rolling {
            if plan.sets.new.is_none() {
                plan.create = create(&plan.sets, rolling_size(bounds, &plan.sets));
            }
            let created = plan.create.as_ref().map_or(0, |it| it.replicas);
            rolling::step(&mut plan.sets, bounds, created);
        } else if recreate::scale_down_old(&mut plan.sets, bounds, running) {
            match &mut plan.sets.new {
                None => plan.create = create(&plan.sets, bounds.replicas),
                Some(new) if new.replicas != bounds.replicas => new.scale(bounds.replicas, bounds),
                Some(_) => {}
            }
        }
        let changes = plan.create.is_some() || plan.sets.all().any(|it| it.replicas != it.object.replicas());
        if !changes && deployment.status.is_complete(deployment) {
            plan.delete = cleanup::excess(&plan.sets, deployment.history_limit());
        }
    }
    plan.revision = match &plan.create {
        Some(create) => Some(create.revision.to_string().into()),
        None => plan.sets.new.as_ref().and_then(PlannedReplicaSet::revision),
    };
    plan
}

/// Plans the annotations and minReadySeconds of the new `ReplicaSet`.
fn sync_metadata(sets: &mut ReplicaSets, deployment: &Deployment) {
    let next = revision::next(sets.old.iter().map(|it| &it.object.annotations));
    if let Some(new) = &mut sets.new {
        new.annotations = revision::changes(deployment, &new.object.annotations, next);
        if new.is_named_by_template {
            let sent = revision::template_changed(&deployment.template().text);
            new.annotations.insert(annotations::TEMPLATE_CHANGED.into(), sent);
        }
        new.min_ready_seconds = deployment.min_ready_seconds();
    }
}

#[cfg(test)]
mod tests;
