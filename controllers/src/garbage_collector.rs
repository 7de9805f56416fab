//! The garbage collector: what is owned goes when all its owners have gone.
//!
//! The walk: `discovery` (which kinds there are) → `monitors` (one metadata cache each) → `graph` (who owns whom, pure) →
//! the queues → `graph::judge` (what is to be done, pure) → `act` (one request). `orphan` lets dependents go, after a
//! `live_list`. `floor` is what all of them share in one term, `collector` what a manager runs; `debug` shows the graph to people.
//!
//! - Nothing is deleted without a proof that no owner holds it: each was seen to go by a cache of its whole kind, or the API
//!   server, asked for it by name, said that there is none or showed another one, or an answer that is less than a second
//!   old (on a slow server: a second older than its latency, at most ten) said that it waits for its dependents. What cannot
//!   be found out is no proof, however often it is tried.
//! - Every DELETE names the uid and the version that were judged: whoever changes the object in between makes it fail, and
//!   it is judged anew.
//! - Each dangling object goes, and each finalizer of the collector, once the API server can be asked.
//! - One namespace does not delay the others: they take turns in the queue, an item occupies a worker for one token and for
//!   half a second without an answer, and the circuit breaker is one per resource and namespace.
//!
//! One write per object is the least there is. These reads remain: a GET of an owner that no cache has shown, one for all its
//! dependents; a GET of an owner that waits for its dependents, one per second, because its deletion can still be turned
//! into another one; a GET after a conflict; and for an owner that lets its dependents go a list of each kind, because what no
//! cache has shown yet would be deleted after it.

mod act;
mod audit;
mod breaker;
mod collector;
mod debug;
pub mod discovery;
mod floor;
pub mod graph;
pub mod kinds;
mod live_list;
mod lookup;
mod metrics;
mod monitors;
mod orphan;
mod progress;
mod warm;
mod worker;

pub use collector::GarbageCollector;
pub use debug::GraphPage;

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "garbage-collector-controller";

/// How the collector works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many objects are looked at once, and how many owners let their dependents go at once. At least 1; 20 unless told.
    pub workers: usize,
    /// Nothing is written: what would be deleted is logged and counted.
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
