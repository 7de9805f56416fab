//! Memory of an `AppService` between syncs: recent writes, refused applies, and whether its dependents are orphaned.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use steersman_manager::object::Meta;
use tokio::time::Instant;

use crate::support::pod_template::Canonical;
use crate::support::template_hash::Hash;
use crate::support::write_backoff::WriteBackoff;

/// The memory of one `AppService`.
#[derive(Debug, Default)]
pub(super) struct History {
    writes: BTreeMap<WriteTarget, WriteBackoff<Hash>>,
    conflicts: BTreeMap<WriteTarget, FieldConflict>,
    /// The `AppService` was seen with the `orphan` finalizer.
    pub(super) orphaned: bool,
}

/// A write that another client may undo. Repeated writes of the same content to one target are slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteTarget {
    Deployment,
    DeploymentOwner,
    Service,
    ServiceOwner,
    Finalizer,
    Status,
}

/// An apply that failed because other field managers own some of its fields.
#[derive(Clone, Debug)]
pub(super) struct FieldConflict {
    desired: Hash,
    generation: i64,
    /// The same apply is not sent again before this time, unless the child changes.
    pub(super) retry_at: Instant,
    pub(super) message: String,
}

impl History {
    /// Returns the delay before the same content may be written to `target` again.
    pub(super) fn write_delay(&self, target: WriteTarget, content: &Value, now: Instant) -> Duration {
        let writes = self.writes.get(&target);
        writes.map_or(Duration::ZERO, |it| it.wait(hash(content), now))
    }

    /// Records a write.
    pub(super) fn record_write(&mut self, target: WriteTarget, content: &Value, now: Instant) {
        let writes = self.writes.entry(target).or_default();
        writes.wrote(hash(content), now);
    }

    /// Returns the conflict of the same apply to the same generation of the child, until its retry is due.
    pub(super) fn conflict(
        &self,
        target: WriteTarget,
        desired: &Value,
        child: &Meta,
        now: Instant,
    ) -> Option<FieldConflict> {
        let conflict = self.conflicts.get(&target)?;
        let is_same = conflict.desired == hash(desired) && conflict.generation == child.generation;
        (is_same && now < conflict.retry_at).then(|| conflict.clone())
    }

    /// Records a conflict.
    pub(super) fn record_conflict(&mut self, target: WriteTarget, conflict: FieldConflict) {
        self.conflicts.insert(target, conflict);
    }
}

impl FieldConflict {
    pub(super) fn new(desired: &Value, child: &Meta, retry_at: Instant, message: String) -> Self {
        Self {
            desired: hash(desired),
            generation: child.generation,
            retry_at,
            message,
        }
    }
}

fn hash(content: &Value) -> Hash {
    Hash::of(&Canonical::of(&content.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;
    use serde_json::json;
    use steersman_manager::env::Clock;

    #[test]
    fn repeated_write_of_the_same_content_is_delayed() {
        let now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let (one, two) = (json!({"replicas": 1}), json!({"replicas": 2}));
        let mut history = History::default();
        for _ in 0..3 {
            assert_eq!(
                history.write_delay(WriteTarget::Deployment, &one, now),
                Duration::ZERO
            );
            history.record_write(WriteTarget::Deployment, &one, now);
        }
        assert!(!history.write_delay(WriteTarget::Deployment, &one, now).is_zero());
        for (target, content) in [(WriteTarget::Deployment, &two), (WriteTarget::Service, &one)] {
            assert_eq!(
                history.write_delay(target, content, now),
                Duration::ZERO,
                "{target:?} {content}"
            );
        }
    }

    #[test]
    fn conflict_holds_for_the_same_apply_until_its_retry() {
        let child = |generation: i64| Meta {
            generation,
            ..Meta::default()
        };
        let (one, two) = (json!({"replicas": 1}), json!({"replicas": 2}));
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let at = |second| start + Duration::from_secs(second);
        let mut history = History::default();
        let conflict = FieldConflict::new(&one, &child(5), at(10), "conflict".to_owned());
        history.record_conflict(WriteTarget::Deployment, conflict);
        for (target, desired, generation, second, expected) in [
            (WriteTarget::Deployment, &one, 5, 9, Some("conflict")),
            (WriteTarget::Deployment, &one, 5, 10, None),
            (WriteTarget::Deployment, &one, 5, 11, None),
            (WriteTarget::Deployment, &two, 5, 9, None),
            (WriteTarget::Deployment, &one, 6, 9, None),
            (WriteTarget::Service, &one, 5, 9, None),
        ] {
            let conflict = history.conflict(target, desired, &child(generation), at(second));
            assert_eq!(
                conflict.map(|it| it.message).as_deref(),
                expected,
                "{target:?} {desired}, generation {generation}, second {second}"
            );
        }
    }
}
