//! The process of a built manager: logging, signals and the connection to the API server.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::builder::{ManagerBuilder, RunError};
use super::control::ControlRuntime;
use crate::client::Transport;
use crate::env::{Env, TaskSet};
use crate::metrics::Registry;
use crate::signals::Signals;

/// The environments and connections of a process.
#[derive(Clone)]
#[non_exhaustive]
pub struct Process {
    /// The environment of the caches and controllers.
    pub env: Env,
    /// The transport of the caches and controllers.
    pub transport: Transport,
    /// The environment of the election, the endpoints and the events: see [`ControlRuntime`].
    pub control_env: Env,
    /// The environment of the webhooks. Set by the caller, by default that of the election: see [`ControlRuntime::webhook_env`].
    #[cfg(feature = "webhook")]
    pub webhook_env: Env,
    /// The transport of the election, the events and the reviews of requests to the endpoints. Slow requests of controllers do
    /// not delay a renewal.
    pub control_transport: Transport,
    /// The transport of requests as service accounts, without the credentials of the process. It must be derived from
    /// `transport`: the Lease is released when the outcome of all writes is known, and both share the record of them.
    pub service_accounts: Transport,
    /// The credentials, for the metrics of the client certificate.
    #[cfg(feature = "serve")]
    pub(super) auth_info: kube::config::AuthInfo,
}

impl Process {
    /// Returns a process with one environment and one connection, such as to an API server in the same process.
    #[must_use]
    pub fn new(env: &Env, transport: Transport) -> Self {
        Self {
            env: env.clone(),
            control_env: env.clone(),
            #[cfg(feature = "webhook")]
            webhook_env: env.clone(),
            control_transport: transport.clone(),
            service_accounts: transport.clone(),
            transport,
            #[cfg(feature = "serve")]
            auth_info: kube::config::AuthInfo::default(),
        }
    }

    /// Returns a process with connections to a cluster. `agent` is the prefix of all user agents.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect(
        env: &Env,
        control_env: &Env,
        config: kube::Config,
        agent: &str,
        registry: &Registry,
    ) -> Result<Self, RunError> {
        #[cfg(feature = "serve")]
        let auth_info = config.auth_info.clone();
        let (agent, clock, registry) = (agent.to_owned(), env.clock.clone(), registry.clone());
        // Connecting reads files, may run the command of an auth provider, and blocks.
        let connect = tokio::task::spawn_blocking(move || {
            let transport = Transport::connect(&config, &agent, &clock, &registry)?;
            let service_accounts = transport.without_credentials(&config)?;
            Ok::<_, RunError>((transport, service_accounts, config))
        });
        let (transport, service_accounts, config) = connect.await.map_err(io::Error::other)??;
        transport.authenticate().await?;
        Ok(Self {
            control_transport: transport.reconnect_on(&control_env.tasks, config).await?,
            env: env.clone(),
            control_env: control_env.clone(),
            #[cfg(feature = "webhook")]
            webhook_env: control_env.clone(),
            transport,
            service_accounts,
            #[cfg(feature = "serve")]
            auth_info,
        })
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl ManagerBuilder {
    /// Runs until SIGINT or SIGTERM, and stops in order; a second signal stops immediately. Logs to standard error at the
    /// level in `RUST_LOG` (default `info`), unless the program has set a subscriber. An error is logged.
    pub async fn run(self) -> ExitCode {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        let colors = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
        // Fails if the program has set a subscriber.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(colors)
            .with_writer(io::stderr)
            .try_init();
        let name = self.options.name;
        match self.run_until_signal().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, manager = name, "Manager failed");
                ExitCode::FAILURE
            }
        }
    }

    async fn run_until_signal(mut self) -> Result<(), RunError> {
        let mut signals = Signals::install()?;
        let (stop, tasks) = (CancellationToken::new(), TaskSet::new());
        let env = Env::system(&tasks);
        self.registry.register_process()?;
        let control = ControlRuntime::start()?;
        let control_env = control.env(&env);
        let built = async {
            let config = match self.config.take() {
                Some(config) => config,
                None => kube::Config::infer().await.map_err(Box::new)?,
            };
            let (name, registry) = (self.options.name, self.registry.clone());
            #[cfg_attr(not(feature = "webhook"), expect(unused_mut))]
            let mut process = Process::connect(&env, &control_env, config, name, &registry).await?;
            #[cfg(feature = "webhook")]
            {
                process.webhook_env = control.webhook_env(&env);
            }
            self.build(process).await
        };
        let instance = tokio::select! {
            biased;
            // Nothing has been started that needs an orderly shutdown.
            () = signals.first() => return Ok(()),
            built = Box::pin(built) => built?,
        };
        tokio::select! {
            biased;
            () = signals.second(stop.clone()) => Err(RunError::SecondSignal),
            ended = Box::pin(instance.run(stop.clone())) => ended,
        }
    }

    /// Runs in this environment and over this transport until `stop`, without endpoints. For tests: on a paused clock, against
    /// an API server in the same process. Webhooks need a clock that is not paused while a review is sent.
    #[cfg_attr(not(feature = "serve"), expect(unused_mut))]
    pub async fn run_with(
        mut self,
        env: &Env,
        transport: Transport,
        stop: CancellationToken,
    ) -> Result<(), RunError> {
        #[cfg(feature = "serve")]
        self.without_endpoints();
        let instance = Box::pin(self.build(Process::new(env, transport))).await?;
        Box::pin(instance.run(stop)).await
    }
}
