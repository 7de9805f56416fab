//! Errors of the command line and of the configuration file. A message names the flag or the field, and the valid values.

use std::fmt::Display;

use crate::file::FileError;

/// An error of the command line or the configuration file.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown flag {}; {}", flag.escape_debug(), match suggestion {
        Some(suggestion) => format!("did you mean {suggestion}?"),
        None => format!("`{program} --help` lists all flags"),
    })]
    UnknownFlag {
        flag: String,
        /// A flag with a similar name.
        suggestion: Option<String>,
        /// The program, and its subcommand if there is one.
        program: String,
    },
    #[error("unknown command {name:?}; {}", match suggestion {
        Some(suggestion) => format!("did you mean {suggestion}?"),
        None => "`steersman --help` lists all commands".to_owned(),
    })]
    UnknownCommand {
        name: String,
        /// A command with a similar name.
        suggestion: Option<String>,
    },
    /// An argument that is neither a flag nor a value.
    #[error("unexpected argument {argument:?}; see `{program} --help`")]
    Argument { argument: String, program: String },
    /// An argument that is meant as the value of a boolean flag.
    #[error("unexpected argument {0:?}: the value of a boolean flag follows `=`, as in --leader-elect=false")]
    Boolean(String),
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
    #[error("{problem}; see `{program} --help`")]
    Usage {
        problem: String,
        /// The program, and its subcommand if there is one.
        program: String,
    },
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
