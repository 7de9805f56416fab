//! hollow-kubelet: simulates the nodes of a cluster without nodes. No containers run; only the API objects change.
//!
//! Guarantees:
//! - [`Options::nodes`] nodes with the label [`LABEL`] exist and are Ready;
//! - an unbound pod is bound to one of them;
//! - a pod on one of them becomes Running and Ready with an address of its own, [`Options::delay`] after its binding;
//!   an image tagged `404` or `nonexistent` stays in `ImagePullBackOff`, and a pod annotated with [`FAIL`] fails;
//! - a terminating pod on one of them is removed.
//!
//! It never changes a pod on another node, a node without the label, or a pod that has finished. Containers do not exit by
//! themselves.
//!
//! Outside the sandbox it does not start in a cluster with other nodes ([`may_start`]), and binds no pods while there are any:
//! it would take their pods.
//!
//! The path of an event: [`Nodes`] and a [`Pod`] → [`plan::pod`] → [`act::pod`]; the same for nodes. [`HollowKubelet`] reads
//! both from caches, [`build`] creates the controller, and [`guarded`] adds the check of the cluster.

pub mod act;
mod address;
mod condition;
mod guard;
mod node;
mod nodes;
pub mod plan;
mod pod;
mod reconcile;
mod status;

pub use guard::{StartError, guarded, may_start};
pub use node::Node;
pub use nodes::{ForeignNode, Nodes};
pub use pod::Pod;
pub use reconcile::{HollowKubelet, build};

use std::time::Duration;

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "hollow-kubelet";
/// The label of simulated nodes, with the value `true`.
pub const LABEL: &str = "sandbox.steersman.dev/hollow";
/// The annotation, with the value `true`, that makes a pod fail.
pub const FAIL: &str = "sandbox.steersman.dev/fail";

/// Options of hollow-kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of nodes to create: `hollow-0`, `hollow-1` and so on. Defaults to 3. 0 uses only nodes that were labelled by
    /// others.
    pub nodes: u32,
    /// Time from the binding of a pod until it is Ready. Defaults to 1 s. Bindings are recorded in whole seconds, so it takes up
    /// to a second longer; with 0 the pod is Ready at once.
    pub delay: Duration,
    /// Whether the cluster is the sandbox, where other nodes have no kubelet either. Defaults to false.
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
