//! From names to controllers that a manager hosts.

use coxswain_manager::controller::{ControllerError, Runnable};
use coxswain_manager::manager::Manager;

use crate::hollow_kubelet;
use crate::names::{HOLLOW_KUBELET, KNOWN, Named};
use crate::yielding::{Yielding, Yields};

/// How each controller works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How hollow-kubelet plays, and with how many workers.
    pub hollow_kubelet: (hollow_kubelet::Options, usize),
}

/// How a controller was switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// With all others: it yields, if it is one of those that do.
    ByStar,
    /// By its name: it runs in any case.
    ByName,
}

/// The manager that hosts, and whom the controllers yield to.
struct Host<'a> {
    manager: &'a mut Manager,
    /// None before the first that yields: only then is it looked at.
    yielding: Option<Yielding>,
}

/// Builds the controllers that are `enabled`, has the manager host them, and answers their names. Those that
/// kube-controller-manager runs as well [yield](crate::yielding) to it, if they are not asked for by name.
///
/// # Panics
/// Outside a tokio runtime.
pub fn host(
    manager: &mut Manager,
    enabled: impl Fn(&Named) -> Option<Asked>,
    settings: &Settings,
) -> Result<Vec<&'static str>, ControllerError> {
    let Settings {
        hollow_kubelet: (hollow, hollow_workers),
    } = settings;
    let mut host = Host {
        manager,
        yielding: None,
    };
    let mut hosted = Vec::new();
    for named in KNOWN {
        let Some(asked) = enabled(named) else { continue };
        match named.name {
            HOLLOW_KUBELET => {
                let controller = hollow_kubelet::host(host.manager, hollow.clone(), *hollow_workers)?;
                host.add(named, asked, controller);
            }
            _ => continue,
        }
        hosted.push(named.name);
    }
    Ok(hosted)
}

impl Host<'_> {
    fn add(&mut self, named: &Named, asked: Asked, controller: impl Runnable + 'static) {
        if named.yields && asked == Asked::ByStar {
            let yielding = self.yielding.get_or_insert_with(|| Yielding::start(self.manager));
            self.manager.add(Yields::new(controller, yielding.clone()));
        } else {
            self.manager.add(controller);
        }
    }
}
