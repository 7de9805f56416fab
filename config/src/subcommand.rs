//! Subcommands. A subcommand is the first argument and takes no flags but `--help`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use crate::config::Parsed;
use crate::error::Error;
use crate::manual;
use crate::selector::KnownController;

pub(crate) struct Subcommand {
    pub(crate) name: &'static str,
    /// One line for the list of subcommands.
    pub(crate) about: &'static str,
    /// The output of its own `--help`.
    help: &'static str,
    /// Valid values of its only argument; empty if it takes none.
    pub(crate) values: &'static [&'static str],
    /// Is given the argument.
    parsed: fn(&str, &[KnownController]) -> Parsed,
}

pub(crate) const ALL: &[Subcommand] = &[
    Subcommand {
        name: "completion",
        about: "Print the completion script of a shell: bash, zsh or fish",
        help: "Prints a script that completes subcommands, flags and values in a shell.\n\
               \n\
               Usage:\n  steersman completion bash|zsh|fish\n\
               \n\
               bash:  source <(steersman completion bash)\n\
               zsh:   steersman completion zsh > \"${fpath[1]}/_steersman\"\n\
               fish:  steersman completion fish > ~/.config/fish/completions/steersman.fish\n",
        values: &["bash", "zsh", "fish"],
        parsed: |shell, known| Parsed::Print(manual::completion(shell, known)),
    },
    Subcommand {
        name: "crds",
        about: "Print the CustomResourceDefinitions, for `kubectl apply -f -`",
        help: "Prints the CustomResourceDefinitions of AppService and AppReplicaSet as YAML.\n\
               \n\
               Usage:\n  steersman crds | kubectl apply -f -\n\
               \n\
               The manager installs them only in the sandbox. On a cluster, a controller whose CRD is missing waits\n\
               until it is created. Apply them again after each upgrade of steersman.\n\
               \n\
               API servers before 1.25 do not support CEL rules and drop them: apply with --validate=false there.\n",
        values: &[],
        parsed: |_, _| Parsed::Crds,
    },
    Subcommand {
        name: "man",
        about: "Print the manual page",
        help: "Prints the manual page in the format of roff.\n\
               \n\
               Usage:\n  steersman man > steersman.1 && man ./steersman.1\n",
        values: &[],
        parsed: |_, known| Parsed::Print(manual::page(known)),
    },
    Subcommand {
        name: "tour",
        about: "Demonstrate the controllers, in a minute, on an API server in this process",
        help: "Runs the lifecycle of an application on an API server in this process: create, scale, roll out, roll out\n\
               a broken image and undo it, delete with each propagation policy, and fail over between two managers.\n\
               Each step prints the expected and the observed result.\n\
               \n\
               Usage:\n  steersman tour\n\
               \n\
               The tour does not use a cluster. It exits with 0, or with 1 at the first step whose expected result is\n\
               not observed. To explore on your own, run `steersman --sandbox`.\n",
        values: &[],
        parsed: |_, _| Parsed::Tour,
    },
];

/// Returns none if the first argument is not a subcommand.
pub(crate) fn parse(args: &[OsString], known: &[KnownController]) -> Option<Result<Parsed, Error>> {
    let (first, rest) = args.split_first()?;
    let it = ALL.iter().find(|it| first == it.name)?;
    let is_help = |arg: &OsString| [OsStr::new("--help"), OsStr::new("-h")].contains(&arg.as_os_str());
    if rest.iter().any(is_help) {
        return Some(Ok(Parsed::Print(it.help.to_owned())));
    }
    let text = |arg: &OsString| arg.to_string_lossy().into_owned();
    let (value, unexpected) = rest.split_at(rest.len().min(usize::from(!it.values.is_empty())));
    if let Some(argument) = unexpected.first() {
        return Some(Err(Error::Subcommand {
            name: it.name,
            argument: text(argument),
        }));
    }
    let value = value.first().map(text).unwrap_or_default();
    if !it.values.is_empty() && !it.values.contains(&value.as_str()) {
        return Some(Err(Error::SubcommandValue {
            name: it.name,
            value,
            values: it.values,
        }));
    }
    Some(Ok((it.parsed)(&value, known)))
}

/// Returns the list of subcommands for the help.
pub(crate) fn list() -> String {
    let mut out = String::new();
    for it in ALL {
        let _ = write!(out, "  steersman {}\n            {}.\n", it.name, it.about);
    }
    out
}
