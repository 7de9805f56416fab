//! Projection of a Pod.

use jiff::Timestamp;
use serde::Deserialize;
use steersman_manager::object::decode::{null_is_default, time};
use steersman_manager::object::{Interner, Meta, Object, Resource, Text};

use super::condition::Condition;

pub(super) const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// Projection of a Pod.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Meta,
    pub(super) spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) node_name: Text,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) host_network: bool,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) init_containers: Box<[Container]>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) containers: Box<[Container]>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) scheduling_gates: Box<[Named]>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) readiness_gates: Box<[Gate]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub(super) name: Text,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) image: Text,
    /// `Always` marks an init container as a sidecar, which keeps running.
    #[serde(deserialize_with = "null_is_default")]
    pub(super) restart_policy: Text,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) name: Text,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Gate {
    pub(super) condition_type: Text,
}

/// Exactly the fields of the status that hollow-kubelet writes: the desired status is decoded to this type to compare it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) phase: Text,
    #[serde(rename = "podIP", deserialize_with = "null_is_default")]
    pub(super) pod_ip: Text,
    #[serde(rename = "hostIP", deserialize_with = "null_is_default")]
    pub(super) host_ip: Text,
    #[serde(deserialize_with = "time")]
    pub(super) start_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) conditions: Box<[Condition]>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) init_container_statuses: Box<[ContainerStatus]>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) container_statuses: Box<[ContainerStatus]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    pub(super) name: Text,
    pub(super) image: Text,
    pub(super) ready: bool,
    pub(super) restart_count: i64,
    pub(super) state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) waiting: Option<Waiting>,
    pub(super) running: Option<Times>,
    pub(super) terminated: Option<Times>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Waiting {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) reason: Text,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Times {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) exit_code: i64,
    #[serde(deserialize_with = "time")]
    pub(super) started_at: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub(super) finished_at: Option<Timestamp>,
}

impl Pod {
    /// Empty if the pod is not bound.
    #[must_use]
    pub fn node(&self) -> &Text {
        &self.spec.node_name
    }

    /// Empty if the pod has no address.
    #[must_use]
    pub fn ip(&self) -> &Text {
        &self.status.pod_ip
    }

    /// Whether the pod has failed or succeeded.
    pub(super) fn has_finished(&self) -> bool {
        matches!(&*self.status.phase, "Failed" | "Succeeded")
    }
}

impl Object for Pod {
    const ANNOTATIONS: &'static [&'static str] = &[super::FAIL];

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn intern(&mut self, interner: &mut Interner) {
        self.metadata.intern(interner);
        interner.intern(&mut self.spec.node_name);
        for container in self
            .spec
            .init_containers
            .iter_mut()
            .chain(&mut self.spec.containers)
        {
            interner.intern(&mut container.name);
            interner.intern(&mut container.image);
            interner.intern(&mut container.restart_policy);
        }
        let status = &mut self.status;
        interner.intern(&mut status.phase);
        interner.intern(&mut status.host_ip);
        for condition in &mut status.conditions {
            interner.intern(&mut condition.type_);
            interner.intern(&mut condition.status);
        }
        for container in status
            .init_container_statuses
            .iter_mut()
            .chain(&mut status.container_statuses)
        {
            interner.intern(&mut container.name);
            interner.intern(&mut container.image);
            if let Some(waiting) = &mut container.state.waiting {
                interner.intern(&mut waiting.reason);
            }
        }
    }

    fn bytes(&self) -> usize {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        size_of_val(self)
            + metadata.heap_bytes()
            + size_of_val(&*spec.init_containers)
            + size_of_val(&*spec.containers)
            + size_of_val(&*status.conditions)
            + size_of_val(&*status.init_container_statuses)
            + size_of_val(&*status.container_statuses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    fn pod(json: Value) -> Pod {
        serde_json::from_value(json).expect("a pod")
    }

    #[test]
    fn bytes_include_the_entries_of_all_lists() {
        let empty = pod(json!({})).bytes();
        let (container, status) = (size_of::<Container>(), size_of::<ContainerStatus>());
        for (json, bytes) in [
            (json!({"metadata": {"name": "abc"}}), 3),
            (json!({"spec": {"initContainers": [{}]}}), container),
            (json!({"spec": {"containers": [{}, {}]}}), 2 * container),
            (json!({"status": {"conditions": [{}]}}), size_of::<Condition>()),
            (json!({"status": {"initContainerStatuses": [{}]}}), status),
            (json!({"status": {"containerStatuses": [{}]}}), status),
        ] {
            assert_eq!(pod(json.clone()).bytes(), empty + bytes, "{json}");
        }
    }

    #[test]
    fn repeated_strings_are_shared() {
        let mut interner = Interner::default();
        let [a, b] = [(); 2].map(|()| {
            let mut pod = pod(json!({"spec": {"nodeName": "node", "containers": [{"image": "app:1"}]}}));
            pod.intern(&mut interner);
            pod
        });
        assert!(a.spec.node_name.shares(&b.spec.node_name));
        assert!(a.spec.containers[0].image.shares(&b.spec.containers[0].image));
    }
}
