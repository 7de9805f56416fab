//! The registry of metrics, and the prefix of their names.
//!
//! Metrics that client-go, controller-runtime or kube-controller-manager define keep their names, which dashboards and alerts
//! know. All others start with the prefix of the program.
//!
//! ```
//! use steersman_manager::metrics::Registry;
//! use prometheus::IntCounter;
//!
//! let registry = Registry::new("greeter");
//! let greetings = IntCounter::new(registry.prefixed("greetings_total"), "Number of greetings written.")?;
//! registry.register(Box::new(greetings.clone()))?;
//! greetings.inc();
//! assert_eq!(registry.gather()[0].name(), "greeter_greetings_total");
//! # Ok::<_, prometheus::Error>(())
//! ```

use std::ops::Deref;
use std::sync::Arc;

/// A registry of metrics. Clones share it.
#[derive(Clone, Debug)]
pub struct Registry {
    inner: prometheus::Registry,
    prefix: Arc<str>,
}

impl Registry {
    /// Returns an empty registry. `prefix` is the first word of the names that are not standard, such as `greeter`.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        // A name consists of letters, digits and underscores.
        let is_allowed = |it: char| it.is_ascii_alphanumeric() || it == '_';
        Self {
            inner: prometheus::Registry::new(),
            prefix: prefix.replace(|it| !is_allowed(it), "_").into(),
        }
    }

    /// Returns a name with the prefix.
    #[must_use]
    pub fn prefixed(&self, name: &str) -> String {
        format!("{}_{name}", self.prefix)
    }

    /// Registers the metrics of the process: CPU time, memory, file descriptors and start time. There are none except on Linux.
    pub fn register_process(&self) -> Result<(), prometheus::Error> {
        #[cfg(target_os = "linux")]
        self.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ))?;
        Ok(())
    }
}

impl Deref for Registry {
    type Target = prometheus::Registry;

    fn deref(&self) -> &prometheus::Registry {
        &self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_part_of_a_valid_name() {
        assert_eq!(
            Registry::new("greeter").prefixed("cache_objects"),
            "greeter_cache_objects"
        );
        assert_eq!(Registry::new("my-operator.v2").prefixed("x"), "my_operator_v2_x");
    }
}
