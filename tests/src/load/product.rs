//! One process of the product: its own wiring, on a [`Connection`] instead of a socket.

use std::sync::Arc;

use prometheus::proto::MetricFamily;
use steersman::instance;
use steersman_config::{Config, Parsed};
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::manager::{Process, RunError};
use steersman_manager::metrics::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::connection::Connection;
use super::memory::outside;
use super::polls::Polls;
use super::requests::Requests;

/// A running process.
pub(super) struct Product {
    pub(super) requests: Requests,
    pub(super) connection: Connection,
    pub(super) polls: Polls,
    registry: Registry,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), RunError>>,
    _tasks: [TaskSet; 2],
}

impl Product {
    /// Starts the product with these controllers and the default flags, except for the rate limit: requests are bounded by the work,
    /// not by the limit.
    pub(super) fn start(cluster: &Cluster, controllers: &str) -> Self {
        let config = config(controllers);
        let (polls, stop) = (Polls::default(), CancellationToken::new());
        let (runner, tasks) = (TaskSet::new(), TaskSet::ordered(Arc::new(polls.clone())));
        drop(runner.handle().spawn(polls.clone().run()));
        let (registry, requests) = (Registry::new("steersman"), Requests::default());
        let env = Env::starting_at(cluster.env.now(), 7, &tasks);
        let connection = Connection::new(cluster.service(), cluster.env.clone(), requests.clone());
        let run = run(
            config,
            env.clone(),
            registry.clone(),
            connection.clone(),
            stop.clone(),
        );
        Self {
            requests,
            connection,
            polls,
            registry,
            stop,
            ended: env.tasks.spawn(Box::pin(run)),
            _tasks: [tasks, runner],
        }
    }

    /// Whether all work queues are empty.
    pub(super) fn is_idle(&self) -> bool {
        self.sum("workqueue_depth", |_| true) <= 0.0
    }

    /// Returns the number of objects of a resource in the caches; the largest one of several caches.
    pub(super) fn cached(&self, resource: &str) -> f64 {
        outside(|| {
            let families = self.registry.gather();
            let values = values(&families, "steersman_cache_objects", |it| it == resource);
            values.fold(0.0, f64::max)
        })
    }

    /// Returns the sum of the values of a metric that have a label for which `selects` the value.
    pub(super) fn sum(&self, name: &str, selects: impl Fn(&str) -> bool) -> f64 {
        outside(|| values(&self.registry.gather(), name, selects).sum())
    }

    /// Returns the number of metrics that have a label for which `selects` the value.
    pub(super) fn count(&self, name: &str, selects: impl Fn(&str) -> bool) -> usize {
        outside(|| values(&self.registry.gather(), name, selects).count())
    }

    /// Whether the product has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_finished()
    }

    /// Stops the product in order.
    pub(super) async fn stop(self) -> Result<(), String> {
        self.stop.cancel();
        match self.ended.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the values of the metrics of a family that have a label for which `selects` the value.
fn values<'a>(
    families: &'a [MetricFamily],
    name: &'a str,
    selects: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = f64> + 'a {
    let metrics = families
        .iter()
        .filter(move |it| it.name() == name)
        .flat_map(MetricFamily::get_metric);
    let selected = metrics.filter(move |it| it.get_label().iter().any(|label| selects(label.value())));
    selected.map(|it| it.get_gauge().get_value() + it.get_counter().get_value())
}

fn config(controllers: &str) -> Config {
    let arguments = [
        format!("--controllers={controllers}"),
        "--assume-no-kube-controller-manager".to_owned(),
        "--kube-api-qps=5000".to_owned(),
        "--kube-api-burst=10000".to_owned(),
        "--hollow-kubelet-nodes=10".to_owned(),
    ];
    match steersman_config::parse(arguments.map(Into::into), &steersman::known()) {
        Ok(Parsed::Run(config)) => *config,
        Ok(_) => unreachable!("the arguments run a manager"),
        Err(error) => unreachable!("{error}"),
    }
}

async fn run(
    config: Config,
    env: Env,
    registry: Registry,
    connection: Connection,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let transport = Transport::from_service(connection, "sandbox", "steersman", &env.clock, &registry)
        .expect("a registry without metrics of a client");
    let builder = instance::builder(&config, &registry).identity("load".to_owned());
    let mut instance = Box::pin(builder.build(Process::new(&env, transport))).await?;
    instance::host(&config, &mut instance)?;
    instance.run(stop).await
}
