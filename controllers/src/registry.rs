//! From names to controllers that a manager hosts.

use coxswain_manager::controller::ControllerError;
use coxswain_manager::manager::Manager;

use crate::hollow_kubelet;
use crate::names::{HOLLOW_KUBELET, KNOWN, Named};

/// How each controller works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How hollow-kubelet plays, and with how many workers.
    pub hollow_kubelet: (hollow_kubelet::Options, usize),
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
        hollow_kubelet: (hollow, hollow_workers),
    } = settings;
    let mut hosted = Vec::new();
    for controller in KNOWN.iter().filter(|it| enabled(it)) {
        if controller.name == HOLLOW_KUBELET {
            hollow_kubelet::host(manager, hollow.clone(), *hollow_workers)?;
            hosted.push(controller.name);
        }
    }
    Ok(hosted)
}
