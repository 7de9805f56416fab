//! The `AppService` as the controller reads it, its CRD, defaults and validation.

mod crd;
mod image;
pub mod schema;
pub(crate) mod validation;

pub use crd::crd;
pub use image::is_reference as is_image;
pub use schema::{DeletionPolicy, Protocol};

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use steersman_manager::conditions::Condition;
use steersman_manager::object::decode::null_is_default;
use steersman_manager::object::{Interner, Meta, Object, Resource, Text};

use super::{GROUP, VERSION};
use crate::support::pod_template::Canonical;

/// The `AppService` resource.
pub const APP_SERVICES: Resource = Resource::namespaced(GROUP, VERSION, "appservices", "AppService");

/// An `AppService`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain data")]
pub struct AppService {
    pub metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    pub spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    pub status: Status,
}

/// The spec as stored. Accessors apply the defaults, so the controller does not depend on those of the schema or webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    pub deployment_name: Text,
    replicas: Option<i64>,
    image: Option<Text>,
    #[serde(deserialize_with = "null_is_default")]
    pub ports: Vec<Port>,
    /// A JSON list of environment variables.
    #[serde(deserialize_with = "raw_json")]
    pub env: Option<Box<str>>,
    /// JSON resource requirements.
    #[serde(deserialize_with = "raw_json")]
    pub resources: Option<Box<str>>,
    deletion_policy: Option<Text>,
}

/// A port of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Port {
    name: Option<Text>,
    #[serde(deserialize_with = "null_is_default")]
    pub port: i64,
    #[serde(rename = "targetPort")]
    target: Option<i64>,
    protocol: Option<Text>,
}

/// The status fields that the controller reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Status {
    pub observed_generation: Option<i64>,
    pub replicas: Option<i64>,
    pub updated_replicas: Option<i64>,
    pub ready_replicas: Option<i64>,
    pub available_replicas: Option<i64>,
    pub selector: Option<Text>,
    /// All conditions, including those of other controllers.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

impl Spec {
    /// Returns the desired number of pods. If unset, the Deployment keeps its own number.
    #[must_use]
    pub fn replicas(&self) -> Option<i64> {
        self.replicas
    }

    /// Returns the image of the container. If unset, the Deployment keeps its own image.
    #[must_use]
    pub fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// Returns the deletion policy. Defaults to `Delete`. An unknown value counts as `Orphan`, which loses nothing.
    #[must_use]
    pub fn deletion_policy(&self) -> DeletionPolicy {
        match self.deletion_policy.as_deref() {
            None | Some("Delete") => DeletionPolicy::Delete,
            Some(_) => DeletionPolicy::Orphan,
        }
    }

    /// Returns the deletion policy if its value is unknown.
    #[must_use]
    pub fn unknown_deletion_policy(&self) -> Option<&str> {
        let stored = self.deletion_policy.as_deref()?;
        (!["Delete", "Orphan"].contains(&stored)).then_some(stored)
    }

    /// Returns whether two specs have the same meaning, regardless of JSON formatting.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let normalize = |spec: &Self| {
            let form = |text: &Option<Box<str>>| text.as_deref().map(Canonical::of);
            let (env, resources) = (form(&spec.env), form(&spec.resources));
            let rest = Self {
                env: None,
                resources: None,
                ..spec.clone()
            };
            (rest, env, resources)
        };
        normalize(self) == normalize(other)
    }

    /// Returns the name of a port. Defaults to one such as `tcp-80` if there are several ports: a Service with several ports
    /// requires names.
    #[must_use]
    pub fn port_name(&self, port: &Port) -> Option<Text> {
        let given = port.name.clone().filter(|it| !it.is_empty());
        given.or_else(|| {
            let protocol = port.protocol().unwrap_or(Protocol::Tcp).to_string();
            (self.ports.len() > 1).then(|| format!("{}-{}", protocol.to_ascii_lowercase(), port.port).into())
        })
    }
}

impl Port {
    /// Returns the port of the container. Defaults to `port`.
    #[must_use]
    pub fn target_port(&self) -> i64 {
        self.target.unwrap_or(self.port)
    }

    /// Returns the protocol. Defaults to TCP. Fails with an unknown value.
    pub fn protocol(&self) -> Result<Protocol, &str> {
        match self.protocol.as_deref() {
            None | Some("TCP") => Ok(Protocol::Tcp),
            Some("UDP") => Ok(Protocol::Udp),
            Some("SCTP") => Ok(Protocol::Sctp),
            Some(other) => Err(other),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

impl Object for AppService {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn intern(&mut self, interner: &mut Interner) {
        self.metadata.intern(interner);
        if let Some(image) = &mut self.spec.image {
            interner.intern(image);
        }
        for condition in &mut self.status.conditions {
            interner.intern(&mut condition.type_);
            interner.intern(&mut condition.reason);
        }
    }

    fn bytes(&self) -> usize {
        let raw = [&self.spec.env, &self.spec.resources];
        let raw: usize = raw.into_iter().flatten().map(|it| it.len()).sum();
        size_of_val(self) + self.metadata.heap_bytes() + size_of_val(&*self.spec.ports) + raw
    }
}

/// Deserializes JSON as unparsed text, `null` as `None`.
pub(crate) fn raw_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    let raw = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(raw.map(Box::<str>::from).filter(|it| &**it != "null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> Spec {
        let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":{json},"status":null}}"#);
        let app: AppService = serde_json::from_str(&json).expect("an AppService");
        app.spec
    }

    #[test]
    fn unset_fields_have_defaults() {
        for json in [
            r#"{"deploymentName":"web"}"#,
            r#"{"deploymentName":"web","replicas":null,"image":null,"ports":null,"env":null,"resources":null,
                "deletionPolicy":null}"#,
        ] {
            let it = spec(json);
            assert_eq!(
                (&*it.deployment_name, it.replicas(), it.image()),
                ("web", None, None)
            );
            assert_eq!(
                (it.deletion_policy(), it.unknown_deletion_policy()),
                (DeletionPolicy::Delete, None)
            );
            assert_eq!((it.ports.len(), it.env, it.resources), (0, None, None));
        }
        assert_eq!(spec("null"), Spec::default());
    }

    #[test]
    fn set_fields_are_kept() {
        let it = spec(
            r#"{"replicas":0,"image":"a:1","env":[{"name":"A", "value":"b"}],"deletionPolicy":"Orphan"}"#,
        );
        assert_eq!(
            (it.replicas(), it.image(), it.deletion_policy()),
            (Some(0), Some("a:1"), DeletionPolicy::Orphan)
        );
        assert_eq!(it.env.as_deref(), Some(r#"[{"name":"A", "value":"b"}]"#));
        let unknown = spec(r#"{"deletionPolicy":"Perhaps"}"#);
        assert_eq!(
            (unknown.deletion_policy(), unknown.unknown_deletion_policy()),
            (DeletionPolicy::Orphan, Some("Perhaps"))
        );
    }

    #[test]
    fn specs_are_compared_regardless_of_formatting() {
        let one = spec(
            r#"{"deploymentName":"a","env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1"}}}"#,
        );
        let other = spec(
            r#"{"env": [ {"value": "b", "name": "A"} ],"resources":{ "limits":{"cpu":"1"}},"deploymentName":"a"}"#,
        );
        assert!(one != other && one.is_equivalent(&other));
        for changed in [
            r#"{"deploymentName":"b","env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1"}}}"#,
            r#"{"deploymentName":"a","env":[{"name":"A","value":"c"}],"resources":{"limits":{"cpu":"1"}}}"#,
            r#"{"deploymentName":"a","env":[{"name":"A","value":"b"}]}"#,
        ] {
            assert!(!one.is_equivalent(&spec(changed)), "{changed}");
        }
    }

    #[test]
    fn several_ports_have_names() {
        let name = |spec: &Spec, at: usize| spec.port_name(&spec.ports[at]).map(|it| it.to_string());
        let one = spec(r#"{"ports":[{"port":80}]}"#);
        assert_eq!(name(&one, 0), None);
        assert_eq!(
            (one.ports[0].target_port(), one.ports[0].protocol()),
            (80, Ok(Protocol::Tcp))
        );
        let two =
            spec(r#"{"ports":[{"port":53,"targetPort":5353,"protocol":"UDP"},{"port":80,"name":"web"}]}"#);
        assert_eq!(name(&two, 0).as_deref(), Some("udp-53"));
        assert_eq!(name(&two, 1).as_deref(), Some("web"));
        assert_eq!(two.ports[0].target_port(), 5353);
        assert_eq!(
            spec(r#"{"ports":[{"protocol":"tcp"}]}"#).ports[0].protocol(),
            Err("tcp")
        );
    }
}
