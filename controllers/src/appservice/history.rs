//! Memory of an `AppService` between syncs: recent writes, and whether its dependents are orphaned.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::support::pod_template::Canonical;
use crate::support::template_hash::Hash;
use crate::support::write_backoff::WriteBackoff;

/// The memory of one `AppService`.
#[derive(Debug, Default)]
pub(super) struct History {
    writes: BTreeMap<WriteTarget, Writes>,
    /// No child is created before this time: the namespace is terminating.
    pub(super) no_creates_before: Option<Instant>,
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

/// The writes to one target.
#[derive(Debug, Default)]
struct Writes {
    backoff: WriteBackoff<Hash>,
    /// The target as messages name it, with the fields and field managers of the last conflict.
    name: String,
}

impl History {
    /// Returns the delay before the same content may be written to `target` again.
    pub(super) fn write_delay(&self, target: WriteTarget, content: &Value, now: Instant) -> Duration {
        let writes = self.writes.get(&target);
        writes.map_or(Duration::ZERO, |it| it.backoff.wait(hash(content), now))
    }

    /// Records a write to `target`, which messages name `name`.
    pub(super) fn record_write(&mut self, target: WriteTarget, content: &Value, name: String, now: Instant) {
        let writes = self.writes.entry(target).or_default();
        writes.backoff.wrote(hash(content), now);
        writes.name = name;
    }

    /// Forgets the writes to `target`, which is no longer desired.
    pub(super) fn forget(&mut self, target: WriteTarget) {
        self.writes.remove(&target);
    }

    /// Returns the targets that other clients keep changing: the delay before the next write, and the name. Other clients
    /// see the status; its own delay is not reported in it.
    pub(super) fn delayed(&self, now: Instant) -> Vec<(Duration, String)> {
        let reported = self.writes.iter().filter(|(it, _)| **it != WriteTarget::Status);
        let delays = reported.map(|(_, it)| (it.backoff.wait_of_last(now), it.name.clone()));
        delays.filter(|(delay, _)| !delay.is_zero()).collect()
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
        let name = "Deployment \"web\"".to_owned();
        for _ in 0..5 {
            assert_eq!(
                history.write_delay(WriteTarget::Deployment, &one, now),
                Duration::ZERO
            );
            assert_eq!(history.delayed(now), []);
            history.record_write(WriteTarget::Deployment, &one, name.clone(), now);
        }
        assert_eq!(history.delayed(now), [(Duration::from_secs(10), name)]);
        assert_eq!(history.delayed(now + Duration::from_secs(10)), []);
        assert!(!history.write_delay(WriteTarget::Deployment, &one, now).is_zero());
        for (target, content) in [(WriteTarget::Deployment, &two), (WriteTarget::Service, &one)] {
            assert_eq!(
                history.write_delay(target, content, now),
                Duration::ZERO,
                "{target:?} {content}"
            );
        }
    }
}
