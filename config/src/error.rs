//! What can be wrong with a command line. Each message is one sentence that names the thing and says what would be right.

use std::fmt::Display;

/// Why a command line was not understood, or not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such flag.
    #[error("unknown flag {}; {}", flag.escape_debug(), match suggestion {
        Some(suggestion) => format!("did you mean {suggestion}?"),
        None => "`coxswain --help` lists all flags".to_owned(),
    })]
    UnknownFlag {
        /// As it was typed.
        flag: String,
        /// A flag that looks like it.
        suggestion: Option<String>,
    },
    /// An argument that is no flag.
    #[error("unexpected argument {argument:?}: {}", if *switch {
        "a flag that is on or off takes its value after `=`, as in --leader-elect=false"
    } else {
        "coxswain takes flags, or a subcommand as its first argument, see `coxswain --help`"
    })]
    Positional {
        /// As it was typed.
        argument: String,
        /// Whether it reads like the value of a flag that is on or off.
        switch: bool,
    },
    /// More than a subcommand takes.
    #[error("unexpected argument {argument:?}: `coxswain {name}` takes none, see `coxswain {name} --help`")]
    Subcommand {
        /// The subcommand.
        name: &'static str,
        /// As it was typed.
        argument: String,
    },
    /// A flag stands at the end without its value.
    #[error("{flag} needs a value, as in {flag}={kind}")]
    MissingValue {
        /// The flag.
        flag: String,
        /// What kind of value.
        kind: String,
    },
    /// A value that cannot be read.
    #[error("invalid value {value:?} for {flag}: {reason}")]
    BadValue {
        /// The flag.
        flag: String,
        /// As it was typed.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another complaint of the command line's parser.
    #[error("{0}; see `coxswain --help`")]
    Usage(String),
    /// Values that can be read, but make no sense. There is at least one.
    #[error("{}", aggregate(.0))]
    Invalid(Vec<Invalid>),
}

/// A value that makes no sense, alone or together with others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// `--controllers` names a controller that there is not.
    #[error("{0:?} is not in the list of known controllers, which `coxswain --help` shows")]
    UnknownController(String),
    /// The election knows one kind of lock.
    #[error("resourceLock value must be \"leases\": leave out --leader-elect-resource-lock")]
    ResourceLock,
    /// A value outside of what is allowed.
    #[error("--{flag} must be {allowed}, not {value}")]
    Value {
        /// The flag, without its dashes.
        flag: &'static str,
        /// What would be right.
        allowed: String,
        /// What was given.
        value: String,
    },
    /// Flags that do not go together.
    #[error("{0}")]
    Together(&'static str),
}

impl Invalid {
    pub(crate) fn value(flag: &'static str, allowed: impl Into<String>, value: impl Display) -> Self {
        let (allowed, value) = (allowed.into(), value.to_string());
        Self::Value { flag, allowed, value }
    }
}

/// One error as it is, several as a list, as Kubernetes components print them.
fn aggregate(errors: &[Invalid]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
