//! Which kinds are built in.

use std::sync::LazyLock;

use k8s_openapi::api::admissionregistration::v1 as admission;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::authorization::v1 as authorization;
use k8s_openapi::api::autoscaling::{v1 as autoscaling1, v2 as autoscaling2};
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::api::flowcontrol::v1 as flowcontrol;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::api::scheduling::v1 as scheduling;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::{Map, Value};

use super::Schema;
use super::compile::Compiler;

static SCHEMA: LazyLock<Schema> = LazyLock::new(compile);

/// The schema of all built-in kinds, compiled on first use.
pub(super) fn schema() -> &'static Schema {
    &SCHEMA
}

fn compile() -> Schema {
    collect().finish()
}

/// The definitions of all built-in kinds and of all that they refer to, as they are published.
pub(super) fn published() -> Map<String, Value> {
    let mut compiler = collect();
    compiler.definition::<meta::ListMeta>();
    compiler.definition::<meta::Status>();
    compiler.into_definitions()
}

fn collect() -> Compiler {
    let mut compiler = Compiler::default();
    macro_rules! kinds {
        ($($kind:ty),* $(,)?) => { $(compiler.kind::<$kind>();)* };
    }
    kinds![
        core::Namespace,
        core::Node,
        core::Pod,
        core::Service,
        core::ConfigMap,
        core::Secret,
        core::ServiceAccount,
        core::Event,
        core::ReplicationController,
        core::PersistentVolumeClaim,
        core::ResourceQuota,
        core::Binding,
        core::PodTemplate,
        authentication::SelfSubjectReview,
        authentication::TokenRequest,
        authentication::TokenReview,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::SubjectAccessReview,
        apps::ReplicaSet,
        apps::Deployment,
        apps::StatefulSet,
        apps::DaemonSet,
        apps::ControllerRevision,
        batch::Job,
        batch::CronJob,
        coordination::Lease,
        events::Event,
        policy::PodDisruptionBudget,
        policy::Eviction,
        rbac::Role,
        rbac::RoleBinding,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        networking::NetworkPolicy,
        scheduling::PriorityClass,
        autoscaling2::HorizontalPodAutoscaler,
        autoscaling1::HorizontalPodAutoscaler,
        autoscaling1::Scale,
        flowcontrol::FlowSchema,
        flowcontrol::PriorityLevelConfiguration,
        admission::MutatingWebhookConfiguration,
        admission::ValidatingWebhookConfiguration,
        apiextensions::CustomResourceDefinition,
    ];
    compiler.definition::<meta::ObjectMeta>();
    compiler.definition::<meta::DeleteOptions>();
    compiler
}
