//! The collector in a manager.

use coxswain_manager::controller::ControllerError;
use coxswain_manager::manager::Manager;
use tokio::sync::watch;

use super::discovery::Discovery;
use super::{GarbageCollector, Options};
use crate::names::GARBAGE_COLLECTOR;

/// Whom the API server sees: kube-controller-manager's roles are bound to this name.
const CLIENT: &str = "generic-garbage-collector";
/// How many times the requests of other controllers it may send per second, as in kube-controller-manager.
const RATE: f64 = 2.0;

/// The collector, for `manager` to host. Events name `instance`, the process.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &Manager,
    instance: &str,
    options: Options,
) -> Result<GarbageCollector, ControllerError> {
    let name = || GARBAGE_COLLECTOR.to_owned();
    let (env, caches, registry) = (manager.env(), manager.caches(), manager.registry());
    let recorder = manager
        .recorder(GARBAGE_COLLECTOR, instance)
        .map_err(|source| ControllerError::Events { name: name(), source })?;
    // A collector that must not run needs no kinds.
    let discovery = if caches.are_whole() {
        Discovery::start(env, caches, manager.client(CLIENT), registry)
            .map_err(|source| ControllerError::Metrics { name: name(), source })?
    } else {
        Discovery::fixed(watch::Sender::new(None).subscribe())
    };
    let client = manager.client_with_qps_factor(CLIENT, RATE);
    GarbageCollector::build(env, caches, client, registry, recorder, discovery, options)
}
