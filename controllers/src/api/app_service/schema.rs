//! The kind as its users write it. Comments on fields are what `kubectl explain` shows.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is wanted of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppServiceSpec {
    /// The name of the Deployment that runs it. No other `AppService` of the namespace may name the same one. If it is
    /// changed, another Deployment is made, and the one before is removed when that one is available.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub deployment_name: String,
    /// replicas is the desired number of pods. If unset, the Deployment keeps its own number, which another client such as
    /// an autoscaler may change; a new Deployment starts with 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// image is the image of the container. If unset, the Deployment keeps its own image. Required unless the Deployment
    /// exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = IMAGE)
    )]
    pub image: Option<String>,
    /// Where it listens. If there are any, a Service of the name of the `AppService` leads to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["port", "protocol"],
            "x-kubernetes-validations" = [{
                "rule": "self.all(a, !has(a.name) || self.exists_one(b, has(b.name) && b.name == a.name))",
                "message": "no two ports may have the same name",
            }]
        )
    )]
    pub ports: Vec<Port>,
    /// The environment of the container. If nothing is said, what others write there stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvVar>,
    /// The resources of the container. If nothing is said, what others write there stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// What becomes of the Deployment and the Service when the `AppService` is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Its name; if there are several ports and it has none, it gets one such as `tcp-80`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 15),
        regex(pattern = "^([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$")
    )]
    pub name: Option<String>,
    /// Where the Service listens.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Where the container listens; the same as `port` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub target_port: Option<i32>,
    /// What is spoken there.
    #[serde(default)]
    pub protocol: PortProtocol,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PortProtocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// What becomes of the children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They go with it.
    #[default]
    Delete,
    /// They stay, however it is deleted.
    Orphan,
}

/// What was last observed of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppServiceStatus {
    /// The generation that all this was found at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The pods of all templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pods of the present template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The pods that have been ready for long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Which pods they are, as a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Ready: all that is asked for is there and serves. Progressing: it is on its way there. Stalled: something stops it that
    /// will not pass by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// References to images: `[host[:port]/]path[:tag][@digest]`.
pub const IMAGE: &str = "^((([a-zA-Z0-9-]+\\.)*[a-zA-Z0-9-]+|\\[[0-9a-fA-F:]+\\])(:[0-9]+)?/)?\
    [a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*)*\
    (:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-zA-Z][a-zA-Z0-9+._-]*:[0-9a-fA-F]{32,})?$";
