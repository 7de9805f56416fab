//! Origin of the values: command line or default. Fields are named by their path in the configuration file.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

pub(crate) struct Sources<'a> {
    pub(crate) command: &'a Command,
    pub(crate) matches: &'a ArgMatches,
}

impl Sources<'_> {
    /// Whether a field was given, even if with its default.
    pub(crate) fn given(&self, field: &str) -> bool {
        self.matches.value_source(field) == Some(ValueSource::CommandLine)
    }

    /// Whether a field was given such that it contradicts a feature that is off.
    pub(crate) fn chosen(&self, field: &str) -> bool {
        self.given(field)
    }

    /// Returns the name of a field in messages: its flag.
    pub(crate) fn place(&self, field: &str) -> String {
        let arg = self.command.get_arguments().find(|arg| arg.get_id() == field);
        let long = arg.and_then(Arg::get_long).unwrap_or(field);
        format!("--{long}")
    }
}
