//! Start and stop of the process: the connection or the sandbox, the pages, signals, reload and traces.

use std::ffi::OsString;
use std::future::pending;
use std::sync::Arc;

use steersman_config::Config;
use steersman_manager::client::ConnectError;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::manager::{ControlRuntime, Instance, Process, RunError};
use steersman_manager::metrics::Registry;
use steersman_manager::sync::watch;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::NAME;
use crate::build::{BUILD, VERSION};
use crate::cluster::{self, ClusterError};
use crate::demo::Embedded;
use crate::error::ProcessError;
use crate::instance;
use crate::log::Log;
use crate::pages;
use crate::reload::Reload;
use crate::runtime_metrics;
use crate::serving;
use crate::traces::Traces;
use steersman_manager::signals::{Hangup, Signals};

pub(crate) async fn run(config: Config, arguments: Vec<OsString>, log: &Log) -> Result<(), ProcessError> {
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let control = ControlRuntime::start()?;
    let registry = Registry::new(NAME);
    let [election, webhooks] = control.handles();
    runtime_metrics::register(&registry, [&Handle::current(), election, webhooks])?;
    let (control_env, webhook_env) = (control.env(&env), control.webhook_env(&env));
    Box::pin(run_in(
        &env,
        &control_env,
        &webhook_env,
        registry,
        config,
        arguments,
        log,
    ))
    .await
}

async fn run_in(
    env: &Env,
    control_env: &Env,
    webhook_env: &Env,
    registry: Registry,
    config: Config,
    arguments: Vec<OsString>,
    log: &Log,
) -> Result<(), ProcessError> {
    let mut signals = Signals::install()?;
    let hangup = Hangup::install()?;
    let stop = CancellationToken::new();
    registry.register_process()?;
    BUILD.register(&registry)?;
    let traces = Traces::start(&config.tracing, env, &registry)?;

    let built = async {
        let port = serving::bind(&config, control_env).await?;
        let (embedded, mut process) = match config.sandbox.clone() {
            None => (None, connect(&config, env, control_env, &registry).await?),
            Some(sandbox) => {
                let embedded = Embedded::start(sandbox, env, &registry).await?;
                let process = embedded.process(env, control_env);
                (Some(embedded), process)
            }
        };
        process.webhook_env = webhook_env.clone();
        if let Some(traces) = &traces {
            process.transport = process.transport.traced(traces.tracer());
        }
        let mut builder = instance::builder(&config, &registry);
        if let Some((server, certificates)) = port {
            let access = serving::access(&config, control_env, &process.control_transport).await?;
            builder = builder.endpoints_on(server, certificates, access);
        }
        let mut instance = builder.build(process).await?;
        let controllers = instance::host(&config, &mut instance).map_err(RunError::from)?;
        Ok::<_, ProcessError>((embedded, instance, controllers))
    };
    let (embedded, mut instance, controllers) = tokio::select! {
        biased;
        // Nothing has been started that needs an orderly shutdown.
        () = signals.first() => return Ok(()),
        built = Box::pin(built) => built?,
    };

    let (effective, shown) = watch::channel(Arc::new(config));
    extend_endpoints(&mut instance, shown, control_env, log, &stop);
    let address = instance.endpoints_address();
    let reload = Reload {
        arguments,
        effective,
        log: log.handle.clone(),
        rate_limit: instance.manager().rate_limit().clone(),
    };
    let lifecycle = async {
        let demo = async {
            if let Some(embedded) = &embedded {
                embedded.print_summary(address, &controllers);
                embedded.run_sample(&controllers, &env.clock, &log.output).await;
            }
            pending::<()>().await;
        };
        let ended = tokio::select! {
            biased;
            ended = instance.run(stop.clone()) => ended,
            () = demo => return Ok(()),
            () = reload.run(hangup) => return Ok(()),
        };
        if let Some(embedded) = embedded {
            embedded.stop().await;
        }
        if let Some(traces) = traces {
            traces.stop().await;
        }
        ended.map_err(ProcessError::Run)
    };
    tokio::select! {
        biased;
        () = signals.second(stop.clone()) => return Err(ProcessError::Run(RunError::SecondSignal)),
        ended = Box::pin(lifecycle) => ended?,
    }
    tracing::info!("Stopped");
    Ok(())
}

fn extend_endpoints(
    instance: &mut Instance,
    config: watch::Receiver<Arc<Config>>,
    env: &Env,
    log: &Log,
    stop: &CancellationToken,
) {
    let (env, log, stop) = (env.clone(), log.handle.clone(), stop.clone());
    instance.extend_endpoints(move |endpoints| pages::mount(endpoints, config, &log, &env, &stop));
}

async fn connect(
    config: &Config,
    env: &Env,
    control_env: &Env,
    registry: &Registry,
) -> Result<Process, ProcessError> {
    let connection = &config.client_connection;
    let agent = format!(
        "{NAME}/{VERSION} ({}/{})",
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    let cluster = cluster::config(connection).await?;
    let connected = Process::connect(env, control_env, cluster, &agent, registry).await;
    connected.map_err(|error| match error {
        RunError::Connect(ConnectError::Config { reason, .. }) => {
            ClusterError::unusable(connection, reason).into()
        }
        error => error.into(),
    })
}

#[cfg(test)]
mod tests;
