//! Errors of the command line and of the configuration file. A message names the flag or the field, and the valid values.

use std::fmt::Display;

use crate::file::FileError;

/// An error of the command line or the configuration file.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown flag {}; {}", flag.escape_debug(), match suggestion {
        Some(suggestion) => format!("did you mean {suggestion}?"),
        None => "`steersman --help` lists all flags".to_owned(),
    })]
    UnknownFlag {
        flag: String,
        /// A flag with a similar name.
        suggestion: Option<String>,
    },
    /// An argument that is not a flag.
    #[error("unexpected argument {argument:?}: {}", if *switch {
        "the value of a boolean flag follows `=`, as in --leader-elect=false"
    } else {
        "expected flags, or a subcommand as the first argument; see `steersman --help`"
    })]
    Positional {
        argument: String,
        /// Whether the argument is a boolean.
        switch: bool,
    },
    /// A subcommand was given an argument.
    #[error(
        "unexpected argument {argument:?}: `steersman {name}` takes no further arguments; see `steersman {name} --help`"
    )]
    Subcommand { name: &'static str, argument: String },
    /// A subcommand was given no argument or an unknown one.
    #[error(
        "`steersman {name}` needs one of {}, not {value:?}; see `steersman {name} --help`", values.join(", ")
    )]
    SubcommandValue {
        name: &'static str,
        /// Empty if it is missing.
        value: String,
        values: &'static [&'static str],
    },
    #[error("{flag} needs a value, as in {flag}={kind}")]
    MissingValue {
        flag: String,
        /// The placeholder of the value.
        kind: String,
    },
    /// A value that cannot be parsed.
    #[error("invalid value {value:?} for {flag}: {reason}")]
    BadValue {
        flag: String,
        value: String,
        reason: String,
    },
    /// Any other error of the parser.
    #[error("{0}; see `steersman --help`")]
    Usage(String),
    #[error(transparent)]
    File(#[from] FileError),
    /// Values that fail validation. Not empty.
    #[error("{}", aggregate(.0))]
    Invalid(Vec<Invalid>),
}

/// A value that fails validation, alone or in combination with others.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("{place}: {name:?} is not in the list of known controllers; see `steersman --help`")]
    UnknownController { place: String, name: String },
    #[error("{place} must be {allowed}, not {value}")]
    Value {
        /// The flag or the field that has the value.
        place: String,
        allowed: String,
        value: String,
    },
    /// An invalid combination of values.
    #[error("{0}")]
    Combination(String),
}

/// Joins errors like `utilerrors.Aggregate` of Kubernetes.
pub(crate) fn aggregate(errors: &[impl Display]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
