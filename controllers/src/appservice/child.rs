//! Children of an `AppService` as the controller reads them: a Deployment and a Service.

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_manager::object::decode::null_is_default;
use steersman_manager::object::{Meta, Object, Resource, StringMap};

use super::history::WriteTarget;
use super::ownership::{ADOPT_BY_ANNOTATION, MADE_AS_ANNOTATION};
use crate::api::app_service::raw_json;
use crate::support::deployment::Deployment;
use crate::support::{DEPLOYMENTS, SERVICES};

/// A Deployment or a Service.
pub(super) trait Child: Object {
    const RESOURCE: Resource;
    const TARGET: WriteTarget;
    const OWNER_TARGET: WriteTarget;

    fn annotations(&self) -> &StringMap;

    /// Returns the fields of the spec that an `AppService` can set.
    fn spec(&self) -> Value;
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Service {
    pub(super) metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ServiceSpec {
    #[serde(deserialize_with = "null_is_default")]
    selector: StringMap,
    #[serde(deserialize_with = "raw_json")]
    ports: Option<Box<str>>,
}

impl Object for Service {
    const ANNOTATIONS: &'static [&'static str] = &[MADE_AS_ANNOTATION, ADOPT_BY_ANNOTATION];

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn bytes(&self) -> usize {
        let ports = self.spec.ports.as_ref().map_or(0, |it| it.len());
        size_of_val(self) + self.metadata.heap_bytes() + ports
    }
}

impl Child for Deployment {
    const RESOURCE: Resource = DEPLOYMENTS;
    const TARGET: WriteTarget = WriteTarget::Deployment;
    const OWNER_TARGET: WriteTarget = WriteTarget::DeploymentOwner;

    fn annotations(&self) -> &StringMap {
        &self.annotations
    }

    fn spec(&self) -> Value {
        json!({
            "replicas": self.replicas(),
            "selector": parse(Some(self.selector_text())),
            "template": parse(Some(&self.template().text)),
        })
    }
}

impl Child for Service {
    const RESOURCE: Resource = SERVICES;
    const TARGET: WriteTarget = WriteTarget::Service;
    const OWNER_TARGET: WriteTarget = WriteTarget::ServiceOwner;

    fn annotations(&self) -> &StringMap {
        &self.metadata.annotations
    }

    fn spec(&self) -> Value {
        json!({"selector": pairs_to_json(&self.spec.selector), "ports": parse(self.spec.ports.as_deref())})
    }
}

/// Returns labels or annotations as a JSON object.
pub(super) fn pairs_to_json(pairs: &StringMap) -> Value {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_string(), json!(value)))
        .collect()
}

fn parse(text: Option<&str>) -> Value {
    text.and_then(|it| serde_json::from_str(it).ok())
        .unwrap_or_default()
}
