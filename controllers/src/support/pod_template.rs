//! Pod templates as JSON: equality and patches.
//!
//! Two templates are equal if the API would treat them as equal: empty, null and missing lists and maps are equal, and
//! quantities are compared by value. The pod-template-hash label is ignored. An empty object differs from a missing one
//! where it has a meaning, such as `emptyDir: {}` or a selector that matches everything.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use steersman_manager::object::StringMap;
use steersman_manager::object::decode::null_is_default;

use super::quantity::billionths;

/// The label that distinguishes the `ReplicaSets` of a Deployment and their pods.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Fields where an empty object equals a missing one.
const EMPTY_IS_MISSING: &[&str] = &[
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
/// Fields that are maps of quantities.
const QUANTITY_MAPS: &[&str] = &["limits", "requests", "overhead"];
/// Fields that are quantities.
const QUANTITIES: &[&str] = &["sizeLimit", "divisor"];

/// A pod template as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The JSON text; empty if there is none.
    pub text: Box<str>,
    #[expect(missing_docs, reason = "plain data")]
    pub labels: StringMap,
}

/// A template in canonical form: equal templates have equal text.
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
    /// Returns the canonical form. Invalid JSON is treated as a missing template.
    #[must_use]
    pub fn of(template: &str) -> Self {
        let mut text = Vec::with_capacity(template.len());
        write(&mut text, &normalized(template));
        // JSON is valid UTF-8.
        Self(String::from_utf8(text).unwrap_or_default())
    }

    /// Returns the canonical text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Returns a template without empty fields and without the pod-template-hash label.
#[must_use]
pub fn normalized(template: &str) -> Value {
    let mut template: Value = serde_json::from_str(template).unwrap_or_default();
    unlabel(&mut template);
    if !normalize("", &mut template) {
        return Value::Null;
    }
    template
}

/// Reports whether the template of a Deployment is `now` still equal to `sent`, from which a `ReplicaSet` with the
/// template `stored` was created. A newer API server adds defaults to both: a field of `now` that `sent` lacks is such
/// a default if `stored` has it too. All of them are [`normalized`].
#[must_use]
pub fn is_unchanged(sent: &Value, now: &Value, stored: Option<&Value>) -> bool {
    match (sent, now) {
        (Value::Object(sent), Value::Object(now)) => {
            let stored = |key: &String| stored.and_then(|it| it.get(key));
            let kept = sent.iter().all(|(key, value)| match now.get(key) {
                Some(now) => is_unchanged(value, now, stored(key)),
                None => stored(key).is_none(),
            });
            let mut added = now.iter().filter(|(key, _)| !sent.contains_key(*key));
            kept && added.all(|(key, value)| stored(key) == Some(value))
        }
        (Value::Array(sent), Value::Array(now)) => {
            let mut pairs = sent.iter().zip(now).enumerate();
            sent.len() == now.len()
                && pairs.all(|(at, (sent, now))| is_unchanged(sent, now, counterpart(stored, at, now)))
        }
        _ => sent == now,
    }
}

/// Returns the item of `stored` with the same name, because a webhook may insert others before it, or else at the same
/// index.
fn counterpart<'a>(stored: Option<&'a Value>, at: usize, item: &Value) -> Option<&'a Value> {
    let stored = stored?.as_array()?;
    match item.get("name") {
        Some(name) => stored.iter().find(|it| it.get("name") == Some(name)),
        None => stored.get(at),
    }
}

/// Removes the pod-template-hash label.
pub fn unlabel(template: &mut Value) {
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(POD_TEMPLATE_HASH);
    }
}

/// Returns the template with the pod-template-hash label.
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

/// Returns the merge patch from `from` to `to`.
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

/// Removes empty fields and converts quantities. Returns whether the value of the field `key` is not empty itself.
fn normalize(key: &str, value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => {
            for item in &mut *items {
                // The index of an item is significant, so empty items are kept.
                if !normalize("", item) {
                    *item = Value::Null;
                }
            }
            !items.is_empty()
        }
        Value::Object(fields) => {
            let is_quantity_map = QUANTITY_MAPS.contains(&key);
            fields.retain(|field, value| {
                if is_quantity_map || QUANTITIES.contains(&&**field) {
                    *value = canonical_quantity(value.take());
                    return true;
                }
                normalize(field, value)
            });
            !fields.is_empty() || !EMPTY_IS_MISSING.contains(&key)
        }
        _ => true,
    }
}

fn canonical_quantity(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return value,
    };
    billionths(&text).map_or(value, |amount| Value::String(amount.to_string()))
}

/// Writes JSON with sorted keys.
fn write(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Array(items) => {
            text.push(b'[');
            for item in items {
                write(text, item);
                text.push(b',');
            }
            text.push(b']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            text.push(b'{');
            for (key, value) in fields {
                write_plain(text, key);
                text.push(b':');
                write(text, value);
                text.push(b',');
            }
            text.push(b'}');
        }
        plain => write_plain(text, plain),
    }
}

/// Writes text, a number, a boolean or null.
fn write_plain(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(text, value).expect("a plain value, written to memory");
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
    fn defaults_of_a_newer_api_server_are_not_a_change() {
        use serde_json::json;
        let sent = json!({"spec": {"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v"}]}});
        let stored = json!({"spec": {"containers": [
            {"name": "sidecar"}, {"name": "a", "image": "x", "new": 1}], "volumes": [{"name": "v"}], "mode": "Auto"}});
        let is = |now: Value| is_unchanged(&sent, &now, Some(&stored));
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
        // A field that the API server has dropped.
        let gone = json!({"spec": {"containers": [{"name": "a", "image": "x"}], "old": 1}});
        let now = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
        assert!(is_unchanged(&gone, &now, Some(&now)));
        assert!(!is_unchanged(&gone, &now, Some(&gone)), "the user removed it");
        for invalid in [json!(true), json!("x"), json!(null), json!([])] {
            assert!(!is_unchanged(&invalid, &now, Some(&now)), "{invalid}");
        }
    }

    #[test]
    fn empty_fields_do_not_change_equality() {
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
    fn other_fields_change_equality() {
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
        // An empty selector matches all namespaces, a missing one the namespace of the pod.
        let term = |more: Value| json!({"spec": {"affinity": {"podAffinity": {"t": [more]}}}});
        assert!(!same(&term(json!({"namespaceSelector": {}})), &term(json!({}))));
        let order = |args: Value| pod(&json!({"name": "a", "args": args}));
        assert!(!same(&order(json!(["a", "b"])), &order(json!(["b", "a"]))));
        let cpu = |cpu: &str| pod(&json!({"name": "a", "resources": {"limits": {"cpu": cpu}}}));
        assert!(!same(&cpu("1"), &cpu("1m")) && !same(&cpu("odd"), &cpu("odder")));
    }

    #[test]
    fn label_is_added_to_missing_labels() {
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
    fn difference_is_a_merge_patch() {
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
