//! The client: rate limiter, fence, deadlines, errors, redaction.

mod connection;
mod errors;
mod exec_plugin;
mod fence;
mod fence_in_flight;
mod metadata;
mod rate_limit;
mod raw;
mod recorder;
mod redaction;
mod service_account;
mod typed;

use jiff::Timestamp;
use steersman_manager::client::{RateLimit, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::Resource;

use self::recorder::RecordingServer;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// A transport to a recording server.
struct Fixture {
    env: Env,
    registry: Registry,
    server: RecordingServer,
    transport: Transport,
    _tasks: TaskSet,
}

impl Fixture {
    fn new() -> Self {
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
        let registry = Registry::new("test");
        let (server, transport) = RecordingServer::new(&env.clock, &registry);
        Self {
            env,
            registry,
            server,
            transport,
            _tasks: tasks,
        }
    }

    /// Returns the value of a metric by its name and labels in the text format.
    fn metric(&self, series: &str) -> Option<f64> {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(series))?;
        line.trim().parse().ok()
    }
}

/// The default rate limit of a controller.
const LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 30 };
