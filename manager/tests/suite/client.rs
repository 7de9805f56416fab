//! The client: bucket, fence, deadlines, errors, and what it never says.

mod errors;
mod fence;
mod late;
mod limit;
mod metadata;
mod raw;
mod secrets;
mod socket;
mod spy;

use coxswain_manager::client::{Limit, Transport};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::object::Resource;
use jiff::Timestamp;
use prometheus::Registry;

use self::spy::Spy;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// A client's world: an API in the same process, seen through a spy.
struct World {
    env: Env,
    registry: Registry,
    spy: Spy,
    transport: Transport,
    _tasks: TaskSet,
}

impl World {
    fn new() -> Self {
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
        let registry = Registry::new();
        let spy = Spy::default();
        let transport = Transport::over(spy.clone(), "api.test", "coxswain/test", &env.clock, &registry)
            .expect("fresh metrics");
        Self {
            env,
            registry,
            spy,
            transport,
            _tasks: tasks,
        }
    }

    /// The value of a series, by the text of its line without the value.
    fn metric(&self, series: &str) -> Option<f64> {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(series))?;
        line.trim().parse().ok()
    }
}

/// The default limit of a controller.
const LIMIT: Limit = Limit { qps: 20.0, burst: 30 };
