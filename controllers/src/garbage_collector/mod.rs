//! The garbage collector: what is owned goes when all its owners have gone.
//!
//! The walk: `discovery` (which kinds there are) → `monitors` (one metadata cache each) → `graph` (who owns whom, pure) →
//! the queues → `graph::judge` (what is to be done, pure) → `act` (one request). `orphan` lets dependents go, `debug` shows
//! the graph.

pub mod discovery;
pub mod graph;
pub mod kinds;
