//! Replaces the values of an answer that differ from run to run by variables, for recording.
//!
//! A value is replaced by its place: uids, resource versions, times, generated names, tokens, allocated addresses and ports. A
//! value that a request of the scenario contained stays. Texts that [`compare`](super::compare) ignores are removed.

use serde_json::{Map, Value};

use super::{
    compare::{Mode, is_free_text},
    template::{Bindings, is_time},
};

/// Replaces the values of one answer. `sent` is the text of all requests so far.
pub fn body(
    bindings: &mut Bindings,
    sent: &str,
    text: &str,
    managed_fields: bool,
    ignore: &[String],
) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else {
        return names(bindings, text.trim_end());
    };
    for field in ignore {
        remove(&mut value, field);
    }
    Normalizer {
        bindings,
        sent,
        managed_fields,
    }
    .object(&mut value);
    value.to_string()
}

/// Replaces the values that earlier answers bound in a text of a request or in a header.
pub fn names(bindings: &Bindings, text: &str) -> String {
    let mut text = text.to_owned();
    let classes = ["token", "continue", "hash", "uid", "name", "ns"];
    let webhooks = bindings
        .names()
        .filter(|name| name.rsplit('.').next() == Some("url"));
    for class in webhooks.chain(classes) {
        for (name, value) in bindings.values_of_class(class) {
            text = text.replace(value, &format!("{{{{{name}}}}}"));
        }
    }
    text
}

fn remove(value: &mut Value, field: &str) {
    let (first, rest) = field.split_once('.').unwrap_or((field, ""));
    match value.as_object_mut() {
        Some(fields) if rest.is_empty() => drop(fields.remove(first)),
        Some(fields) => fields
            .get_mut(first)
            .into_iter()
            .for_each(|inner| remove(inner, rest)),
        None => {}
    }
}

struct Normalizer<'a> {
    bindings: &'a mut Bindings,
    sent: &'a str,
    managed_fields: bool,
}

impl Normalizer<'_> {
    fn object(&mut self, value: &mut Value) {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Array(elements) => return elements.iter_mut().for_each(|element| self.object(element)),
            Value::String(text) => return self.text(text),
            _ => return,
        };
        if is_free_text(fields, Mode::Same) {
            fields.remove("message");
        }
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_list = kind.ends_with("List") || fields.contains_key("rows");
        let is_bookmark = fields.get("type").is_some_and(|event| event == "BOOKMARK");
        if is_list || is_bookmark {
            let of_event = fields.get_mut("object").filter(|_| is_bookmark);
            let metadata = match of_event {
                Some(object) => object.get_mut("metadata"),
                None => fields.get_mut("metadata"),
            };
            if let Some(metadata) = metadata {
                self.list_metadata(metadata);
            }
        }
        // The metadata of a token request names the account, and the time of the request.
        let is_token = fields.get("kind").is_some_and(|kind| kind == "TokenRequest");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            self.metadata(metadata, !is_token);
        }
        if let Some(Value::Array(cells)) = fields.get_mut("cells") {
            let ages = cells.iter_mut().filter(|cell| cell.as_str().is_some_and(is_age));
            for age in ages {
                *age = Value::String(variable("any"));
            }
        }
        if let Some(Value::Array(columns)) = fields.get_mut("columnDefinitions") {
            for column in columns {
                remove(column, "description");
            }
        }
        // A failure names an object whose generated name is invalid.
        if let Some(Value::String(name)) = fields.get("details").and_then(|details| details.get("name"))
            && !self.sent.contains(name.as_str())
        {
            self.bound("name", name);
        }
        if let Some(Value::Array(causes)) = fields.get_mut("causes") {
            for cause in causes {
                remove(cause, "message");
            }
        }
        for (key, value) in fields.iter_mut() {
            self.field(key, value);
        }
        let renamed = std::mem::take(fields).into_iter();
        *fields = renamed
            .map(|(key, value)| (names(self.bindings, &key), value))
            .collect();
    }

    /// The version of a list is that of the last write in the cluster, by any client.
    fn list_metadata(&mut self, metadata: &mut Value) {
        if let Some(Value::String(version)) = metadata.get_mut("resourceVersion") {
            *version = variable(&self.bindings.bind_new("list", version));
        }
    }

    fn metadata(&mut self, metadata: &mut Map<String, Value>, has_times: bool) {
        if !self.managed_fields {
            metadata.remove("managedFields");
        }
        let text = |metadata: &Map<String, Value>, key: &str| Some(metadata.get(key)?.as_str()?.to_owned());
        if let (Some(start), Some(name)) = (text(metadata, "generateName"), text(metadata, "name"))
            && !start.is_empty()
            && !self.is_sent(&name)
            && self.bindings.variable("name", &name).is_none()
        {
            self.bindings.bind_new("name", &name);
        }
        let Some(uid) = text(metadata, "uid").filter(|uid| has_times && is_uuid(uid)) else {
            return;
        };
        // Creation and deletion times belong to the uid: they do not change.
        for (key, class) in [("creationTimestamp", "created"), ("deletionTimestamp", "deleted")] {
            let Some(time) = text(metadata, key).filter(|time| !self.sent.contains(time)) else {
                continue;
            };
            let uid = self.bound("uid", &uid);
            let name = format!("{class}{}", &uid["uid".len()..]);
            match self.bindings.value(&name) {
                Some(bound) if bound != time => continue,
                Some(_) => {}
                None => self.bindings.bind(&name, &time),
            }
            metadata.insert(key.to_owned(), Value::String(variable(&name)));
        }
    }

    fn field(&mut self, key: &str, value: &mut Value) {
        let Value::String(text) = value else {
            let port = ["nodePort", "healthCheckNodePort"].contains(&key);
            if port && value.is_number() && !self.sent.contains(&value.to_string()) {
                *value = Value::String(variable(&self.bound("port", &value.to_string())));
            } else {
                self.object(value);
            }
            return;
        };
        if text.starts_with("{{") {
            return;
        }
        let sent = self.is_sent(text);
        match key {
            "uid" if is_uuid(text) && !sent => *text = variable(&self.bound("uid", text)),
            "resourceVersion" if !sent || self.bindings.variable("version", text).is_some() => {
                *text = variable(&self.bound("version", text));
            }
            "continue" if !text.is_empty() => *text = variable(&self.bindings.bind_new("continue", text)),
            // A hash over the name of the group, which contains the namespace.
            "storageVersionHash" => *text = variable("any"),
            "token" if !sent && !text.is_empty() => *text = variable(&self.bound("token", text)),
            "clusterIP" if text.contains('.') && !sent => *text = variable(&self.bound("address", text)),
            "message" => {
                *text = self.versions(text);
                self.text(text);
            }
            _ => self.text(text),
        }
    }

    fn is_sent(&self, text: &str) -> bool {
        self.sent.contains(&format!("\"{text}\""))
    }

    fn text(&mut self, text: &mut String) {
        let sent = self.sent.contains(text.as_str());
        if is_time(text, false) && !sent {
            *text = variable("time");
        } else if is_time(text, true) && !sent {
            *text = variable("microtime");
        } else if text.starts_with("JTI=") {
            // The identity of a token.
            *text = format!("JTI={}", variable("any"));
        } else if let Some(name) = self.bindings.variable("address", text) {
            *text = variable(name);
        } else {
            *text = names(self.bindings, text);
        }
    }

    /// Replaces whole numbers that are bound versions, and unknown uids.
    fn versions(&self, text: &str) -> String {
        let word = |word: &str| {
            let uid = word.split('"').find(|part| is_uuid(part));
            if let Some(uid) = uid.filter(|uid| self.bindings.variable("uid", uid).is_none()) {
                return word.replace(uid, &variable("any"));
            }
            let number = word.trim_matches(|c: char| !c.is_ascii_digit());
            match self.bindings.variable("version", number) {
                Some(name) if !number.is_empty() => word.replace(number, &variable(name)),
                _ => word.to_owned(),
            }
        };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    fn bound(&mut self, class: &str, value: &str) -> String {
        match self.bindings.variable(class, value) {
            Some(name) => name.to_owned(),
            None => self.bindings.bind_new(class, value),
        }
    }
}

fn variable(name: &str) -> String {
    format!("{{{{{name}}}}}")
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    let fits = |(index, byte): (usize, u8)| match byte {
        b'-' => dashes.contains(&index),
        _ => byte.is_ascii_hexdigit() && !dashes.contains(&index),
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

/// Whether a cell of a table is an age: `0s`.
fn is_age(text: &str) -> bool {
    let number = text.strip_suffix('s').unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}
