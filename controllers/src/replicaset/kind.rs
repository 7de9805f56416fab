//! What tells one kind of owner from another.

use coxswain_manager::object::Resource;

/// A kind of owner that the engine works for.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The name of its controller.
    pub name: &'static str,
    /// The name of its client, and the source of its events.
    pub source: &'static str,
    /// The name of its queue in metrics.
    pub queue: &'static str,
    /// Where owners are.
    pub resource: Resource,
    /// Whether its status counts the pods that are on their way out.
    pub counts_terminating: bool,
    /// Whether its status has the selector as a text, for whoever scales it.
    pub tells_selector: bool,
}
