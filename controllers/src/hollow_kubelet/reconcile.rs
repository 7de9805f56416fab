//! From a key to a step, and the step done: hollow-kubelet as a controller.

use std::net::Ipv4Addr;
use std::sync::Arc;

use coxswain_manager::cache::{Cache, Caches, Lookup};
use coxswain_manager::client::{Client, ClientError};
use coxswain_manager::controller::{
    self, Action, Builder, Context, Controller, ControllerError, ReconcileError, Reconciler,
};
use coxswain_manager::env::Env;
use coxswain_manager::handler::Handler;
use coxswain_manager::object::Key;
use coxswain_manager::source::Source;
use jiff::Timestamp;
use prometheus::Registry;

use super::node::NODES;
use super::pod::PODS;
use super::{Fleet, NAME, Node, Options, Pod, act, plan};

/// hollow-kubelet on its caches. A key without a namespace is that of a node, any other that of a pod.
#[derive(Debug)]
pub struct HollowKubelet {
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    options: Options,
}

/// Builds the controller. Whether it may run in this cluster is asked before, by [`may_start`](super::may_start).
///
/// # Panics
/// Outside a tokio runtime.
pub fn build(
    env: &Env,
    caches: &Caches,
    client: Client,
    registry: &Registry,
    options: Options,
    how: controller::Options,
) -> Result<Controller<HollowKubelet>, ControllerError> {
    let (pods, nodes) = (caches.of::<Pod>(&PODS), caches.of::<Node>(&NODES));
    // A node that is not there has no event that would make it; and the last node of somebody else may have left.
    let wanted: Vec<Key> = plan::nodes(&options).map(Key::cluster).collect();
    let again = wanted.clone();
    let of_nodes = Handler::map(move |node: &Node| {
        if node.is_hollow() {
            vec![node.metadata.key()]
        } else {
            again.clone()
        }
    });
    let hollow = HollowKubelet {
        pods: pods.clone(),
        nodes: nodes.clone(),
        options,
    };
    Builder::new(NAME, how, hollow)
        .at_start(wanted)
        .watch(Source::new(nodes, of_nodes))
        .watch(Source::new(pods, Handler::for_object()))
        .build(env, client, registry)
}

impl Reconciler for HollowKubelet {
    /// What is in a cache may be old: then the API server refuses with a conflict, and the next try sees more.
    async fn reconcile(&self, context: Context, key: Key) -> Result<Action, ReconcileError> {
        let now = context.env.clock.wall();
        let nodes = self.nodes.all();
        let fleet = Fleet::of(nodes.iter().map(Arc::as_ref));
        if key.namespace.is_empty() {
            self.node(&context.client, &key, &fleet, now).await?;
            return Ok(Action::Done);
        }
        let Lookup::Present(pod) = self.pods.get(&key) else {
            return Ok(Action::Done);
        };
        let taken = |ip: Ipv4Addr| {
            let ip = ip.to_string();
            self.pods.all().iter().any(|it| *it.ip() == *ip)
        };
        let step = plan::pod(&pod, &fleet, taken, &self.options, now);
        let again = act::pod(&context.client, &pod, step).await?;
        Ok(again.map_or(Action::Done, Action::RequeueAfter))
    }
}

impl HollowKubelet {
    async fn node(
        &self,
        client: &Client,
        key: &Key,
        fleet: &Fleet,
        now: Timestamp,
    ) -> Result<(), ClientError> {
        let present = match self.nodes.get(key) {
            Lookup::Present(node) => Some(node),
            Lookup::Absent => None,
            // It is there, and nobody can tell what it is.
            Lookup::Undecodable => return Ok(()),
        };
        let step = plan::node(&key.name, present.as_deref(), fleet, &self.options, now);
        match act::node(client, key, step).await {
            // The cache is behind: the event is on its way.
            Err(error) if error.is_already_exists() => Ok(()),
            done => done.map(drop),
        }
    }
}
