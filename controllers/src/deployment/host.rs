//! The controller in a manager.

use coxswain_manager::controller::{ControllerError, Runnable};
use coxswain_manager::manager::Manager;

use super::build;
use crate::names::DEPLOYMENT;

/// The controller, with so many workers, for `manager` to host. Events name `instance`, the process.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &Manager,
    instance: &str,
    workers: usize,
) -> Result<impl Runnable + use<>, ControllerError> {
    let recorder = manager
        .recorder(DEPLOYMENT, instance)
        .map_err(|source| ControllerError::Events {
            name: DEPLOYMENT.to_owned(),
            source,
        })?;
    build(
        manager.env(),
        manager.caches(),
        manager.client(DEPLOYMENT),
        manager.registry(),
        recorder,
        workers,
    )
}
