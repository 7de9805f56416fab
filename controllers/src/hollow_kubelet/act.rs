//! Executes planned steps. All writes of hollow-kubelet are in this file.
//!
//! A pod that no longer exists needs no step. Any other failure is returned, and the object is planned again.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;
use steersman_manager::client::{Client, ClientError, Delete, Patch};
use steersman_manager::object::{Key, Text};

use super::node::NODES;
use super::plan::{NodeStep, PodStep};
use super::pod::PODS;
use super::{Node, Pod};

/// Executes a step for a pod. Returns the delay after which to reconcile the pod again, if any.
pub async fn pod(client: &Client, pod: &Pod, step: PodStep) -> Result<Option<Duration>, ClientError> {
    let key = pod.metadata.key();
    let done = match step {
        PodStep::Nothing => return Ok(None),
        PodStep::Wait(delay) => return Ok(Some(delay)),
        PodStep::Bind(node) => bind(client, pod, &key, &node).await,
        PodStep::Status(patch) => {
            let patch = Patch::strategic(&patch).of("status");
            client.patch(&PODS, &key, patch).await.map(|IgnoredAny| ())
        }
        PodStep::Finish => {
            // Like a kubelet, without a resourceVersion: a deletion is never undone.
            let delete = Delete::of(pod.metadata.uid.clone()).grace(0);
            client.delete(&PODS, &key, &delete).await.map(drop)
        }
    };
    match done {
        Ok(()) => Ok(None),
        Err(error) if client.is_absent(&PODS, &key, &pod.metadata.uid, &error).await? => Ok(None),
        Err(error) => Err(error),
    }
}

async fn bind(client: &Client, pod: &Pod, key: &Key, node: &Text) -> Result<(), ClientError> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": key.namespace, "name": key.name, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let body = binding.to_string().into();
    client
        .create_subresource(&PODS, key, "binding", body)
        .await
        .map(|IgnoredAny| ())
}

/// Executes a step for a node and returns the written node.
pub async fn node(client: &Client, key: &Key, step: NodeStep) -> Result<Option<Node>, ClientError> {
    match step {
        NodeStep::Nothing => Ok(None),
        NodeStep::Create(node) => {
            let body = node.to_string().into();
            client.create(&NODES, "", body).await.map(Some)
        }
        NodeStep::Status(patch) => {
            let patch = Patch::strategic(&patch).of("status");
            client.patch(&NODES, key, patch).await.map(Some)
        }
    }
}
