//! What the program does besides running the manager: one word, before anything else.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use crate::error::Error;
use crate::parse::Parsed;

/// One of them. It takes no flags but `--help`.
struct Subcommand {
    name: &'static str,
    /// In the list of all.
    about: &'static str,
    /// What its own `--help` says.
    help: &'static str,
    does: fn() -> Parsed,
}

const ALL: &[Subcommand] = &[Subcommand {
    name: "crds",
    about: "Print the definitions of the custom kinds, for `kubectl apply -f -`",
    help: "Prints the CustomResourceDefinitions of the kinds that coxswain brings along, as YAML.\n\
           \n\
           Usage:\n  coxswain crds | kubectl apply -f -\n\
           \n\
           The manager does not install them, except in the sandbox: a controller whose kind is not defined\n\
           waits until it is. Applying them again, after an upgrade of coxswain, brings them up to date.\n\
           \n\
           Servers before 1.25 know no rules in CEL, and drop them: there, apply with --validate=false.\n",
    does: || Parsed::Crds,
}];

/// What is asked for, if the first argument is a subcommand.
pub(crate) fn parse(args: &[OsString]) -> Option<Result<Parsed, Error>> {
    let (first, rest) = args.split_first()?;
    let it = ALL.iter().find(|it| first == it.name)?;
    let is_help = |arg: &OsString| [OsStr::new("--help"), OsStr::new("-h")].contains(&arg.as_os_str());
    if rest.iter().any(is_help) {
        return Some(Ok(Parsed::Print(it.help.to_owned())));
    }
    Some(match rest.first() {
        None => Ok((it.does)()),
        Some(argument) => Err(Error::Subcommand {
            name: it.name,
            argument: argument.to_string_lossy().into_owned(),
        }),
    })
}

/// The lines of the help that list them.
pub(crate) fn list() -> String {
    let mut out = String::new();
    for it in ALL {
        let _ = write!(out, "  coxswain {}\n            {}.\n", it.name, it.about);
    }
    out
}
