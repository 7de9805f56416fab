//! From names to controllers that a manager hosts.

use coxswain_manager::controller::ControllerError;
use coxswain_manager::manager::Manager;

use crate::hollow_kubelet;
use crate::names::{HOLLOW_KUBELET, KNOWN, Named, REPLICASET, REPLICATION_CONTROLLER};
use crate::replicaset;

/// How each controller works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The process, as events name it.
    pub instance: String,
    /// How hollow-kubelet plays, and with how many workers.
    pub hollow_kubelet: (hollow_kubelet::Options, usize),
    /// The workers for `ReplicaSets`.
    pub replicaset: usize,
    /// The workers for `ReplicationControllers`.
    pub replication_controller: usize,
}

/// Builds the controllers that are `enabled`, has the manager host them, and answers their names.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &mut Manager,
    enabled: impl Fn(&Named) -> bool,
    settings: &Settings,
) -> Result<Vec<&'static str>, ControllerError> {
    let Settings {
        instance,
        hollow_kubelet: (hollow, hollow_workers),
        replicaset,
        replication_controller,
    } = settings;
    let mut replicas: Option<replicaset::Metrics> = None;
    let mut hosted = Vec::new();
    for controller in KNOWN.iter().filter(|it| enabled(it)) {
        let name = controller.name;
        let (kind, workers) = match name {
            HOLLOW_KUBELET => {
                hollow_kubelet::host(manager, hollow.clone(), *hollow_workers)?;
                hosted.push(name);
                continue;
            }
            REPLICASET => (replicaset::REPLICA_SET, *replicaset),
            REPLICATION_CONTROLLER => (replicaset::REPLICATION_CONTROLLER, *replication_controller),
            _ => continue,
        };
        let metrics = match &replicas {
            Some(metrics) => metrics.clone(),
            None => replicaset::Metrics::register(manager.registry()).map_err(|source| {
                let name = name.to_owned();
                ControllerError::Metrics { name, source }
            })?,
        };
        replicaset::host(manager, &kind, &metrics, instance, workers)?;
        replicas = Some(metrics);
        hosted.push(name);
    }
    Ok(hosted)
}
