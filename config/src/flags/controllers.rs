//! Flags of single controllers and of the sandbox.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::values::{BOOL, Switch, address, path, whole};
use crate::duration::GoDuration;

#[derive(Debug, Args)]
#[command(next_help_heading = "AppService controller flags")]
pub(crate) struct AppServiceFlags {
    /// Number of `AppServices` that are synced concurrently
    #[arg(long, id = "appServiceController.concurrentAppServiceSyncs", value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_appservice_syncs: i64,
    /// Image of a new Deployment whose `AppService` sets no image; if empty, such an `AppService` is rejected when it is
    /// created
    #[arg(
        long,
        id = "appServiceController.defaultImage",
        value_name = "IMAGE",
        default_value = "nginx"
    )]
    pub(crate) appservice_default_image: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Deployment controller flags")]
pub(crate) struct DeploymentFlags {
    /// Number of `Deployments` that are synced concurrently
    #[arg(long, id = "deploymentController.concurrentDeploymentSyncs", value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_deployment_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Garbage collector flags")]
pub(crate) struct GarbageCollectorFlags {
    /// Enable the garbage collector; must match the flag of the API server, which otherwise does not set the finalizers that
    /// the collector handles
    #[arg(long, id = "garbageCollectorController.enableGarbageCollector", value_name = BOOL, default_value = "true")]
    pub(crate) enable_garbage_collector: Switch,
    /// Number of garbage collector workers
    #[arg(long, id = "garbageCollectorController.concurrentGCSyncs", value_name = "INT", default_value = "20", value_parser = whole)]
    pub(crate) concurrent_gc_syncs: i64,
    /// Do not delete: log and count the objects that the garbage collector would delete, with the reason
    #[arg(long, id = "garbageCollectorController.dryRun", value_name = BOOL, default_value = "false")]
    pub(crate) gc_dry_run: Switch,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Hollow kubelet flags")]
pub(crate) struct HollowKubeletFlags {
    /// Time until a pod on a hollow node becomes ready
    #[arg(
        long = "hollow-kubelet-ready-delay",
        id = "hollowKubelet.readyDelay",
        value_name = "DURATION",
        default_value = "0s"
    )]
    pub(crate) ready_delay: GoDuration,
    /// Number of hollow nodes
    #[arg(long = "hollow-kubelet-nodes", id = "hollowKubelet.nodes", value_name = "INT", default_value = "1", value_parser = whole)]
    pub(crate) nodes: i64,
    /// Number of pods that hollow-kubelet syncs concurrently
    #[arg(long, id = "hollowKubelet.concurrentHollowKubeletSyncs", value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_hollow_kubelet_syncs: i64,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Replica controller flags")]
pub(crate) struct ReplicaFlags {
    /// Number of `AppReplicaSets` that are synced concurrently
    #[arg(long, id = "appReplicaSetController.concurrentAppReplicaSetSyncs", value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_appreplicaset_syncs: i64,
    /// Number of `ReplicaSets` that are synced concurrently
    #[arg(long, id = "replicaSetController.concurrentRSSyncs", value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_replicaset_syncs: i64,
    /// Number of `ReplicationControllers` that are synced concurrently
    #[arg(long, id = "replicationController.concurrentRCSyncs", value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_rc_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox flags")]
pub(crate) struct SandboxFlags {
    /// Use an in-memory API server in this process instead of a cluster; enables all controllers unless --controllers is
    /// given; all objects are lost on exit
    #[arg(long, id = "sandbox.enabled", value_name = BOOL, default_value = "false")]
    pub(crate) sandbox: Switch,
    /// Loopback address of the sandbox's API server; port 0 selects a free port
    #[arg(long, id = "sandbox.listen", value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    pub(crate) sandbox_listen: SocketAddr,
    /// Path of the kubeconfig to write for the sandbox; defaults to a temporary file
    #[arg(long, id = "sandbox.kubeconfig", value_name = "FILE", value_parser = path())]
    pub(crate) sandbox_kubeconfig: Option<PathBuf>,
}
