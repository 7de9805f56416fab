//! Flags of the manager itself: controllers, connection to the API server, leader election, configuration file.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::values::{BOOL, Switch, float, path, whole};
use crate::duration::GoDuration;

#[derive(Debug, Args)]
#[command(next_help_heading = "Generic flags")]
pub(crate) struct GenericFlags {
    /// Controllers to enable: `*` enables all controllers that are on by default, `foo` enables the controller named foo,
    /// `-foo` disables it; the first item for a controller wins
    #[arg(long, id = "generic.controllers", value_name = "LIST", default_value = "*", action = ArgAction::Append)]
    pub(crate) controllers: Vec<String>,
    /// Assume that kube-controller-manager does not run if its Lease kube-system/kube-controller-manager does not exist, and
    /// run the controllers enabled by `*` that otherwise yield to it; defaults to true with --sandbox
    #[arg(long, id = "generic.assumeNoKubeControllerManager", value_name = BOOL, default_value = "false")]
    pub(crate) assume_no_kube_controller_manager: Switch,
    /// Interval between starting controllers: each starts after a random delay of one to two intervals
    #[arg(
        long,
        id = "generic.controllerStartInterval",
        value_name = "DURATION",
        default_value = "0s"
    )]
    pub(crate) controller_start_interval: GoDuration,
    /// Time to wait for controllers to stop at shutdown; 0 waits without limit
    #[arg(
        long,
        id = "generic.controllerShutdownTimeout",
        value_name = "DURATION",
        default_value = "10s"
    )]
    pub(crate) controller_shutdown_timeout: GoDuration,
    /// Namespaces to watch; defaults to all namespaces
    #[arg(long, id = "generic.namespaces", value_name = "LIST", action = ArgAction::Append)]
    pub(crate) namespaces: Vec<String>,
    /// Label selector of the objects to watch, as in `app=web,tier!=test`; defaults to all objects
    #[arg(
        long,
        id = "generic.labelSelector",
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) label_selector: String,
    /// Give each controller an identity of its own, as kube-controller-manager does: its requests use a service account in
    /// the namespace of --leader-elect-resource-namespace; the shared caches use the identity of the process
    #[arg(long, id = "generic.useServiceAccountCredentials", value_name = BOOL, default_value = "false")]
    pub(crate) use_service_account_credentials: Switch,
}

/// Flags about the configuration file. They are not fields of it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Generic flags")]
pub(crate) struct FileFlags {
    /// Path to a configuration file: YAML or JSON of kind `ControllerManagerConfiguration`; flags override its fields
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) config: Option<PathBuf>,
    /// Validate the flags and the configuration file, print the result and exit
    #[arg(long, value_name = BOOL, default_value = "false", hide_default_value = true)]
    pub(crate) validate_only: Switch,
    /// Write the effective configuration to a file, `-` for standard output, and exit
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) write_config_to: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Client flags")]
pub(crate) struct ClientFlags {
    /// Path to a kubeconfig file; without it and --master, the service account of the pod is used
    #[arg(long, id = "clientConnection.kubeconfig", value_name = "FILE", value_parser = path())]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// URL of the API server; overrides the one in the kubeconfig
    #[arg(long, id = "clientConnection.master", value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Requests per second to the API server, per controller; not limited by default with --sandbox
    #[arg(long, id = "clientConnection.qps", value_name = "FLOAT", default_value = "20", value_parser = float)]
    pub(crate) kube_api_qps: f64,
    /// Burst of requests to the API server, per controller
    #[arg(long, id = "clientConnection.burst", value_name = "INT", default_value = "30", value_parser = whole)]
    pub(crate) kube_api_burst: i64,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election flags")]
pub(crate) struct ElectionFlags {
    /// Acquire leadership before starting the controllers, so that only one of several replicas is active
    #[arg(long, id = "leaderElection.leaderElect", value_name = BOOL, default_value = "true")]
    pub(crate) leader_elect: Switch,
    /// Time that standby candidates wait after the last observed renewal before they acquire the lease
    #[arg(
        long,
        id = "leaderElection.leaseDuration",
        value_name = "DURATION",
        default_value = "15s"
    )]
    pub(crate) leader_elect_lease_duration: GoDuration,
    /// Time that the leader keeps trying to renew the lease before it stops leading; must be more than 3s shorter than the
    /// lease duration
    #[arg(
        long,
        id = "leaderElection.renewDeadline",
        value_name = "DURATION",
        default_value = "10s"
    )]
    pub(crate) leader_elect_renew_deadline: GoDuration,
    /// Time to wait between attempts to acquire or renew the lease
    #[arg(
        long,
        id = "leaderElection.retryPeriod",
        value_name = "DURATION",
        default_value = "2s"
    )]
    pub(crate) leader_elect_retry_period: GoDuration,
    /// Resource used as the lock; only `leases` is supported
    #[arg(
        long,
        id = "leaderElection.resourceLock",
        value_name = "KIND",
        default_value = "leases"
    )]
    pub(crate) leader_elect_resource_lock: String,
    /// Name of the Lease
    #[arg(
        long,
        id = "leaderElection.resourceName",
        value_name = "NAME",
        default_value = "steersman"
    )]
    pub(crate) leader_elect_resource_name: String,
    /// Namespace of the Lease
    #[arg(
        long,
        id = "leaderElection.resourceNamespace",
        value_name = "NAMESPACE",
        default_value = "kube-system"
    )]
    pub(crate) leader_elect_resource_namespace: String,
}
