//! Starts processes of the product: its own wiring, on a link instead of a socket.

use std::sync::Arc;

use steersman::instance;
use steersman_config::Config;
use steersman_manager::client::Transport;
use steersman_manager::env::Env;
use steersman_manager::manager::{Process, RunError};
use steersman_manager::metrics::Registry;
use tokio_util::sync::CancellationToken;

use super::START;
use super::link::Link;
use super::network::{Network, ProcessState, Starter};
use super::record::{Fact, Sender};

/// Returns the function that starts a process with this configuration.
pub(super) fn starter(config: Arc<Config>) -> Starter {
    Arc::new(move |network, slot| start(network, &config, slot))
}

fn start(network: &Network, config: &Arc<Config>, slot: usize) {
    let (tasks, stop, registry) = (
        network.task_set(),
        CancellationToken::new(),
        Registry::new("steersman"),
    );
    let (number, env) = {
        let mut state = network.state();
        let (number, at) = (state.processes.len(), state.at());
        let wall = START.saturating_add(at).unwrap_or(START);
        let env = Env::starting_at(wall, state.next_seed(), &tasks);
        let server = slot % state.server_count();
        state.processes.push(ProcessState {
            slot,
            tasks: Some(tasks),
            clock: env.clock.clone(),
            registry: registry.clone(),
            stop: stop.clone(),
            server,
            cut_until: None,
            running: true,
        });
        state.log(|| format!("process {number} starts in slot {slot}"));
        state.observe(&Fact::Started { process: number, at });
        (number, env)
    };
    let (network, config) = (network.clone(), config.clone());
    let tasks = env.tasks.clone();
    tasks.spawn(async move {
        let link = Link::new(network.clone(), Sender::Process(number));
        let ended = Box::pin(run(&config, &env, registry, number, link, stop)).await;
        network.ended(number, &ended);
    });
}

async fn run(
    config: &Config,
    env: &Env,
    registry: Registry,
    number: usize,
    link: Link,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let transport = Transport::from_service(link, "sandbox", "steersman", &env.clock, &registry)
        .expect("a registry without metrics of a client");
    let builder = instance::builder(config, &registry).identity(format!("process-{number}"));
    let mut instance = Box::pin(builder.build(Process::new(env, transport))).await?;
    instance::host(config, &mut instance)?;
    instance.run(stop).await
}

impl Network {
    /// A process has ended by itself.
    fn ended(&self, number: usize, ended: &Result<(), RunError>) {
        let mut state = self.state();
        let at = state.at();
        let process = &mut state.processes[number];
        if !process.running {
            return;
        }
        process.running = false;
        let (slot, stopped) = (process.slot, process.stop.is_cancelled());
        state.log(|| match ended {
            Ok(()) => format!("process {number} ends"),
            Err(error) => format!("process {number} ends: {error}"),
        });
        state.observe(&Fact::Ended {
            process: number,
            at,
            clean: ended.is_ok(),
            error: ended.as_ref().err().map(ToString::to_string),
        });
        drop(state);
        if !stopped {
            self.start_later(slot, std::time::Duration::from_secs(1));
        }
    }
}
