//! From names to controllers that a manager hosts.

use std::future::ready;

use coxswain_manager::controller::{ControllerError, Runnable};
use coxswain_manager::manager::Manager;
use coxswain_manager::webhook::Hooks;

use crate::appservice;
use crate::deployment;
use crate::garbage_collector::{self, GraphPage};
use crate::hollow_kubelet;
use crate::names::{
    APP_REPLICASET, APP_SERVICE, DEPLOYMENT, GARBAGE_COLLECTOR, HOLLOW_KUBELET, KNOWN, Named, REPLICASET,
    REPLICATION_CONTROLLER,
};
use crate::replicaset;
use crate::yielding::{Yielding, Yields};

/// How each controller works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The process, as events name it.
    pub instance: String,
    /// Whether kube-controller-manager does not run where its Lease is absent: see [`crate::yielding`].
    pub assume_no_kube_controller_manager: bool,
    /// The workers for `AppReplicaSets`.
    pub app_replicaset: usize,
    /// The workers for `AppServices`.
    pub app_service: usize,
    /// The workers for `Deployments`.
    pub deployment: usize,
    /// How the garbage collector works; none if there is none, whoever asks for it.
    pub garbage_collector: Option<garbage_collector::Options>,
    /// How hollow-kubelet plays, and with how many workers.
    pub hollow_kubelet: (hollow_kubelet::Options, usize),
    /// The workers for `ReplicaSets`.
    pub replicaset: usize,
    /// The workers for `ReplicationControllers`.
    pub replication_controller: usize,
}

/// How a controller was switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// With all others: it yields, if it is one of those that do.
    ByStar,
    /// By its name: it runs in any case.
    ByName,
}

/// What is hosted.
pub struct Hosted {
    /// The names of the controllers.
    pub names: Vec<&'static str>,
    /// What the garbage collector shows of itself, if there is one.
    pub graph: Option<GraphPage>,
    /// What the controllers say to what is about to be stored.
    pub hooks: Hooks,
}

/// The manager that hosts, and whom the controllers yield to.
struct Host<'a> {
    manager: &'a mut Manager,
    assume_absent: bool,
    /// None before the first that yields: only then is it looked at.
    yielding: Option<Yielding>,
}

/// Builds the controllers that are `enabled`, has the manager host them. Those that
/// kube-controller-manager runs as well [yield](crate::yielding) to it, if they are not asked for by name.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &mut Manager,
    enabled: impl Fn(&Named) -> Option<Asked>,
    settings: &Settings,
) -> Result<Hosted, ControllerError> {
    let Settings {
        instance,
        assume_no_kube_controller_manager,
        app_replicaset,
        app_service,
        deployment,
        garbage_collector,
        hollow_kubelet: (hollow, hollow_workers),
        replicaset,
        replication_controller,
    } = settings;
    let mut host = Host {
        manager,
        assume_absent: *assume_no_kube_controller_manager,
        yielding: None,
    };
    let mut replicas: Option<replicaset::Metrics> = None;
    let mut hosted = Hosted {
        names: Vec::new(),
        graph: None,
        hooks: Hooks::new(),
    };
    for named in KNOWN {
        let Some(asked) = enabled(named) else { continue };
        let name = named.name;
        let (kind, workers) = match name {
            APP_SERVICE => {
                let controller = appservice::host(host.manager, instance, *app_service)?;
                hosted.hooks = appservice::hooks(hosted.hooks, host.manager.caches());
                host.add(named, asked, controller);
                hosted.names.push(name);
                continue;
            }
            DEPLOYMENT => {
                let controller = deployment::host(host.manager, instance, *deployment)?;
                host.add(named, asked, controller);
                hosted.names.push(name);
                continue;
            }
            GARBAGE_COLLECTOR => {
                if let Some(options) = garbage_collector {
                    let collector = garbage_collector::host(host.manager, instance, *options)?;
                    hosted.graph = Some(collector.page());
                    match host.yielding(named, asked) {
                        Some(yielding) => collector.warm(yielding.free()),
                        None => collector.warm(ready(())),
                    }
                    host.add(named, asked, collector);
                    hosted.names.push(name);
                }
                continue;
            }
            HOLLOW_KUBELET => {
                let controller = hollow_kubelet::host(host.manager, hollow.clone(), *hollow_workers)?;
                host.add(named, asked, controller);
                hosted.names.push(name);
                continue;
            }
            APP_REPLICASET => (replicaset::APP_REPLICA_SET, *app_replicaset),
            REPLICASET => (replicaset::REPLICA_SET, *replicaset),
            REPLICATION_CONTROLLER => (replicaset::REPLICATION_CONTROLLER, *replication_controller),
            _ => continue,
        };
        let metrics = match &replicas {
            Some(metrics) => metrics.clone(),
            None => replicaset::Metrics::register(host.manager.registry()).map_err(|source| {
                let name = name.to_owned();
                ControllerError::Metrics { name, source }
            })?,
        };
        let controller = replicaset::host(host.manager, &kind, &metrics, instance, workers)?;
        host.add(named, asked, controller);
        hosted.names.push(name);
        replicas = Some(metrics);
    }
    Ok(hosted)
}

impl Host<'_> {
    fn add(&mut self, named: &Named, asked: Asked, controller: impl Runnable + 'static) {
        match self.yielding(named, asked) {
            Some(yielding) => self.manager.add(Yields::new(controller, yielding)),
            None => self.manager.add(controller),
        }
    }

    /// Whom a controller yields to; none if it runs in any case.
    fn yielding(&mut self, named: &Named, asked: Asked) -> Option<Yielding> {
        let yields = named.yields && asked == Asked::ByStar;
        yields.then(|| {
            let start = || Yielding::start(self.manager, self.assume_absent);
            self.yielding.get_or_insert_with(start).clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use coxswain_manager::cache::Scope;
    use coxswain_manager::client::{Fence, Term, Transport};
    use coxswain_manager::controller::{Fatal, Unhealthy};
    use coxswain_manager::env::{Env, TaskSet};
    use coxswain_manager::manager::Options;
    use coxswain_manager::object::{Key, Resource};
    use coxswain_manager::serve::{Checks, Health, Probes};
    use coxswain_sandbox::Sandbox;
    use futures_util::future::BoxFuture;
    use jiff::Timestamp;
    use prometheus::Registry;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    fn manager(tasks: &TaskSet, checks: &Checks) -> Manager {
        let sandbox = Sandbox::new(coxswain_sandbox::Options::default());
        manager_of(&sandbox, tasks, checks)
    }

    fn manager_of(sandbox: &Sandbox, tasks: &TaskSet, checks: &Checks) -> Manager {
        let registry = Registry::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, tasks);
        let way = Transport::over(sandbox.door(), "api.test", "test", &env.clock, &registry).expect("a way");
        let options = Options {
            name: "coxswain",
            limit: None,
            scope: Scope::default(),
            start_interval: Duration::ZERO,
            shutdown_timeout: None,
        };
        Manager::new(&env, &registry, checks, way, options).expect("a manager")
    }

    #[tokio::test(start_paused = true)]
    async fn every_name_is_built() {
        let tasks = TaskSet::new();
        let mut manager = manager(&tasks, &Checks::new());
        let settings = Settings {
            instance: "a".to_owned(),
            assume_no_kube_controller_manager: false,
            app_replicaset: 1,
            app_service: 1,
            deployment: 1,
            garbage_collector: Some(garbage_collector::Options::default()),
            hollow_kubelet: (hollow_kubelet::Options::default(), 1),
            replicaset: 1,
            replication_controller: 1,
        };
        let hosted = host(&mut manager, |_| Some(Asked::ByName), &settings).expect("hosted");
        let names: Vec<_> = KNOWN.iter().map(|it| it.name).collect();
        assert_eq!(hosted.names, names);
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_is_switched_off_is_not_built_whoever_asks() {
        let tasks = TaskSet::new();
        let mut manager = manager(&tasks, &Checks::new());
        let settings = Settings {
            instance: "a".to_owned(),
            assume_no_kube_controller_manager: false,
            app_replicaset: 1,
            app_service: 1,
            deployment: 1,
            garbage_collector: None,
            hollow_kubelet: (hollow_kubelet::Options::default(), 1),
            replicaset: 1,
            replication_controller: 1,
        };
        let hosted = host(&mut manager, |_| Some(Asked::ByName), &settings).expect("hosted");
        assert!(!hosted.names.contains(&GARBAGE_COLLECTOR) && hosted.names.len() + 1 == KNOWN.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_may_run_reads_all_kinds_before_it_leads() {
        let held = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kube-controller-manager"},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}});
        let leases = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
        for (asked, is_held, assume, warm) in [
            (Asked::ByName, true, false, true),
            (Asked::ByName, false, false, true),
            (Asked::ByStar, false, true, true),
            (Asked::ByStar, false, false, false),
            (Asked::ByStar, true, true, false),
        ] {
            let settings = Settings {
                instance: "a".to_owned(),
                assume_no_kube_controller_manager: assume,
                app_replicaset: 1,
                app_service: 1,
                deployment: 1,
                garbage_collector: Some(garbage_collector::Options::default()),
                hollow_kubelet: (hollow_kubelet::Options::default(), 1),
                replicaset: 1,
                replication_controller: 1,
            };
            let tasks = TaskSet::new();
            let sandbox = Sandbox::new(coxswain_sandbox::Options::default());
            let mut manager = manager_of(&sandbox, &tasks, &Checks::new());
            if is_held {
                let (clock, registry) = (&manager.env().clock, &Registry::new());
                let way = Transport::over(sandbox.door(), "api.test", "test", clock, registry);
                let client = way.expect("a way").unfenced("other", None);
                let lease: Result<Value, _> = client
                    .create(&leases, "kube-system", held.to_string().into())
                    .await;
                lease.expect("created");
            }
            let only = |it: &Named| (it.name == GARBAGE_COLLECTOR).then_some(asked);
            host(&mut manager, only, &settings).expect("hosted");
            manager.env().clock.sleep(Duration::from_secs(10)).await;
            let caches = manager.caches().statuses().len();
            assert_eq!(caches > 10, warm, "{caches} {asked:?} {is_held} {assume}");
        }
    }

    /// Does nothing, under a name.
    struct Idle(&'static str);

    impl Runnable for Idle {
        fn name(&self) -> &str {
            self.0
        }

        fn unsynced(&self) -> Vec<String> {
            Vec::new()
        }

        fn run(&self, _: &Fence, _: Term, _: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
            Box::pin(async { Ok(()) })
        }

        fn running(&self) -> Vec<Key> {
            Vec::new()
        }

        fn health(&self) -> Result<(), Unhealthy> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_both_run_by_others_and_swept_in_by_star_yields() {
        let (tasks, checks) = (TaskSet::new(), Checks::new());
        let mut manager = manager(&tasks, &checks);
        let mut host = Host {
            manager: &mut manager,
            assume_absent: true,
            yielding: None,
        };
        let mut add = |name, yields, asked| {
            let named = Named {
                name,
                alias: None,
                off_by_default: false,
                yields,
            };
            host.add(&named, asked, Idle(name));
            host.yielding.is_some()
        };
        assert!(!add("own-by-star", false, Asked::ByStar));
        assert!(!add("theirs-by-name", true, Asked::ByName), "nobody has to look");
        assert!(add("theirs-by-star", true, Asked::ByStar));
        let yields = |name: &str| {
            let checks = checks.run(Probes::HEALTHZ);
            let check = checks.iter().find(|(it, _)| it == name).expect("a check");
            matches!(check.1, Health::Note(_))
        };
        let all = ["own-by-star", "theirs-by-name", "theirs-by-star"];
        assert_eq!(all.map(yields), [false, false, true]);
    }
}
