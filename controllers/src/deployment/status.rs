//! The status of a Deployment: sums over its `ReplicaSets`, and the Available condition.
//!
//! Only changed fields are written, in one patch with the revision annotation of the Deployment: the status subresource
//! accepts annotations, and the generation does not change.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_manager::conditions::Status as ConditionStatus;
use steersman_manager::object::Text;

use super::bounds::Bounds;
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};
use crate::support::annotations::{REVISION, TEMPLATE_CHANGED};
use crate::support::deployment::Deployment;
pub use crate::support::deployment::Status;
use crate::support::deployment::condition::{self, Condition};
use crate::support::write_backoff::digest;

/// The type of the condition that reports the progress of a rollout.
pub const PROGRESSING: &str = "Progressing";
/// The type of the condition that reports a failure to create or delete pods.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The type of the condition that reports minimum availability.
pub const AVAILABLE: &str = "Available";

impl Status {
    /// Sums the counters of the `ReplicaSets`, with the present conditions.
    #[must_use]
    pub fn from_replica_sets(deployment: &Deployment, sets: &ReplicaSets) -> Self {
        let sum = |of: fn(&PlannedReplicaSet) -> i64| sets.all().map(of).sum::<i64>();
        let available = sum(|it| it.object.status.available_replicas);
        let stored = &deployment.status;
        Self {
            observed_generation: deployment.metadata.generation,
            replicas: sum(|it| it.object.status.replicas),
            updated_replicas: sets.new.as_ref().map_or(0, |it| it.object.status.replicas),
            ready_replicas: sum(|it| it.object.status.ready_replicas),
            available_replicas: available,
            unavailable_replicas: (sets.replicas() - available).max(0),
            terminating_replicas: sets.all().map(terminating).sum(),
            collision_count: stored.collision_count,
            conditions: stored.conditions.clone(),
        }
    }

    /// Sets the Available condition.
    pub fn set_available(&mut self, bounds: &Bounds, now: Timestamp) {
        let (status, reason, message) = if self.available_replicas >= bounds.min_available() {
            let message = "Deployment has minimum availability.";
            (ConditionStatus::True, "MinimumReplicasAvailable", message)
        } else {
            let message = "Deployment does not have minimum availability.";
            (ConditionStatus::False, "MinimumReplicasUnavailable", message)
        };
        condition::set(
            &mut self.conditions,
            Condition::new(AVAILABLE, status, reason, message, now),
        );
    }

    /// Reports whether the rollout is complete: all desired pods have the current template and are available, and there
    /// are no other pods.
    #[must_use]
    pub fn is_complete(&self, deployment: &Deployment) -> bool {
        let counters = [self.updated_replicas, self.replicas, self.available_replicas];
        counters == [deployment.replicas(); 3] && self.observed_generation >= deployment.metadata.generation
    }

    /// Reports whether the rollout has progressed since the status `before`.
    #[must_use]
    pub fn has_progressed(&self, before: &Self) -> bool {
        self.updated_replicas > before.updated_replicas
            || self.replicas - self.updated_replicas < before.replicas - before.updated_replicas
            || self.ready_replicas > before.ready_replicas
            || self.available_replicas > before.available_replicas
    }

    /// Identifies the content without times and conditions of other clients. If it is written again unchanged, another
    /// client has overwritten it.
    #[must_use]
    pub fn digest(&self, revision: Option<&Text>) -> u64 {
        let numbers = [
            self.observed_generation,
            self.replicas,
            self.updated_replicas,
            self.ready_replicas,
            self.available_replicas,
            self.unavailable_replicas,
        ];
        let own = [AVAILABLE, PROGRESSING, REPLICA_FAILURE];
        let own = own.map(|own| self.conditions.iter().find(|it| it.type_ == own));
        let own = own.map(|it| it.map(|it| (it.status, &it.reason, &it.message)));
        let optional = [self.terminating_replicas, self.collision_count];
        digest(&(numbers, optional, own, revision))
    }

    /// Returns the patch to this status and revision; none if nothing has changed. If the API server drops
    /// terminatingReplicas, that field alone is not a reason to write unless it is already present.
    ///
    /// Also removes [`TEMPLATE_CHANGED`], which `kubectl rollout undo` copies from a `ReplicaSet`.
    #[must_use]
    pub fn patch(
        &self,
        deployment: &Deployment,
        revision: Option<&Text>,
        drops_fields: bool,
    ) -> Option<Value> {
        let present = &deployment.status;
        let mut changes = Map::new();
        for (field, new, old) in [
            (
                "observedGeneration",
                self.observed_generation,
                present.observed_generation,
            ),
            ("replicas", self.replicas, present.replicas),
            ("updatedReplicas", self.updated_replicas, present.updated_replicas),
            ("readyReplicas", self.ready_replicas, present.ready_replicas),
            (
                "availableReplicas",
                self.available_replicas,
                present.available_replicas,
            ),
            (
                "unavailableReplicas",
                self.unavailable_replicas,
                present.unavailable_replicas,
            ),
        ] {
            if new != old {
                changes.insert(field.to_owned(), json!(new));
            }
        }
        if self.collision_count != present.collision_count {
            changes.insert("collisionCount".to_owned(), json!(self.collision_count));
        }
        if self.conditions != present.conditions {
            changes.insert("conditions".to_owned(), json!(self.conditions));
        }
        let revision = revision.filter(|it| deployment.annotations.get(REVISION) != Some(it));
        let counted = self.terminating_replicas != present.terminating_replicas;
        let count_is_a_reason = counted && !(drops_fields && present.terminating_replicas.is_none());
        let mut annotations = Map::new();
        if let Some(revision) = revision {
            annotations.insert(REVISION.to_owned(), json!(revision));
        }
        if deployment.annotations.get(TEMPLATE_CHANGED).is_some() {
            annotations.insert(TEMPLATE_CHANGED.to_owned(), Value::Null);
        }
        if changes.is_empty() && annotations.is_empty() && !count_is_a_reason {
            return None;
        }
        if counted {
            changes.insert("terminatingReplicas".to_owned(), json!(self.terminating_replicas));
        }
        let mut metadata = deployment.metadata.preconditions();
        if !annotations.is_empty() {
            metadata["annotations"] = Value::Object(annotations);
        }
        Some(json!({"metadata": metadata, "status": changes}))
    }
}

/// A `ReplicaSet` without an observed generation has no terminating pods.
fn terminating(set: &PlannedReplicaSet) -> Option<i64> {
    let status = &set.object.status;
    status
        .terminating_replicas
        .or((status.observed_generation == 0).then_some(0))
}

#[cfg(test)]
mod tests;
