//! JSON as YAML that any reader takes for the same, old ones too: YAML 1.1 and 1.2 agree on all that is written here.
//!
//! Maps and lists are in blocks, the keys of a map in order, so that the same value is always the same text. A text stands
//! plain if it is a word that can be nothing else; otherwise it is quoted as in JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Words that mean something else to some reader.
const TAKEN: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// A document for each value.
#[must_use]
pub fn documents(values: &[Value]) -> String {
    values.iter().map(document).collect()
}

/// One document, with the line that begins it.
#[must_use]
pub fn document(value: &Value) -> String {
    let mut out = String::from("---\n");
    match value {
        Value::Object(fields) if !fields.is_empty() => map(&mut out, fields, 0),
        Value::Array(items) if !items.is_empty() => list(&mut out, items, 0),
        other => {
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
    out
}

fn map(out: &mut String, fields: &Map<String, Value>, indent: usize) {
    let ordered: BTreeMap<&String, &Value> = fields.iter().collect();
    for (at, (key, value)) in ordered.into_iter().enumerate() {
        // The first one of an item stands beside its dash.
        if at > 0 || !out.ends_with("- ") {
            let _ = write!(out, "{:indent$}", "");
        }
        let _ = write!(out, "{}:", text(key));
        below(out, value, indent);
    }
}

fn below(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            map(out, fields, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            list(out, items, indent);
        }
        other => {
            let _ = writeln!(out, " {}", scalar(other));
        }
    }
}

fn list(out: &mut String, items: &[Value], indent: usize) {
    for item in items {
        let _ = write!(out, "{:indent$}- ", "");
        match item {
            Value::Object(fields) if !fields.is_empty() => map(out, fields, indent + 2),
            // A list in a list stands in one line: JSON is YAML.
            other => {
                let _ = writeln!(out, "{}", scalar(other));
            }
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(word) => text(word),
        other => other.to_string(),
    }
}

fn text(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let is_word = word.starts_with(|first: char| first.is_ascii_alphabetic()) && word.chars().all(plain);
    if is_word && !TAKEN.contains(&word.to_ascii_lowercase().as_str()) {
        return word.to_owned();
    }
    // What JSON leaves as it is and YAML does not print.
    let mut quoted = String::new();
    for c in Value::from(word).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted
}

#[cfg(test)]
mod tests;
