//! Definitions of the flags: name, type, default and help. The parser, `--help` and the reference page are derived from
//! them.
//!
//! Fields hold values as given on the command line; [`crate::validate`] turns them into a [`crate::Config`]. Names and
//! defaults follow kube-controller-manager where it has the flag.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory, Parser};

use crate::config::LogFormat;
use crate::duration::GoDuration;
use crate::selector::KnownController;

/// The value name of boolean flags.
pub(crate) const BOOL: &str = "BOOL";

#[derive(Debug, Parser)]
#[command(
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true
)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) generic: GenericFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
    #[command(flatten)]
    pub(crate) election: ElectionFlags,
    #[command(flatten)]
    pub(crate) serving: ServingFlags,
    #[command(flatten)]
    pub(crate) webhook: WebhookFlags,
    #[command(flatten)]
    pub(crate) logging: LoggingFlags,
    #[command(flatten)]
    pub(crate) app_services: AppServiceFlags,
    #[command(flatten)]
    pub(crate) deployments: DeploymentFlags,
    #[command(flatten)]
    pub(crate) garbage_collector: GarbageCollectorFlags,
    #[command(flatten)]
    pub(crate) hollow_kubelet: HollowKubeletFlags,
    #[command(flatten)]
    pub(crate) replicas: ReplicaFlags,
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,
    #[command(flatten)]
    pub(crate) global: GlobalFlags,
    /// Parsed only to be rejected with our own message.
    #[arg(hide = true)]
    pub(crate) positional: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Generic flags")]
pub(crate) struct GenericFlags {
    /// Controllers to enable: `*` enables all controllers that are on by default, `foo` enables the controller named foo,
    /// `-foo` disables it; the first item for a controller wins
    #[arg(long, value_name = "LIST", default_value = "*", action = ArgAction::Append)]
    pub(crate) controllers: Vec<String>,
    /// Assume that kube-controller-manager does not run if its Lease kube-system/kube-controller-manager does not exist, and
    /// run the controllers enabled by `*` that otherwise yield to it; defaults to true with --sandbox
    #[arg(long, value_name = BOOL, default_value = "false")]
    pub(crate) assume_no_kube_controller_manager: Switch,
    /// Interval between starting controllers: each starts after a random delay of one to two intervals
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(crate) controller_start_interval: GoDuration,
    /// Time to wait for controllers to stop at shutdown; 0 waits without limit
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) controller_shutdown_timeout: GoDuration,
    /// Namespaces to watch; defaults to all namespaces
    #[arg(long, value_name = "LIST", action = ArgAction::Append)]
    pub(crate) namespaces: Vec<String>,
    /// Label selector of the objects to watch, as in `app=web,tier!=test`; defaults to all objects
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub(crate) label_selector: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Client flags")]
pub(crate) struct ClientFlags {
    /// Path to a kubeconfig file; without it and --master, the service account of the pod is used
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// URL of the API server; overrides the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Requests per second to the API server, per controller; not limited by default with --sandbox
    #[arg(long, value_name = "FLOAT", default_value = "20", value_parser = float)]
    pub(crate) kube_api_qps: f64,
    /// Burst of requests to the API server, per controller
    #[arg(long, value_name = "INT", default_value = "30", value_parser = whole)]
    pub(crate) kube_api_burst: i64,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election flags")]
pub(crate) struct ElectionFlags {
    /// Acquire leadership before starting the controllers, so that only one of several replicas is active
    #[arg(long, value_name = BOOL, default_value = "true")]
    pub(crate) leader_elect: Switch,
    /// Time that standby candidates wait after the last observed renewal before they acquire the lease
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub(crate) leader_elect_lease_duration: GoDuration,
    /// Time that the leader keeps trying to renew the lease before it stops leading; must be more than 3s shorter than the
    /// lease duration
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) leader_elect_renew_deadline: GoDuration,
    /// Time to wait between attempts to acquire or renew the lease
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) leader_elect_retry_period: GoDuration,
    /// Resource used as the lock; only `leases` is supported
    #[arg(long, value_name = "KIND", default_value = "leases")]
    pub(crate) leader_elect_resource_lock: String,
    /// Name of the Lease
    #[arg(long, value_name = "NAME", default_value = "coxswain")]
    pub(crate) leader_elect_resource_name: String,
    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub(crate) leader_elect_resource_namespace: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Secure serving flags")]
pub(crate) struct ServingFlags {
    /// Port that serves health and metrics over HTTPS; 0 disables it
    #[arg(long, value_name = "PORT", default_value = "10257", value_parser = whole)]
    pub(crate) secure_port: i64,
    /// IP address to listen on; `0.0.0.0` and `::` listen on all interfaces; defaults to 127.0.0.1 with --sandbox
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", value_parser = ip)]
    pub(crate) bind_address: IpAddr,
    /// File with the PEM-encoded serving certificate, followed by its issuers; without it, a self-signed certificate is
    /// generated at start
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// File with the PEM-encoded private key of --tls-cert-file
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Paths that are served without authorization; a trailing `*` matches any suffix
    #[arg(long, value_name = "LIST", default_value = "/healthz,/livez,/readyz", action = ArgAction::Append)]
    pub(crate) authorization_always_allow_paths: Vec<String>,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook flags")]
pub(crate) struct WebhookFlags {
    /// Port that serves admission webhooks over HTTPS, on --bind-address; 0 disables them
    #[arg(long, value_name = "PORT", default_value = "0", value_parser = whole)]
    pub(crate) webhook_port: i64,
    /// Service through which the API server calls the webhooks; a certificate is issued for it, renewed, stored in the
    /// Secret of that name, and its CA is injected into the webhook configurations of that name
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/coxswain-webhook"
    )]
    pub(crate) webhook_service: String,
    /// Directory with `tls.crt` and `tls.key` for the webhooks, reloaded when they change; replaces the issued certificate
    #[arg(long, value_name = "DIRECTORY", value_parser = path())]
    pub(crate) webhook_cert_dir: Option<PathBuf>,
    /// File with PEM-encoded certificate authorities: webhooks are then served only to clients, such as the API server, with
    /// a certificate of one of them
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) webhook_client_ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Logs flags")]
pub(crate) struct LoggingFlags {
    /// Log format: `text` or `json`
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = log_format)]
    pub(crate) logging_format: LogFormat,
    /// Log verbosity: 0 for operators, 2 adds changes made by controllers, 4 adds every step
    #[arg(long, short, value_name = "INT", default_value = "0", value_parser = whole)]
    pub(crate) v: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "AppService controller flags")]
pub(crate) struct AppServiceFlags {
    /// Number of `AppServices` that are synced concurrently
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_appservice_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Deployment controller flags")]
pub(crate) struct DeploymentFlags {
    /// Number of `Deployments` that are synced concurrently
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_deployment_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Garbage collector flags")]
pub(crate) struct GarbageCollectorFlags {
    /// Enable the garbage collector; must match the flag of the API server, which otherwise does not set the finalizers that
    /// the collector handles
    #[arg(long, value_name = BOOL, default_value = "true")]
    pub(crate) enable_garbage_collector: Switch,
    /// Number of garbage collector workers
    #[arg(long, value_name = "INT", default_value = "20", value_parser = whole)]
    pub(crate) concurrent_gc_syncs: i64,
    /// Do not delete: log and count the objects that the garbage collector would delete, with the reason
    #[arg(long, value_name = BOOL, default_value = "false")]
    pub(crate) gc_dry_run: Switch,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Hollow kubelet flags")]
pub(crate) struct HollowKubeletFlags {
    /// Time until a pod on a hollow node becomes ready
    #[arg(
        long = "hollow-kubelet-ready-delay",
        value_name = "DURATION",
        default_value = "0s"
    )]
    pub(crate) ready_delay: GoDuration,
    /// Number of hollow nodes
    #[arg(long = "hollow-kubelet-nodes", value_name = "INT", default_value = "1", value_parser = whole)]
    pub(crate) nodes: i64,
    /// Number of pods that hollow-kubelet syncs concurrently
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_hollow_kubelet_syncs: i64,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Replica controller flags")]
pub(crate) struct ReplicaFlags {
    /// Number of `AppReplicaSets` that are synced concurrently
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_appreplicaset_syncs: i64,
    /// Number of `ReplicaSets` that are synced concurrently
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_replicaset_syncs: i64,
    /// Number of `ReplicationControllers` that are synced concurrently
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_rc_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox flags")]
pub(crate) struct SandboxFlags {
    /// Use an in-memory API server in this process instead of a cluster; enables all controllers unless --controllers is
    /// given; all objects are lost on exit
    #[arg(long, value_name = BOOL, default_value = "false")]
    pub(crate) sandbox: Switch,
    /// Loopback address of the sandbox's API server; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    pub(crate) sandbox_listen: SocketAddr,
    /// Path of the kubeconfig to write for the sandbox; defaults to a temporary file
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) sandbox_kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global flags")]
pub(crate) struct GlobalFlags {
    /// Print this help
    #[arg(long, short, value_name = BOOL, default_value = "false", hide_default_value = true)]
    pub(crate) help: Switch,
    /// Print the version
    #[arg(long, value_name = BOOL, default_value = "false", hide_default_value = true)]
    pub(crate) version: Switch,
}

/// Returns the parser, with the names of the controllers in the help.
pub(crate) fn command(known: &[KnownController]) -> clap::Command {
    Flags::command().mut_args(|arg| {
        if arg.get_id() == "controllers" {
            let help = format!("{}. {}", help_of(&arg), names(known));
            arg.help(help).allow_hyphen_values(true)
        } else if is_switch(&arg) {
            // `--leader-elect false` must fail: it would not mean `--leader-elect=false`.
            arg.num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
        } else {
            // The next argument is the value, even `-1s` or `-foo`.
            let is_flag = arg.get_long().is_some();
            arg.allow_hyphen_values(is_flag)
        }
    })
}

/// Whether a flag is boolean, and its value optional.
pub(crate) fn is_switch(arg: &clap::Arg) -> bool {
    value_name(arg) == BOOL
}

/// The placeholder of the value in the help.
pub(crate) fn value_name(arg: &clap::Arg) -> &str {
    arg.get_value_names()
        .and_then(<[_]>::first)
        .map_or("", |name| name.as_str())
}

pub(crate) fn help_of(arg: &clap::Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Lists the controllers for the help of `--controllers`.
fn names(known: &[KnownController]) -> String {
    let list = |chosen: Vec<String>| {
        if chosen.is_empty() {
            "none".to_owned()
        } else {
            chosen.join(", ")
        }
    };
    let all = known.iter().map(|known| match known.aliases {
        [] => known.name.to_owned(),
        aliases => format!("{} ({})", known.name, aliases.join(", ")),
    });
    let off = known
        .iter()
        .filter(|known| !known.enabled_by_default)
        .map(|known| known.name.to_owned());
    format!(
        "All controllers (aliases): {}. Off by default: {}",
        list(all.collect()),
        list(off.collect())
    )
}

/// A boolean, in the spellings of Go's `strconv.ParseBool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err("it must be `true` or `false`".to_owned()),
        }
    }
}

/// Accepts any bytes. An empty path is treated as a missing flag.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn whole(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "it must be an integer".to_owned())
}

fn float(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it must be a number".to_owned())
}

fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "it must be an IP address".to_owned())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "it must be an IP address and a port, as in `127.0.0.1:0`".to_owned())
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("it must be `text` or `json`".to_owned()),
    }
}
