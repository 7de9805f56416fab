//! Compares an answer with the recorded one.
//!
//! Against the release that was recorded, everything counts except texts for people: descriptions of table columns, messages of
//! causes, and messages of failures whose reason is in `FREE_TEXT` or missing, unless they are about a webhook. Causes are a set. An empty list, an empty text and
//! `null` are the same as a missing field. Against another release, fields that only one of the answers has do not count.

use serde_json::{Map, Value};

use super::template::Bindings;

/// Reasons whose messages come from parsers, validation and the storage.
const FREE_TEXT: [&str; 5] = [
    "BadRequest",
    "InternalError",
    "Invalid",
    "NotAcceptable",
    "Timeout",
];

/// The strictness of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Both answers are from the same release.
    Same,
    /// The answer is from another release.
    Other,
}

/// Compares a body with the recorded one. Returns the differences.
pub fn body(
    bindings: &mut Bindings,
    mode: Mode,
    recorded: &str,
    actual: &str,
    ignore: &[String],
) -> Vec<String> {
    let parsed = |text| serde_json::from_str::<Value>(text);
    match (parsed(recorded), parsed(actual)) {
        (Ok(recorded), Ok(actual)) => {
            let mut comparison = Comparison {
                bindings,
                mode,
                ignore,
                differences: Vec::new(),
            };
            comparison.value("", &recorded, &actual);
            comparison.differences
        }
        _ if bindings.matches(recorded, actual) => Vec::new(),
        // A text that is not JSON is for people, such as the answer of a handler that knows no Kubernetes.
        (Err(_), Err(_)) if mode == Mode::Other => Vec::new(),
        _ => vec!["the bodies differ".to_owned()],
    }
}

struct Comparison<'a> {
    bindings: &'a mut Bindings,
    mode: Mode,
    ignore: &'a [String],
    differences: Vec<String>,
}

impl Comparison<'_> {
    fn value(&mut self, path: &str, recorded: &Value, actual: &Value) {
        if self
            .ignore
            .iter()
            .any(|ignored| path.strip_prefix('.') == Some(ignored.as_str()))
        {
            return;
        }
        match (recorded, actual) {
            (Value::Object(recorded_fields), Value::Object(actual_fields)) => {
                let free_text = is_free_text(recorded_fields, self.mode);
                let ignored = |key: &str| match key {
                    "message" => free_text || path.contains(".causes["),
                    "description" => path.contains("columnDefinitions["),
                    _ => false,
                };
                let name = |key: &String| self.bindings.substitute(key).unwrap_or_else(|_| key.clone());
                let recorded_fields: Map<_, _> = recorded_fields
                    .iter()
                    .map(|(key, v)| (name(key), v.clone()))
                    .collect();
                for (key, value) in &recorded_fields {
                    match actual_fields.get(key) {
                        _ if ignored(key) => {}
                        Some(actual) => self.value(&format!("{path}.{key}"), value, actual),
                        None => self.missing(&format!("{path}.{key}"), "missing, recorded:", value),
                    }
                }
                for (key, value) in actual_fields {
                    if !recorded_fields.contains_key(key) && !ignored(key) {
                        self.missing(&format!("{path}.{key}"), "not recorded, got:", value);
                    }
                }
            }
            (Value::Array(recorded), Value::Array(actual)) => {
                let (mut recorded, mut actual) = (recorded.clone(), actual.clone());
                if path.ends_with(".managedFields") {
                    // The real server sorts by time, which has a resolution of a second.
                    let key = |entry: &Value| {
                        ["manager", "operation", "subresource"].map(|key| entry[key].to_string())
                    };
                    recorded.sort_by_key(key);
                    actual.sort_by_key(key);
                }
                if path.ends_with(".causes") {
                    // The real server repeats causes, in the order of its checks.
                    let key = |cause: &Value| (cause["field"].to_string(), cause["reason"].to_string());
                    for causes in [&mut recorded, &mut actual] {
                        causes.sort_by_key(key);
                        causes.dedup_by_key(|cause| key(cause));
                    }
                }
                for (index, (recorded, actual)) in recorded.iter().zip(&actual).enumerate() {
                    self.value(&format!("{path}[{index}]"), recorded, actual);
                }
                if recorded.len() != actual.len() {
                    let (recorded, actual) = (recorded.len(), actual.len());
                    self.differ(path, &format!("recorded {recorded} elements, got {actual}"));
                }
            }
            (Value::String(text), Value::String(actual)) if self.bindings.matches(text, actual) => {}
            (Value::String(text), Value::Number(_)) if text.starts_with("{{") => {
                if !self.bindings.matches(text, &actual.to_string()) {
                    self.differ(path, &format!("recorded {recorded}, got {actual}"));
                }
            }
            _ if recorded == actual || is_empty(recorded) && is_empty(actual) => {}
            _ if self.mode == Mode::Other && (is_empty(recorded) || is_empty(actual)) => {}
            _ => self.differ(path, &format!("recorded {recorded}, got {actual}")),
        }
    }

    fn missing(&mut self, path: &str, problem: &str, value: &Value) {
        let ignored = self
            .ignore
            .iter()
            .any(|ignored| path.strip_prefix('.') == Some(ignored.as_str()));
        if self.mode == Mode::Same && !ignored && !is_empty(value) && path != ".details" {
            self.differ(path, &format!("{problem} {value}"));
        }
    }

    fn differ(&mut self, path: &str, problem: &str) {
        let path = if path.is_empty() { "the whole" } else { path };
        self.differences.push(format!("{path}: {problem}"));
    }
}

/// Whether an object is a failure whose message is not compared.
pub(super) fn is_free_text(object: &Map<String, Value>, mode: Mode) -> bool {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_failure = text("kind") == "Status" && text("status") == "Failure";
    // The message about a webhook names the webhook and the failed step.
    let counts = mode == Mode::Same
        && ["admission webhook \"", "calling webhook \""]
            .iter()
            .any(|start| text("message").contains(start));
    is_failure && !counts && (text("reason").is_empty() || FREE_TEXT.contains(&text("reason")))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}
