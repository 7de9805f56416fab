//! Pod templates as JSON: equality and patches.
//!
//! Two templates are equal if the API would treat them as equal: empty, null and missing lists and maps are equal, and
//! quantities are compared by value. The pod-template-hash label is ignored. An empty object differs from a missing one
//! where it has a meaning, such as `emptyDir: {}` or a selector that matches everything.
//!
//! A template is brought into canonical form and hashed once, when it is decoded. Templates are compared by their hash.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use steersman_manager::object::StringMap;
use steersman_manager::object::decode::null_is_default;

use super::quantity::billionths;
use super::template_hash::Hash;

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
    /// The JSON text without optional escapes; empty if there is none.
    pub text: Box<str>,
    #[expect(missing_docs, reason = "plain data")]
    pub labels: StringMap,
    /// The hash of the canonical form.
    pub hash: Hash,
}

/// A template in canonical form: equal templates have equal JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical(Vec<u8>);

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
            hash: Hash::of(&Canonical::of(raw.get())),
            text: unescape(raw.into()),
            labels: labelled.metadata.labels,
        })
    }
}

impl Canonical {
    /// Returns the canonical form. Invalid JSON is treated as a missing template.
    #[must_use]
    pub fn of(template: &str) -> Self {
        let mut json = Vec::with_capacity(template.len());
        let value = CanonicalValue {
            json: &mut json,
            field: "",
            place: Place::Template,
        };
        let mut template = serde_json::Deserializer::from_str(template);
        let is_present = value.deserialize(&mut template);
        match is_present.and_then(|it| template.end().map(|()| it)) {
            Ok(true) => Self(json),
            Ok(false) | Err(_) => Self(b"null".to_vec()),
        }
    }

    /// Returns the canonical JSON.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.0
    }
}

/// Returns a template without empty fields and without the pod-template-hash label.
#[must_use]
pub fn normalized(template: &str) -> Value {
    serde_json::from_slice(Canonical::of(template).json()).unwrap_or_default()
}

/// Returns JSON without optional escapes: API servers escape `<`, `>` and `&`, and each would take six bytes.
fn unescape(json: Box<str>) -> Box<str> {
    if !json.contains("\\u") {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    let mut rest = &*json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        text.push_str(before);
        let length = if let Some(char) = escaped_char(escape) {
            text.push(char);
            6 * char.len_utf16()
        } else {
            text.push_str(&escape[..2]);
            2
        };
        rest = &escape[length..];
    }
    text.push_str(rest);
    text.into()
}

/// Returns the character of the `\u` sequences at the start of `text`; none if there are none, or if JSON requires them.
fn escaped_char(text: &str) -> Option<char> {
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 6)?.strip_prefix("\\u")?, 16).ok();
    let units = [unit(0)?].into_iter().chain(unit(6));
    let char = char::decode_utf16(units).next()?.ok()?;
    (char >= ' ' && char != '"' && char != '\\').then_some(char)
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

/// The place of a value in a template, as far as it matters for its canonical form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Template,
    Metadata,
    Labels,
    /// A map of quantities.
    Quantities,
    Other,
}

impl Place {
    /// Returns the place of a field.
    fn of(self, field: &str) -> Self {
        match (self, field) {
            (Self::Template, "metadata") => Self::Metadata,
            (Self::Metadata, "labels") => Self::Labels,
            _ if QUANTITY_MAPS.contains(&field) => Self::Quantities,
            _ => Self::Other,
        }
    }
}

/// Appends a value in canonical form: without empty fields, with sorted keys, and with quantities as numbers of
/// billionths. Results in whether the value itself is not empty.
struct CanonicalValue<'a> {
    json: &'a mut Vec<u8>,
    /// The name of the field.
    field: &'a str,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for CanonicalValue<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CanonicalValue<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(write(self.json, &value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<bool, E> {
        Ok(write(self.json, &value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<bool, E> {
        Ok(write(self.json, &value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<bool, E> {
        Ok(write(self.json, &value))
    }

    fn visit_str<E>(self, value: &str) -> Result<bool, E> {
        Ok(write(self.json, value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let Self { json, .. } = self;
        json.push(b'[');
        let start = json.len();
        loop {
            let at = json.len();
            let item = CanonicalValue {
                json,
                field: "",
                place: Place::Other,
            };
            match items.next_element_seed(item)? {
                None => break,
                Some(true) => {}
                Some(false) => {
                    // The index of an item is significant, so empty items are kept.
                    json.truncate(at);
                    json.extend(b"null");
                }
            }
            json.push(b',');
        }
        let is_empty = json.len() == start;
        if !is_empty {
            json.pop();
        }
        json.push(b']');
        Ok(!is_empty)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        #[derive(Deserialize)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

        let Self { json, field, place } = self;
        json.push(b'{');
        let start = json.len();
        let mut fields: Vec<Range<usize>> = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            if place == Place::Labels && key == POD_TEMPLATE_HASH {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let at = json.len();
            write(json, &*key);
            json.push(b':');
            let is_present = if place == Place::Quantities || QUANTITIES.contains(&&*key) {
                write(json, &canonical_quantity(map.next_value()?))
            } else {
                map.next_value_seed(CanonicalValue {
                    json,
                    field: &key,
                    place: place.of(&key),
                })?
            };
            if is_present {
                json.push(b',');
                fields.push(at..json.len());
            } else {
                json.truncate(at);
            }
        }
        sort(json, start, &mut fields);
        if !fields.is_empty() {
            json.pop();
        }
        json.push(b'}');
        Ok(!fields.is_empty() || !EMPTY_IS_MISSING.contains(&field))
    }
}

/// Sorts the fields that the JSON ends with.
fn sort(json: &mut Vec<u8>, start: usize, fields: &mut [Range<usize>]) {
    if fields.is_sorted_by_key(|it| &json[it.clone()]) {
        return;
    }
    fields.sort_by_key(|it| &json[it.clone()]);
    let sorted: Vec<&[u8]> = fields.iter().map(|it| &json[it.clone()]).collect();
    let sorted = sorted.concat();
    json.truncate(start);
    json.extend(sorted);
}

fn canonical_quantity(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return value,
    };
    billionths(&text).map_or(value, |amount| Value::String(amount.to_string()))
}

/// Writes a value. Returns true.
fn write(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> bool {
    serde_json::to_writer(json, value).expect("JSON, written to memory");
    true
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
    fn only_required_escapes_are_kept() {
        for (json, expected) in [
            (r#"["a"]"#, r#"["a"]"#),
            (r#"["\u003ca\u003e\u0026\u2028"]"#, "[\"<a>&\u{2028}\"]"),
            (r#"["\ud83d\ude00\u00e9"]"#, "[\"😀é\"]"),
            (
                r#"["\u0001\u0022\u005c\n\"\\u003c"]"#,
                r#"["\u0001\u0022\u005c\n\"\\u003c"]"#,
            ),
            (r#"["\ud83d\u0041\ud83d"]"#, r#"["\ud83dA\ud83d"]"#),
        ] {
            let made = unescape(json.into());
            assert_eq!(&*made, expected);
            let read = |text: &str| serde_json::from_str::<Value>(text).ok();
            assert_eq!(read(&made), read(json));
        }
    }

    #[test]
    fn canonical_form_is_json_with_sorted_fields() {
        let template = r#"{"b":[1,null,{"limits":{"cpu":"1"}},[]],"a":{"d":"\u003c","c":-1.5},"e":{},"labels":{},
                           "metadata":{"labels":{"pod-template-hash":"x"}},"sizeLimit":"1k","f":true}"#;
        let expected = r#"{"a":{"c":-1.5,"d":"<"},"b":[1,null,{"limits":{"cpu":"1000000000"}},null],"e":{},"f":true,"sizeLimit":"1000000000000"}"#;
        assert_eq!(Canonical::of(template).json(), expected.as_bytes());
        assert_eq!(Canonical::of(expected).json().len(), expected.len() + 18);
        for empty in ["", "null", "[]", "{", "{} x", "[1,]"] {
            assert_eq!(Canonical::of(empty).json(), b"null", "{empty}");
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
