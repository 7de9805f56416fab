//! Two managers on one API server, all in this process. Each has tasks, caches and metrics of its own, so that one can be
//! killed without notice, like a process.

use std::time::Duration;

use std::ffi::OsString;

use serde_json::Value;
use steersman_config::{Config, Known, Parsed};
use steersman_manager::client::{Client, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::manager::{Process, RunError};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_sandbox::Sandbox;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::TourError;
use crate::demo::sandbox::{SandboxError, create_crds};
use crate::instance;

/// Each step takes a few seconds; a busy machine may need longer.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(20);
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// `steersman --sandbox` with a shorter lease, so that a failover takes seconds.
const FLAGS: [&str; 5] = [
    "--sandbox",
    "--secure-port=0",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=2500ms",
    "--leader-elect-retry-period=500ms",
];
const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// The running managers and their API server.
pub(super) struct Managers {
    env: Env,
    sandbox: Sandbox,
    config: Box<Config>,
    client: Client,
    running: Vec<RunningManager>,
}

struct RunningManager {
    identity: String,
    stop: CancellationToken,
    ended: JoinHandle<()>,
    /// Dropping them kills the manager.
    _tasks: TaskSet,
}

impl Managers {
    /// Starts the API server with our CRDs, and two managers.
    pub(super) async fn start(env: &Env, known: &Known) -> Result<Self, TourError> {
        let flags = FLAGS.iter().map(OsString::from);
        let Parsed::Run(config) = steersman_config::parse(flags, known)? else {
            return Err(TourError::NoLeader);
        };
        let sandbox = Sandbox::builder().start().map_err(SandboxError::Start)?;
        let transport = transport(&sandbox, env, &Registry::new("steersman"))?;
        create_crds(&transport).await?;
        let mut managers = Self {
            env: env.clone(),
            sandbox,
            config,
            client: transport.unfenced("tour", None),
            running: Vec::new(),
        };
        managers.start_one().await?;
        managers.start_one().await?;
        Ok(managers)
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(super) async fn start_one(&mut self) -> Result<(), TourError> {
        let tasks = TaskSet::new();
        let env = Env {
            tasks: tasks.handle(),
            ..self.env.clone()
        };
        let registry = Registry::new("steersman");
        let transport = transport(&self.sandbox, &env, &registry)?;
        let builder = instance::builder(&self.config, &registry);
        let mut instance = Box::pin(builder.build(Process::new(&env, transport))).await?;
        instance::host(&self.config, &mut instance).map_err(RunError::from)?;
        let (identity, stop) = (instance.identity().to_owned(), CancellationToken::new());
        let until = stop.clone();
        // A failed manager shows in the steps that follow.
        let ended = env.tasks.spawn(async move { drop(instance.run(until).await) });
        self.running.push(RunningManager {
            identity,
            stop,
            ended,
            _tasks: tasks,
        });
        Ok(())
    }

    /// Returns the holder of the Lease, empty if it has none.
    pub(super) async fn lease_holder(client: &Client) -> Result<String, TourError> {
        let lease: Value = client.get(&LEASES, &Key::new("kube-system", "steersman")).await?;
        let holder = lease["spec"]["holderIdentity"].as_str();
        Ok(holder.unwrap_or_default().to_owned())
    }

    /// Waits for a leader among the running managers: after a pause of the machine there may be none for a moment.
    pub(super) async fn leader(&self) -> Result<String, TourError> {
        let clock = &self.env.clock;
        let end = clock.after(STEP_TIMEOUT);
        loop {
            let leader = Self::lease_holder(&self.client).await?;
            if self.running.iter().any(|it| it.identity == leader) {
                return Ok(leader);
            }
            if clock.now() >= end {
                return Err(TourError::NoLeader);
            }
            clock.sleep(POLL_INTERVAL).await;
        }
    }

    /// Drops a manager without releasing its Lease.
    pub(super) fn kill(&mut self, identity: &str) {
        self.running.retain(|it| it.identity != identity);
    }

    /// Stops a manager gracefully.
    pub(super) async fn stop(&mut self, identity: &str) {
        if let Some(at) = self.running.iter().position(|it| it.identity == identity) {
            let manager = self.running.remove(at);
            manager.stop.cancel();
            // The next step checks that the other manager leads.
            let _ = manager.ended.await;
        }
    }
}

fn transport(sandbox: &Sandbox, env: &Env, registry: &Registry) -> Result<Transport, TourError> {
    let transport = Transport::from_service(sandbox.service(), "sandbox", "steersman", &env.clock, registry);
    Ok(transport.map_err(RunError::from)?)
}
