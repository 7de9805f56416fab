//! The pages about the process: version, configuration, flags, status, verbosity and profiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_config::Config;
use steersman_manager::env::Env;
use steersman_manager::serve::Endpoints;
use steersman_manager::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::NAME;
use crate::build::BUILD;
use crate::log::LogHandle;
use crate::profiling;

/// The API group of the configuration.
const GROUP: &str = "config.steersman.dev";

/// The configuration and verbosity in force.
#[derive(Clone)]
struct Effective {
    config: watch::Receiver<Arc<Config>>,
    log: LogHandle,
}

/// Adds the pages. `/statusz` and `/debug/controllers/` list the pages that were mounted before. A profile ends early when
/// `stop` is cancelled.
pub(crate) fn mount(
    endpoints: Endpoints,
    config: watch::Receiver<Arc<Config>>,
    log: &LogHandle,
    env: &Env,
    stop: &CancellationToken,
) -> Endpoints {
    let profiling = config.borrow().debugging.profiling;
    let of_configz = Effective {
        config,
        log: log.clone(),
    };
    let of_flagz = of_configz.clone();
    let endpoints = endpoints
        .with_version(&BUILD)
        .with_configz(GROUP, move || of_configz.document())
        .with_flagz(NAME, move || of_flagz.flags());
    // As in kube-controller-manager, the flag covers both.
    let endpoints = if profiling {
        let (shown, set) = (log.clone(), log.clone());
        profiling::mount(endpoints, &env.clock, stop).with_verbosity(
            move || shown.verbosity().to_string(),
            move |value| set_verbosity(&set, value),
        )
    } else {
        endpoints
    };
    endpoints.with_controller_index().with_statusz(&BUILD, &env.clock)
}

impl Effective {
    fn flags(&self) -> BTreeMap<String, String> {
        let mut flags = self.config.borrow().flags.clone();
        flags.insert("v".to_owned(), self.log.verbosity().to_string());
        flags
    }

    fn document(&self) -> Value {
        let mut document = self.config.borrow().document.clone();
        document["logging"]["verbosity"] = json!(self.log.verbosity());
        document
    }
}

/// Sets the verbosity. Its response is that of kube-controller-manager.
fn set_verbosity(log: &LogHandle, value: &str) -> Result<String, String> {
    let Ok(verbosity) = value.parse() else {
        let value: String = value.chars().take(20).collect();
        return Err(format!(
            "invalid verbosity {value:?}: it must be a number from 0 to 255"
        ));
    };
    log.set_verbosity(verbosity);
    tracing::info!(verbosity, "Set verbosity");
    Ok(format!("successfully set klog.logging.verbosity to {verbosity}"))
}
