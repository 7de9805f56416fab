//! Types of the values, derived from the definitions of the flags.

use clap::{Arg, ArgAction};

use crate::flags::value_name;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Integer,
    Number,
    Duration,
    Text,
    /// Texts separated by commas.
    List,
    /// Texts that may contain commas; the flag is repeated.
    Repeated,
}

impl Kind {
    pub(crate) fn of(arg: &Arg) -> Self {
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        match value_name(arg) {
            "CERT,KEY[:NAMES]" => Self::Repeated,
            _ if is_list => Self::List,
            "BOOL" => Self::Bool,
            "INT" | "PORT" => Self::Integer,
            "FLOAT" => Self::Number,
            "DURATION" => Self::Duration,
            _ => Self::Text,
        }
    }

    /// Describes a valid value in messages and in the reference.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Duration => "a duration like \"15s\"",
            Self::Text => "a text",
            Self::List => "a list of texts without commas",
            Self::Repeated => "a list of texts",
        }
    }
}
