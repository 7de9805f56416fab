//! The fields of a Service that the controller reads.

use coxswain_manager::object::decode::null_is_default;
use coxswain_manager::object::{Meta, Object, StringMap};
use serde::Deserialize;

use super::standing::{ADOPT_BY, MADE_AS};
use crate::api::app_service::raw;

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Its metadata.
    pub metadata: Meta,
    /// What it is, as far as it is written here.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: ServiceSpec,
}

/// What a Service is, as far as it is written here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// Which pods it leads to.
    #[serde(deserialize_with = "null_is_default")]
    pub selector: StringMap,
    /// Its ports, in JSON; none if nothing is said.
    #[serde(deserialize_with = "raw")]
    pub ports: Option<Box<str>>,
}

impl Object for Service {
    const ANNOTATIONS: &'static [&'static str] = &[MADE_AS, ADOPT_BY];

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
