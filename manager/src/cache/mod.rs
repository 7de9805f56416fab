//! Shared caches: one list and watch per resource, however many controllers ask.

mod delta;
mod index;
mod store;
mod subscription;
mod written;

pub use delta::Delta;
pub use store::Lookup;
pub use subscription::Subscription;
pub use written::{Readiness, ViewState, Views, Write, Written};
