//! Shared caches: one list and watch per resource, however many controllers ask.

mod delta;
mod index;
mod item;
mod store;
mod subscription;
#[cfg(test)]
mod told;
mod written;

pub use delta::Delta;
pub use item::Lookup;
pub use subscription::Subscription;
pub use written::{Readiness, ViewState, Views, Write, Written};
