//! The reference page of the configuration file, generated from the definitions of the flags.

use std::fmt::Write as _;

use clap::Arg;
use clap::builder::PossibleValue;

use crate::effective::{API_VERSION, KIND};
use crate::flags::{command, help_of, is_field};
use crate::kind::Kind;
use crate::reload::RELOADED;
use crate::selector::KnownController;

/// Returns the reference page of the configuration file in Markdown.
#[must_use]
pub fn reference(known: &[KnownController]) -> String {
    let mut out = format!(
        "# Configuration file of steersman\n\n\
         Generated from the definitions in `config/src/flags`; do not edit. [schema.json](schema.json) is the JSON schema.\n\n\
         `steersman --config FILE` reads YAML or JSON. Flags override fields; a list given by a flag replaces the list of \
         the file. Unknown and duplicate fields, wrong types, tags, aliases and several documents are rejected. Relative \
         paths are relative to the working directory of the process. The file contains paths of credentials, not \
         credentials. `--validate-only` checks a file, and `--write-config-to -` prints the effective configuration as a file.\n\n\
         ```yaml\napiVersion: {API_VERSION}\nkind: {KIND}\nleaderElection:\n  leaseDuration: 30s\nlogging:\n  \
         verbosity: 2\n```\n\n\
         SIGHUP reads the file again: the fields marked \\* change in the running manager, and other changed fields are \
         logged as requiring a restart. An invalid file is logged, and changes nothing.\n",
    );
    let mut last = String::new();
    for arg in command(known).get_arguments() {
        let id = arg.get_id().as_str();
        let Some((group, name)) = id.rsplit_once('.').filter(|_| is_field(id)) else {
            continue;
        };
        if group != last {
            let _ = write!(
                out,
                "\n## {group}\n\n| Field | Type | Default | Flag | Meaning |\n|---|---|---|---|---|\n"
            );
            group.clone_into(&mut last);
        }
        let star = if RELOADED.iter().any(|(field, _)| *field == id) {
            " \\*"
        } else {
            ""
        };
        let default: Vec<_> = arg
            .get_default_values()
            .iter()
            .filter(|text| !text.is_empty())
            .map(|text| format!("`{}`", text.display()))
            .collect();
        let _ = writeln!(
            out,
            "| `{name}`{star} | {} | {} | `--{}` | {}. |",
            type_of(arg),
            default.join(","),
            arg.get_long().unwrap_or_default(),
            help_of(arg).replace('|', "\\|"),
        );
    }
    out
}

fn type_of(arg: &Arg) -> String {
    let kind = Kind::of(arg);
    let names = arg.get_possible_values();
    if kind == Kind::Text && !names.is_empty() {
        let names: Vec<_> = names.iter().map(PossibleValue::get_name).collect();
        return format!("`{}`", names.join("` or `"));
    }
    let name = match kind {
        Kind::Bool => "boolean",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Duration => "duration",
        Kind::Text => "text",
        Kind::List | Kind::Repeated => "list",
    };
    name.to_owned()
}
