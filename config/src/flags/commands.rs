//! Subcommands. A subcommand is the first argument.

use clap::{Arg, ArgAction, Subcommand, ValueEnum};
use clap_complete::Shell;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Print the completion script of a shell
    #[command(after_help = "\
bash:        source <(steersman completion bash)
zsh:         steersman completion zsh > \"${fpath[1]}/_steersman\"
fish:        steersman completion fish > ~/.config/fish/completions/steersman.fish
elvish:      eval (steersman completion elvish | slurp)
powershell:  steersman completion powershell | Out-String | Invoke-Expression")]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print the `CustomResourceDefinitions`, for `kubectl apply -f -`
    #[command(after_help = "\
Example:  steersman crds | kubectl apply -f -

The manager installs them only in the sandbox. On a cluster, a controller whose CRD is missing waits
until it is created. Apply them again after each upgrade of steersman.

API servers before 1.25 do not support CEL rules and drop them: apply with --validate=false there.")]
    Crds,
    /// Print the manual page
    #[command(after_help = "Example:  steersman man > steersman.1 && man ./steersman.1")]
    Man,
    /// Print the objects of an installation of this version, for `kubectl apply -f -`
    #[command(after_help = "\
Example:  steersman manifests | kubectl apply -f -

The objects are those of deploy/base: CustomResourceDefinitions, the namespace steersman-system,
roles, and a Deployment of the image of this version. For other settings, use the chart or an
overlay.")]
    Manifests,
    /// Demonstrate the controllers, in a minute, on an API server in this process
    #[command(after_help = "\
Runs the lifecycle of an application: create, scale, roll out, roll out a broken image and undo it,
delete with each propagation policy, and fail over between two managers. Each step prints the
expected and the observed result.

The tour does not use a cluster. It exits with 0, or with 1 at the first step whose expected result
is not observed. To explore on your own, run `steersman --sandbox`.")]
    Tour,
    /// Print the version
    Version {
        /// Output format: `text`, or `json` for the details of the build
        #[arg(
            long,
            short,
            value_name = "FORMAT",
            default_value = "text",
            hide_default_value = true,
            hide_possible_values = true
        )]
        output: VersionFormat,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionFormat {
    Text,
    Json,
}

/// Returns the flag `--help` of a subcommand. That of the manager is a boolean, as in kube-controller-manager.
pub(super) fn help_flag() -> Arg {
    Arg::new("help")
        .long("help")
        .short('h')
        .action(ArgAction::Help)
        .help("Print this help")
}
