//! The flags, each defined once: name, kind, default and help. Reading, help and the reference page all come from here.
//!
//! A field holds the value as it was typed; [`crate::validate`] makes a [`crate::Config`] of it. Names and defaults are those
//! of kube-controller-manager where it has the flag.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory, Parser};

use crate::config::LogFormat;
use crate::duration::GoDuration;
use crate::selector::Known;

/// The name of values that a flag may go without.
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
    /// Taken only to be refused in our own words.
    #[arg(hide = true)]
    pub(crate) positional: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Generic flags")]
pub(crate) struct GenericFlags {
    /// The controllers to run: `*` switches on all that are on by default, `foo` switches on the controller foo, `-foo`
    /// switches it off; of two items for one controller the first counts
    #[arg(long, value_name = "LIST", default_value = "*", action = ArgAction::Append)]
    pub(crate) controllers: Vec<String>,
    /// Run controllers that `*` switches on although kube-controller-manager has them too, where its Lease
    /// kube-system/kube-controller-manager does not exist: kube-controller-manager is assumed not to run, not even without
    /// leader election; true with --sandbox, unless given
    #[arg(long, value_name = BOOL, default_value = "false")]
    pub(crate) assume_no_kube_controller_manager: Switch,
    /// Each controller starts after a random time between this and twice this
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(crate) controller_start_interval: GoDuration,
    /// How long to wait at the end for the controllers to stop; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) controller_shutdown_timeout: GoDuration,
    /// The namespaces to work in; all if the flag is not given
    #[arg(long, value_name = "LIST", action = ArgAction::Append)]
    pub(crate) namespaces: Vec<String>,
    /// Work only on objects with these labels, as in `app=web,tier!=test`; all if empty
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub(crate) label_selector: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Client flags")]
pub(crate) struct ClientFlags {
    /// The kubeconfig of the cluster to work on; without it and --master, the service account of the pod that this runs in
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The URL of the API server, in place of the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Requests per second that one controller may send in the long run; not limited with --sandbox, unless given
    #[arg(long, value_name = "FLOAT", default_value = "20", value_parser = float)]
    pub(crate) kube_api_qps: f64,
    /// Requests that one controller may send at once
    #[arg(long, value_name = "INT", default_value = "30", value_parser = whole)]
    pub(crate) kube_api_burst: i64,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election flags")]
pub(crate) struct ElectionFlags {
    /// Elect a leader before the controllers start, so that of several replicas only one works
    #[arg(long, value_name = BOOL, default_value = "true")]
    pub(crate) leader_elect: Switch,
    /// How long other candidates wait after the last renewal they saw before they take the lease
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub(crate) leader_elect_lease_duration: GoDuration,
    /// How long the leader tries to renew its lease before it stops leading; must be more than 3s shorter than the lease duration
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) leader_elect_renew_deadline: GoDuration,
    /// How long to wait between two tries to take or renew the lease
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) leader_elect_retry_period: GoDuration,
    /// The kind of object that is the lock; only `leases` is supported
    #[arg(long, value_name = "KIND", default_value = "leases")]
    pub(crate) leader_elect_resource_lock: String,
    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "coxswain")]
    pub(crate) leader_elect_resource_name: String,
    /// The namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub(crate) leader_elect_resource_namespace: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Secure serving flags")]
pub(crate) struct ServingFlags {
    /// The port on which health and metrics are served over HTTPS; 0 serves nothing
    #[arg(long, value_name = "PORT", default_value = "10257", value_parser = whole)]
    pub(crate) secure_port: i64,
    /// The IP address to listen on; `0.0.0.0` and `::` listen on all; with --sandbox the default is 127.0.0.1
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", value_parser = ip)]
    pub(crate) bind_address: IpAddr,
    /// The server's certificate in PEM, its issuers after it; without it, a self-signed one is made at start
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file in PEM
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Paths that are answered without authorization; a `*` at the end of one stands for any rest
    #[arg(long, value_name = "LIST", default_value = "/healthz,/livez,/readyz", action = ArgAction::Append)]
    pub(crate) authorization_always_allow_paths: Vec<String>,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook flags")]
pub(crate) struct WebhookFlags {
    /// The port on which admission webhooks are served over HTTPS, on --bind-address; 0 serves none
    #[arg(long, value_name = "PORT", default_value = "0", value_parser = whole)]
    pub(crate) webhook_port: i64,
    /// The Service through which the API server reaches the webhooks; their certificate is made for it, renewed, kept in the
    /// Secret of that name, and made known to the webhook configurations of that name
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/coxswain-webhook"
    )]
    pub(crate) webhook_service: String,
    /// A folder with `tls.crt` and `tls.key` to serve webhooks with, read again when they change, in place of a certificate
    /// that is made
    #[arg(long, value_name = "DIRECTORY", value_parser = path())]
    pub(crate) webhook_cert_dir: Option<PathBuf>,
    /// A file with certificate authorities in PEM form: webhooks are then served only to clients that show a certificate of one
    /// of them, such as the API server's
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) webhook_client_ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Logs flags")]
pub(crate) struct LoggingFlags {
    /// The shape of a log line: `text` or `json`
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = log_format)]
    pub(crate) logging_format: LogFormat,
    /// How much is logged: 0 what an operator must see, 2 each change made, 4 each step
    #[arg(long, short, value_name = "INT", default_value = "0", value_parser = whole)]
    pub(crate) v: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "AppService controller flags")]
pub(crate) struct AppServiceFlags {
    /// The number of `AppServices` that are worked on at once
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_appservice_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Deployment controller flags")]
pub(crate) struct DeploymentFlags {
    /// The number of `Deployments` that are worked on at once
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_deployment_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Garbage collector flags")]
pub(crate) struct GarbageCollectorFlags {
    /// Collect garbage; must be as the API server was told, which sets no finalizers for the collector otherwise
    #[arg(long, value_name = BOOL, default_value = "true")]
    pub(crate) enable_garbage_collector: Switch,
    /// The number of objects that the garbage collector looks at at once
    #[arg(long, value_name = "INT", default_value = "20", value_parser = whole)]
    pub(crate) concurrent_gc_syncs: i64,
    /// Write nothing: what the garbage collector would delete is logged, with the reason, and counted
    #[arg(long, value_name = BOOL, default_value = "false")]
    pub(crate) gc_dry_run: Switch,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Hollow kubelet flags")]
pub(crate) struct HollowKubeletFlags {
    /// How long a pod takes to become ready on a hollow node
    #[arg(
        long = "hollow-kubelet-ready-delay",
        value_name = "DURATION",
        default_value = "0s"
    )]
    pub(crate) ready_delay: GoDuration,
    /// The number of hollow nodes
    #[arg(long = "hollow-kubelet-nodes", value_name = "INT", default_value = "1", value_parser = whole)]
    pub(crate) nodes: i64,
    /// The number of pods that the hollow kubelet works on at once
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_hollow_kubelet_syncs: i64,
}

#[expect(clippy::struct_field_names, reason = "a field is named as its flag")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Replica controller flags")]
pub(crate) struct ReplicaFlags {
    /// The number of `AppReplicaSets` that are worked on at once
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_appreplicaset_syncs: i64,
    /// The number of `ReplicaSets` that are worked on at once
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_replicaset_syncs: i64,
    /// The number of `ReplicationControllers` that are worked on at once
    #[arg(long, value_name = "INT", default_value = "5", value_parser = whole)]
    pub(crate) concurrent_rc_syncs: i64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox flags")]
pub(crate) struct SandboxFlags {
    /// Work on an API server inside this process instead of a cluster, with every controller on unless --controllers is
    /// given; all is gone at the end
    #[arg(long, value_name = BOOL, default_value = "false")]
    pub(crate) sandbox: Switch,
    /// Where the sandbox listens: a loopback address, port 0 for any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    pub(crate) sandbox_listen: SocketAddr,
    /// Where to write a kubeconfig for the sandbox; without it, a temporary file
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) sandbox_kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global flags")]
pub(crate) struct GlobalFlags {
    /// Print the help
    #[arg(long, short, value_name = BOOL, default_value = "false", hide_default_value = true)]
    pub(crate) help: Switch,
    /// Print the version
    #[arg(long, value_name = BOOL, default_value = "false", hide_default_value = true)]
    pub(crate) version: Switch,
}

/// The flags as the parser wants them, with the names of the controllers in their help.
pub(crate) fn command(known: &[Known]) -> clap::Command {
    Flags::command().mut_args(|arg| {
        if arg.get_id() == "controllers" {
            let help = format!("{}. {}", help_of(&arg), names(known));
            arg.help(help).allow_hyphen_values(true)
        } else if is_switch(&arg) {
            // `--leader-elect false` is not `--leader-elect=false`: whoever writes that must learn of it.
            arg.num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
        } else {
            // What follows a flag is its value, also `-1s` and `-foo`.
            let is_flag = arg.get_long().is_some();
            arg.allow_hyphen_values(is_flag)
        }
    })
}

/// Whether a flag is on or off, and may stand without a value.
pub(crate) fn is_switch(arg: &clap::Arg) -> bool {
    value_name(arg) == BOOL
}

/// The kind of value that a flag takes.
pub(crate) fn value_name(arg: &clap::Arg) -> &str {
    arg.get_value_names()
        .and_then(<[_]>::first)
        .map_or("", |name| name.as_str())
}

/// What a flag is for.
pub(crate) fn help_of(arg: &clap::Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// The controllers in a sentence or two.
fn names(known: &[Known]) -> String {
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

/// A flag that is on or off, with the spellings that Go takes.
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

/// Any bytes are a path, and none at all too: that is the same as no flag.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn whole(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "it must be a whole number".to_owned())
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
