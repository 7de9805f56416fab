//! The Progressing and `ReplicaFailure` conditions.
//!
//! Every progress of a rollout updates the time of Progressing. After the progress deadline without progress the
//! condition becomes False; the controller keeps trying. A completed rollout is not evaluated again until the next one
//! starts, and a paused Deployment is not evaluated.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_manager::conditions::{self, Status as ConditionStatus};
use steersman_manager::object::Text;

use super::bounds::Bounds;
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};
use super::status::{PROGRESSING, REPLICA_FAILURE, Status};
use crate::support::deployment::Deployment;
use crate::support::deployment::condition::{self, Condition};

const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const CREATE_ERROR: &str = "ReplicaSetCreateError";
/// The reason while the creation of a `ReplicaSet` is delayed because earlier ones did not remain.
pub const CREATE_BACK_OFF: &str = "ReplicaSetCreateBackOff";

/// The reasons for an invalid spec.
pub const INVALID_SPEC_REASONS: &[&str] = &[
    "SelectingAll",
    "InvalidSelector",
    "InvalidReplicas",
    "InvalidStrategy",
];

/// The result of creating a `ReplicaSet` in this sync.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub enum CreationReport {
    /// No create was planned.
    None,
    /// The name.
    Created(Text),
    Failed {
        name: Text,
        error: String,
    },
    /// The message of the condition.
    Delayed(String),
}

impl CreationReport {
    /// Reports whether the rollout waits for a `ReplicaSet` that cannot be created. As in kube-controller-manager, the progress
    /// deadline does not apply then: it would replace the reason, and the next attempt would replace it again.
    #[must_use]
    pub fn blocks_progress(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Delayed(_))
    }
}

/// Computes the status. The progress of the rollout is evaluated only if `reports_progress`.
#[must_use]
pub fn desired_status(
    deployment: &Deployment,
    bounds: &Bounds,
    sets: &ReplicaSets,
    creation: &CreationReport,
    reports_progress: bool,
    now: Timestamp,
) -> Status {
    let mut status = Status::from_replica_sets(deployment, sets);
    if deployment.metadata.is_terminating() {
        status.set_available(bounds, now);
        return status;
    }
    let deadline = deployment.progress_deadline();
    let reason = condition::find(&status.conditions, PROGRESSING).map(|it| it.reason.clone());
    if reason.is_some_and(|it| INVALID_SPEC_REASONS.contains(&&*it)) {
        // The spec is valid again.
        condition::remove(&mut status.conditions, PROGRESSING);
    }
    if deadline.is_some() {
        set_paused(&mut status.conditions, deployment.is_paused(), now);
        report_creation(&mut status.conditions, sets, creation, now);
    }
    status.set_available(bounds, now);
    if reports_progress {
        match deadline {
            Some(deadline) => report_progress(&mut status, deployment, sets, deadline, now),
            None => condition::remove(&mut status.conditions, PROGRESSING),
        }
        copy_replica_failure(&mut status.conditions, sets);
    }
    status
}

/// Returns the status of a Deployment with an invalid spec.
#[must_use]
pub fn invalid_spec_status(
    deployment: &Deployment,
    reason: &'static str,
    message: &str,
    now: Timestamp,
) -> Status {
    let mut status = Status {
        observed_generation: deployment.metadata.generation,
        ..deployment.status.clone()
    };
    let invalid = Condition::new(PROGRESSING, ConditionStatus::False, reason, message, now);
    condition::set(&mut status.conditions, invalid);
    status
}

/// Returns the time until the progress deadline.
#[must_use]
pub fn next_check(deployment: &Deployment, status: &Status, now: Timestamp) -> Option<Duration> {
    let deadline = deployment.progress_deadline()?;
    let condition = condition::find(&status.conditions, PROGRESSING)?;
    if [NEW_SET_AVAILABLE, DEADLINE_EXCEEDED, PAUSED].contains(&&*condition.reason)
        || status.is_complete(deployment)
    {
        return None;
    }
    let left = SignedDuration::from_secs(deadline) - now.duration_since(last_update(condition)?);
    let left = Duration::try_from(left.max(SignedDuration::ZERO)).ok()?;
    // One more second, because condition times are whole seconds.
    Some(left + Duration::from_secs(1))
}

fn set_paused(conditions: &mut Vec<Condition>, paused: bool, now: Timestamp) {
    let reason = condition::find(conditions, PROGRESSING).map(|it| &*it.reason);
    let (reason, message) = match (reason, paused) {
        (Some(DEADLINE_EXCEEDED), _) => return,
        (_, true) => (PAUSED, "Deployment is paused"),
        (Some(PAUSED), false) => ("DeploymentResumed", "Deployment is resumed"),
        _ => return,
    };
    condition::set(
        conditions,
        Condition::new(PROGRESSING, ConditionStatus::Unknown, reason, message, now),
    );
}

fn report_creation(
    conditions: &mut Vec<Condition>,
    sets: &ReplicaSets,
    creation: &CreationReport,
    now: Timestamp,
) {
    let (status, reason, message) = match (creation, &sets.new) {
        (CreationReport::Created(name), _) => {
            let message = format!("Created new replica set \"{name}\"");
            (ConditionStatus::True, "NewReplicaSetCreated", message)
        }
        (CreationReport::Failed { name, error }, _) => {
            let message = format!("Failed to create new replica set \"{name}\": {error}");
            (ConditionStatus::False, CREATE_ERROR, message)
        }
        (CreationReport::Delayed(message), _) => (ConditionStatus::False, CREATE_BACK_OFF, message.clone()),
        (CreationReport::None, Some(new)) if condition::find(conditions, PROGRESSING).is_none() => {
            let message = format!("Found new replica set \"{}\"", new.object.metadata.name);
            (ConditionStatus::True, "FoundNewReplicaSet", message)
        }
        (CreationReport::None, _) => return,
    };
    condition::set(
        conditions,
        Condition::new(PROGRESSING, status, reason, message, now),
    );
}

fn report_progress(
    status: &mut Status,
    deployment: &Deployment,
    sets: &ReplicaSets,
    deadline: i64,
    now: Timestamp,
) {
    let reason = condition::find(&status.conditions, PROGRESSING).map(|it| it.reason.clone());
    if status.replicas == status.updated_replicas && reason.is_some_and(|it| it == NEW_SET_AVAILABLE) {
        return;
    }
    let subject = match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.object.metadata.name),
        None => format!("Deployment \"{}\"", deployment.metadata.name),
    };
    let progressing = |status, reason, text: &str| {
        Condition::new(PROGRESSING, status, reason, format!("{subject} {text}"), now)
    };
    if status.is_complete(deployment) {
        let done = progressing(
            ConditionStatus::True,
            NEW_SET_AVAILABLE,
            "has successfully progressed.",
        );
        condition::set(&mut status.conditions, done);
    } else if status.has_progressed(&deployment.status) {
        let updated = progressing(ConditionStatus::True, "ReplicaSetUpdated", "is progressing.");
        condition::replace(&mut status.conditions, updated);
    } else if is_deadline_exceeded(&status.conditions, deadline, now) {
        let exceeded = progressing(
            ConditionStatus::False,
            DEADLINE_EXCEEDED,
            "has timed out progressing.",
        );
        condition::set(&mut status.conditions, exceeded);
    }
}

fn is_deadline_exceeded(conditions: &[Condition], deadline: i64, now: Timestamp) -> bool {
    let Some(condition) = condition::find(conditions, PROGRESSING) else {
        return false;
    };
    match &*condition.reason {
        NEW_SET_AVAILABLE => false,
        _ => last_update(condition)
            .is_none_or(|it| now.duration_since(it) > SignedDuration::from_secs(deadline)),
    }
}

fn last_update(condition: &Condition) -> Option<Timestamp> {
    condition.last_update_time.or(condition.last_transition_time)
}

/// Copies the `ReplicaFailure` condition of a `ReplicaSet`, the new one first.
fn copy_replica_failure(conditions: &mut Vec<Condition>, sets: &ReplicaSets) {
    let failure =
        |set: &PlannedReplicaSet| conditions::find(&set.object.status.conditions, REPLICA_FAILURE).cloned();
    match sets.all().find_map(failure) {
        None => condition::remove(conditions, REPLICA_FAILURE),
        Some(theirs) => condition::set(
            conditions,
            Condition {
                type_: theirs.type_,
                status: theirs.status,
                last_update_time: theirs.last_transition_time,
                last_transition_time: theirs.last_transition_time,
                reason: theirs.reason,
                message: theirs.message,
            },
        ),
    }
}

#[cfg(test)]
mod tests;
