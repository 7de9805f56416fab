//! The controllers under test: one manager for the whole run, started by the first test.
//!
//! It runs under the roles of `deploy/`: its process has the service account of the deployment, and each controller its own. The
//! hollow-kubelet is not deployed and runs as an administrator.

use std::time::Duration;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use steersman_controllers::registry::{self, Descriptor, EnabledBy, Settings};
use steersman_controllers::{api, hollow_kubelet};
use steersman_harness::{Cluster, fixtures, roles, time};
use steersman_manager::client::{ServiceAccounts, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::Checks;
use steersman_manager::manager::{Manager, Options};
use steersman_manager::metrics::Registry;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// The maximum time that a test waits for the controllers. They act at once, except on a busy machine.
pub const WAIT_MAX: Duration = Duration::from_mins(2);

/// Runs until the process ends: no test knows that it is the last.
static MANAGER: OnceCell<RunningManager> = OnceCell::const_new();

struct RunningManager {
    env: Env,
    registry: Registry,
    _tasks: TaskSet,
}

/// Starts the controllers if they do not run yet, and returns their environment.
pub async fn running(c: &Cluster) -> &'static Env {
    &MANAGER.get_or_init(|| start(c)).await.env
}

/// Returns the sum of all metrics with this name and these labels, if any. All tests share them.
pub fn metric(name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let registry = &MANAGER.get().expect("a running manager").registry;
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
        let matches = it == name && labels.iter().all(|label| has.contains(&&**label));
        matches.then(|| value.parse::<f64>().ok())?
    });
    values.reduce(|sum, it| sum + it)
}

/// Installs the CRDs and waits until they are served.
async fn install_crds(c: &Cluster) {
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

async fn start(c: &Cluster) -> RunningManager {
    install_crds(c).await;
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = Registry::new("steersman");
    let kubeconfig = Kubeconfig::read_from(c.kubeconfig()).expect("a kubeconfig");
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a configuration");
    let (kubelet, _) = manager(&env, &config, &Registry::new("steersman"));
    run(&env, kubelet, |it| it.name == hollow_kubelet::NAME);
    // kube-controller-manager may run instead of the other controllers.
    if !c.runs_kcm_instead_of_ours() {
        roles::create_all(c).await;
        config.auth_info.token = Some(c.token(roles::NAMESPACE, "steersman").await.into());
        let (mut manager, transport) = manager(&env, &config, &registry);
        let issuer = transport.unfenced("service-account-tokens", None);
        let anonymous = transport.without_credentials(&config).expect("a transport");
        manager.use_service_accounts(ServiceAccounts::new(&env, issuer, anonymous, roles::NAMESPACE));
        run(&env, manager, |it| it.name != hollow_kubelet::NAME);
    }
    RunningManager {
        env,
        registry,
        _tasks: tasks,
    }
}

/// Returns a manager with the credentials of `config`, and its transport.
fn manager(env: &Env, config: &Config, registry: &Registry) -> (Manager, Transport) {
    let transport = Transport::connect(config, "test", &env.clock, registry).expect("a transport");
    let options = Options::new("steersman");
    let manager = Manager::new(env, registry, &Checks::new(), transport.clone(), options);
    (manager.expect("a manager"), transport)
}

/// Runs controllers until the process ends.
fn run(env: &Env, mut manager: Manager, enabled: impl Fn(&Descriptor) -> bool) {
    let settings = Settings {
        assume_no_kube_controller_manager: true,
        hollow_kubelet: hollow_kubelet::Options {
            nodes: 3,
            delay: Duration::ZERO,
            sandbox: true,
        },
        ..Settings::default()
    };
    let enabled = |it: &Descriptor| enabled(it).then_some(EnabledBy::Name);
    registry::host(&mut manager, enabled, &settings).expect("hosted");
    drop(env.tasks.spawn(manager.run(CancellationToken::new())));
}
