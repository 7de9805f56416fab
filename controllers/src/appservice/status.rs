//! The status of an `AppService`: the replica counts of its Deployment, and three conditions.
//!
//! | type | true | false |
//! |---|---|---|
//! | `Ready` | all desired replicas are updated and available | the reason says why not |
//! | `Progressing` | the controller is working towards the desired state | the desired state is reached, or stalled |
//! | `Stalled` | an error needs the user's attention; the reason says which | no errors |
//!
//! The status is computed from everything that one sync observed and did, and written once at its end, whether or not the
//! sync succeeded. If a request has an unknown outcome, the conditions are left unchanged.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_manager::conditions::{self, Condition, Status as Truth};
use steersman_manager::object::Meta;

use super::desired;
use crate::api::app_service::{AppService, Status};
use crate::support::deployment::Deployment;
use crate::support::deployment::condition::find;

pub(super) const READY: &str = "Ready";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const STALLED: &str = "Stalled";

/// The reason of a Deployment whose `ReplicaSet` cannot be created.
const CREATE_ERROR: &str = "ReplicaSetCreateError";
/// The reasons of `Progressing=False` of a Deployment that are reported as they are.
const STOP_REASONS: [&str; 3] = [
    CREATE_ERROR,
    "ProgressDeadlineExceeded",
    "ReplicaSetCreateBackOff",
];
/// The delay of [`unobserved_failure`].
const UNOBSERVED_FAILURE_DELAY: Duration = Duration::from_secs(10);

/// An error that keeps an `AppService` from the desired state until the user fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Whether to record an event. Events about a Deployment are recorded by its own controller.
    pub(super) emit_event: bool,
}

/// The observations of a sync.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// The Deployment after all actions.
    pub(super) deployment: Option<Arc<Deployment>>,
    /// The first one is reported.
    pub(super) stalls: Vec<Stall>,
    /// Reason and message of a state that delays the rollout without being an error.
    pub(super) pending: Option<(&'static str, String)>,
    /// A request has an unknown outcome.
    pub(super) unknown: bool,
    /// The sync created or changed the Deployment, so its status is of an earlier generation.
    pub(super) deployment_changed: bool,
}

impl Status {
    /// Computes the status of `app` after a sync.
    pub(super) fn of(app: &AppService, observed: &Observed, now: Timestamp) -> Self {
        let stored = &app.status;
        let deployment = observed.deployment.as_ref().map(|it| &it.status);
        let count = |of: fn(&crate::support::deployment::Status) -> i64| Some(deployment.map_or(0, of));
        let mut status = Self {
            observed_generation: Some(app.metadata.generation),
            replicas: count(|it| it.replicas),
            updated_replicas: count(|it| it.updated_replicas),
            ready_replicas: count(|it| it.ready_replicas),
            available_replicas: count(|it| it.available_replicas),
            selector: Some(desired::selector_text(app).into()),
            conditions: stored.conditions.clone(),
        };
        if observed.unknown {
            status.observed_generation = stored.observed_generation;
        } else {
            status.set_conditions(app, observed, now);
        }
        status
    }

    fn set_conditions(&mut self, app: &AppService, observed: &Observed, now: Timestamp) {
        let deployment = observed.deployment.as_deref();
        let is_reported =
            |it: &Deployment| is_current(it) || (!observed.deployment_changed && is_settled(app));
        let stall = observed.stalls.first().cloned();
        let is_failed = |it: &&Deployment| {
            is_reported(it) || unobserved_failure(app, observed, now) == Some(Duration::ZERO)
        };
        let stall = stall.or_else(|| deployment_stall(deployment.filter(is_failed)?));
        let desired = app.spec.replicas().or(deployment.map(Deployment::replicas));
        let desired = desired.unwrap_or(1);
        let complete = observed.pending.is_none()
            && deployment.is_some_and(|it| {
                let status = &it.status;
                let counts = [
                    status.replicas,
                    status.updated_replicas,
                    status.available_replicas,
                ];
                is_reported(it) && counts == [desired; 3]
            });
        let not_stalled = (Truth::False, "AsExpected", "No errors.".to_owned());
        let (ready, progressing, stalled) = match (stall, complete) {
            (Some(Stall { reason, message, .. }), _) => (
                (Truth::False, reason, message.clone()),
                (Truth::False, reason, message.clone()),
                (Truth::True, reason, message),
            ),
            (None, true) => (
                (Truth::True, "AllAvailable", self.rollout_message(app, desired)),
                (
                    Truth::False,
                    "Complete",
                    "All replicas are up to date.".to_owned(),
                ),
                not_stalled,
            ),
            (None, false) => {
                let (reason, message) = observed
                    .pending
                    .clone()
                    .unwrap_or_else(|| ("RollingOut", self.rollout_message(app, desired)));
                (
                    (Truth::False, reason, message.clone()),
                    (Truth::True, reason, message),
                    not_stalled,
                )
            }
        };
        for (type_, (status, reason, message)) in
            [(READY, ready), (PROGRESSING, progressing), (STALLED, stalled)]
        {
            let condition =
                Condition::new(type_, status, reason, &message).observed_generation(app.metadata.generation);
            conditions::set(&mut self.conditions, condition, now);
        }
    }

    fn rollout_message(&self, app: &AppService, desired: i64) -> String {
        let name = &app.spec.deployment_name;
        let (updated, available) = (self.updated_replicas, self.available_replicas);
        format!(
            "Deployment \"{name}\" has {} of {desired} updated and {} of {desired} available replicas.",
            updated.unwrap_or(0),
            available.unwrap_or(0)
        )
    }

    /// Returns the stall that needs an event: the stored status does not report it.
    pub(super) fn new_stall<'a>(&self, app: &AppService, observed: &'a Observed) -> Option<&'a Stall> {
        let stall = observed.stalls.first();
        let stall = stall.filter(|it| it.emit_event && !observed.unknown)?;
        let reported = |status: &Self| {
            let stalled = conditions::find(&status.conditions, STALLED)?;
            Some((stalled.status, stalled.reason.clone(), stalled.message.clone()))
        };
        (reported(self) != reported(&app.status)).then_some(stall)
    }

    /// Returns the fields that the controller writes, without transition times. Writing the same content again means that
    /// another client overwrote it.
    pub(super) fn content(&self) -> Value {
        let conditions = [READY, PROGRESSING, STALLED].map(|type_| {
            let condition = conditions::find(&self.conditions, type_);
            condition.map(|it| json!([it.status, it.observed_generation, it.reason, it.message]))
        });
        json!([self.numbers(), self.selector, conditions])
    }

    fn numbers(&self) -> [(&'static str, Option<i64>); 5] {
        [
            ("observedGeneration", self.observed_generation),
            ("replicas", self.replicas),
            ("updatedReplicas", self.updated_replicas),
            ("readyReplicas", self.ready_replicas),
            ("availableReplicas", self.available_replicas),
        ]
    }

    /// Returns the merge patch to this status from that of `app`, if they differ. `meta` is the current metadata.
    pub(super) fn patch(&self, app: &AppService, meta: &Meta) -> Option<Value> {
        let present = &app.status;
        let mut changes = Map::new();
        for ((field, new), (_, old)) in self.numbers().into_iter().zip(present.numbers()) {
            if new != old {
                changes.insert(field.to_owned(), json!(new));
            }
        }
        if self.selector != present.selector {
            changes.insert("selector".to_owned(), json!(self.selector));
        }
        if self.conditions != present.conditions {
            changes.insert("conditions".to_owned(), json!(self.conditions));
        }
        (!changes.is_empty()).then(|| json!({"metadata": meta.preconditions(), "status": changes}))
    }
}

/// Returns whether the Deployment controller has observed the current generation.
fn is_current(deployment: &Deployment) -> bool {
    deployment.status.observed_generation >= deployment.metadata.generation
}

/// Returns whether the stored status reports this generation of `app` as complete or stalled. Then a Deployment of a new
/// generation was changed by another client, in fields that the `AppService` does not set (an annotation is enough), and the
/// reported state holds until the Deployment controller has observed it.
fn is_settled(app: &AppService) -> bool {
    conditions::find(&app.status.conditions, PROGRESSING)
        .is_some_and(|it| it.status == Truth::False && it.observed_generation == app.metadata.generation)
}

/// Returns the failure that the conditions of a Deployment report.
fn deployment_stall(deployment: &Deployment) -> Option<Stall> {
    let conditions = &deployment.status.conditions;
    let stall = |reason, message: &str| Stall {
        reason,
        message: format!("Deployment \"{}\": {message}", deployment.metadata.name),
        emit_event: false,
    };
    if let Some(failure) = find(conditions, "ReplicaFailure").filter(|it| it.status == Truth::True) {
        return Some(stall("ReplicaFailure", &failure.message));
    }
    let stopped = find(conditions, "Progressing").filter(|it| it.status == Truth::False)?;
    let known = STOP_REASONS.iter().find(|it| stopped.reason == **it);
    Some(stall(
        known.copied().unwrap_or("DeploymentStalled"),
        &stopped.message,
    ))
}

/// Returns the time until the `ReplicaSet` that cannot be created is reported, if the Deployment has not observed its
/// generation. kube-controller-manager does not observe a generation before its `ReplicaSet` exists, so the failure may be
/// one of an earlier generation, which this one corrects: it is reported if it persists.
pub(super) fn unobserved_failure(app: &AppService, observed: &Observed, now: Timestamp) -> Option<Duration> {
    let deployment = observed.deployment.as_deref().filter(|it| !is_current(it))?;
    deployment_stall(deployment).filter(|it| it.reason == CREATE_ERROR)?;
    let progressing = conditions::find(&app.status.conditions, PROGRESSING);
    let progressing = progressing
        .filter(|it| !observed.deployment_changed && it.observed_generation == app.metadata.generation);
    let since = progressing.and_then(|it| it.last_transition_time).unwrap_or(now);
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some(UNOBSERVED_FAILURE_DELAY.saturating_sub(elapsed))
}

#[cfg(test)]
mod tests;
