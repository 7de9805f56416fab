//! The garbage collector: deletes objects whose owners are all absent.
//!
//! The path of an event: `discovery` (served kinds) → `monitors` (one metadata cache per kind) → `graph` (owners and
//! dependents, pure) → `queues` → `attempt_to_delete` → `graph::evaluate` (the decision, pure) → `act` (one request).
//! `attempt_to_orphan` orphans dependents after a `live_list`. `term` is the state that they share in one term, `collector`
//! runs them on the manager's lifecycle, and `debug` serves the graph.
//!
//! - An object is deleted only if every owner is proven absent: a complete cache of its kind observed the deletion, or a live
//!   read returned 404 or another uid; or if a live read that is less than a second old (on a slow server: a second older than
//!   its latency, at most ten) showed the owner in foreground deletion. An unknown answer is never a proof.
//! - Every DELETE carries the uid and resourceVersion that were evaluated. A concurrent change fails it with 409 Conflict, and
//!   the object is evaluated again.
//! - Every dangling object is deleted, and every finalizer of the collector is removed, once the API server answers.
//! - One namespace does not delay the others: the queues are fair between namespaces, an item occupies a worker for one token
//!   and at most half a second without an answer, and there is one circuit breaker per resource and namespace.
//!
//! One write per object is the minimum. These reads remain: one GET of a virtual owner for all its dependents; one GET per
//! second of an owner in foreground deletion, because its propagation policy can still change; a GET after a conflict; and a
//! list of each kind for an owner that is orphaned, because a dependent that no cache has shown yet would be deleted later.

mod act;
mod attempt_to_delete;
mod attempt_to_orphan;
mod breaker;
mod collector;
mod debug;
pub mod discovery;
mod graph;
pub mod kinds;
mod live_list;
mod lookup;
mod metrics;
mod monitors;
mod queues;
mod term;

pub use collector::GarbageCollector;
pub use debug::GraphPage;

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "garbage-collector-controller";

/// The options of the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of objects that are evaluated, and of owners that are orphaned, at the same time. Defaults to 20; at least 1.
    pub workers: usize,
    /// Logs and counts writes instead of sending them. Defaults to false.
    pub dry_run: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 20,
            dry_run: false,
        }
    }
}
