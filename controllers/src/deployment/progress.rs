//! What is said of how a rollout goes: the conditions Progressing and `ReplicaFailure`.
//!
//! As long as something comes further, the time of Progressing does too. If it stands still for as long as the Deployment
//! allows, that is said, and nothing else changes by it. A rollout that was finished once is not judged again before
//! another one begins; one that is paused is not judged at all.

use std::time::Duration;

use coxswain_manager::conditions::{self, Status as Holds};
use coxswain_manager::object::Text;
use jiff::{SignedDuration, Timestamp};

use super::bounds::Bounds;
use super::sets::{Set, Sets};
use super::status::Status;
use crate::support::deployment::Deployment;
use crate::support::deployment::condition::{self, Condition};

/// Says how a rollout goes.
pub const PROGRESSING: &str = "Progressing";
/// Says that a `ReplicaSet` cannot have its pods.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

const AVAILABLE: &str = "NewReplicaSetAvailable";
const EXCEEDED: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
/// The creation of the new `ReplicaSet` waits, as those before it did not remain.
pub const BACK_OFF: &str = "ReplicaSetCreateBackOff";

/// Why nothing is done at all, until what is wanted changes.
pub const REFUSALS: &[&str] = &[
    "SelectingAll",
    "InvalidSelector",
    "InvalidReplicas",
    "InvalidStrategy",
];

/// What has become of the `ReplicaSet` of the present template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing that was not so before.
    None,
    /// It was made.
    Created(Text),
    /// It could not be made.
    Failed {
        /// Its name.
        name: Text,
        /// Why not.
        error: String,
    },
    /// Its creation is delayed, with a message that says why.
    Delayed(String),
}

/// The status that `deployment` should have. A rollout is judged only if it is `judged`.
#[must_use]
pub fn wanted(
    deployment: &Deployment,
    bounds: &Bounds,
    sets: &Sets,
    news: &News,
    judged: bool,
    now: Timestamp,
) -> Status {
    let mut status = Status::counted(deployment, sets);
    if deployment.metadata.is_terminating() {
        status.judge(bounds, now);
        return status;
    }
    let deadline = deployment.progress_deadline();
    let reason = condition::find(&status.conditions, PROGRESSING).map(|it| it.reason.clone());
    if reason.is_some_and(|it| REFUSALS.contains(&&*it)) {
        // That is over.
        condition::remove(&mut status.conditions, PROGRESSING);
    }
    if deadline.is_some() {
        pause(&mut status.conditions, deployment.is_paused(), now);
        tell(&mut status.conditions, sets, news, now);
    }
    status.judge(bounds, now);
    if judged {
        match deadline {
            Some(deadline) => judge(&mut status, deployment, sets, deadline, now),
            None => condition::remove(&mut status.conditions, PROGRESSING),
        }
        fail(&mut status.conditions, sets);
    }
    status
}

/// The status of a Deployment that asks for what cannot be.
#[must_use]
pub fn refused(deployment: &Deployment, reason: &'static str, message: &str, now: Timestamp) -> Status {
    let mut status = Status {
        observed_generation: deployment.metadata.generation,
        ..deployment.status.clone()
    };
    let said = Condition::new(PROGRESSING, Holds::False, reason, message, now);
    condition::set(&mut status.conditions, said);
    status
}

/// When a rollout that stands still has to be looked at again.
#[must_use]
pub fn next_look(deployment: &Deployment, status: &Status, now: Timestamp) -> Option<Duration> {
    let deadline = deployment.progress_deadline()?;
    let condition = condition::find(&status.conditions, PROGRESSING)?;
    if [AVAILABLE, EXCEEDED, PAUSED].contains(&&*condition.reason) || status.is_complete(deployment) {
        return None;
    }
    let left = SignedDuration::from_secs(deadline) - now.duration_since(since(condition)?);
    let left = Duration::try_from(left.max(SignedDuration::ZERO)).ok()?;
    // One more, as times have no fractions.
    Some(left + Duration::from_secs(1))
}

fn pause(conditions: &mut Vec<Condition>, paused: bool, now: Timestamp) {
    let reason = condition::find(conditions, PROGRESSING).map(|it| &*it.reason);
    let (reason, message) = match (reason, paused) {
        (Some(EXCEEDED), _) => return,
        (_, true) => (PAUSED, "Deployment is paused"),
        (Some(PAUSED), false) => ("DeploymentResumed", "Deployment is resumed"),
        _ => return,
    };
    condition::set(
        conditions,
        Condition::new(PROGRESSING, Holds::Unknown, reason, message, now),
    );
}

fn tell(conditions: &mut Vec<Condition>, sets: &Sets, news: &News, now: Timestamp) {
    let (status, reason, message) = match (news, &sets.new) {
        (News::Created(name), _) => {
            let message = format!("Created new replica set \"{name}\"");
            (Holds::True, "NewReplicaSetCreated", message)
        }
        (News::Failed { name, error }, _) => {
            let message = format!("Failed to create new replica set \"{name}\": {error}");
            (Holds::False, "ReplicaSetCreateError", message)
        }
        (News::Delayed(message), _) => (Holds::False, BACK_OFF, message.clone()),
        (News::None, Some(new)) if condition::find(conditions, PROGRESSING).is_none() => {
            let message = format!("Found new replica set \"{}\"", new.object.metadata.name);
            (Holds::True, "FoundNewReplicaSet", message)
        }
        (News::None, _) => return,
    };
    condition::set(
        conditions,
        Condition::new(PROGRESSING, status, reason, message, now),
    );
}

fn judge(status: &mut Status, deployment: &Deployment, sets: &Sets, deadline: i64, now: Timestamp) {
    let reason = condition::find(&status.conditions, PROGRESSING).map(|it| it.reason.clone());
    if status.replicas == status.updated_replicas && reason.is_some_and(|it| it == AVAILABLE) {
        return;
    }
    let what = match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.object.metadata.name),
        None => format!("Deployment \"{}\"", deployment.metadata.name),
    };
    let say =
        |holds, reason, how: &str| Condition::new(PROGRESSING, holds, reason, format!("{what} {how}"), now);
    if status.is_complete(deployment) {
        let done = say(Holds::True, AVAILABLE, "has successfully progressed.");
        condition::set(&mut status.conditions, done);
    } else if status.is_further(&deployment.status) {
        let further = say(Holds::True, "ReplicaSetUpdated", "is progressing.");
        condition::replace(&mut status.conditions, further);
    } else if is_late(&status.conditions, deadline, now) {
        let late = say(Holds::False, EXCEEDED, "has timed out progressing.");
        condition::set(&mut status.conditions, late);
    }
}

fn is_late(conditions: &[Condition], deadline: i64, now: Timestamp) -> bool {
    let Some(condition) = condition::find(conditions, PROGRESSING) else {
        return false;
    };
    match &*condition.reason {
        AVAILABLE => false,
        EXCEEDED => true,
        _ => since(condition).is_none_or(|it| now.duration_since(it) > SignedDuration::from_secs(deadline)),
    }
}

fn since(condition: &Condition) -> Option<Timestamp> {
    condition.last_update_time.or(condition.last_transition_time)
}

/// Says what a `ReplicaSet` says: the new one first.
fn fail(conditions: &mut Vec<Condition>, sets: &Sets) {
    let failure = |set: &Set| conditions::find(&set.object.status.conditions, REPLICA_FAILURE).cloned();
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
