//! Construction of the controller: its caches, sources and event handlers.

use steersman_manager::cache::{Cache, Caches, Delta};
use steersman_manager::client::Reader;
use steersman_manager::controller::{self, Builder, ControllerError, QueueController};
use steersman_manager::env::Env;
use steersman_manager::events::Recorder;
use steersman_manager::handler::Handler;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Meta, Text, Uid};
use steersman_manager::predicate::Predicate;
use steersman_manager::source::Source;

use super::child::Service;
use super::ownership::{ADOPT_BY_ANNOTATION, MADE_AS_ANNOTATION, UID_LABEL};
use super::reconcile::AppServiceReconciler;
use super::{NAME, desired};
use crate::api::app_service::{APP_SERVICES, AppService};
use crate::support::deployment::Deployment;
use crate::support::memory::Memory;
use crate::support::{DEPLOYMENTS, SERVICES};

/// Builds the controller. `default_image` is the image of a new Deployment whose `AppService` does not set one.
///
/// # Panics
/// Outside a tokio runtime.
pub fn build(
    env: &Env,
    caches: &Caches,
    client: Reader,
    registry: &Registry,
    recorder: Recorder,
    workers: usize,
    default_image: Option<&str>,
) -> Result<QueueController<AppServiceReconciler>, ControllerError> {
    let apps = caches.of::<AppService>(&APP_SERVICES);
    let deployments = caches.of::<Deployment>(&DEPLOYMENTS);
    let services = caches.of::<Service>(&SERVICES);
    let reconciler = AppServiceReconciler {
        caches: caches.clone(),
        apps: apps.clone(),
        deployments: deployments.clone(),
        deployments_by_app: deployments.index_label(UID_LABEL),
        services: services.clone(),
        recorder,
        memory: Memory::default(),
        default_image: default_image.map(Into::into),
    };
    let options = controller::Options {
        workers,
        queue: Some("appservice".to_owned()),
        ..controller::Options::default()
    };
    let owner = Handler::map(|it: &Deployment| owner(it).into_iter().collect());
    let waiting = {
        let apps = apps.clone();
        Handler::map(move |it: &Deployment| apps_naming(&apps, &it.metadata))
    };
    let name_freed = Predicate::new(|delta: &Delta<Deployment>| match delta {
        Delta::Added { .. } => false,
        Delta::Updated { old, new } => ownership_fields(old) != ownership_fields(new),
        Delta::Deleted { .. } => true,
    });
    let same_name = {
        let apps = apps.clone();
        Handler::map(move |it: &Service| {
            let key = it.metadata.key();
            apps.get(&key).present().map(|_| key).into_iter().collect()
        })
    };
    Builder::new(NAME, options, reconciler)
        .watch(Source::new(apps, Handler::for_object()))
        .watch(Source::new(deployments.clone(), owner))
        .watch(Source::new(deployments, waiting).only(name_freed))
        .watch(Source::new(services, same_name))
        .build(env, client, registry)
}

/// Returns the `AppService` that a Deployment belongs to, by its controller reference, annotation or labels.
fn owner(deployment: &Deployment) -> Option<Key> {
    let meta = &deployment.metadata;
    let name = match meta.controller() {
        Some(controller) if controller.kind == *APP_SERVICES.kind => &controller.name,
        Some(_) => return None,
        None => deployment
            .annotations
            .get(ADOPT_BY_ANNOTATION)
            .or_else(|| desired::instance(&meta.labels))?,
    };
    Some(Key::new(meta.namespace.clone(), name.clone()))
}

/// Returns the fields that decide which `AppService` a Deployment belongs to.
fn ownership_fields(deployment: &Deployment) -> (Option<&Uid>, Option<&Text>, Option<&Text>, &Uid) {
    let meta = &deployment.metadata;
    let controller = meta.controller().map(|it| &it.uid);
    (
        controller,
        meta.labels.get(UID_LABEL),
        deployment.annotations.get(MADE_AS_ANNOTATION),
        &meta.uid,
    )
}

/// Returns the `AppServices` whose `deploymentName` is the name of this Deployment.
fn apps_naming(apps: &Cache<AppService>, deployment: &Meta) -> Vec<Key> {
    let all = apps.list_namespace(&deployment.namespace).into_iter();
    all.filter(|it| it.spec.deployment_name == deployment.name)
        .map(|it| it.metadata.key())
        .collect()
}
