//! The types behind the CRD schema of `AppService`. `kubectl explain` shows the doc comments.
#![expect(clippy::doc_markdown, reason = "kubectl explain shows the text as it is")]

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// AppServiceSpec is the desired state of an AppService.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppServiceSpec {
    /// deploymentName is the name of the Deployment that runs the application. If two AppServices of a namespace have the
    /// same deploymentName, the first keeps the Deployment, and the other is stalled. If it changes, a Deployment with the new name is created, and the old Deployment
    /// is deleted once the new one is available.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub deployment_name: String,
    /// replicas is the desired number of pods. If unset, the Deployment keeps its number of replicas, which another
    /// client such as an autoscaler may change; a new Deployment starts with 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// image is the container image. If unset, the Deployment keeps its image, which another client may change; a new
    /// Deployment starts with the default image of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = IMAGE)
    )]
    pub image: Option<String>,
    /// ports are the ports that the application listens on. If there are any, a Service with the name of the AppService
    /// exposes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["port", "protocol"],
            "x-kubernetes-validations" = [{
                "rule": "self.all(a, !has(a.name) || self.exists_one(b, has(b.name) && b.name == a.name))",
                "message": "port names must be unique",
            }]
        )
    )]
    pub ports: Vec<Port>,
    /// env is the list of environment variables of the container, at most 1000. If unset, the Deployment keeps its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvVar>,
    /// resources are the compute resources of the container. If unset, the Deployment keeps its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// deletionPolicy says whether the Deployment and the Service are deleted with the AppService. Delete deletes them,
    /// Orphan keeps them. Defaults to Delete.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// Port is a port of the Service and the container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// name is the name of the port, unique within the AppService. Defaults to the protocol and the port number, such
    /// as tcp-80, if there is more than one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 15),
        regex(pattern = "^([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$")
    )]
    pub name: Option<String>,
    /// port is the port number of the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// targetPort is the port number of the container. Defaults to port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub target_port: Option<i32>,
    /// protocol is TCP, UDP or SCTP. Defaults to TCP.
    #[serde(default)]
    pub protocol: Protocol,
}

/// Protocol is the transport protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "plain data")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

/// DeletionPolicy says whether the Deployment and the Service outlive the AppService.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The Deployment and the Service are deleted with the AppService.
    #[default]
    Delete,
    /// The Deployment and the Service are kept.
    Orphan,
}

/// AppServiceStatus is the observed state of an AppService.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppServiceStatus {
    /// observedGeneration is the generation that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// replicas is the number of pods of the Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// updatedReplicas is the number of pods that have the current pod template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// readyReplicas is the number of ready pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// availableReplicas is the number of available pods: pods that have been ready for minReadySeconds of the
    /// Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// selector is the label selector of the pods in string form, as the scale subresource needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// conditions are the latest observations. Ready is True when all replicas are up to date and available.
    /// Progressing is True while the Deployment moves towards that state. Stalled is True when the controller cannot
    /// proceed until a user changes something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
}

/// The pattern of an image reference: `[host[:port]/]path[:tag][@digest]`.
const IMAGE: &str = "^((([a-zA-Z0-9-]+\\.)*[a-zA-Z0-9-]+|\\[[0-9a-fA-F:]+\\])(:[0-9]+)?/)?\
    [a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*)*\
    (:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-zA-Z][a-zA-Z0-9+._-]*:[0-9a-fA-F]{32,})?$";
