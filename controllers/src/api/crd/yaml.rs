//! Prints JSON as YAML that parsers of YAML 1.1 and 1.2 read alike.
//!
//! Maps and lists are in block style with sorted keys, so the output is deterministic. A string is plain if it cannot
//! be read as another type; otherwise it is quoted as in JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Words that some YAML version reads as a boolean or null.
const RESERVED_WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// Prints each value as a document.
#[must_use]
pub fn documents(values: &[Value]) -> String {
    values.iter().map(document).collect()
}

/// Prints one document with its `---` line.
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
        // The first key of a list item follows the dash.
        if at > 0 || !out.ends_with("- ") {
            let _ = write!(out, "{:indent$}", "");
        }
        let _ = write!(out, "{}:", text(key));
        nested(out, value, indent);
    }
}

fn nested(out: &mut String, value: &Value, indent: usize) {
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
            // A list in a list is printed as JSON, which is YAML.
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
    if is_word && !RESERVED_WORDS.contains(&word.to_ascii_lowercase().as_str()) {
        return word.to_owned();
    }
    // Characters that JSON may contain unescaped and YAML may not.
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
