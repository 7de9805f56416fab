//! What is read of an `APIService`: which version of a group is served by whom, and whether that answers.

use coxswain_manager::object::decode::null_is_default;
use coxswain_manager::object::{Meta, Object, Resource};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::definition::{Condition, holds};

/// Where they are.
pub(super) const REGISTRATIONS: Resource =
    Resource::cluster("apiregistration.k8s.io", "v1", "apiservices", "APIService");

/// An `APIService`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Registration {
    #[serde(deserialize_with = "null_is_default")]
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    group: String,
    #[serde(deserialize_with = "null_is_default")]
    version: String,
    service: Option<IgnoredAny>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    conditions: Vec<Condition>,
}

impl Object for Registration {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

impl Registration {
    pub(super) fn group(&self) -> &str {
        &self.spec.group
    }

    pub(super) fn version(&self) -> &str {
        &self.spec.version
    }

    /// Whether another server serves it; otherwise the API server does: what is built in, and CRDs.
    pub(super) fn is_remote(&self) -> bool {
        self.spec.service.is_some()
    }

    /// Whether that one answers.
    pub(super) fn is_available(&self) -> bool {
        holds(&self.status.conditions, "Available")
    }
}
