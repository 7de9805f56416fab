//! Execution of a plan: the order of its writes, and the consequences of a failure.

use std::time::Duration;

use steersman_manager::client::ClientError;
use steersman_manager::events::EventType;
use steersman_manager::object::{Text, Version};
use tokio::time::Instant;

use super::act::{CreateOutcome, Executor, SyncError};
use super::new_replica_set::NewReplicaSet;
use super::plan::Plan;
use super::progress::{self, CreationReport};
use super::reconcile::DeploymentReconciler;
use super::replica_sets::PlannedReplicaSet;
use crate::support::errors;
use crate::support::write_backoff::Delay;

/// The time until another create is sent in a terminating namespace, regardless of events.
const NAMESPACE_TERMINATING_RETRY: Duration = Duration::from_mins(5);

/// The result of executing a plan.
pub(super) struct Outcome {
    pub(super) creation: CreationReport,
    /// The error to retry.
    pub(super) error: Option<ClientError>,
    /// The time until the next attempt, if a write is delayed.
    pub(super) wait: Option<Duration>,
}

impl DeploymentReconciler {
    /// Executes the plan as far as possible and updates it to the result. The `ReplicaSet` named `first` is written
    /// first. Fails if the status is not to be written.
    pub(super) async fn execute(
        &self,
        executor: &Executor<'_>,
        plan: &mut Plan,
        first: Option<&Text>,
    ) -> Result<Outcome, SyncError> {
        let mut outcome = Outcome {
            creation: CreationReport::None,
            error: None,
            wait: None,
        };
        if let Some(new) = plan.create.clone() {
            self.create(executor, plan, &new, &mut outcome).await?;
            if outcome.error.is_some() || outcome.wait.is_some() {
                discard_changes(plan);
                return Ok(outcome);
            }
        }
        let mut sets: Vec<&PlannedReplicaSet> = plan.sets.all().filter(|it| it.patch().is_some()).collect();
        sets.sort_by_key(|it| Some(&it.object.metadata.name) != first);
        for set in sets {
            let meta = &set.object.metadata;
            let before = self.begin_write(executor, &meta.name, meta.resource_version.clone());
            let written = executor.update(set).await;
            self.end_write(executor, written.as_ref().err(), before);
            match written {
                Ok(()) => {}
                Err(error) if ends_sync(&error) => return Err(error.into()),
                Err(error) => {
                    outcome.error = Some(error);
                    discard_changes(plan);
                    return Ok(outcome);
                }
            }
        }
        for set in &plan.delete {
            match executor.delete(set).await {
                Ok(()) => {}
                Err(error) if ends_sync(&error) => return Err(error.into()),
                // The rollout is complete, whether or not old ReplicaSets remain.
                Err(error) => errors::keep(&mut outcome.error, error),
            }
        }
        Ok(outcome)
    }

    /// Creates the `ReplicaSet` of the current template.
    async fn create(
        &self,
        executor: &Executor<'_>,
        plan: &mut Plan,
        new: &NewReplicaSet,
        outcome: &mut Outcome,
    ) -> Result<(), SyncError> {
        let (key, now) = (executor.key, executor.env.clock.now());
        outcome.wait = self.create_delay(executor, new, now, &mut outcome.creation);
        if outcome.wait.is_some() {
            return Ok(());
        }
        let before = self.begin_write(executor, &new.name, Version::none());
        let created = executor.create(new).await;
        let error = match &created {
            Err(error) | Ok(CreateOutcome::Failed(error)) => Some(error),
            Ok(_) => None,
        };
        self.end_write(executor, error, before);
        match created? {
            CreateOutcome::Created(set) => {
                self.memory.with(key, |it| it.creates.wrote(new.hash, now));
                outcome.creation = CreationReport::Created(new.name.clone());
                plan.sets.new = Some(PlannedReplicaSet::of(set));
            }
            CreateOutcome::Existing(set) => plan.sets.new = Some(PlannedReplicaSet::of(set)),
            CreateOutcome::NameCollision(error) => {
                executor.count_collision().await?;
                return Err(error.into());
            }
            CreateOutcome::NamespaceTerminating => {
                let retry = NAMESPACE_TERMINATING_RETRY;
                self.memory
                    .with(key, |it| it.no_creates_before = Some(now + retry));
                outcome.wait = Some(retry);
            }
            // The outcome is unknown, or the API server postpones the create: it is sent again under the same name.
            CreateOutcome::Failed(error) if error.code().is_none() || error.is_throttled() => {
                return Err(error.into());
            }
            CreateOutcome::Failed(error) => {
                let (name, reason) = (new.name.clone(), errors::message(&error));
                let message = format!("Failed to create new replica set \"{name}\": {reason}");
                executor.event(EventType::Warning, "ReplicaSetCreateError", &message);
                outcome.creation = CreationReport::Failed { name, error: reason };
                outcome.error = Some(error);
            }
        }
        Ok(())
    }

    /// Returns the time until the create may be sent: a terminating namespace or the backoff of the template delays it.
    /// The backoff is reported by one event per create.
    fn create_delay(
        &self,
        executor: &Executor<'_>,
        new: &NewReplicaSet,
        now: Instant,
        report: &mut CreationReport,
    ) -> Option<Duration> {
        let (terminating, delay) = self.memory.with(executor.key, |it| {
            let terminating = it.no_creates_before.map(|it| it.saturating_duration_since(now));
            (terminating, it.creates.delay(new.hash, now))
        })?;
        if let Some(left) = terminating.filter(|it| !it.is_zero()) {
            return Some(left);
        }
        let Delay {
            left,
            written: created,
            is_new,
        } = delay?;
        let message = format!(
            "Created {created} replica sets for the current pod template, and none of them remained. \
             Creating replica set \"{}\" is delayed by up to a minute.",
            new.name
        );
        if is_new {
            executor.event(EventType::Warning, progress::CREATE_BACK_OFF, &message);
        }
        *report = CreationReport::Delayed(message);
        Some(left)
    }
}

fn ends_sync(error: &ClientError) -> bool {
    error.is_conflict() || matches!(error, ClientError::Fenced { .. })
}

/// Resets the planned sizes to the observed ones, for a status after a failure.
fn discard_changes(plan: &mut Plan) {
    plan.revision = None;
    for set in plan.sets.all_mut() {
        set.replicas = set.object.replicas();
    }
}
