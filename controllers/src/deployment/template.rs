//! Templates of pods as JSON: which are the same, and what makes one of another.
//!
//! Two templates are the same if the API would say so: lists and maps that are empty, null or not there are the same, and
//! quantities count by their value. The label that tells the `ReplicaSets` of a Deployment apart is not looked at. An empty
//! object is *not* the same as none where it could say something: `emptyDir: {}`, or a selector that selects all.

use serde_json::{Map, Value};

use super::POD_TEMPLATE_HASH;
use super::quantity::billionths;

/// Where an empty object says nothing: maps, and structures that are always there.
const PLAIN: &[&str] = &[
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "metadata",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "resources",
    "volumeAttributes",
];
/// Maps of quantities.
const AMOUNTS: &[&str] = &["limits", "requests", "overhead"];
/// Quantities.
const AMOUNT: &[&str] = &["sizeLimit", "divisor"];

/// A template in a form in which equal ones have equal texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical(String);

impl Canonical {
    /// The form of a template. One that is no JSON is as empty as one that is not there.
    #[must_use]
    pub fn of(template: &str) -> Self {
        let mut template: Value = serde_json::from_str(template).unwrap_or_default();
        unlabel(&mut template);
        let mut text = String::new();
        write(&mut text, &normal("", template).unwrap_or_default());
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Takes the label out that tells `ReplicaSets` apart.
pub fn unlabel(template: &mut Value) {
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(POD_TEMPLATE_HASH);
    }
}

/// The template with the label that tells `ReplicaSets` apart.
#[must_use]
pub fn labelled(template: &str, hash: &str) -> Value {
    let mut template: Value = serde_json::from_str(template).unwrap_or_default();
    let mut at = &mut template;
    for field in ["metadata", "labels"] {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[field];
    }
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    at[POD_TEMPLATE_HASH] = hash.into();
    template
}

/// The merge patch that makes `to` of `from`.
#[must_use]
pub fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(present) if present == value => {}
            Some(present) => drop(patch.insert(key.clone(), difference(present, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

/// None if it says nothing.
fn normal(key: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        // The place of an item counts, whatever it says.
        Value::Array(items) => Some(
            items
                .into_iter()
                .map(|it| normal("", it).unwrap_or_default())
                .collect(),
        ),
        Value::Object(fields) => {
            let amounts = AMOUNTS.contains(&key);
            let fields: Map<String, Value> = fields
                .into_iter()
                .filter_map(|(field, value)| {
                    let value = if amounts || AMOUNT.contains(&&*field) {
                        amount(value)
                    } else {
                        normal(&field, value)?
                    };
                    Some((field, value))
                })
                .collect();
            (!fields.is_empty() || !PLAIN.contains(&key)).then_some(Value::Object(fields))
        }
        other => Some(other),
    }
}

fn amount(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return value,
    };
    billionths(&text).map_or(value, |amount| Value::String(amount.to_string()))
}

/// JSON with the keys in order, whatever order the map has.
fn write(text: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(text, item);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in fields {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(text, value);
                text.push(',');
            }
            text.push('}');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    fn same(a: &Value, b: &Value) -> bool {
        Canonical::of(&a.to_string()) == Canonical::of(&b.to_string())
    }

    fn pod(container: &Value) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}})
    }

    #[test]
    fn what_says_nothing_makes_no_difference() {
        let plain = pod(&json!({"name": "a", "image": "i"}));
        for same_as in [
            json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}, "creationTimestamp": null},
                   "spec": {"containers": [{"image": "i", "name": "a"}]}}),
            json!({"metadata": {"labels": {"app": "web"}, "annotations": {}},
                   "spec": {"containers": [{"name": "a", "image": "i", "env": [], "resources": {}, "args": null}],
                            "nodeSelector": {}, "volumes": null, "tolerations": []}}),
            pod(&json!({"name": "a", "image": "i", "resources": {"limits": {}, "requests": null}})),
        ] {
            assert!(same(&plain, &same_as), "{same_as}");
        }
        let amounts = |cpu: Value, memory: &str| {
            pod(&json!({"name": "a", "resources": {"limits": {"cpu": cpu, "memory": memory}}}))
        };
        assert!(same(
            &amounts(json!("1000m"), "1Gi"),
            &amounts(json!(1), "1024Mi")
        ));
    }

    #[test]
    fn what_says_something_makes_a_difference() {
        let plain = pod(&json!({"name": "a", "image": "i"}));
        for other in [
            json!({"metadata": {"labels": {"app": "web", "b": "c"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}),
            json!({"metadata": {"labels": {"app": "web"}, "annotations": {"a": ""}},
                   "spec": {"containers": [{"name": "a", "image": "i"}]}}),
            pod(&json!({"name": "a", "image": "j"})),
            pod(&json!({"name": "a", "image": "i", "securityContext": {"runAsUser": 0}})),
            pod(&json!({"name": "a", "image": "i", "unheard": false})),
            pod(&json!({"name": "a", "image": "i", "env": [{"name": "A", "value": ""}]})),
            json!({"metadata": {"labels": {"app": "web"}},
                   "spec": {"containers": [{"name": "a", "image": "i"}, null]}}),
        ] {
            assert!(!same(&plain, &other), "{other}");
        }
        // All namespaces, and the one of the pod.
        let term = |more: Value| json!({"spec": {"affinity": {"podAffinity": {"t": [more]}}}});
        assert!(!same(&term(json!({"namespaceSelector": {}})), &term(json!({}))));
        let order = |args: Value| pod(&json!({"name": "a", "args": args}));
        assert!(!same(&order(json!(["a", "b"])), &order(json!(["b", "a"]))));
        let cpu = |cpu: &str| pod(&json!({"name": "a", "resources": {"limits": {"cpu": cpu}}}));
        assert!(!same(&cpu("1"), &cpu("1m")) && !same(&cpu("odd"), &cpu("odder")));
    }

    #[test]
    fn a_template_gets_its_label_wherever_there_are_none() {
        for template in [
            "",
            "{}",
            "null",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"labels":null}}"#,
        ] {
            let mut made = labelled(template, "h");
            assert_eq!(
                made["metadata"]["labels"],
                json!({"pod-template-hash": "h"}),
                "{template}"
            );
            unlabel(&mut made);
            assert_eq!(made["metadata"]["labels"], json!({}));
        }
        let kept = labelled(
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{"unheard":[1,2.5]}}"#,
            "h",
        );
        assert_eq!(
            kept,
            json!({"metadata": {"labels": {"a": "b", "pod-template-hash": "h"}}, "spec": {"unheard": [1, 2.5]}})
        );
    }

    #[test]
    fn the_difference_makes_one_of_the_other() {
        let from = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1], "f": {"g": 1}});
        let to = json!({"a": 1, "b": {"c": 4}, "e": [1, 2], "h": {"i": 1}});
        let patch = difference(&from, &to);
        assert_eq!(
            patch,
            json!({"b": {"c": 4, "d": null}, "e": [1, 2], "f": null, "h": {"i": 1}})
        );
        assert_eq!(difference(&to, &to), json!({}));
    }
}
