//! hollow-kubelet: makes a cluster without nodes come alive. It runs nothing; it only says so.
//!
//! What it promises:
//! - its nodes, [`Options::nodes`] of them, exist, carry [`LABEL`] and are Ready;
//! - a pod that nobody has bound is bound to one of them;
//! - a pod on one of them becomes Running and Ready with an address of its own, [`Options::delay`] after it was bound;
//!   an image tagged `404` or `nonexistent` stays in `ImagePullBackOff`, and a pod annotated with [`FAIL`] has failed;
//! - a pod on one of them that is being deleted goes.
//!
//! What it never does: touch a pod on any other node, a node that does not carry its label, or a pod that has finished.
//! Containers do not exit by themselves.
//!
//! Outside the sandbox it refuses to start next to nodes that are not its own ([`may_start`]), and binds nothing while there
//! are any: it would take their pods.
//!
//! The walk: [`Fleet`] (what nodes there are) and a [`Pod`] → [`plan::pod`] → [`act::pod`]; the same for nodes.
//! [`HollowKubelet`] takes both from caches, [`build`] makes a controller of it, and [`host`] puts it behind the look at the
//! cluster.

pub mod act;
mod address;
mod condition;
mod fleet;
mod guard;
mod node;
pub mod plan;
mod pod;
mod reconcile;
mod start;
mod status;

pub use fleet::{Fleet, Refusal};
pub use guard::guarded;
pub use node::Node;
pub use pod::Pod;
pub use reconcile::{HollowKubelet, build};
pub use start::{StartError, may_start};

use std::time::Duration;

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "hollow-kubelet";
/// The label of the nodes that it plays kubelet for; its value is `true`.
pub const LABEL: &str = "sandbox.coxswain.dev/hollow";
/// The annotation that makes a pod fail; its value is `true`.
pub const FAIL: &str = "sandbox.coxswain.dev/fail";

/// How it plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many nodes it creates: `hollow-0`, `hollow-1` and so on. Default: 3. With 0 it only serves nodes that somebody
    /// else has labelled.
    pub nodes: u32,
    /// How long a pod takes from its binding until it is Ready. Default: 1 s. Bindings are recorded in whole seconds, so it
    /// takes up to a second longer; with 0 it is Ready at once.
    pub delay: Duration,
    /// The cluster is the sandbox: nodes that are not its own are nobody's. Default: false.
    pub sandbox: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 3,
            delay: Duration::from_secs(1),
            sandbox: false,
        }
    }
}

#[cfg(test)]
mod tests;
