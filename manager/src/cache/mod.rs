//! Shared caches: one list and watch per resource, however many controllers ask.

mod delta;
mod subscription;

pub use delta::Delta;
pub use subscription::Subscription;
#[cfg(test)]
pub(crate) use subscription::{Publisher, channel};
