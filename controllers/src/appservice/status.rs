//! The status of an `AppService`: what its Deployment counts, and three conditions.
//!
//! | type | true | false |
//! |---|---|---|
//! | `Ready` | all that is asked for is there and serves | not yet, or not any more: the reason says which |
//! | `Progressing` | it is on its way there | it has arrived, or it is stopped |
//! | `Stalled` | something stops it that will not pass by itself: the reason says what | nothing does |
//!
//! It is computed from everything that one sync has observed and done, and written once at its end, whether or not that
//! went well. What is not known because a request was not answered is left as it was.

use coxswain_manager::conditions::{self, Condition, Status as Holds};
use coxswain_manager::object::Meta;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::children;
use crate::api::app_service::AppService;
pub use crate::api::app_service::Status;
use crate::support::deployment::Deployment;
use crate::support::deployment::condition::find;

/// Says whether all that is asked for is there and serves.
pub const READY: &str = "Ready";
/// Says whether it is on its way there.
pub const PROGRESSING: &str = "Progressing";
/// Says whether something stops it.
pub const STALLED: &str = "Stalled";

/// Something that stops an `AppService`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Whether an event tells it: not for what is its Deployment's to tell.
    pub told: bool,
}

/// What a sync has come to.
#[derive(Clone, Debug, Default)]
pub struct Observed<'a> {
    /// The Deployment, as it is after what was done.
    pub deployment: Option<&'a Deployment>,
    /// What stops it, the worst first.
    pub obstacles: Vec<Obstacle>,
    /// What is still to be seen, in one word and in a sentence: nothing stops it, and it has not arrived.
    pub awaited: Option<(&'static str, String)>,
    /// A request was not answered: the conditions stay as they are.
    pub unclear: bool,
    /// The Deployment was made or changed just now: what it says of itself is of before.
    pub changed: bool,
}

impl Status {
    /// The status of `app` by what was observed.
    #[must_use]
    pub fn of(app: &AppService, observed: &Observed<'_>, now: Timestamp) -> Self {
        let stored = &app.status;
        let counted = observed.deployment.map(|it| &it.status);
        let count = |of: fn(&crate::support::deployment::Status) -> i64| Some(counted.map_or(0, of));
        let mut status = Self {
            observed_generation: Some(app.metadata.generation),
            replicas: count(|it| it.replicas),
            updated_replicas: count(|it| it.updated_replicas),
            ready_replicas: count(|it| it.ready_replicas),
            available_replicas: count(|it| it.available_replicas),
            selector: Some(children::selector_text(app).into()),
            conditions: stored.conditions.clone(),
        };
        if observed.unclear {
            // Nothing is said of what nobody knows.
            status.observed_generation = stored.observed_generation;
        } else {
            status.judge(app, observed, now);
        }
        status
    }

    fn judge(&mut self, app: &AppService, observed: &Observed<'_>, now: Timestamp) {
        let tells = |it: &Deployment| is_current(it) || (!observed.changed && is_at_rest(app));
        let obstacle = observed.obstacles.first().cloned().or_else(|| {
            let deployment = observed.deployment.filter(|it| tells(it))?;
            troubled(deployment)
        });
        let present = observed.deployment.map(Deployment::replicas);
        let wanted = app.spec.replicas().or(present).unwrap_or(1);
        let available = self.available_replicas.unwrap_or(0);
        let arrived = observed.awaited.is_none()
            && observed.deployment.is_some_and(|it| {
                let status = &it.status;
                let counts = [
                    status.replicas,
                    status.updated_replicas,
                    status.available_replicas,
                ];
                tells(it) && counts == [wanted; 3]
            });
        let (ready, progressing, stalled) = match (&obstacle, arrived) {
            (Some(obstacle), _) => (
                (Holds::False, obstacle.reason, obstacle.message.clone()),
                (Holds::False, obstacle.reason, obstacle.message.clone()),
                (Holds::True, obstacle.reason, obstacle.message.clone()),
            ),
            (None, true) => (
                (
                    Holds::True,
                    "AllAvailable",
                    format!("{available} of {wanted} replicas are available"),
                ),
                (Holds::False, "Complete", "All is as it is asked for".to_owned()),
                going(),
            ),
            (None, false) => {
                let (reason, message) = observed.awaited.clone().unwrap_or_else(|| {
                    let message = format!("{available} of {wanted} replicas are available");
                    ("RollingOut", message)
                });
                (
                    (Holds::False, reason, message.clone()),
                    (Holds::True, reason, message),
                    going(),
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

    /// The obstacle that is worth an event: it was not there before, or it was another one.
    #[must_use]
    pub fn news<'a>(&self, app: &AppService, observed: &'a Observed<'_>) -> Option<&'a Obstacle> {
        let obstacle = observed
            .obstacles
            .first()
            .filter(|it| it.told && !observed.unclear)?;
        let said = |status: &Self| {
            let stalled = conditions::find(&status.conditions, STALLED)?;
            Some((stalled.status, stalled.reason.clone(), stalled.message.clone()))
        };
        (said(self) != said(&app.status)).then_some(obstacle)
    }

    /// What is said here, apart from when: the same again is said only if somebody else has said something different.
    #[must_use]
    pub fn said(&self) -> Value {
        let conditions = [READY, PROGRESSING, STALLED].map(|type_| {
            let condition = conditions::find(&self.conditions, type_);
            condition.map(|it| json!([it.status, it.observed_generation, it.reason, it.message]))
        });
        json!([self.numbers(), self.selector, conditions,])
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

    /// The patch that makes this the status of `app`, whose metadata is now `meta`; none if nothing has changed.
    #[must_use]
    pub fn patch(&self, app: &AppService, meta: &Meta) -> Option<Value> {
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

fn going() -> (Holds, &'static str, String) {
    (Holds::False, "AsExpected", "Nothing stops it".to_owned())
}

/// Whether its status is about what it asks for now.
fn is_current(deployment: &Deployment) -> bool {
    deployment.status.observed_generation >= deployment.metadata.generation
}

/// Whether it was said, of what `app` asks for now, that it has arrived, or is stopped. Then a Deployment whose own
/// controller has not looked yet was changed by somebody else, in what is none of the `AppService`'s business: an
/// annotation is enough. Whatever comes of that is seen when it has looked.
fn is_at_rest(app: &AppService) -> bool {
    conditions::find(&app.status.conditions, PROGRESSING)
        .is_some_and(|it| it.status == Holds::False && it.observed_generation == app.metadata.generation)
}

/// What a Deployment says of itself that will not pass.
fn troubled(deployment: &Deployment) -> Option<Obstacle> {
    let conditions = &deployment.status.conditions;
    let about = |message: &str| format!("Deployment {}: {message}", deployment.metadata.name);
    if let Some(failure) = find(conditions, "ReplicaFailure").filter(|it| it.status == Holds::True) {
        return Some(Obstacle {
            reason: "ReplicaFailure",
            message: about(&failure.message),
            told: false,
        });
    }
    let late = find(conditions, "Progressing").filter(|it| it.status == Holds::False)?;
    (late.reason == "ProgressDeadlineExceeded").then(|| Obstacle {
        reason: "ProgressDeadlineExceeded",
        message: about(&late.message),
        told: false,
    })
}

#[cfg(test)]
mod tests;
