//! What is read of an `AppService`, and of a Service.

mod crd;
pub mod image;
pub mod schema;
pub mod validation;

pub use crd::crd;

use std::fmt;

use coxswain_manager::conditions::Condition;
use coxswain_manager::object::decode::null_is_default;
use coxswain_manager::object::{Interner, Meta, Object, Resource, Text};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{GROUP, VERSION};
use crate::support::pod_template::Canonical;

/// The resource.
pub const APP_SERVICES: Resource = Resource::namespaced(GROUP, VERSION, "appservices", "AppService");

/// An `AppService`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AppService {
    /// Its metadata.
    pub metadata: Meta,
    /// What it asks for.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: Spec,
    /// Its status, as far as it is written here.
    #[serde(deserialize_with = "null_is_default")]
    pub status: Status,
}

/// What an `AppService` asks for, as it was written. What is missing is filled in where it is read: the controller does not
/// depend on anybody's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The name of the Deployment.
    #[serde(deserialize_with = "null_is_default")]
    pub deployment_name: Text,
    replicas: Option<i64>,
    image: Option<Text>,
    /// What it listens on.
    #[serde(deserialize_with = "null_is_default")]
    pub ports: Vec<Port>,
    /// The environment, in JSON; none if nothing is said.
    #[serde(deserialize_with = "raw")]
    pub env: Option<Box<str>>,
    /// The resources, in JSON; none if nothing is said.
    #[serde(deserialize_with = "raw")]
    pub resources: Option<Box<str>>,
    deletion_policy: Option<Text>,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Port {
    name: Option<Text>,
    /// Where the Service listens.
    #[serde(deserialize_with = "null_is_default")]
    pub port: i64,
    #[serde(rename = "targetPort")]
    target: Option<i64>,
    protocol: Option<Text>,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// What becomes of the children when the `AppService` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// They go as well, by whatever way it is deleted.
    Delete,
    /// They stay, however it is deleted.
    Orphan,
}

/// What is read and written of a status. Numbers that nobody has written are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation that this was found at.
    pub observed_generation: Option<i64>,
    /// Pods of all templates.
    pub replicas: Option<i64>,
    /// Pods of the present template.
    pub updated_replicas: Option<i64>,
    /// Pods that are ready.
    pub ready_replicas: Option<i64>,
    /// Pods that have been ready for long enough.
    pub available_replicas: Option<i64>,
    /// Which pods they are, as a text.
    pub selector: Option<Text>,
    /// All conditions, those of others too.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

impl Spec {
    /// The desired number of pods; none if that is the Deployment's own.
    #[must_use]
    pub fn replicas(&self) -> Option<i64> {
        self.replicas
    }

    /// The image of the container; none if that is the Deployment's own.
    #[must_use]
    pub fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// What becomes of the children. A policy that nobody knows keeps them: that can be mended later.
    #[must_use]
    pub fn policy(&self) -> Policy {
        match self.deletion_policy.as_deref() {
            None | Some("Delete") => Policy::Delete,
            Some(_) => Policy::Orphan,
        }
    }

    /// The policy as it was written, if nobody knows it.
    #[must_use]
    pub fn odd_policy(&self) -> Option<&str> {
        let written = self.deletion_policy.as_deref()?;
        (!["Delete", "Orphan"].contains(&written)).then_some(written)
    }

    /// Whether another one asks for the same, in whichever words.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let plain = |spec: &Self| {
            let form = |text: &Option<Box<str>>| text.as_deref().map(Canonical::of);
            let (env, resources) = (form(&spec.env), form(&spec.resources));
            let rest = Self {
                env: None,
                resources: None,
                ..spec.clone()
            };
            (rest, env, resources)
        };
        plain(self) == plain(other)
    }

    /// The name of a port: a Service needs one for each as soon as there are two.
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
    /// Where the container listens.
    #[must_use]
    pub fn target(&self) -> i64 {
        self.target.unwrap_or(self.port)
    }

    /// What is spoken there; the text if nobody knows it.
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
        let written = [&self.spec.env, &self.spec.resources];
        let written: usize = written.into_iter().flatten().map(|it| it.len()).sum();
        size_of_val(self) + self.metadata.heap_bytes() + size_of_val(&*self.spec.ports) + written
    }
}

/// JSON as it was written; none for `null`.
pub(crate) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
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
    fn what_is_missing_is_filled_in() {
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
            assert_eq!((it.policy(), it.odd_policy()), (Policy::Delete, None));
            assert_eq!((it.ports.len(), it.env, it.resources), (0, None, None));
        }
        assert_eq!(spec("null"), Spec::default());
    }

    #[test]
    fn what_is_said_is_kept_as_it_was_written() {
        let it = spec(
            r#"{"replicas":0,"image":"a:1","env":[{"name":"A", "value":"b"}],"deletionPolicy":"Orphan"}"#,
        );
        assert_eq!(
            (it.replicas(), it.image(), it.policy()),
            (Some(0), Some("a:1"), Policy::Orphan)
        );
        assert_eq!(it.env.as_deref(), Some(r#"[{"name":"A", "value":"b"}]"#));
        let odd = spec(r#"{"deletionPolicy":"Perhaps"}"#);
        assert_eq!(
            (odd.policy(), odd.odd_policy()),
            (Policy::Orphan, Some("Perhaps"))
        );
    }

    #[test]
    fn the_same_may_be_written_in_other_words() {
        let one = spec(
            r#"{"deploymentName":"a","env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1"}}}"#,
        );
        let other = spec(
            r#"{"env": [ {"value": "b", "name": "A"} ],"resources":{ "limits":{"cpu":"1"}},"deploymentName":"a"}"#,
        );
        assert!(one != other && one.asks_the_same(&other));
        for changed in [
            r#"{"deploymentName":"b","env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1"}}}"#,
            r#"{"deploymentName":"a","env":[{"name":"A","value":"c"}],"resources":{"limits":{"cpu":"1"}}}"#,
            r#"{"deploymentName":"a","env":[{"name":"A","value":"b"}]}"#,
        ] {
            assert!(!one.asks_the_same(&spec(changed)), "{changed}");
        }
    }

    #[test]
    fn ports_have_names_as_soon_as_there_are_two() {
        let name = |spec: &Spec, at: usize| spec.port_name(&spec.ports[at]).map(|it| it.to_string());
        let one = spec(r#"{"ports":[{"port":80}]}"#);
        assert_eq!(name(&one, 0), None);
        assert_eq!(
            (one.ports[0].target(), one.ports[0].protocol()),
            (80, Ok(Protocol::Tcp))
        );
        let two =
            spec(r#"{"ports":[{"port":53,"targetPort":5353,"protocol":"UDP"},{"port":80,"name":"web"}]}"#);
        assert_eq!(name(&two, 0).as_deref(), Some("udp-53"));
        assert_eq!(name(&two, 1).as_deref(), Some("web"));
        assert_eq!(two.ports[0].target(), 5353);
        assert_eq!(
            spec(r#"{"ports":[{"protocol":"tcp"}]}"#).ports[0].protocol(),
            Err("tcp")
        );
    }
}
