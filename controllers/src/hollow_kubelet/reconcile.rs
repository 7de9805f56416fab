//! The reconciler.

use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_manager::cache::{Cache, Caches, Lookup};
use steersman_manager::client::{Client, ClientError, Reader};
use steersman_manager::controller::{
    self, Action, Builder, ControllerError, QueueController, ReconcileContext, ReconcileError, Reconciler,
};
use steersman_manager::env::Env;
use steersman_manager::handler::Handler;
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_manager::source::Source;

use super::node::NODES;
use super::pod::PODS;
use super::{NAME, Node, Nodes, Options, Pod, act, plan};

/// Reconciles nodes (keys without a namespace) and pods.
#[derive(Debug)]
pub struct HollowKubelet {
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    options: Options,
}

/// Builds the controller, without the check of [`may_start`](super::may_start).
///
/// # Panics
/// Outside a tokio runtime.
pub fn build(
    env: &Env,
    caches: &Caches,
    client: Reader,
    registry: &Registry,
    options: Options,
    how: controller::Options,
) -> Result<QueueController<HollowKubelet>, ControllerError> {
    let (pods, nodes) = (caches.of::<Pod>(&PODS), caches.of::<Node>(&NODES));
    // A missing node has no event; and the deleted node may have been the last one that is not hollow.
    let own: Vec<Key> = plan::node_names(&options).map(Key::cluster).collect();
    let all = own.clone();
    let of_nodes = Handler::map(move |node: &Node| {
        if node.is_hollow() {
            vec![node.metadata.key()]
        } else {
            all.clone()
        }
    });
    let hollow = HollowKubelet {
        pods: pods.clone(),
        nodes: nodes.clone(),
        options,
    };
    Builder::new(NAME, how, hollow)
        .at_start(own)
        .watch(Source::new(nodes, of_nodes))
        .watch(Source::new(pods, Handler::for_object()))
        .build(env, client, registry)
}

impl Reconciler for HollowKubelet {
    fn kind(&self, key: &Key) -> &'static str {
        if key.namespace.is_empty() { "Node" } else { "Pod" }
    }

    /// A write based on a stale cache fails with a conflict and is retried.
    async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        let now = context.env.clock.wall();
        let nodes = self.nodes.all();
        let cluster_nodes = Nodes::of(nodes.iter().map(Arc::as_ref));
        if key.namespace.is_empty() {
            self.node(&context.client, &key, &cluster_nodes, now).await?;
            return Ok(Action::Done);
        }
        let Lookup::Present(pod) = self.pods.get(&key) else {
            return Ok(Action::Done);
        };
        let taken = |ip: Ipv4Addr| {
            let ip = ip.to_string();
            self.pods.all().iter().any(|it| *it.ip() == *ip)
        };
        let step = plan::pod(&pod, &cluster_nodes, taken, &self.options, now);
        let again = act::pod(&context.client, &pod, step).await?;
        Ok(again.map_or(Action::Done, Action::RequeueAfter))
    }
}

impl HollowKubelet {
    async fn node(
        &self,
        client: &Client,
        key: &Key,
        cluster_nodes: &Nodes,
        now: Timestamp,
    ) -> Result<(), ClientError> {
        let present = match self.nodes.get(key) {
            Lookup::Present(node) => Some(node),
            Lookup::Absent => None,
            // The node exists but could not be decoded.
            Lookup::Undecodable => return Ok(()),
        };
        let step = plan::node(&key.name, present.as_deref(), cluster_nodes, &self.options, now);
        match act::node(client, key, step).await {
            // The cache is stale: the event will follow.
            Err(error) if error.is_already_exists() => Ok(()),
            done => done.map(drop),
        }
    }
}
