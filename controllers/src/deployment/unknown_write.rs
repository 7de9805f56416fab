//! A write to a `ReplicaSet` with an unknown outcome.
//!
//! A write is remembered before it is sent, until its outcome is known. The next sync reads the object live: if it
//! shows the write, the caches must show it too before the next step. If not, the request may still be in flight. Then
//! the next step must first write the same name, or the same resourceVersion: the API server accepts only one of the
//! two. A step without such a write waits until the request has timed out; otherwise both could succeed and exceed the
//! bounds together.

use std::time::Duration;

use steersman_manager::client::ClientError;
use steersman_manager::object::{Text, Version};
use tokio::time::Instant;

use super::REPLICA_SETS;
use super::act::Executor;
use super::plan::Plan;
use super::reconcile::DeploymentReconciler;

/// The API server's timeout of a write.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(30);

/// A write with an unknown outcome.
#[derive(Clone, Debug)]
pub struct UnknownWrite {
    /// The name of the `ReplicaSet`.
    pub name: Text,
    /// The version before the write; none for a create.
    pub version: Version,
    /// The time of the last sign of life of the request.
    pub at: Instant,
}

impl UnknownWrite {
    /// Returns how much longer the request may be in flight.
    #[must_use]
    pub fn time_left(&self, now: Instant) -> Duration {
        IN_FLIGHT_MAX.saturating_sub(now.duration_since(self.at))
    }

    /// Reports whether the plan excludes this write, or writes nothing.
    #[must_use]
    pub fn allows(&self, plan: &Plan) -> bool {
        if let Some(create) = &plan.create {
            return create.name == self.name;
        }
        let mut written = plan.sets.all().filter(|it| it.patch().is_some()).peekable();
        written.peek().is_none() || written.any(|it| it.object.metadata.name == self.name)
    }
}

impl DeploymentReconciler {
    /// Finds the outcome of an unknown write. Returns the write if it may still be in flight.
    pub(super) async fn resolve_unknown_write(
        &self,
        executor: &Executor<'_>,
    ) -> Result<Option<UnknownWrite>, ClientError> {
        let key = executor.key;
        let unknown = self.memory.with(key, |it| it.unknown_write.clone());
        let Some(unknown) = unknown.flatten() else {
            return Ok(None);
        };
        let live = executor.get_set(&unknown.name).await?;
        let version = live.as_ref().map(|it| it.resource_version.clone());
        if version.unwrap_or_else(Version::none) == unknown.version {
            if !unknown.time_left(executor.env.clock.now()).is_zero() {
                return Ok(Some(unknown));
            }
        } else if let Some(live) = live {
            let cached = self.sets.get(&live.key()).present();
            let seen = cached.is_some_and(|it| it.metadata.uid == live.uid);
            executor.record_write(&REPLICA_SETS, &live, seen);
        }
        self.memory.with(key, |it| it.unknown_write = None);
        Ok(None)
    }

    /// Remembers a write that is about to be sent. Returns the write remembered before.
    pub(super) fn begin_write(
        &self,
        executor: &Executor<'_>,
        name: &Text,
        version: Version,
    ) -> Option<UnknownWrite> {
        let write = UnknownWrite {
            name: name.clone(),
            version,
            at: executor.env.clock.now(),
        };
        self.memory
            .with(executor.key, |it| it.unknown_write.replace(write))
            .flatten()
    }

    /// Forgets a write with a known outcome. After an error the write remembered `before` is unknown again.
    pub(super) fn end_write(
        &self,
        executor: &Executor<'_>,
        error: Option<&ClientError>,
        before: Option<UnknownWrite>,
    ) {
        let now = executor.env.clock.now();
        self.memory
            .with(executor.key, |it| match (error, &mut it.unknown_write) {
                (Some(error), Some(unknown)) if error.is_unknown_outcome() => unknown.at = now,
                (Some(_), unknown) => *unknown = before,
                (None, unknown) => *unknown = None,
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;
    use serde_json::json;
    use steersman_manager::env::Clock;

    use crate::deployment::tests::simulation::Simulation;

    #[test]
    fn unknown_write_allows_only_plans_that_exclude_it() {
        let unknown = |name: &str| UnknownWrite {
            name: name.into(),
            version: Version::none(),
            at: Clock::starting_at(Timestamp::UNIX_EPOCH).now(),
        };
        let mut simulation = Simulation::new(&json!({"replicas": 3}));
        let created = simulation.plan();
        let name = created.create.as_ref().expect("a create").name.clone();
        assert!(unknown(&name).allows(&created) && !unknown("other").allows(&created));
        assert!(simulation.settle(|_| {}));
        assert!(unknown("other").allows(&simulation.plan()), "no writes");
        simulation.update(&json!({"replicas": 5}));
        let scaled = simulation.plan();
        assert!(unknown(&name).allows(&scaled) && !unknown("other").allows(&scaled));
        simulation.update(&json!({"template": {"spec": {"image": "two"}}, "replicas": 3}));
        assert!(
            !unknown(&name).allows(&simulation.plan()),
            "another name is created first"
        );
    }

    #[test]
    fn unknown_write_times_out() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let now = clock.now();
        let unknown = UnknownWrite {
            name: "a".into(),
            version: Version::none(),
            at: now,
        };
        assert_eq!(unknown.time_left(now), IN_FLIGHT_MAX);
        assert_eq!(unknown.time_left(now + 2 * IN_FLIGHT_MAX), Duration::ZERO);
    }
}
