//! The status of a Deployment: sums over its `ReplicaSets`, and what is said of them.
//!
//! Of a status only what has changed is written, in one patch with the revision of the Deployment: where a status is
//! written, annotations can be, and that does not count as a change of what is wanted.

use coxswain_manager::conditions::Status as Holds;
use coxswain_manager::object::Text;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::bounds::Bounds;
use super::progress::{PROGRESSING, REPLICA_FAILURE};
use super::sets::{Set, Sets};
use crate::support::annotations::REVISION;
use crate::support::deployment::Deployment;
pub use crate::support::deployment::Status;
use crate::support::deployment::condition::{self, Condition};
use crate::support::write_backoff::digest;

/// Says whether enough pods serve.
pub const AVAILABLE: &str = "Available";

impl Status {
    /// What is counted, with the conditions as they are.
    #[must_use]
    pub fn counted(deployment: &Deployment, sets: &Sets) -> Self {
        let sum = |of: fn(&Set) -> i64| sets.all().map(of).sum::<i64>();
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

    /// Says whether enough pods serve.
    pub fn judge(&mut self, bounds: &Bounds, now: Timestamp) {
        let (status, reason, message) = if self.available_replicas >= bounds.min_available() {
            let message = "Deployment has minimum availability.";
            (Holds::True, "MinimumReplicasAvailable", message)
        } else {
            let message = "Deployment does not have minimum availability.";
            (Holds::False, "MinimumReplicasUnavailable", message)
        };
        condition::set(
            &mut self.conditions,
            Condition::new(AVAILABLE, status, reason, message, now),
        );
    }

    /// Whether a rollout is at its end: all pods that are wanted are of the present template, and serve, and there are no
    /// others.
    #[must_use]
    pub fn is_complete(&self, deployment: &Deployment) -> bool {
        let counters = [self.updated_replicas, self.replicas, self.available_replicas];
        counters == [deployment.replicas(); 3] && self.observed_generation >= deployment.metadata.generation
    }

    /// Whether a rollout has come further than `before`.
    #[must_use]
    pub fn is_further(&self, before: &Self) -> bool {
        self.updated_replicas > before.updated_replicas
            || self.replicas - self.updated_replicas < before.replicas - before.updated_replicas
            || self.ready_replicas > before.ready_replicas
            || self.available_replicas > before.available_replicas
    }

    /// Identifies the content, apart from times and from the conditions of other clients. A status that is written again
    /// without a change of it was overwritten by another client.
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
        digest(&(numbers, self.collision_count, own, revision))
    }

    /// The patch that makes this the status of `deployment`, and `revision` its revision; none if nothing has changed. A
    /// server that does not know of terminating pods would be told of them for ever: where it says nothing of them, they
    /// are written with the rest, and are no reason to write.
    #[must_use]
    pub fn patch(&self, deployment: &Deployment, revision: Option<&Text>) -> Option<Value> {
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
        if changes.is_empty() && revision.is_none() && !(counted && present.terminating_replicas.is_some()) {
            return None;
        }
        if counted {
            changes.insert("terminatingReplicas".to_owned(), json!(self.terminating_replicas));
        }
        let mut metadata = deployment.metadata.preconditions();
        if let Some(revision) = revision {
            metadata["annotations"] = json!({REVISION: revision});
        }
        Some(json!({"metadata": metadata, "status": changes}))
    }
}

/// One that nobody has looked at has none on their way out.
fn terminating(set: &Set) -> Option<i64> {
    let status = &set.object.status;
    status
        .terminating_replicas
        .or((status.observed_generation == 0).then_some(0))
}

#[cfg(test)]
mod tests;
