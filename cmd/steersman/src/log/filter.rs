//! Filters events. Our own events are enabled by verbosity. Libraries may log warnings and errors only, because their debug
//! events can contain headers and bodies. The Kubernetes client may log nothing: its warnings quote response bodies that it
//! cannot decode, which can be Secrets.

use std::sync::{Arc, PoisonError, RwLock};

use tracing::subscriber::Interest;
use tracing::{Level, Metadata, callsite};

use super::vmodule::Vmodule;

/// Lowest verbosity of debug events: changes that controllers make.
const DEBUG: u8 = 2;
/// Lowest verbosity of trace events: every step.
const TRACE: u8 = 4;

/// The verbosity of a running process. Clones share it.
#[derive(Clone, Debug)]
pub struct LogHandle(Arc<RwLock<Settings>>);

#[derive(Debug)]
struct Settings {
    verbosity: u8,
    vmodule: Vmodule,
}

impl LogHandle {
    /// Creates a handle with klog's `-v` and `--vmodule`. A pattern of `vmodule` that matches the file of an event can raise
    /// its verbosity, and never lowers it.
    #[must_use]
    pub fn new(verbosity: u8, vmodule: &[(String, u8)]) -> Self {
        Self(Arc::new(RwLock::new(Settings {
            verbosity,
            vmodule: Vmodule::new(vmodule),
        })))
    }

    /// Returns the verbosity of files that no pattern matches.
    #[must_use]
    pub fn verbosity(&self) -> u8 {
        self.read(|settings| settings.verbosity)
    }

    /// Changes the verbosity of later events, and keeps the patterns.
    pub fn set_verbosity(&self, verbosity: u8) {
        self.write(|settings| settings.verbosity = verbosity);
    }

    /// Replaces the patterns, and keeps the verbosity.
    pub fn set_vmodule(&self, vmodule: &[(String, u8)]) {
        let vmodule = Vmodule::new(vmodule);
        self.write(|settings| settings.vmodule = vmodule);
    }

    /// Returns a constant answer, which the event's callsite keeps until the settings change.
    pub(super) fn interest(&self, metadata: &Metadata<'_>) -> Interest {
        if self.is_enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    /// Whether an event or a span is enabled.
    pub(super) fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        let (target, level) = (metadata.target(), *metadata.level());
        if is_in_crate(target, "kube_client") {
            return false;
        }
        if !target.starts_with("steersman") {
            return level <= Level::WARN;
        }
        // Spans carry the object of an event: they are enabled at every verbosity.
        metadata.is_span()
            || self.read(|settings| {
                let needed = verbosity_of(level);
                needed <= settings.verbosity || needed <= settings.vmodule.verbosity(metadata.file())
            })
    }

    fn read<T>(&self, read: impl FnOnce(&Settings) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, write: impl FnOnce(&mut Settings)) {
        write(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
        // Asks each callsite's interest again: an event costs one comparison, and no lock, until the next change.
        callsite::rebuild_interest_cache();
    }
}

/// The lowest verbosity at which events of a level are enabled.
pub(super) fn verbosity_of(level: Level) -> u8 {
    match level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => DEBUG,
        Level::TRACE => TRACE,
    }
}

fn is_in_crate(target: &str, name: &str) -> bool {
    target
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
