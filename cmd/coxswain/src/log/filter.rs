//! What is shown. Our own events by verbosity; those of libraries only from warnings up, at any verbosity, since below that
//! they may print headers and bodies; those of the Kubernetes client never, since it prints the body of an answer that it
//! cannot decode as a warning, and that may be a Secret.

use tracing::{Level, Metadata};

/// From this verbosity on, what changes are made.
const DEBUG: u8 = 2;
/// From this verbosity on, every step.
const TRACE: u8 = 4;

/// Whether an event or a span takes part at this verbosity.
pub(super) fn shown(metadata: &Metadata<'_>, verbosity: u8) -> bool {
    let (target, level) = (metadata.target(), *metadata.level());
    if of_crate(target, "kube_client") {
        return false;
    }
    if !target.starts_with("coxswain") {
        return level <= Level::WARN;
    }
    // A span says which object an event is about: that must not depend on the verbosity.
    metadata.is_span() || verbosity_of(level) <= verbosity
}

/// The verbosity from which on events of a level are shown.
pub(super) fn verbosity_of(level: Level) -> u8 {
    match level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => DEBUG,
        Level::TRACE => TRACE,
    }
}

fn of_crate(target: &str, name: &str) -> bool {
    target
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
