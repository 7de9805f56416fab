//! Label sets and label selectors in one-line form, sorted by key.

use std::collections::BTreeMap;

use crate::json::Value;
use crate::printers::read::{list, text};

/// Formats a map of labels as `a=1,b=2`; `<none>` if it is empty.
pub fn labels(map: Option<&Value>) -> String {
    none_if_empty(
        pairs(map)
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// Formats a label selector as `a=1,b in (2,3),!c`; `<none>` if it selects everything or nothing.
pub fn selector(selector: Option<&Value>) -> String {
    plain(selector).map_or_else(|| "<error>".to_owned(), none_if_empty)
}

/// Formats a label selector; empty if it selects everything or nothing. Returns `None` if an operator is unknown.
pub fn plain(selector: Option<&Value>) -> Option<String> {
    let selector = selector.unwrap_or(&Value::Null);
    let equal = pairs(selector.pointer("/matchLabels"))
        .map(|(key, value)| Some((key.to_owned(), format!("{key}={value}"))));
    let expressions = list(selector, "/matchExpressions").iter().map(requirement);
    let mut requirements = equal.chain(expressions).collect::<Option<Vec<_>>>()?;
    requirements.sort_by(|a, b| a.0.cmp(&b.0));
    Some(
        requirements
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// Returns the key of a match expression, for sorting, and its text.
fn requirement(expression: &Value) -> Option<(String, String)> {
    let key = text(expression, "/key");
    let mut values: Vec<&str> = list(expression, "/values")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    values.sort_unstable();
    let values = values.join(",");
    let text = match text(expression, "/operator") {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => return None,
    };
    Some((key.to_owned(), text))
}

/// Returns the labels sorted by key. The order of a JSON map depends on the features of `serde_json`.
fn pairs(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let sorted: BTreeMap<&str, &str> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    sorted.into_iter()
}

fn none_if_empty(text: String) -> String {
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}
