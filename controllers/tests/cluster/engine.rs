//! What is under test: one manager for the whole run, started by the test that comes first.

use std::time::Duration;

use coxswain_controllers::registry::{self, Descriptor, EnabledBy, Settings};
use coxswain_controllers::{api, hollow_kubelet};
use coxswain_manager::cache::Scope;
use coxswain_manager::client::Transport;
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::manager::{Manager, Options};
use coxswain_manager::serve::Checks;
use coxswain_tests::{Cluster, fixtures, time};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use prometheus::Registry;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// How long to wait for what the controllers do. They do it at once: only a machine that is busy with much else takes longer,
/// and how long is nothing that a test is about.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Ends with the process: nobody can tell which test is the last.
static ENGINE: OnceCell<Engine> = OnceCell::const_new();

struct Engine {
    env: Env,
    registry: Registry,
    _tasks: TaskSet,
}

/// Sees to it that the controllers run, and returns the time and chance that they live by.
pub async fn running(c: &Cluster) -> &'static Env {
    &ENGINE.get_or_init(|| start(c)).await.env
}

/// The sum of all series of this name with these labels, of the manager that runs; none if there are none. All tests share
/// it: it may grow without this one.
pub fn metric(name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let registry = &ENGINE.get().expect("it runs").registry;
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.expect("metrics");
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}=\"{value}\""))
        .collect();
    let values = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (it, has) = series.split_once('{').unwrap_or((series, ""));
        let has: Vec<&str> = has.trim_end_matches('}').split(',').collect();
        let meant = it == name && labels.iter().all(|label| has.contains(&&**label));
        meant.then(|| value.parse::<f64>().ok())?
    });
    values.reduce(|sum, it| sum + it)
}

/// Installs the custom kinds, and waits until they are served.
async fn define(c: &Cluster) {
    for definition in api::crds() {
        let plural = definition["spec"]["names"]["plural"].as_str().expect("a plural");
        let path = format!("/apis/{}/{}/{plural}", api::GROUP, api::VERSION);
        c.api().post(fixtures::CRDS, definition.clone()).await.expect(201);
        let served = time::eventually(Duration::from_mins(1), async || {
            (c.api().get(&path).await.status == 200).then_some(())
        });
        assert!(served.await.is_some(), "{path} is not served");
    }
}

async fn start(c: &Cluster) -> Engine {
    define(c).await;
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = Registry::new();
    let kubeconfig = Kubeconfig::read_from(c.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a configuration");
    let transport = Transport::connect(&config, "test", &env.clock, &registry).expect("a way to the server");
    let options = Options {
        name: "coxswain",
        limit: None,
        scope: Scope::default(),
        start_interval: Duration::ZERO,
        shutdown_timeout: None,
    };
    let mut manager = Manager::new(&env, &registry, &Checks::new(), transport, options).expect("a manager");
    let settings = Settings {
        instance: "test".to_owned(),
        assume_no_kube_controller_manager: true,
        hollow_kubelet: hollow_kubelet::Options {
            nodes: 3,
            delay: Duration::ZERO,
            sandbox: true,
        },
        ..Settings::default()
    };
    // In that mode only the nodes are ours.
    let kcm = c.runs_kcm_instead_of_ours();
    let enabled = |it: &Descriptor| (!kcm || it.name == hollow_kubelet::NAME).then_some(EnabledBy::Name);
    registry::host(&mut manager, enabled, &settings).expect("hosted");
    drop(env.tasks.spawn(manager.run(None, CancellationToken::new())));
    Engine {
        env,
        registry,
        _tasks: tasks,
    }
}
