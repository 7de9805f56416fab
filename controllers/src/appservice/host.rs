//! The controller in a manager.

use coxswain_manager::controller::{ControllerError, Runnable};
use coxswain_manager::manager::Manager;

use super::build;
use crate::names::APP_SERVICE;

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
        .recorder(APP_SERVICE, instance)
        .map_err(|source| ControllerError::Events {
            name: APP_SERVICE.to_owned(),
            source,
        })?;
    build(
        manager.env(),
        manager.caches(),
        manager.client(APP_SERVICE),
        manager.registry(),
        recorder,
        workers,
    )
}
