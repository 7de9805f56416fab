//! Plans the next step for a pod or a node, without a client or a clock.

use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::object::Text;

use super::pod::Status;
use super::{Node, Nodes, Options, Pod, address, node, status};

/// Delay before binding is retried if there is no node: no event enqueues the pod.
pub const NO_NODE_RETRY: Duration = Duration::from_secs(1);

/// The next step for a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum PodStep {
    /// Nothing until the pod changes.
    Nothing,
    /// Nothing for this time.
    Wait(Duration),
    /// Bind the pod to this node.
    Bind(Text),
    /// Send this strategic merge patch of the status.
    Status(Value),
    /// Delete the terminating pod with grace period 0.
    Finish,
}

/// The next step for a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeStep {
    /// Nothing until the node changes.
    Nothing,
    /// Create this node.
    Create(Value),
    /// Send this strategic merge patch of the status.
    Status(Value),
}

/// Plans the next step for a pod. `taken` returns whether another pod has an address.
pub fn pod(
    pod: &Pod,
    cluster_nodes: &Nodes,
    taken: impl Fn(Ipv4Addr) -> bool,
    options: &Options,
    now: Timestamp,
) -> PodStep {
    if pod.node().is_empty() {
        return unbound(pod, cluster_nodes, options);
    }
    let Some(host_ip) = cluster_nodes.ip(pod.node()) else {
        return PodStep::Nothing;
    };
    if pod.metadata.is_terminating() {
        // With grace period 0 the kubelet is done: finalizers keep the pod.
        return match pod.metadata.deletion_grace_period_seconds {
            Some(0) => PodStep::Nothing,
            _ => PodStep::Finish,
        };
    }
    if pod.has_finished() {
        return PodStep::Nothing;
    }
    let remaining = remaining_delay(pod, options, now);
    if !remaining.is_zero() {
        return PodStep::Wait(remaining);
    }
    // Addresses never change once they are set.
    let host_ip = match &*pod.status.host_ip {
        "" => host_ip,
        present => present,
    };
    let pod_ip = match (&**pod.ip(), pod.spec.host_network) {
        ("", true) => host_ip.to_owned(),
        ("", false) => address::pod(&pod.metadata.resource_version, taken).to_string(),
        (present, _) => present.to_owned(),
    };
    let desired = status::desired(pod, host_ip, &pod_ip, now);
    if is_up_to_date(&pod.status, &desired) {
        PodStep::Nothing
    } else {
        PodStep::Status(json!({"metadata": pod.metadata.preconditions(), "status": desired}))
    }
}

fn unbound(pod: &Pod, cluster_nodes: &Nodes, options: &Options) -> PodStep {
    if pod.metadata.is_terminating() || pod.has_finished() || !pod.spec.scheduling_gates.is_empty() {
        return PodStep::Nothing;
    }
    if !options.sandbox && cluster_nodes.all_hollow().is_err() {
        return PodStep::Wait(NO_NODE_RETRY);
    }
    match cluster_nodes.node_for(&pod.metadata.uid) {
        Some(node) => PodStep::Bind(node.clone()),
        None => PodStep::Wait(NO_NODE_RETRY),
    }
}

/// Returns the time until the pod may become Ready. A pod that was started before is not delayed.
fn remaining_delay(pod: &Pod, options: &Options, now: Timestamp) -> Duration {
    if options.delay.is_zero() || pod.status.start_time.is_some() {
        return Duration::ZERO;
    }
    let scheduled = super::condition::find(&pod.status.conditions, "PodScheduled");
    let since = scheduled
        .and_then(|it| it.last_transition_time)
        .or(pod.metadata.creation_timestamp);
    let Some(since) = since else { return Duration::ZERO };
    // The timestamp is truncated to seconds: count from the end of that second.
    let passed = now.duration_since(since) - jiff::SignedDuration::from_secs(1);
    let passed = Duration::try_from(passed).unwrap_or_default();
    options.delay.saturating_sub(passed)
}

/// Whether the fields that hollow-kubelet writes have the desired values.
fn is_up_to_date(present: &Status, desired: &Value) -> bool {
    let Ok(desired) = serde_json::from_value::<Status>(desired.clone()) else {
        return false;
    };
    let has = |it| present.conditions.contains(it);
    desired.conditions.iter().all(has)
        && Status {
            conditions: present.conditions.clone(),
            ..desired
        } == *present
}

/// Plans the next step for the node `name`, which may not exist.
#[must_use]
pub fn node(
    name: &str,
    present: Option<&Node>,
    cluster_nodes: &Nodes,
    options: &Options,
    now: Timestamp,
) -> NodeStep {
    let Some(index) = node::index(name).filter(|index| *index < options.nodes) else {
        return NodeStep::Nothing;
    };
    match present {
        None if !options.sandbox && cluster_nodes.all_hollow().is_err() => NodeStep::Nothing,
        None => NodeStep::Create(node::new(name)),
        Some(node) if node.is_hollow() && !node.metadata.is_terminating() && !node.is_ready() => {
            NodeStep::Status(node::ready(node, index, now))
        }
        Some(_) => NodeStep::Nothing,
    }
}

/// The names of the nodes to create.
pub fn node_names(options: &Options) -> impl Iterator<Item = String> {
    (0..options.nodes).map(node::name)
}
