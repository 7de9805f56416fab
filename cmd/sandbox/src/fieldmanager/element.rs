//! Path elements of a field set, in the serialized form of structured-merge-diff.
//!
//! - `f:name`: a field, or a key of a map;
//! - `k:{"name":"x"}`: the item of a keyed list with these keys, sorted by name;
//! - `v:"x"`: the item of a set with this value;
//! - `i:0`: the item of a list at this index.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::json::{self, Text, Value};

/// Returns the element of a field or a map key.
pub(super) fn field(name: &str) -> Text {
    json::element(name)
}

/// Returns the element of a keyed list item. `keys` must be sorted by name.
pub(super) fn keyed(keys: &[(&str, Value)]) -> Text {
    let mut text = Text::inline("k:{");
    for (n, (name, value)) in keys.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push('"');
        text.push_str(name);
        text.push_str("\":");
        text.push_str(&escaped(value));
    }
    text.push('}');
    text
}

/// Returns the element of a set item.
pub(super) fn value(value: &Value) -> Text {
    ecow::eco_format!("v:{}", escaped(value))
}

/// Encodes a value as JSON, with the same escapes as the API server.
fn escaped(value: &Value) -> String {
    let mut text = Vec::new();
    json::encode(&mut text, value);
    let text = String::from_utf8(text).unwrap_or_default();
    // 0xe2 is the first byte of the separators.
    if !text.bytes().any(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)) {
        return text;
    }
    text.chars()
        .map(|c| match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

/// Returns the canonical form of an element, or `None` if the type of the element is unknown.
pub(super) fn canonical(element: &str) -> Result<Option<Text>, String> {
    let Some((kind, content)) = element.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
        return Err(format!("missing colon: {element}"));
    };
    let wrong = |e: serde_json::Error| format!("parsing key as path element: {e}");
    Ok(match kind {
        "f" => Some(element.into()),
        "v" => Some(value(&serde_json::from_str(content).map_err(wrong)?)),
        "k" => {
            let keys: BTreeMap<String, Value> = serde_json::from_str(content).map_err(wrong)?;
            let keys: Vec<(&str, Value)> = keys.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
            Some(keyed(&keys))
        }
        "i" => {
            let index: i64 = content.parse().map_err(|_| format!("no index: {content}"))?;
            Some(ecow::eco_format!("i:{index}"))
        }
        _ => None,
    })
}

/// Formats a path for messages: `.spec.containers[name="c"].image`.
pub(super) fn shown<T: AsRef<str>>(path: &[T]) -> String {
    path.iter()
        .map(|element| format_element(element.as_ref()))
        .collect()
}

fn format_element(element: &str) -> String {
    match element.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("v:", value)) => format!("[={}]", plain(&parsed(value))),
        Some(("k:", keys)) => match parsed(keys) {
            Value::Object(keys) => {
                let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={}", plain(v))).collect();
                format!("[{}]", keys.join(","))
            }
            _ => format!("[{keys}]"),
        },
        Some(("i:", index)) => format!("[{index}]"),
        _ => element.to_owned(),
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), |s| format!("{s:?}"))
}

/// The sort order of elements: fields, keys, values, then indexes. Numbers sort by value.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Field(String),
    Keys(Vec<(Text, Scalar)>),
    Value(Scalar),
    Index(i64),
    Other(String),
}

/// A value with a total order: numbers, then strings, then booleans.
#[derive(PartialEq)]
pub(super) struct Scalar(Value);

impl Order {
    pub(super) fn of(element: &str) -> Self {
        match element.split_at_checked(2) {
            Some(("f:", name)) => Self::Field(name.to_owned()),
            Some(("k:", keys)) => match parsed(keys) {
                Value::Object(keys) => Self::Keys(keys.into_iter().map(|(k, v)| (k, Scalar(v))).collect()),
                other => Self::Value(Scalar(other)),
            },
            Some(("v:", value)) => Self::Value(Scalar(parsed(value))),
            Some(("i:", index)) => Self::Index(index.parse().unwrap_or_default()),
            _ => Self::Other(element.to_owned()),
        }
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Value| match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            _ => 3,
        };
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => {
                a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
            }
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}
