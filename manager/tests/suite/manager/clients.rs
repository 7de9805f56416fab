//! Clients of a manager outside of a term.

use coxswain_manager::client::{Client, Patch};
use coxswain_manager::controller::{self, Action, Builder, Context, ReconcileError, Reconciler};
use coxswain_manager::object::Key;
use coxswain_tests::Log;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::level_filters::LevelFilter;

use super::{MAPS, Process, SECOND, sandbox};

/// Writes with the client of its construction instead of the one of its context, which is fenced.
struct Unfenced {
    client: Client,
    attempts: watch::Sender<usize>,
}

impl Reconciler for Unfenced {
    async fn reconcile(&self, _: Context, key: Key) -> Result<Action, ReconcileError> {
        self.attempts.send_modify(|attempts| *attempts += 1);
        let patch = Patch::merge(&json!({"data": {"a": "b"}}));
        let _: Value = self.client.patch(&MAPS, &key, patch).await?;
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn write_without_a_term_fails_and_is_retried() {
    let log = Log::keep(LevelFilter::WARN);
    let sandbox = sandbox();
    let mut process = Process::new(sandbox.service(), "a");
    let attempts = watch::Sender::new(0);
    let mut counted = attempts.subscribe();
    let client = process.manager.client("unfenced");
    let unfenced = Unfenced {
        client: client.clone(),
        attempts,
    };
    let controller = Builder::new("unfenced", controller::Options::default(), unfenced)
        .at_start([Key::new("default", "a")])
        .build(&process.env, client, &process.registry)
        .expect("a controller");
    process.manager.add(controller);
    let (clock, registry) = (process.env.clock.clone(), process.registry.clone());
    let running = process.elect();
    let retried = counted.wait_for(|attempts| *attempts >= 3);
    let retried = clock.timeout(10 * SECOND, retried).await;
    drop(retried.expect("a retry").expect("a running controller"));
    clock.sleep(SECOND / 1000).await;
    let text = log.text();
    assert!(text.contains("has no leader term and only reads"), "{text}");
    let metrics = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("metrics");
    let errors = metrics
        .lines()
        .find(|line| line.starts_with("controller_runtime_reconcile_errors_total{"))
        .expect("a metric");
    assert!(!errors.ends_with(" 0"), "{errors}");
    running.stop().await.expect("an orderly shutdown");
}
