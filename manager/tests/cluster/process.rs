//! A process with its own environment, connection and metrics registry.

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use prometheus::TextEncoder;
use steersman_harness::{Cluster, time};
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;

/// A process. Dropping it simulates a crash.
pub struct Process {
    pub env: Env,
    pub registry: Registry,
    pub transport: Transport,
    _tasks: TaskSet,
}

impl Process {
    pub async fn start(c: &Cluster) -> Self {
        let tasks = TaskSet::new();
        let env = Env::system(&tasks);
        let registry = Registry::new("test");
        let kubeconfig = Kubeconfig::read_from(c.kubeconfig()).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .expect("a configuration");
        let transport = Transport::connect(&config, "test", &env.clock, &registry).expect("a transport");
        Self {
            env,
            registry,
            transport,
            _tasks: tasks,
        }
    }

    /// Returns the number of answered requests of a verb, with `LIST` and `WATCH` as separate verbs.
    pub fn requests(&self, verb: &str) -> u64 {
        self.sum(
            "rest_client_request_duration_seconds_count",
            &format!("verb=\"{verb}\""),
        )
    }

    /// Returns the number of all answered requests.
    pub fn all_requests(&self) -> u64 {
        self.sum("rest_client_requests_total", "")
    }

    /// Returns the sum of the samples of a metric with a label.
    pub fn sum(&self, metric: &str, label: &str) -> u64 {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("a text");
        let samples = text
            .lines()
            .filter(|line| line.starts_with(&format!("{metric}{{")) && line.contains(label));
        let values = samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    }
}

/// Waits until a condition holds.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let held = time::eventually(time::ANSWER, async || condition().then_some(())).await;
        assert!(held.is_some(), "timed out: {what}, at {caller}");
    }
}

/// Waits for an event.
#[track_caller]
pub fn soon<T>(what: &str, event: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let happened = time::within(time::ANSWER, event).await;
        happened.unwrap_or_else(|| panic!("timed out: {what}, at {caller}"))
    }
}
