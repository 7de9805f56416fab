//! The lifecycle of a manager, against a sandbox API under a paused clock.

mod blocked;
mod handover;
mod health;
mod instance;
mod partition;
mod service_accounts;
mod shutdown;
mod status;
mod terms;
mod test_controller;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_manager::client::{RateLimit, Transport};
use steersman_manager::election::{self, Elector};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::events::Recorder;
use steersman_manager::health::Checks;
use steersman_manager::manager::{Manager, ManagerError, Options};
use steersman_manager::metrics::Registry;
use steersman_manager::object::Resource;
use steersman_sandbox::{ApiService, Sandbox};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::test_controller::TestController;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const SECOND: Duration = Duration::from_secs(1);

/// A process with a manager that does not run yet.
struct Process {
    env: Env,
    registry: Registry,
    checks: Checks,
    transport: Transport,
    manager: Manager,
    identity: &'static str,
    tasks: TaskSet,
}

/// A process with a running manager.
struct Running {
    env: Env,
    registry: Registry,
    checks: Checks,
    transport: Transport,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ManagerError>>,
    tasks: TaskSet,
}

fn sandbox() -> Sandbox {
    Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(Timestamp::UNIX_EPOCH, 1))
        .start()
        .expect("a sandbox")
}

impl Process {
    fn new(api_service: ApiService, identity: &'static str) -> Self {
        Self::over(api_service, identity)
    }

    fn over<S, B>(service: S, identity: &'static str) -> Self
    where
        S: tower_service::Service<http::Request<kube::client::Body>, Response = http::Response<B>>
            + Send
            + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::limited(service, identity, None)
    }

    /// A process with a rate limit per controller.
    fn limited<S, B>(service: S, identity: &'static str, limit: Option<RateLimit>) -> Self
    where
        S: tower_service::Service<http::Request<kube::client::Body>, Response = http::Response<B>>
            + Send
            + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, identity.len() as u64, &tasks);
        let registry = Registry::new("test");
        let checks = Checks::new();
        let transport = Transport::from_service(service, "api.test", "test", &env.clock, &registry)
            .expect("fresh metrics");
        let options = Options {
            limit,
            shutdown_timeout: Some(10 * SECOND),
            ..Options::new("steersman")
        };
        let manager = Manager::new(&env, &registry, &checks, transport.clone(), options).expect("a manager");
        Self {
            env,
            registry,
            checks,
            transport,
            manager,
            identity,
            tasks,
        }
    }

    /// Adds a controller.
    fn with(mut self, probe: &Arc<TestController>) -> Self {
        self.manager.add(test_controller::Shared(probe.clone()));
        self
    }

    /// Runs with leader election.
    fn elect(self) -> Running {
        let elector = self.elector();
        self.run(Some(elector))
    }

    /// Runs with leader election and events.
    fn elect_with_recorder(self, recorder: Recorder) -> Running {
        let elector = self.elector().with_recorder(recorder);
        self.run(Some(elector))
    }

    fn elector(&self) -> Elector {
        let client = self.transport.unfenced("leader-election", None);
        let config = election::Config::new("kube-system", "steersman", self.identity);
        let fence = self.manager.fence().clone();
        Elector::new(&self.env, client, fence, config, &self.registry).expect("an elector")
    }

    fn run(mut self, elector: Option<Elector>) -> Running {
        if let Some(elector) = elector {
            self.manager.elect(elector);
        }
        let stop = CancellationToken::new();
        let ended = self.tasks.handle().spawn(self.manager.run(stop.clone()));
        Running {
            env: self.env,
            registry: self.registry,
            checks: self.checks,
            transport: self.transport,
            stop,
            ended,
            tasks: self.tasks,
        }
    }
}

impl Running {
    /// Stops the manager and returns its result.
    async fn stop(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        self.ended.await.expect("no panic")
    }

    /// Stops the manager and returns its tasks, which keep running.
    async fn stop_but_keep_tasks(self) -> TaskSet {
        self.stop.cancel();
        let ended = self.ended.await.expect("no panic");
        ended.expect("an orderly shutdown");
        self.tasks
    }
}
