//! What to do, decided without a client or a clock.

use std::net::Ipv4Addr;
use std::time::Duration;

use coxswain_manager::object::Text;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod::Status;
use super::{Fleet, Node, Options, Pod, address, node, status};

/// How long until it is looked again whether there is a node to bind to: nothing else brings the pod up.
pub const NO_NODE: Duration = Duration::from_secs(1);

/// What to do about a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum PodStep {
    /// Nothing, until it changes.
    Nothing,
    /// Nothing yet.
    Wait(Duration),
    /// Bind it to this node.
    Bind(Text),
    /// Patch its status, by strategic merge.
    Status(Value),
    /// Finish its deletion.
    Finish,
}

/// What to do about a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeStep {
    /// Nothing, until it changes.
    Nothing,
    /// Create it.
    Create(Value),
    /// Patch its status, by strategic merge.
    Status(Value),
}

/// What to do about a pod. `taken` says whether another pod has an address.
pub fn pod(
    pod: &Pod,
    fleet: &Fleet,
    taken: impl Fn(Ipv4Addr) -> bool,
    options: &Options,
    now: Timestamp,
) -> PodStep {
    if pod.node().is_empty() {
        return unbound(pod, fleet, options);
    }
    let Some(host_ip) = fleet.ip(pod.node()) else {
        return PodStep::Nothing;
    };
    if pod.metadata.is_terminating() {
        // Without a grace period nobody waits for a kubelet any more: finalizers hold it.
        return match pod.metadata.deletion_grace_period_seconds {
            Some(0) => PodStep::Nothing,
            _ => PodStep::Finish,
        };
    }
    if pod.has_finished() {
        return PodStep::Nothing;
    }
    let left = left(pod, options, now);
    if !left.is_zero() {
        return PodStep::Wait(left);
    }
    // What a pod has, it keeps: nobody gets another address by being looked at again.
    let host_ip = match &*pod.status.host_ip {
        "" => host_ip,
        present => present,
    };
    let pod_ip = match (&**pod.ip(), pod.spec.host_network) {
        ("", true) => host_ip.to_owned(),
        ("", false) => address::pod(&pod.metadata.resource_version, taken).to_string(),
        (present, _) => present.to_owned(),
    };
    let wanted = status::wanted(pod, host_ip, &pod_ip, now);
    if is_as(&pod.status, &wanted) {
        PodStep::Nothing
    } else {
        PodStep::Status(json!({"metadata": pod.metadata.preconditions(), "status": wanted}))
    }
}

fn unbound(pod: &Pod, fleet: &Fleet, options: &Options) -> PodStep {
    if pod.metadata.is_terminating() || pod.has_finished() || !pod.spec.scheduling_gates.is_empty() {
        return PodStep::Nothing;
    }
    if !options.sandbox && fleet.may_start().is_err() {
        return PodStep::Wait(NO_NODE);
    }
    match fleet.node_for(&pod.metadata.uid) {
        Some(node) => PodStep::Bind(node.clone()),
        None => PodStep::Wait(NO_NODE),
    }
}

/// How long until the pod may be started. A pod that has been started before waits for nothing: what changed has changed.
fn left(pod: &Pod, options: &Options, now: Timestamp) -> Duration {
    if options.delay.is_zero() || pod.status.start_time.is_some() {
        return Duration::ZERO;
    }
    let scheduled = super::condition::find(&pod.status.conditions, "PodScheduled");
    let since = scheduled
        .and_then(|it| it.last_transition_time)
        .or(pod.metadata.creation_timestamp);
    let Some(since) = since else { return Duration::ZERO };
    // It was bound at some time within that second: count from its end, so that it is never too early.
    let passed = now.duration_since(since) - jiff::SignedDuration::from_secs(1);
    let passed = Duration::try_from(passed).unwrap_or_default();
    options.delay.saturating_sub(passed)
}

/// Whether the status is as it is wanted, as far as we write it.
fn is_as(present: &Status, wanted: &Value) -> bool {
    let Ok(wanted) = serde_json::from_value::<Status>(wanted.clone()) else {
        return false;
    };
    let has = |it| present.conditions.contains(it);
    wanted.conditions.iter().all(has)
        && Status {
            conditions: present.conditions.clone(),
            ..wanted
        } == *present
}

/// What to do about the node `name`, which is there or not.
#[must_use]
pub fn node(
    name: &str,
    present: Option<&Node>,
    fleet: &Fleet,
    options: &Options,
    now: Timestamp,
) -> NodeStep {
    let Some(index) = node::index(name).filter(|index| *index < options.nodes) else {
        return NodeStep::Nothing;
    };
    match present {
        None if !options.sandbox && fleet.may_start().is_err() => NodeStep::Nothing,
        None => NodeStep::Create(node::new(name)),
        Some(node) if node.is_hollow() && !node.metadata.is_terminating() && !node.is_well() => {
            NodeStep::Status(node::ready(node, index, now))
        }
        Some(_) => NodeStep::Nothing,
    }
}

/// The names of its nodes.
pub fn nodes(options: &Options) -> impl Iterator<Item = String> {
    (0..options.nodes).map(node::name)
}
