//! The engine in a manager.

use coxswain_manager::controller::ControllerError;
use coxswain_manager::manager::Manager;

use super::{Kind, Metrics, build};

/// Has `manager` host the engine for owners of `kind`, with so many workers. Events name `instance`, the process.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &mut Manager,
    kind: &Kind,
    metrics: &Metrics,
    instance: &str,
    workers: usize,
) -> Result<(), ControllerError> {
    let recorder = manager
        .recorder(kind.source, instance)
        .map_err(|source| ControllerError::Events {
            name: kind.name.to_owned(),
            source,
        })?;
    let controller = build(
        manager.env(),
        manager.caches(),
        manager.client(kind.source),
        manager.registry(),
        recorder,
        metrics.clone(),
        kind,
        workers,
    )?;
    manager.add(controller);
    Ok(())
}
