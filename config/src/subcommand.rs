//! Subcommands. A subcommand is the first argument and takes no flags but `--help`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use crate::config::Parsed;
use crate::error::Error;

struct Subcommand {
    name: &'static str,
    /// One line for the list of subcommands.
    about: &'static str,
    /// The output of its own `--help`.
    help: &'static str,
    parsed: fn() -> Parsed,
}

const ALL: &[Subcommand] = &[
    Subcommand {
        name: "crds",
        about: "Print the CustomResourceDefinitions, for `kubectl apply -f -`",
        help: "Prints the CustomResourceDefinitions of AppService and AppReplicaSet as YAML.\n\
               \n\
               Usage:\n  coxswain crds | kubectl apply -f -\n\
               \n\
               The manager installs them only in the sandbox. On a cluster, a controller whose CRD is missing waits\n\
               until it is created. Apply them again after each upgrade of coxswain.\n\
               \n\
               API servers before 1.25 do not support CEL rules and drop them: apply with --validate=false there.\n",
        parsed: || Parsed::Crds,
    },
    Subcommand {
        name: "tour",
        about: "Demonstrate the controllers, in a minute, on an API server in this process",
        help: "Runs the lifecycle of an application on an API server in this process: create, scale, roll out, roll out\n\
               a broken image and undo it, delete with each propagation policy, and fail over between two managers.\n\
               Each step prints the expected and the observed result.\n\
               \n\
               Usage:\n  coxswain tour\n\
               \n\
               The tour does not use a cluster. It exits with 0, or with 1 at the first step whose expected result is\n\
               not observed. To explore on your own, run `coxswain --sandbox`.\n",
        parsed: || Parsed::Tour,
    },
];

/// Returns none if the first argument is not a subcommand.
pub(crate) fn parse(args: &[OsString]) -> Option<Result<Parsed, Error>> {
    let (first, rest) = args.split_first()?;
    let it = ALL.iter().find(|it| first == it.name)?;
    let is_help = |arg: &OsString| [OsStr::new("--help"), OsStr::new("-h")].contains(&arg.as_os_str());
    if rest.iter().any(is_help) {
        return Some(Ok(Parsed::Print(it.help.to_owned())));
    }
    Some(match rest.first() {
        None => Ok((it.parsed)()),
        Some(argument) => Err(Error::Subcommand {
            name: it.name,
            argument: argument.to_string_lossy().into_owned(),
        }),
    })
}

/// Returns the list of subcommands for the help.
pub(crate) fn list() -> String {
    let mut out = String::new();
    for it in ALL {
        let _ = write!(out, "  coxswain {}\n            {}.\n", it.name, it.about);
    }
    out
}
