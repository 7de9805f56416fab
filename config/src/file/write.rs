//! Writes a configuration as a file.

use std::fmt::Write as _;

use serde_json::Value;

use super::tree::is_text;

/// Returns the document as YAML: version and kind first, then the groups by name.
pub(crate) fn yaml(document: &Value) -> String {
    let mut out = String::new();
    let Some(root) = document.as_object() else {
        return out;
    };
    let (header, groups): (Vec<_>, Vec<_>) = root.iter().partition(|(_, value)| !value.is_object());
    for (name, value) in header.into_iter().chain(groups) {
        write(&mut out, name, value, 0);
    }
    out
}

fn write(out: &mut String, name: &str, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            let _ = writeln!(out, "{indent}{name}:");
            for (name, value) in fields {
                write(out, name, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let _ = writeln!(out, "{indent}{name}:");
            for item in items {
                let _ = writeln!(out, "{indent}- {}", scalar(item));
            }
        }
        value => {
            let _ = writeln!(out, "{indent}{name}: {}", scalar(value));
        }
    }
}

/// A JSON scalar is a YAML scalar. Quotes are omitted where no parser takes the text for another type.
fn scalar(value: &Value) -> String {
    const BOOLEANS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];
    let is_plain = |text: &str| {
        let safe = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
            && text.chars().all(safe)
            && is_text(text)
            && !BOOLEANS.contains(&text.to_ascii_lowercase().as_str())
    };
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => value.to_string(),
    }
}
