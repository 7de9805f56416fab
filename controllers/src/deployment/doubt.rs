//! A write to a `ReplicaSet` of which nobody knows whether it was done.
//!
//! It is remembered before it is sent, until it is known what became of it. The next sync looks: if the object shows it, the
//! caches have to show it too before another step. If not, it may still be on its way. Then the same name, or the same
//! version, must be written first of all: only one of the two can be done. A step without that waits until the server has
//! given up; otherwise both could be done, and be more together than there may be.

use std::time::Duration;

use coxswain_manager::object::{Text, Version};
use tokio::time::Instant;

use super::plan::Plan;
use super::sets::Set;

/// For how long a write may be on its way: the server was told to give up after that.
const UNDER_WAY: Duration = Duration::from_secs(30);

/// Such a write.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// The `ReplicaSet`.
    pub name: Text,
    /// The version that it was written at; none if it was to be made.
    pub version: Version,
    /// When nothing more was heard of it.
    pub at: Instant,
}

impl Doubt {
    /// For how long it may still be on its way.
    #[must_use]
    pub fn left(&self, now: Instant) -> Duration {
        UNDER_WAY.saturating_sub(now.duration_since(self.at))
    }

    /// Whether this step can be done beside it.
    #[must_use]
    pub fn allows(&self, plan: &Plan) -> bool {
        let written: Vec<&Set> = plan.sets.all().filter(|it| it.patch().is_some()).collect();
        match &plan.create {
            Some(create) => create.name == self.name,
            None => written.is_empty() || written.iter().any(|it| it.object.metadata.name == self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_manager::env::Clock;
    use jiff::Timestamp;
    use serde_json::json;

    use crate::deployment::world::World;

    #[test]
    fn only_what_takes_its_place_is_done_beside_it() {
        let doubt = |name: &str| Doubt {
            name: name.into(),
            version: Version::none(),
            at: Clock::starting_at(Timestamp::UNIX_EPOCH).now(),
        };
        let mut world = World::new(&json!({"replicas": 3}));
        let made = world.plan();
        let name = made.create.as_ref().expect("one is made").name.clone();
        assert!(doubt(&name).allows(&made) && !doubt("other").allows(&made));
        assert!(world.settle(|_| {}));
        assert!(doubt("other").allows(&world.plan()), "nothing is to be done");
        world.want(&json!({"replicas": 5}));
        let scaled = world.plan();
        assert!(doubt(&name).allows(&scaled) && !doubt("other").allows(&scaled));
        world.want(&json!({"template": {"spec": {"image": "two"}}, "replicas": 3}));
        assert!(
            !doubt(&name).allows(&world.plan()),
            "another one would be made first"
        );
    }

    #[test]
    fn the_server_gives_up_after_a_while() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let now = clock.now();
        let doubt = Doubt {
            name: "a".into(),
            version: Version::none(),
            at: now,
        };
        assert_eq!(doubt.left(now), UNDER_WAY);
        assert_eq!(doubt.left(now + 2 * UNDER_WAY), Duration::ZERO);
    }
}
