//! The engine in a manager.

use coxswain_manager::controller::{ControllerError, Runnable};
use coxswain_manager::manager::Manager;

use super::{Kind, Metrics, build};

/// The engine for owners of `kind`, with so many workers, for `manager` to host. Events name `instance`, the process.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &Manager,
    kind: &Kind,
    metrics: &Metrics,
    instance: &str,
    workers: usize,
) -> Result<impl Runnable + use<>, ControllerError> {
    let recorder = manager
        .recorder(kind.source, instance)
        .map_err(|source| ControllerError::Events {
            name: kind.name.to_owned(),
            source,
        })?;
    build(
        manager.env(),
        manager.caches(),
        manager.client(kind.source),
        manager.registry(),
        recorder,
        metrics.clone(),
        kind,
        workers,
    )
}
