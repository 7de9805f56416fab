//! Templates of pods as JSON: which are the same, and what makes one of another.
//!
//! Two templates are the same if the API would say so: lists and maps that are empty, null or not there are the same, and
//! quantities count by their value. The label that tells the `ReplicaSets` of a Deployment apart is not looked at. An empty
//! object is *not* the same as none where it could say something: `emptyDir: {}`, or a selector that selects all.

use coxswain_manager::object::StringMap;
use coxswain_manager::object::decode::null_is_default;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::quantity::billionths;

/// The label that tells the `ReplicaSets` of a Deployment, and their pods, apart.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

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

/// The template of its pods, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The JSON text; empty if there is none.
    pub text: Box<str>,
    /// The labels in it.
    pub labels: StringMap,
}

/// A template in a form in which equal ones have equal texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical(String);

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Labelled {
            #[serde(deserialize_with = "null_is_default")]
            metadata: Labels,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Labels {
            #[serde(deserialize_with = "null_is_default")]
            labels: StringMap,
        }
        let Some(raw) = Option::<Box<RawValue>>::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        let labelled: Labelled = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            text: Box::<str>::from(raw),
            labels: labelled.metadata.labels,
        })
    }
}

impl Canonical {
    /// The form of a template. One that is no JSON is as empty as one that is not there.
    #[must_use]
    pub fn of(template: &str) -> Self {
        let mut text = String::new();
        write(&mut text, &normalized(template));
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A template without fields that say nothing, and without the label that tells `ReplicaSets` apart.
#[must_use]
pub fn normalized(template: &str) -> Value {
    let mut template: Value = serde_json::from_str(template).unwrap_or_default();
    unlabel(&mut template);
    normal("", template).unwrap_or_default()
}

/// Whether the template of a Deployment is still `sent`, from which a `ReplicaSet` was created that has the template
/// `stored` now. A newer API server adds defaults to both: a field that `now` has and `sent` does not have is such a default
/// if `stored` has it too. All of them are [`normalized`].
#[must_use]
pub fn is_still(sent: &Value, now: &Value, stored: Option<&Value>) -> bool {
    match (sent, now) {
        (Value::Object(sent), Value::Object(now)) => {
            let stored = |key: &String| stored.and_then(|it| it.get(key));
            let kept = sent.iter().all(|(key, value)| match now.get(key) {
                Some(now) => is_still(value, now, stored(key)),
                None => stored(key).is_none(),
            });
            let mut added = now.iter().filter(|(key, _)| !sent.contains_key(*key));
            kept && added.all(|(key, value)| stored(key) == Some(value))
        }
        (Value::Array(sent), Value::Array(now)) => {
            let mut pairs = sent.iter().zip(now).enumerate();
            sent.len() == now.len()
                && pairs.all(|(at, (sent, now))| is_still(sent, now, counterpart(stored, at, now)))
        }
        _ => sent == now,
    }
}

/// The item of `stored` that an item is: that of its name, as a webhook may insert others before it; else that of its place.
fn counterpart<'a>(stored: Option<&'a Value>, at: usize, item: &Value) -> Option<&'a Value> {
    let stored = stored?.as_array()?;
    match item.get("name") {
        Some(name) => stored.iter().find(|it| it.get("name") == Some(name)),
        None => stored.get(at),
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
    fn defaults_of_a_newer_server_are_no_change() {
        use serde_json::json;
        let sent = json!({"spec": {"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v"}]}});
        let stored = json!({"spec": {"containers": [
            {"name": "sidecar"}, {"name": "a", "image": "x", "new": 1}], "volumes": [{"name": "v"}], "mode": "Auto"}});
        let is = |now: Value| is_still(&sent, &now, Some(&stored));
        let spec = |container: Value, mode: Value| {
            json!({"spec": {
            "containers": [container], "volumes": [{"name": "v"}], "mode": mode}})
        };
        assert!(is(sent.clone()));
        assert!(is(spec(
            json!({"name": "a", "image": "x", "new": 1}),
            json!("Auto")
        )));
        for (what, now) in [
            (
                "another image",
                spec(json!({"name": "a", "image": "y", "new": 1}), json!("Auto")),
            ),
            (
                "another value",
                spec(json!({"name": "a", "image": "x", "new": 2}), json!("Auto")),
            ),
            (
                "another value",
                spec(json!({"name": "a", "image": "x"}), json!("Manual")),
            ),
            (
                "a field of the user",
                spec(json!({"name": "a", "image": "x", "tty": true}), json!("Auto")),
            ),
            (
                "less",
                json!({"spec": {"containers": [{"name": "a", "image": "x"}]}}),
            ),
            (
                "more",
                json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "sidecar"}],
                                     "volumes": [{"name": "v"}]}}),
            ),
            ("nothing", json!(null)),
        ] {
            assert!(!is(now.clone()), "{what}: {now}");
        }
        // A field that the server does not have any more.
        let gone = json!({"spec": {"containers": [{"name": "a", "image": "x"}], "old": 1}});
        let now = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
        assert!(is_still(&gone, &now, Some(&now)));
        assert!(!is_still(&gone, &now, Some(&gone)), "the user took it out");
        for odd in [json!(true), json!("x"), json!(null), json!([])] {
            assert!(!is_still(&odd, &now, Some(&now)), "{odd}");
        }
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
