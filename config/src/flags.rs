//! Definitions of the flags: name, type, default and help. The parser, `--help` and the reference page are derived from
//! them.
//!
//! The id of a flag is the path of its field in the configuration file. Flags without a `.` in the id are not fields.
//!
//! Fields hold values as given on the command line; [`crate::validate`] turns them into a [`crate::Config`]. Names and
//! defaults follow kube-controller-manager where it has the flag.

mod commands;
mod controllers;
mod endpoints;
mod manager;
mod values;

use clap::{Args, CommandFactory, Parser, ValueHint};

pub(crate) use commands::{Command, VersionFormat};
pub(crate) use controllers::{
    AppServiceFlags, DeploymentFlags, GarbageCollectorFlags, HollowKubeletFlags, ReplicaFlags, SandboxFlags,
};
pub(crate) use endpoints::{
    AuthenticationFlags, AuthorizationFlags, DebuggingFlags, LoggingFlags, ServingFlags, TracingFlags,
    WebhookFlags,
};
pub(crate) use manager::{ClientFlags, ElectionFlags, FileFlags, GenericFlags};
pub(crate) use values::{BOOL, Switch};

use self::commands::help_flag;
use crate::selector::KnownController;

/// The name of the program.
pub(crate) const PROGRAM: &str = "steersman";

#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    bin_name = PROGRAM,
    about = "A controller manager for Kubernetes: several controllers on shared caches in one process",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) generic: GenericFlags,
    #[command(flatten)]
    pub(crate) file: FileFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
    #[command(flatten)]
    pub(crate) election: ElectionFlags,
    #[command(flatten)]
    pub(crate) serving: ServingFlags,
    #[command(flatten)]
    pub(crate) authentication: AuthenticationFlags,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationFlags,
    #[command(flatten)]
    pub(crate) webhook: WebhookFlags,
    #[command(flatten)]
    pub(crate) logging: LoggingFlags,
    #[command(flatten)]
    pub(crate) tracing: TracingFlags,
    #[command(flatten)]
    pub(crate) debugging: DebuggingFlags,
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
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
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
    let command = Flags::command().mut_subcommands(|command| command.arg(help_flag()));
    command.mut_args(|arg| {
        if arg.get_id() == "generic.controllers" {
            let help = format!("{}. {}", help_of(&arg), names(known));
            arg.help(help).allow_hyphen_values(true)
        } else if is_switch(&arg) {
            // `--leader-elect false` must fail: it would not mean `--leader-elect=false`.
            arg.num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
        } else {
            // The next argument is the value, even `-1s` or `-foo`.
            let hint = match value_name(&arg) {
                "FILE" => ValueHint::FilePath,
                "DIRECTORY" => ValueHint::DirPath,
                _ => ValueHint::Other,
            };
            arg.allow_hyphen_values(true).value_hint(hint)
        }
    })
}

/// Whether the flag of an id is also a field of the configuration file.
pub(crate) fn is_field(id: &str) -> bool {
    id.contains('.')
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
