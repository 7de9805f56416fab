//! Two managers on one API server, all in this process. Each has tasks, caches and metrics of its own, so that one can die
//! as a process does: without a word.

use std::ffi::OsString;

use coxswain_config::{Config, Known, Parsed};
use coxswain_manager::client::{Client, Transport};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::object::{Key, Resource};
use coxswain_manager::serve::Checks;
use coxswain_sandbox::{Options, Sandbox};
use prometheus::Registry;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::TourError;
use super::guide::{LOOK, PATIENCE};
use crate::member::Member;
use crate::sandbox::define;
use crate::ways::Ways;

/// As `coxswain --sandbox`, but for a lease that does not try the patience of who looks on.
const FLAGS: [&str; 5] = [
    "--sandbox",
    "--secure-port=0",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=2500ms",
    "--leader-elect-retry-period=500ms",
];
const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// The managers, and the API server.
pub(super) struct Crew {
    env: Env,
    sandbox: Sandbox,
    config: Box<Config>,
    client: Client,
    aboard: Vec<Aboard>,
}

/// A manager that runs.
struct Aboard {
    identity: String,
    stop: CancellationToken,
    running: JoinHandle<()>,
    /// All that it does: it dies with them.
    _tasks: TaskSet,
}

impl Crew {
    /// Starts the server with the custom kinds, and two managers.
    pub(super) async fn start(env: &Env, known: &[Known]) -> Result<Self, TourError> {
        let flags = FLAGS.iter().map(OsString::from);
        let Parsed::Run(config) = coxswain_config::parse(flags, known)? else {
            return Err(TourError::NobodyLeads);
        };
        let sandbox = Sandbox::new(Options::default());
        let way = way(&sandbox, env, &Registry::new())?;
        define(&way).await?;
        let mut crew = Self {
            env: env.clone(),
            sandbox,
            config,
            client: way.unfenced("tour", None),
            aboard: Vec::new(),
        };
        crew.board()?;
        crew.board()?;
        Ok(crew)
    }

    /// A way to the server for who looks on.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// One more manager.
    pub(super) fn board(&mut self) -> Result<(), TourError> {
        let tasks = TaskSet::new();
        let env = Env {
            tasks: tasks.handle(),
            ..self.env.clone()
        };
        let registry = Registry::new();
        let way = way(&self.sandbox, &env, &registry)?;
        let ways = Ways {
            controllers: way.clone(),
            election: way,
        };
        let member = Member::build(&self.config, &env, &registry, &Checks::new(), ways)?;
        let (identity, stop) = (member.identity().to_owned(), CancellationToken::new());
        let until = stop.clone();
        // How it ended is seen by what it did not do.
        let running = env.tasks.spawn(async move { drop(member.run(until).await) });
        self.aboard.push(Aboard {
            identity,
            stop,
            running,
            _tasks: tasks,
        });
        Ok(())
    }

    /// Who leads, as the Lease says; empty if nobody does.
    pub(super) async fn leader(client: &Client) -> Result<String, TourError> {
        let lease: Value = client.get(&LEASES, &Key::new("kube-system", "coxswain")).await?;
        let holder = lease["spec"]["holderIdentity"].as_str();
        Ok(holder.unwrap_or_default().to_owned())
    }

    /// Who of those aboard leads. On a machine that stood still for a while nobody may, for a moment.
    pub(super) async fn leads(&self) -> Result<String, TourError> {
        let clock = &self.env.clock;
        let end = clock.after(PATIENCE);
        loop {
            let leader = Self::leader(&self.client).await?;
            if self.aboard.iter().any(|it| it.identity == leader) {
                return Ok(leader);
            }
            if clock.now() >= end {
                return Err(TourError::NobodyLeads);
            }
            clock.sleep(LOOK).await;
        }
    }

    /// This one dies, and tells nobody.
    pub(super) fn kill(&mut self, identity: &str) {
        self.aboard.retain(|it| it.identity != identity);
    }

    /// This one is told to stop, and does.
    pub(super) async fn stop(&mut self, identity: &str) {
        if let Some(at) = self.aboard.iter().position(|it| it.identity == identity) {
            let leader = self.aboard.remove(at);
            leader.stop.cancel();
            // However it ended: the other one must lead.
            let _ = leader.running.await;
        }
    }
}

fn way(sandbox: &Sandbox, env: &Env, registry: &Registry) -> Result<Transport, TourError> {
    let way = Transport::over(sandbox.door(), "sandbox", "coxswain", &env.clock, registry);
    Ok(way.map_err(crate::process::ProcessError::from)?)
}
