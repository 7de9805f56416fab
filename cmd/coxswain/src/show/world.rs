//! What there is in a namespace of the kinds that an application is made of, as it was read.

use coxswain_manager::client::{Client, ClientError};
use serde_json::Value;

/// The kinds, and where their lists are.
const KINDS: [(&str, &str, &str); 5] = [
    ("AppService", "/apis/appcontroller.k8s.io/v1alpha1", "appservices"),
    ("Service", "/api/v1", "services"),
    ("Deployment", "/apis/apps/v1", "deployments"),
    ("ReplicaSet", "/apis/apps/v1", "replicasets"),
    ("Pod", "/api/v1", "pods"),
];

/// Why a namespace could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("a list that was answered cannot be read: {0}")]
    Decode(#[from] serde_json::Error),
}

/// What there is, ordered by kind and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct World(pub(crate) Vec<Object>);

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) kind: &'static str,
    pub(crate) value: Value,
}

impl World {
    /// Reads a namespace, kind by kind: not at one moment, but each list at one.
    pub(crate) async fn read(client: &Client, namespace: &str) -> Result<Self, ReadError> {
        let mut world = Vec::new();
        for (kind, group, plural) in KINDS {
            let path = format!("{group}/namespaces/{namespace}/{plural}");
            let list = client.get_raw(&path, "application/json").await?;
            let mut list: Value = serde_json::from_slice(&list.body)?;
            if let Value::Array(items) = list["items"].take() {
                world.extend(items.into_iter().map(|value| Object { kind, value }));
            }
        }
        Ok(Self(world))
    }

    /// All of a kind.
    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.0.iter().filter(move |it| it.kind == kind)
    }

    /// The one of that kind and name.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<&Object> {
        self.0.iter().find(|it| it.kind == kind && it.name() == name)
    }
}

impl Object {
    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(crate) fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.value.pointer("/metadata/deletionTimestamp").is_some()
    }

    /// The uids of those that own it.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        let owners = self.value["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().filter_map(|it| it["uid"].as_str())
    }

    /// The image of its first container.
    pub(crate) fn image(&self) -> &str {
        self.text("/spec/containers/0/image")
    }

    /// A number, 0 if it is not there.
    pub(crate) fn number(&self, pointer: &str) -> i64 {
        self.value
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// A text, empty if it is not there.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Whether a condition of its status is true.
    pub(crate) fn is(&self, condition: &str) -> bool {
        let conditions = self.value["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == condition && it["status"] == "True")
    }

    /// Why its first container does not run.
    pub(crate) fn waits_for(&self) -> &str {
        self.text("/status/containerStatuses/0/state/waiting/reason")
    }

    /// Whether it is all that was asked of it.
    pub(crate) fn is_ready(&self) -> bool {
        let wanted = self.number("/spec/replicas");
        let observed = self.number("/status/observedGeneration") >= self.number("/metadata/generation");
        let has = |pointer| self.number(pointer) == wanted;
        !self.is_deleting()
            && match self.kind {
                "AppService" => observed && self.is("Ready"),
                "Deployment" => {
                    observed
                        && has("/status/updatedReplicas")
                        && has("/status/replicas")
                        && has("/status/availableReplicas")
                }
                "ReplicaSet" => observed && has("/status/readyReplicas") && has("/status/replicas"),
                "Pod" => self.is("Ready"),
                _ => true,
            }
    }

    /// How it is, in a few words.
    pub(crate) fn state(&self) -> String {
        let of = |pointer, word| {
            format!(
                "{} of {} {word}",
                self.number(pointer),
                self.number("/spec/replicas")
            )
        };
        let state = match self.kind {
            "AppService" => {
                let ready = if self.is("Ready") { "Ready" } else { "not ready" };
                format!("{ready}, {}", of("/status/availableReplicas", "available"))
            }
            "Deployment" => of("/status/availableReplicas", "available"),
            "ReplicaSet" => of("/status/readyReplicas", "ready"),
            "Service" => self.text("/spec/clusterIP").to_owned(),
            _ => {
                let phase = match self.waits_for() {
                    "" => self.text("/status/phase"),
                    reason => reason,
                };
                let ready = if self.is("Ready") { ", ready" } else { "" };
                let node = match self.text("/spec/nodeName") {
                    "" => String::new(),
                    node => format!(" on {node}"),
                };
                format!("{phase}{ready}{node}")
            }
        };
        if self.is_deleting() {
            format!("{state}, going")
        } else {
            state
        }
    }
}
