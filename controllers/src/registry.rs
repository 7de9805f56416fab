//! The table of controllers: one [`Descriptor`] each, with everything the binary, its flags and its tests need to know.
//!
//! To add a controller, write its folder and one entry in [`CONTROLLERS`].
//!
//! **Names are stable.** A name is an ID: users write it into `--controllers`, dashboards into queries, and roles are bound
//! to service accounts of that name. It is lower-case and ends in `-controller` if kube-controller-manager has a controller
//! of that name or one that works like it. A renamed controller keeps its old name as an alias forever; the name of a removed
//! controller is never reused.

use std::future::ready;

use steersman_manager::cache::Caches;
use steersman_manager::client::{Reader, ServiceAccount};
use steersman_manager::controller::{AuthenticatedController, ControllerError, Runnable};
use steersman_manager::env::Env;
use steersman_manager::events::Recorder;
use steersman_manager::manager::Manager;
use steersman_manager::metrics::Registry;
use steersman_manager::sync::watch;
use steersman_manager::webhook::Hooks;

use crate::garbage_collector::discovery::Discovery;
use crate::garbage_collector::{GarbageCollector, GraphPage};
use crate::replicaset::{APP_REPLICA_SET, REPLICA_SET, REPLICATION_CONTROLLER};
use crate::yielding::{KcmLease, YieldingController};
use crate::{appservice, deployment, garbage_collector, hollow_kubelet, replicaset};

/// All controllers, sorted by name.
pub const CONTROLLERS: &[Descriptor] = &[
    Descriptor {
        name: replicaset::APP_REPLICASET_NAME,
        aliases: &["appreplicaset"],
        enabled_by_default: true,
        yields: false,
        role: Some("appreplicaset-controller.yaml"),
        service_account: replicaset::APP_REPLICASET_NAME,
        construct: |context| replicas(context, &APP_REPLICA_SET, context.settings.appreplicaset_workers),
    },
    Descriptor {
        name: appservice::NAME,
        aliases: &["appservice"],
        enabled_by_default: true,
        yields: false,
        role: Some("appservice-controller.yaml"),
        service_account: appservice::NAME,
        construct: |context| {
            let hooks = std::mem::take(&mut context.hosted.hooks);
            let settings = context.settings;
            let image = settings.appservice_default_image.as_deref();
            context.hosted.hooks = appservice::hooks(hooks, image.is_some());
            let build = |env: &_, caches: &_, client, registry: &_, recorder, workers| {
                appservice::build(env, caches, client, registry, recorder, workers, image)
            };
            workload(context, appservice::NAME, build, settings.appservice_workers)
        },
    },
    Descriptor {
        name: deployment::NAME,
        aliases: &["deployment"],
        enabled_by_default: true,
        yields: true,
        role: Some("deployment-controller.yaml"),
        service_account: deployment::NAME,
        construct: |context| {
            let workers = context.settings.deployment_workers;
            workload(context, deployment::NAME, deployment::build, workers)
        },
    },
    Descriptor {
        name: garbage_collector::NAME,
        aliases: &["garbagecollector"],
        enabled_by_default: true,
        yields: true,
        role: Some("garbage-collector-controller.yaml"),
        service_account: "generic-garbage-collector",
        construct: collector,
    },
    Descriptor {
        name: hollow_kubelet::NAME,
        aliases: &[],
        enabled_by_default: false,
        yields: false,
        role: None,
        service_account: hollow_kubelet::NAME,
        construct: |context| {
            let (options, workers) = (
                &context.settings.hollow_kubelet,
                context.settings.hollow_kubelet_workers,
            );
            let client = context.client(1.0);
            let controller = hollow_kubelet::guarded(context.manager, client, options.clone(), workers)?;
            context.add(controller);
            Ok(())
        },
    },
    Descriptor {
        name: replicaset::NAME,
        aliases: &["replicaset"],
        enabled_by_default: true,
        yields: true,
        role: Some("replicaset-controller.yaml"),
        service_account: replicaset::NAME,
        construct: |context| replicas(context, &REPLICA_SET, context.settings.replicaset_workers),
    },
    Descriptor {
        name: replicaset::REPLICATION_CONTROLLER_NAME,
        aliases: &["replicationcontroller"],
        enabled_by_default: true,
        yields: true,
        role: Some("replicationcontroller-controller.yaml"),
        service_account: "replication-controller",
        construct: |context| {
            let workers = context.settings.replicationcontroller_workers;
            replicas(context, &REPLICATION_CONTROLLER, workers)
        },
    },
];

/// One controller of the binary.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// The stable name in flags, health checks, metrics and logs.
    pub name: &'static str,
    /// Short or former names that `--controllers` accepts too.
    pub aliases: &'static [&'static str],
    /// Whether `*` enables it.
    pub enabled_by_default: bool,
    /// Whether kube-controller-manager runs it too: enabled by `*`, it [yields](crate::yielding).
    pub yields: bool,
    /// The file in `deploy/base/roles` with its `ClusterRole`. None if it is not deployed by default.
    pub role: Option<&'static str>,
    /// Its service account with `--use-service-account-credentials`, and the user agent of its requests: the name that
    /// kube-controller-manager's roles are bound to, if it has the controller.
    pub service_account: &'static str,
    /// Builds the controller and [adds](Context::add) it.
    construct: fn(&mut Context<'_>) -> Result<(), ControllerError>,
}

/// Settings of all controllers. Numbers of workers and the image default to those of the flags.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct Settings {
    /// Whether an absent Lease of kube-controller-manager means that it does not run: see [`crate::yielding`].
    pub assume_no_kube_controller_manager: bool,
    pub appreplicaset_workers: usize,
    /// None rejects an `AppService` without an image and without a Deployment.
    pub appservice_default_image: Option<String>,
    pub appservice_workers: usize,
    pub deployment_workers: usize,
    /// None disables the garbage collector, even if it is enabled by name.
    pub garbage_collector: Option<garbage_collector::Options>,
    pub hollow_kubelet: hollow_kubelet::Options,
    pub hollow_kubelet_workers: usize,
    pub replicaset_workers: usize,
    pub replicationcontroller_workers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            assume_no_kube_controller_manager: false,
            appreplicaset_workers: 5,
            appservice_default_image: Some("nginx".to_owned()),
            appservice_workers: 5,
            deployment_workers: 5,
            garbage_collector: Some(garbage_collector::Options::default()),
            hollow_kubelet: hollow_kubelet::Options::default(),
            hollow_kubelet_workers: 5,
            replicaset_workers: 5,
            replicationcontroller_workers: 5,
        }
    }
}

/// The item of `--controllers` that enables a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnabledBy {
    /// `*`: the controller yields if its descriptor says so.
    Star,
    /// Its name or an alias: the controller never yields.
    Name,
}

/// The controllers that [`host`] has added to a manager.
pub struct Hosted {
    /// Names in the order of the table.
    pub names: Vec<&'static str>,
    /// The debug page of the garbage collector, if it is hosted.
    pub graph: Option<GraphPage>,
    /// Admission webhooks of the controllers.
    pub hooks: Hooks,
}

/// Builds the `enabled` controllers and adds them to the manager.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &mut Manager,
    enabled: impl Fn(&Descriptor) -> Option<EnabledBy>,
    settings: &Settings,
) -> Result<Hosted, ControllerError> {
    let mut context = Context::new(manager, settings);
    for descriptor in CONTROLLERS {
        if let Some(enabled_by) = enabled(descriptor) {
            context.begin(descriptor, enabled_by);
            (descriptor.construct)(&mut context)?;
        }
    }
    Ok(context.hosted)
}

/// The argument of every constructor.
struct Context<'a> {
    manager: &'a mut Manager,
    settings: &'a Settings,
    current: Current,
    /// Started by the first controller that yields.
    kcm: Option<KcmLease>,
    /// Shared by all replica controllers.
    replica_metrics: Option<replicaset::Metrics>,
    hosted: Hosted,
}

/// The controller under construction.
#[derive(Default)]
struct Current {
    name: &'static str,
    user_agent: &'static str,
    /// None if it has the identity of the process.
    account: Option<ServiceAccount>,
    yields: bool,
}

impl<'a> Context<'a> {
    fn new(manager: &'a mut Manager, settings: &'a Settings) -> Self {
        Self {
            manager,
            settings,
            current: Current::default(),
            kcm: None,
            replica_metrics: None,
            hosted: Hosted {
                names: Vec::new(),
                graph: None,
                hooks: Hooks::new(),
            },
        }
    }

    fn begin(&mut self, descriptor: &Descriptor, enabled_by: EnabledBy) {
        self.current = Current {
            name: descriptor.name,
            user_agent: descriptor.service_account,
            account: self.manager.service_account(descriptor.service_account),
            yields: descriptor.yields && enabled_by == EnabledBy::Star,
        };
    }

    fn add(&mut self, controller: impl Runnable + 'static) {
        let account = self.current.account.take();
        self.add_yielding(AuthenticatedController::new(controller, account));
        self.hosted.names.push(self.current.name);
    }

    fn add_yielding(&mut self, controller: impl Runnable + 'static) {
        match self.kcm_to_yield_to() {
            Some(kcm) => self.manager.add(YieldingController::new(controller, kcm)),
            None => self.manager.add(controller),
        }
    }

    /// The observer of kube-controller-manager's Lease, if the controller under construction yields.
    fn kcm_to_yield_to(&mut self) -> Option<KcmLease> {
        let assume_absent = self.settings.assume_no_kube_controller_manager;
        self.current.yields.then(|| {
            let start = || KcmLease::start(self.manager, assume_absent);
            self.kcm.get_or_insert_with(start).clone()
        })
    }

    /// A client with the identity of the controller, and `factor` times the rate limit.
    fn client(&self, factor: f64) -> Reader {
        let Current {
            user_agent, account, ..
        } = &self.current;
        let client = self.manager.reader_with_qps_factor(user_agent, factor);
        client.authenticated_as(account.as_ref())
    }

    /// A recorder of events whose source is `component`.
    fn recorder(&self, component: &str) -> Result<Recorder, ControllerError> {
        let account = self.current.account.as_ref();
        let recorder = self.manager.recorder(component, account);
        recorder.map_err(|source| ControllerError::Events {
            name: self.current.name.to_owned(),
            source,
        })
    }
}

/// Constructs a controller by a function of its number of workers.
fn workload<R: Runnable + 'static>(
    context: &mut Context<'_>,
    name: &str,
    build: impl FnOnce(&Env, &Caches, Reader, &Registry, Recorder, usize) -> Result<R, ControllerError>,
    workers: usize,
) -> Result<(), ControllerError> {
    let (client, recorder) = (context.client(1.0), context.recorder(name)?);
    let manager = &*context.manager;
    let controller = build(
        manager.env(),
        manager.caches(),
        client,
        manager.registry(),
        recorder,
        workers,
    )?;
    context.add(controller);
    Ok(())
}

/// Constructs a controller that keeps the pods of owners of `kind`.
fn replicas(
    context: &mut Context<'_>,
    kind: &replicaset::OwnerKind,
    workers: usize,
) -> Result<(), ControllerError> {
    let (client, recorder) = (context.client(1.0), context.recorder(kind.component)?);
    let manager = &*context.manager;
    let metrics = match context.replica_metrics.take() {
        Some(metrics) => metrics,
        None => {
            replicaset::Metrics::register(manager.registry()).map_err(|source| ControllerError::Metrics {
                name: kind.name.to_owned(),
                source,
            })?
        }
    };
    context.replica_metrics = Some(metrics.clone());
    let controller = replicaset::build(
        manager.env(),
        manager.caches(),
        client,
        manager.registry(),
        recorder,
        metrics,
        kind,
        workers,
    )?;
    context.add(controller);
    Ok(())
}

/// The garbage collector's request rate as a multiple of other controllers', as in kube-controller-manager.
const COLLECTOR_RATE: f64 = 2.0;

fn collector(context: &mut Context<'_>) -> Result<(), ControllerError> {
    let Some(options) = context.settings.garbage_collector else {
        return Ok(());
    };
    let (client, recorder) = (
        context.client(COLLECTOR_RATE),
        context.recorder(garbage_collector::NAME)?,
    );
    let manager = &*context.manager;
    let (env, caches, registry) = (manager.env(), manager.caches(), manager.registry());
    // On a part of the cluster the collector refuses to run: discovery would be wasted.
    let discovery = if caches.include_all() {
        // As the caches, discovery has the identity of the process: a standby reads it too.
        let client = manager.reader(context.current.user_agent);
        let discovery = Discovery::start(env, caches, client, registry);
        discovery.map_err(|source| ControllerError::Metrics {
            name: garbage_collector::NAME.to_owned(),
            source,
        })?
    } else {
        Discovery::fixed(watch::Sender::new(None).subscribe())
    };
    let collector = GarbageCollector::build(env, caches, client, registry, recorder, discovery, options)?;
    context.hosted.graph = Some(collector.page());
    match context.kcm_to_yield_to() {
        Some(kcm) => collector.warm(kcm.free()),
        None => collector.warm(ready(())),
    }
    context.add(collector);
    Ok(())
}

#[cfg(test)]
mod tests;
