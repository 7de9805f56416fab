//! Origin of the values: command line, configuration file or default. Fields are named by their path in the file.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::file::Values;

pub(crate) struct Sources<'a> {
    pub(crate) command: &'a Command,
    /// Of the command line and of the file.
    pub(crate) matches: &'a ArgMatches,
    /// The fields of the file that the command line does not override.
    pub(crate) file: &'a Values,
}

impl Sources<'_> {
    /// Whether a field was given, even if with its default.
    pub(crate) fn given(&self, field: &str) -> bool {
        self.matches.value_source(field) == Some(ValueSource::CommandLine)
    }

    /// Whether a field was given on the command line, or in the file with a value other than its default. A file may contain
    /// the fields of features that are off, as a written one does.
    pub(crate) fn chosen(&self, field: &str) -> bool {
        let texts = |arg: &Arg| {
            let texts = arg.get_default_values().iter();
            texts
                .map(|text| text.to_string_lossy())
                .collect::<Vec<_>>()
                .join(",")
        };
        let default = self.arg(field).map(texts).unwrap_or_default();
        let is_default = |texts: &Vec<String>| texts.join(",") == default;
        self.given(field) && !self.file.get(field).is_some_and(is_default)
    }

    /// Returns the name of a field in messages: its path if the value comes from the file, and otherwise its flag.
    pub(crate) fn place(&self, field: &str) -> String {
        if self.file.contains_key(field) {
            return field.to_owned();
        }
        let long = self.arg(field).and_then(Arg::get_long).unwrap_or(field);
        format!("--{long}")
    }

    fn arg(&self, field: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|arg| arg.get_id() == field)
    }
}
