//! Reload of the configuration on SIGHUP.
//!
//! The command line is parsed again, and with it the configuration file. Verbosity and rate limits change in the running
//! manager. Other changed fields are logged. An invalid file changes nothing.

use std::ffi::OsString;
use std::sync::Arc;

use steersman_config::{Changes, ClientConnection, Config, Parsed};
use steersman_manager::client::{RateLimit, SharedRateLimit};
use steersman_manager::sync::watch;

use crate::log::LogHandle;
use steersman_manager::signals::Hangup;

/// The parts of a running manager that a reload changes.
pub(crate) struct Reload {
    /// The arguments of the process.
    pub(crate) arguments: Vec<OsString>,
    /// The configuration that the manager runs with, for its pages.
    pub(crate) effective: watch::Sender<Arc<Config>>,
    pub(crate) log: LogHandle,
    pub(crate) rate_limit: SharedRateLimit,
}

impl Reload {
    /// Reloads on each signal. Does not end.
    pub(crate) async fn run(self, mut hangup: Hangup) {
        loop {
            hangup.next().await;
            let arguments = self.arguments.clone();
            // The file may be slow to read.
            let parse = move || steersman_config::parse(arguments, &crate::known());
            match tokio::task::spawn_blocking(parse).await {
                Ok(Ok(Parsed::Run(config))) => self.apply(&config),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "Failed to reload configuration, the previous one stays in effect");
                }
                Err(error) => tracing::error!(%error, "Failed to reload configuration"),
            }
        }
    }

    fn apply(&self, new: &Config) {
        let mut changes = Changes::default();
        self.effective
            .send_modify(|config| changes = Arc::make_mut(config).reload(new));
        let Changes { reloaded, restart } = changes;
        let is_changed = |field: &str| reloaded.iter().any(|path| path == field);
        // Verbosity may have been changed at run time: a reload without a change of it keeps that.
        if is_changed("logging.verbosity") {
            self.log.set_verbosity(new.logging.verbosity);
        }
        if is_changed("logging.vmodule") {
            self.log.set_vmodule(&new.logging.vmodule);
        }
        self.rate_limit.set(rate_limit(&new.client_connection));
        if !restart.is_empty() {
            let fields = restart.join(",");
            tracing::warn!(fields, "Configuration change requires a restart");
        }
        tracing::info!(fields = reloaded.join(","), "Reloaded configuration");
    }
}

/// Returns the rate limit of each controller's client; none is unlimited.
pub(crate) fn rate_limit(connection: &ClientConnection) -> Option<RateLimit> {
    connection.rate.map(|rate| RateLimit {
        qps: rate.qps,
        burst: rate.burst,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(arguments: &[&str]) -> Config {
        let arguments = arguments.iter().map(OsString::from);
        match steersman_config::parse(arguments, &crate::known()) {
            Ok(Parsed::Run(config)) => *config,
            _ => panic!("the flags are invalid"),
        }
    }

    #[test]
    fn reload_of_vmodule_keeps_the_verbosity_set_at_run_time() {
        let (effective, _shown) = watch::channel(Arc::new(config(&["-v=1"])));
        let reload = Reload {
            arguments: Vec::new(),
            effective,
            log: LogHandle::new(1, &[]),
            rate_limit: SharedRateLimit::new(None),
        };
        reload.log.set_verbosity(5);
        reload.apply(&config(&["-v=1", "--vmodule=reflector=4"]));
        assert_eq!(reload.log.verbosity(), 5);
        reload.apply(&config(&["-v=2", "--vmodule=reflector=4"]));
        assert_eq!(reload.log.verbosity(), 2);
    }
}
