//! The status of an owner, computed from the pods that a sync observed before it acted. The events of the pods that it
//! created lead to the next sync.
//!
//! Only changed fields are written. During a rollout each pod would change the status: an intermediate state is written once
//! it has lasted for [`STATUS_INTERVAL`].

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use steersman_manager::conditions::{self, Condition};
use steersman_manager::object::StringMap;

use super::plan::Claims;
use super::{Owner, OwnerKind};
pub(super) use crate::support::owner::Status;
use crate::support::pod_control::Failure;
use crate::support::write_backoff::digest;

/// The time for which an intermediate status is not written.
pub(super) const STATUS_INTERVAL: Duration = Duration::from_millis(100);
/// The condition of an owner whose pods cannot be created or deleted.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The result of the creates and deletes of a sync, for the condition [`REPLICA_FAILURE`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ScaleResult {
    /// The condition stays as it is.
    #[default]
    NotAttempted,
    Succeeded,
    Failed(Failure),
}

/// Computes the status of `owner` from the pods that a sync observed.
pub(super) fn compute(
    kind: &OwnerKind,
    owner: &Owner,
    claims: &Claims,
    result: &ScaleResult,
    now: Timestamp,
) -> Status {
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let pods = &claims.active;
    let labels = &owner.template().labels;
    let has_labels = |all: &StringMap| labels.iter().all(|(key, value)| all.get(key) == Some(value));
    let available = pods
        .iter()
        .filter(|it| it.available_in(owner.min_ready_seconds(), now) == Some(SignedDuration::ZERO));
    let selector = owner.selector().ok().filter(|_| kind.writes_selector);
    Status {
        replicas: count(pods.len()),
        fully_labeled_replicas: count(pods.iter().filter(|it| has_labels(&it.metadata.labels)).count()),
        ready_replicas: count(pods.iter().filter(|it| it.is_ready()).count()),
        available_replicas: count(available.count()),
        terminating_replicas: kind.counts_terminating.then(|| count(claims.terminating)),
        selector: selector.map(|it| it.to_string().into()),
        observed_generation: owner.metadata.generation,
        conditions: updated_conditions(&owner.status, owner.metadata.generation, result, now),
    }
}

/// Returns the conditions after an attempt to create or delete pods for `generation`. A new message of the same failure is
/// not a change: each write leads to the next attempt at once, and the API server may word the message differently each time.
pub(super) fn updated_conditions(
    current: &Status,
    generation: i64,
    result: &ScaleResult,
    now: Timestamp,
) -> Vec<Condition> {
    let mut all = current.conditions.clone();
    let same = |it: &Condition, reason: &str| {
        *it.type_ == *REPLICA_FAILURE && *it.reason == *reason && it.status == conditions::Status::True
    };
    match result {
        ScaleResult::NotAttempted => {}
        ScaleResult::Succeeded => drop(conditions::remove(&mut all, REPLICA_FAILURE)),
        ScaleResult::Failed(Failure { reason, .. })
            if current.observed_generation == generation && all.iter().any(|it| same(it, reason)) => {}
        ScaleResult::Failed(Failure { reason, message }) => {
            let failing = Condition::new(REPLICA_FAILURE, conditions::Status::True, reason, message);
            conditions::set(&mut all, failing, now);
        }
    }
    all
}

impl Status {
    /// Reports whether exactly the desired pods exist and all are available.
    pub(super) fn is_settled(&self, replicas: i64) -> bool {
        let counters = [self.replicas, self.ready_replicas, self.available_replicas];
        counters == [replicas; 3] && self.terminating_replicas.unwrap_or(0) == 0
    }

    /// Hashes the content without times and without the conditions of other clients. If the same content has to be written
    /// again, another client has overwritten it.
    pub(super) fn digest(&self) -> u64 {
        let numbers = [
            self.replicas,
            self.fully_labeled_replicas,
            self.ready_replicas,
            self.available_replicas,
            self.observed_generation,
        ];
        let failure = self.conditions.iter().find(|it| it.type_ == REPLICA_FAILURE);
        let failure = failure.map(|it| (it.status, &it.reason, &it.message));
        digest(&(numbers, self.terminating_replicas, &self.selector, failure))
    }

    /// Returns the fields to write over `current`, if any. Some API servers drop `terminatingReplicas` or `selector`: with
    /// `drops_fields`, a field that the current status does not have is written only together with other changes, or it
    /// would be written forever.
    pub(super) fn changes(&self, current: &Self, drops_fields: bool) -> Option<Value> {
        let mut changes = Map::new();
        let mut number = |field: &str, new: i64, old: i64| {
            if new != old {
                changes.insert(field.to_owned(), json!(new));
            }
        };
        number("replicas", self.replicas, current.replicas);
        number(
            "fullyLabeledReplicas",
            self.fully_labeled_replicas,
            current.fully_labeled_replicas,
        );
        number("readyReplicas", self.ready_replicas, current.ready_replicas);
        number(
            "availableReplicas",
            self.available_replicas,
            current.available_replicas,
        );
        if let (Some(new), Some(old)) = (self.terminating_replicas, current.terminating_replicas) {
            number("terminatingReplicas", new, old);
        }
        number(
            "observedGeneration",
            self.observed_generation,
            current.observed_generation,
        );
        if self.selector != current.selector && current.selector.is_some() {
            changes.insert("selector".to_owned(), json!(self.selector));
        }
        if self.conditions != current.conditions {
            changes.insert("conditions".to_owned(), json!(self.conditions));
        }
        if changes.is_empty() && drops_fields {
            return None;
        }
        if let (Some(new), None) = (self.terminating_replicas, current.terminating_replicas) {
            changes.insert("terminatingReplicas".to_owned(), json!(new));
        }
        if let (Some(new), None) = (&self.selector, &current.selector) {
            changes.insert("selector".to_owned(), json!(new));
        }
        if changes.is_empty() {
            return None;
        }
        // The one required field of a status.
        changes.insert("replicas".to_owned(), json!(self.replicas));
        Some(Value::Object(changes))
    }
}

/// Returns the time until the next ready pod becomes available, or `minReadySeconds` if it is not known when a pod became
/// ready.
pub(super) fn next_available(owner: &Owner, claims: &Claims, now: Timestamp) -> Option<Duration> {
    let seconds = owner.min_ready_seconds();
    let ready = claims.active.iter().filter(|it| it.is_ready());
    let times = ready.map(|it| it.available_in(seconds, now));
    let waiting: Vec<_> = times.filter(|it| *it != Some(SignedDuration::ZERO)).collect();
    match waiting.iter().flatten().min() {
        Some(next) => Some(Duration::try_from(*next).unwrap_or_default()),
        None => (!waiting.is_empty()).then(|| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests;
