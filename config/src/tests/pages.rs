//! Help and error messages agree with the definitions of the flags.

use serde_json::{Value, json};

use super::{KNOWN, print};
use crate::flags::{command, is_field};
use crate::{reference, schema};

#[test]
fn help_lists_every_flag_with_its_default_in_100_columns() {
    let help = print(&["--help"]);
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line.trim_end(), line);
    }
    let mut flags = 0;
    for arg in command(&KNOWN).get_arguments().filter(|arg| !arg.is_hide_set()) {
        let long = format!("--{}", arg.get_long().expect("a flag has a long name"));
        let is_synopsis =
            |line: &&str| !line.starts_with(&" ".repeat(12)) && line.split(' ').any(|word| word == long);
        let lines: Vec<_> = help.lines().filter(is_synopsis).collect();
        assert_eq!(lines.len(), 1, "{long}");
        let default = arg
            .get_default_values()
            .first()
            .filter(|_| !arg.is_hide_default_value_set());
        if let Some(default) = default {
            assert!(
                lines[0].ends_with(&format!("(default {})", default.display())),
                "{lines:?}"
            );
        }
        flags += 1;
    }
    assert_eq!(flags, 69);
    assert!(help.contains("\nLeader election flags:\n"));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(
        "All controllers (aliases): appservice-controller (appservice), replicaset-controller (replicaset), \
         hollow-kubelet. Off by default: hollow-kubelet."
    ));
}

/// A misspelled field would be named as an unknown flag in messages.
#[test]
fn every_field_in_the_validation_exists() {
    let command = command(&KNOWN);
    let sources = [
        include_str!("../validate.rs"),
        include_str!("../validate/clients.rs"),
        include_str!("../validate/controllers.rs"),
        include_str!("../validate/endpoints.rs"),
        include_str!("../validate/insight.rs"),
        include_str!("../validate/manager.rs"),
    ];
    let quoted = sources
        .into_iter()
        .flat_map(|source| source.split('"').skip(1).step_by(2));
    let fields: Vec<_> = quoted
        .filter(|text| text.contains('.') && text.chars().all(|c| c.is_alphanumeric() || c == '.'))
        .collect();
    for field in &fields {
        assert!(
            command.get_arguments().any(|arg| arg.get_id() == field),
            "{field}"
        );
    }
    assert!(fields.len() > 40, "{}", fields.len());
}

#[test]
fn flag_definitions_are_consistent() {
    command(&KNOWN).debug_assert();
}

#[test]
fn completion_and_manual_contain_every_flag() {
    let scripts = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| print(&["completion", shell]));
    let page = print(&["man"]);
    for arg in command(&KNOWN).get_arguments().filter(|arg| !arg.is_hide_set()) {
        let long = arg.get_long().expect("a flag has a long name");
        for script in &scripts {
            assert!(script.contains(long), "{long}");
        }
        let roff = format!("\\-\\-{}", long.replace('-', "\\-"));
        assert!(page.contains(&roff), "{roff}");
    }
    for script in &scripts {
        assert!(script.contains("VersionTLS13") && script.contains("completion"));
    }
    assert!(
        page.contains("\\fBsteersman completion\\fR bash|elvish|fish|powershell|zsh\n"),
        "{page}"
    );
}

#[test]
fn schema_describes_every_field() {
    let schema: Value = serde_json::from_str(&schema(&KNOWN)).expect("JSON");
    let fields = reference(&KNOWN)
        .lines()
        .filter(|line| line.starts_with("| `"))
        .count();
    let mut found = 0;
    for arg in command(&KNOWN)
        .get_arguments()
        .filter(|arg| is_field(arg.get_id().as_str()))
    {
        let path = arg.get_id().as_str().replace('.', "/properties/");
        let field = schema.pointer(&format!("/properties/{path}")).expect("a field");
        assert!(
            field["type"].is_string() && field["description"].is_string(),
            "{path}"
        );
        found += 1;
    }
    assert_eq!((found, fields), (64, 64));
    let format = &schema["properties"]["logging"]["properties"]["format"];
    assert_eq!(
        (&format["enum"], &format["default"]),
        (&json!(["text", "json"]), &json!("text"))
    );
    let paths = &schema["properties"]["authorization"]["properties"]["alwaysAllowPaths"]["default"];
    assert_eq!(*paths, json!(["/healthz", "/readyz", "/livez"]));
    assert_eq!(schema["properties"]["serving"]["additionalProperties"], false);
}
