//! The objects of an application, as read from the API server.

use serde_json::Value;
use steersman_manager::client::{Client, ClientError};

/// The namespace of the sample and of the tour.
pub(super) const NAMESPACE: &str = "default";

/// Kind, API path and resource.
const KINDS: [(&str, &str, &str); 5] = [
    ("AppService", "/apis/appcontroller.k8s.io/v1alpha1", "appservices"),
    ("Service", "/api/v1", "services"),
    ("Deployment", "/apis/apps/v1", "deployments"),
    ("ReplicaSet", "/apis/apps/v1", "replicasets"),
    ("Pod", "/api/v1", "pods"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("invalid list: {0}")]
    Decode(#[from] serde_json::Error),
}

/// All objects of an application's kinds in [`NAMESPACE`], sorted by kind and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot(pub(super) Vec<Object>);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object {
    pub(super) kind: &'static str,
    pub(super) value: Value,
}

impl Snapshot {
    /// Lists kind by kind, so that lists can differ in age.
    pub(super) async fn read(client: &Client) -> Result<Self, ReadError> {
        let mut objects = Vec::new();
        for (kind, group, plural) in KINDS {
            let path = format!("{group}/namespaces/{NAMESPACE}/{plural}");
            let list = client.get_raw(&path, "application/json").await?;
            let mut list: Value = serde_json::from_slice(&list.body)?;
            if let Value::Array(items) = list["items"].take() {
                objects.extend(items.into_iter().map(|value| Object { kind, value }));
            }
        }
        Ok(Self(objects))
    }

    pub(super) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.0.iter().filter(move |it| it.kind == kind)
    }

    pub(super) fn get(&self, kind: &str, name: &str) -> Option<&Object> {
        self.0.iter().find(|it| it.kind == kind && it.name() == name)
    }
}

impl Object {
    pub(super) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(super) fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.value.pointer("/metadata/deletionTimestamp").is_some()
    }

    pub(super) fn owner_uids(&self) -> impl Iterator<Item = &str> {
        let owners = self.value["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().filter_map(|it| it["uid"].as_str())
    }

    /// The image of its first container.
    pub(super) fn image(&self) -> &str {
        self.text("/spec/containers/0/image")
    }

    /// Returns 0 if the field is missing.
    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.value
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// Returns an empty string if the field is missing.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(super) fn has_condition(&self, condition: &str) -> bool {
        let conditions = self.value["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == condition && it["status"] == "True")
    }

    /// The reason why the first container is waiting, if it is.
    pub(super) fn waiting_reason(&self) -> &str {
        self.text("/status/containerStatuses/0/state/waiting/reason")
    }

    /// Whether the observed state matches the spec.
    pub(super) fn is_ready(&self) -> bool {
        let wanted = self.number("/spec/replicas");
        let observed = self.number("/status/observedGeneration") >= self.number("/metadata/generation");
        let has = |pointer| self.number(pointer) == wanted;
        !self.is_terminating()
            && match self.kind {
                "AppService" => observed && self.has_condition("Ready"),
                "Deployment" => {
                    observed
                        && has("/status/updatedReplicas")
                        && has("/status/replicas")
                        && has("/status/availableReplicas")
                }
                "ReplicaSet" => observed && has("/status/readyReplicas") && has("/status/replicas"),
                "Pod" => self.has_condition("Ready"),
                _ => true,
            }
    }

    /// A short summary, such as `1 of 2 ready`.
    pub(super) fn summary(&self) -> String {
        let of = |pointer, word| {
            format!(
                "{} of {} {word}",
                self.number(pointer),
                self.number("/spec/replicas")
            )
        };
        let state = match self.kind {
            "AppService" => {
                let ready = if self.has_condition("Ready") {
                    "Ready"
                } else {
                    "not ready"
                };
                format!("{ready}, {}", of("/status/availableReplicas", "available"))
            }
            "Deployment" => of("/status/availableReplicas", "available"),
            "ReplicaSet" => of("/status/readyReplicas", "ready"),
            "Service" => self.text("/spec/clusterIP").to_owned(),
            _ => {
                let phase = match self.waiting_reason() {
                    "" => self.text("/status/phase"),
                    reason => reason,
                };
                let ready = if self.has_condition("Ready") {
                    ", ready"
                } else {
                    ""
                };
                let node = match self.text("/spec/nodeName") {
                    "" => String::new(),
                    node => format!(" on {node}"),
                };
                format!("{phase}{ready}{node}")
            }
        };
        if self.is_terminating() {
            format!("{state}, terminating")
        } else {
            state
        }
    }
}
