//! Filters events. Our own events are enabled by verbosity. Libraries may log warnings and errors only, because their debug
//! events can contain headers and bodies. The Kubernetes client may log nothing: its warnings quote response bodies that it
//! cannot decode, which can be Secrets.

use tracing::{Level, Metadata};

/// Lowest verbosity of debug events: changes that controllers make.
const DEBUG: u8 = 2;
/// Lowest verbosity of trace events: every step.
const TRACE: u8 = 4;

/// Whether an event or a span is enabled.
pub(super) fn is_enabled(metadata: &Metadata<'_>, verbosity: u8) -> bool {
    let (target, level) = (metadata.target(), *metadata.level());
    if is_in_crate(target, "kube_client") {
        return false;
    }
    if !target.starts_with("coxswain") {
        return level <= Level::WARN;
    }
    // Spans carry the object of an event: they are enabled at every verbosity.
    metadata.is_span() || verbosity_of(level) <= verbosity
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
