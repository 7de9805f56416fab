//! `--help` and the reference page, both generated from the definitions of the flags.

use std::fmt::Write as _;

use clap::Arg;

use crate::flags::{command, help_of, is_switch, value_name};
use crate::selector::KnownController;

/// Width of the help in columns.
const WIDTH: usize = 100;
/// Indentation of a flag's help.
const INDENT: usize = 12;

const SYNTAX: &str = "A LIST is comma-separated; the flag may be repeated. A DURATION is like `1h2m3.5s` or `300ms`. The \
    value of a boolean flag follows `=`, as in `--leader-elect=false`.";

/// Returns the output of `--help`.
pub(crate) fn help(known: &[KnownController]) -> String {
    let mut out = String::from(
        "A controller manager for Kubernetes: several controllers on shared caches in one process.\n\n\
         Usage:\n  steersman [flags]\n            Run the manager.\n",
    );
    let mut command = command(known);
    // Adds `help`.
    command.build();
    for it in command.get_subcommands() {
        let about = it.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(out, "  steersman {}\n            {about}.\n", it.get_name());
    }
    out.push('\n');
    for line in wrap(SYNTAX, WIDTH) {
        let _ = writeln!(out, "{line}");
    }
    for (heading, flags) in sections(known) {
        let _ = write!(out, "\n{heading}:\n\n");
        for flag in &flags {
            let default = flag
                .default
                .as_ref()
                .map(|value| format!(" (default {value})"))
                .unwrap_or_default();
            let indent = if flag.synopsis.starts_with("--") {
                "      "
            } else {
                "  "
            };
            let _ = writeln!(out, "{indent}{}{default}", flag.synopsis);
            for line in wrap(&flag.text, WIDTH - INDENT) {
                let _ = writeln!(out, "{:INDENT$}{line}", "");
            }
        }
    }
    out
}

/// Returns the reference page of the flags in Markdown.
#[must_use]
pub fn markdown(known: &[KnownController]) -> String {
    let mut out = format!(
        "# Flags of steersman\n\n\
         Generated from the definitions in `config/src/flags`; do not edit. Names and defaults follow kube-controller-manager where \
         it has the flag.\n\n{SYNTAX}\n",
    );
    for (heading, flags) in sections(known) {
        let _ = write!(
            out,
            "\n## {heading}\n\n| Flag | Default | Meaning |\n|---|---|---|\n"
        );
        for flag in &flags {
            let default = flag
                .default
                .as_ref()
                .map(|value| format!("`{value}`"))
                .unwrap_or_default();
            let text = flag.text.replace('|', "\\|");
            let _ = writeln!(out, "| `{}` | {default} | {text} |", flag.synopsis);
        }
    }
    out
}

/// The help of one flag.
struct FlagHelp {
    synopsis: String,
    default: Option<String>,
    text: String,
}

/// Groups the flags by heading, in the order of definition.
fn sections(known: &[KnownController]) -> Vec<(String, Vec<FlagHelp>)> {
    let mut sections: Vec<(String, Vec<FlagHelp>)> = Vec::new();
    for arg in command(known).get_arguments().filter(|arg| !arg.is_hide_set()) {
        let heading = arg.get_help_heading().unwrap_or("Flags");
        if sections.last().is_none_or(|(last, _)| last != heading) {
            sections.push((heading.to_owned(), Vec::new()));
        }
        if let Some((_, flags)) = sections.last_mut() {
            flags.push(flag_help(arg));
        }
    }
    sections
}

fn flag_help(arg: &Arg) -> FlagHelp {
    let short = arg
        .get_short()
        .map(|short| format!("-{short}, "))
        .unwrap_or_default();
    let long = arg.get_long().unwrap_or_default();
    let kind = if is_switch(arg) {
        String::new()
    } else {
        format!(" {}", value_name(arg))
    };
    let default: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    let default = default.join(",");
    let silent = arg.is_hide_default_value_set() || default.is_empty();
    FlagHelp {
        synopsis: format!("{short}--{long}{kind}"),
        default: (!silent).then_some(default),
        text: format!("{}.", help_of(arg)),
    }
}

/// Wraps a text at spaces into lines of at most `width` columns.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
