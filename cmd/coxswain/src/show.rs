//! An application as its users see it: from the `AppService` down to the pods.
//!
//! [`World`] is what was read of a namespace, [`tree`] draws what hangs together in it, and [`follow`] keeps the drawing up
//! to date until all of it is ready.

mod live;
mod sample;
pub(crate) mod tree;
mod world;

pub(crate) use live::follow;
pub(crate) use sample::{APP_SERVICES, NAME, NAMESPACE, sample};
pub(crate) use world::{Object, ReadError, World};
