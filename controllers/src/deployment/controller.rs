//! The watches of the controller, and the Deployments that an event enqueues.

use std::sync::Arc;

use steersman_manager::cache::{Cache, Caches, Delta, Index};
use steersman_manager::client::Reader;
use steersman_manager::controller::{self, Builder, ControllerError, QueueController};
use steersman_manager::env::Env;
use steersman_manager::events::Recorder;
use steersman_manager::handler::Handler;
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_manager::predicate::Predicate;
use steersman_manager::source::Source;

use super::reconcile::DeploymentReconciler;
use super::{DEPLOYMENTS, NAME, REPLICA_SETS, ReplicaSet};
use crate::support::PODS;
use crate::support::deployment::Deployment;
use crate::support::pod::Pod;

/// Builds the controller.
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
) -> Result<QueueController<DeploymentReconciler>, ControllerError> {
    let (deployments, sets, pods) = (
        caches.of::<Deployment>(&DEPLOYMENTS),
        caches.of::<ReplicaSet>(&REPLICA_SETS),
        caches.of::<Pod>(&PODS),
    );
    let reconciler = DeploymentReconciler::new(caches, &deployments, &sets, &pods, recorder);
    let options = controller::Options {
        workers,
        queue: Some("deployment".to_owned()),
        ..controller::Options::default()
    };
    let by_uid = deployments.index_uid();
    let for_set = {
        let (deployments, by_uid) = (deployments.clone(), by_uid.clone());
        Handler::map(move |set: &ReplicaSet| deployments_for_set(&deployments, &by_uid, set))
    };
    let for_pod = {
        let (sets, pods) = (sets.index_uid(), pods.clone());
        Handler::map(move |pod: &Pod| deployment_for_ended_pod(&by_uid, &sets, &pods, pod))
    };
    // The status of the ReplicaSet reports all other changes of pods.
    let ends = Predicate::new(|delta: &Delta<Pod>| match delta {
        Delta::Added { .. } => false,
        Delta::Updated { old, new } => {
            !old.has_finished()
                && (new.has_finished() || old.metadata.controller() != new.metadata.controller())
        }
        Delta::Deleted { .. } => true,
    });
    Builder::new(NAME, options, reconciler)
        .watch(Source::new(deployments, Handler::for_object()))
        .watch(Source::new(sets, for_set))
        .watch(Source::new(pods, for_pod).only(ends))
        .build(env, client, registry)
}

/// Returns the Deployment that controls the `ReplicaSet`, or all Deployments that could adopt it.
fn deployments_for_set(
    deployments: &Cache<Deployment>,
    by_uid: &Index<Deployment>,
    set: &ReplicaSet,
) -> Vec<Key> {
    let meta = &set.metadata;
    if meta.controller().is_some() {
        let owner = owner(by_uid, set);
        return owner.map(|it| it.metadata.key()).into_iter().collect();
    }
    if meta.labels.iter().next().is_none() {
        return Vec::new();
    }
    let all = deployments.list_namespace(&meta.namespace).into_iter();
    let can_adopt = |it: &Arc<Deployment>| it.selector().is_ok_and(|it| it.matches(&meta.labels));
    all.filter(can_adopt).map(|it| it.metadata.key()).collect()
}

fn owner(deployments: &Index<Deployment>, set: &ReplicaSet) -> Option<Arc<Deployment>> {
    let controller = set.metadata.controller()?;
    if controller.kind != *DEPLOYMENTS.kind {
        return None;
    }
    deployments.owner(&set.metadata.namespace, controller)
}

/// Returns the Deployment of the pod if its strategy is Recreate and the pod was the last of its `ReplicaSet`: the
/// Deployment waits for that.
fn deployment_for_ended_pod(
    deployments: &Index<Deployment>,
    sets: &Index<ReplicaSet>,
    pods: &Cache<Pod>,
    pod: &Pod,
) -> Vec<Key> {
    let find = || {
        let controller = pod.metadata.controller()?;
        let set = sets.owner(&pod.metadata.namespace, controller)?;
        let owner = owner(deployments, &set)?;
        let waits = owner.strategy().type_ == "Recreate"
            && !pods.by_owner(&controller.uid).iter().any(|it| !it.has_finished());
        waits.then(|| owner.metadata.key())
    };
    find().into_iter().collect()
}
