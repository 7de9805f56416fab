//! One request of a sequence. Values that differ between servers (uids, versions) are placeholders until it is sent.

use std::fmt;

use serde_json::{Value, json};

use crate::kinds::Kind;

/// Placeholders: the uid of the object and of the other object, and its current and first resourceVersion.
pub const UID: &str = "$uid";
pub const OTHER_UID: &str = "$other-uid";
pub const VERSION: &str = "$version";
pub const OLD_VERSION: &str = "$old-version";

/// The action of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Create,
    /// PUT of a new object.
    Replace,
    /// PUT of the current object with changes.
    Update,
    Json,
    Merge,
    Strategic,
    Apply,
    Delete,
    DeleteCollection,
    Get,
    List,
}

/// A change to a body, or an operation of a JSON patch.
#[derive(Debug, Clone)]
pub struct Edit {
    /// The operation of a JSON patch. Other bodies have `remove`, all other operations set the value.
    pub op: &'static str,
    pub at: String,
    pub value: Value,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Step {
    pub verb: Verb,
    pub name: &'static str,
    /// `""`, `/status` or `/scale`.
    pub subresource: &'static str,
    pub query: Vec<(&'static str, String)>,
    /// Whether an apply contains all required fields.
    pub whole: bool,
    pub edits: Vec<Edit>,
}

impl Step {
    /// The method and, for patches, the content type.
    pub fn method(&self) -> (http::Method, &'static str) {
        match self.verb {
            Verb::Create => (http::Method::POST, "application/json"),
            Verb::Replace | Verb::Update => (http::Method::PUT, "application/json"),
            Verb::Json => (http::Method::PATCH, "application/json-patch+json"),
            Verb::Merge => (http::Method::PATCH, "application/merge-patch+json"),
            Verb::Strategic => (http::Method::PATCH, "application/strategic-merge-patch+json"),
            Verb::Apply => (http::Method::PATCH, "application/apply-patch+yaml"),
            Verb::Delete | Verb::DeleteCollection => (http::Method::DELETE, "application/json"),
            Verb::Get | Verb::List => (http::Method::GET, "application/json"),
        }
    }

    /// The path with its query, in a namespace.
    pub fn path(&self, kind: &Kind, ns: &str) -> String {
        let mut path = kind.path(ns);
        if !matches!(self.verb, Verb::Create | Verb::DeleteCollection | Verb::List) {
            path = format!("{path}/{}{}", self.name, self.subresource);
        }
        for (n, (key, value)) in self.query.iter().enumerate() {
            path.push(if n == 0 { '?' } else { '&' });
            path = format!("{path}{key}={value}");
        }
        path
    }

    /// The body with placeholders. `current` is the stored object, for updates.
    pub fn body(&self, kind: &Kind, current: Option<&Value>) -> Option<Value> {
        let scale =
            || json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": self.name}});
        let start = match self.verb {
            Verb::Apply | Verb::Update if self.subresource == "/scale" && current.is_none() => scale(),
            Verb::Get | Verb::List => return None,
            Verb::Json => {
                let ops = self.edits.iter().map(|edit| match edit.op {
                    "remove" => json!({"op": "remove", "path": edit.at}),
                    "copy" | "move" => json!({"op": edit.op, "path": edit.at, "from": edit.value}),
                    op => json!({"op": op, "path": edit.at, "value": edit.value}),
                });
                return Some(Value::Array(ops.collect()));
            }
            Verb::Delete | Verb::DeleteCollection if self.edits.is_empty() => return None,
            Verb::Delete | Verb::DeleteCollection => json!({"apiVersion": "v1", "kind": "DeleteOptions"}),
            Verb::Create | Verb::Replace => kind.base(self.name),
            Verb::Update => current.cloned().unwrap_or_else(|| kind.base(self.name)),
            Verb::Merge | Verb::Strategic => json!({}),
            Verb::Apply if self.whole => kind.base(self.name),
            Verb::Apply => kind.named(self.name),
        };
        let patch = matches!(self.verb, Verb::Merge | Verb::Strategic);
        Some(self.edits.iter().fold(start, |mut body, edit| {
            match edit.op {
                "remove" if patch => set(&mut body, &edit.at, Value::Null),
                "remove" => remove(&mut body, &edit.at),
                _ => set(&mut body, &edit.at, edit.value.clone()),
            }
            body
        }))
    }

    /// Steps with one edit or parameter less.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for n in 0..self.edits.len() {
            let mut step = self.clone();
            step.edits.remove(n);
            smaller.push(step);
        }
        for n in 0..self.query.len() {
            let mut step = self.clone();
            step.query.remove(n);
            smaller.push(step);
        }
        smaller
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}{}", self.verb, self.name, self.subresource)?;
        for (key, value) in &self.query {
            write!(f, " {key}={value}")?;
        }
        for edit in &self.edits {
            write!(f, " [{} {} {}]", edit.op, edit.at, edit.value)?;
        }
        Ok(())
    }
}

fn parts(at: &str) -> Vec<String> {
    let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
    at.split('/').skip(1).map(unescape).collect()
}

/// Sets the field at a JSON pointer. Missing parents are created; an invalid index sets nothing.
pub fn set(body: &mut Value, at: &str, value: Value) {
    let mut place = body;
    for part in parts(at) {
        if !place.is_array() && !place.is_object() {
            *place = json!({});
        }
        place = match place {
            Value::Array(list) => {
                let index = if part == "-" {
                    list.len()
                } else {
                    part.parse().unwrap_or(usize::MAX)
                };
                if index == list.len() {
                    list.push(Value::Null);
                }
                match list.get_mut(index) {
                    Some(item) => item,
                    None => return,
                }
            }
            other => &mut other[part.as_str()],
        };
    }
    *place = value;
}

/// Removes the field at a JSON pointer.
pub fn remove(body: &mut Value, at: &str) {
    let parts = parts(at);
    let Some((end, way)) = parts.split_last() else {
        return;
    };
    let mut place = body;
    for part in way {
        let next = match place {
            Value::Object(map) => map.get_mut(part),
            Value::Array(list) => part.parse::<usize>().ok().and_then(|n| list.get_mut(n)),
            _ => None,
        };
        let Some(next) = next else { return };
        place = next;
    }
    match place {
        Value::Object(map) => {
            map.remove(end);
        }
        Value::Array(list) => {
            if let Ok(n) = end.parse::<usize>()
                && n < list.len()
            {
                list.remove(n);
            }
        }
        _ => {}
    }
}
