//! One version of one object in the store.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::meta;

/// The approximate memory of an object tree, as a multiple of its JSON length.
const TREE_WEIGHT: usize = 3;

/// An object at one revision, as a tree for reads and writes and as JSON for responses, lists and watches. The write builds
/// both once, and all readers share them.
#[derive(Debug)]
pub struct Object {
    /// `namespace/name`, or `name` for cluster-scoped kinds. Lists are sorted by key.
    pub key: String,
    /// The revision of the write that stored this version: its `resourceVersion`.
    pub revision: u64,
    /// The object as compact JSON without `apiVersion` and `kind`, which depend on the requested version.
    pub json: Bytes,
    /// The labels, for label selectors.
    pub labels: BTreeMap<String, String>,
    /// The identifier of the schema that the object conformed to when it was written; 0 if unknown.
    pub shape: u64,
    /// Whether the object has a `deletionTimestamp`. Every create checks it on the namespace.
    pub terminating: bool,
    /// The values of the fields that field selectors support.
    pub fields: Vec<(&'static str, String)>,
    tree: Value,
}

/// The input of a write. The store adds the revision.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The whole object. The store overwrites its `resourceVersion`.
    pub value: Value,
    /// The identifier of the schema that the object conforms to; 0 if unknown or if the kind has no schema.
    pub shape: u64,
    /// The values of the fields that field selectors support.
    pub fields: Vec<(&'static str, String)>,
}

impl Object {
    /// Sets the revision of the draft and encodes it.
    pub(crate) fn seal(key: &str, revision: u64, draft: Draft) -> Self {
        let Draft {
            value: mut tree,
            shape,
            fields,
        } = draft;
        let mut labels = BTreeMap::new();
        let terminating = meta::is_terminating(&tree);
        if let Some(meta) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.insert("resourceVersion".to_owned(), revision.to_string().into());
            if let Some(map) = meta.get("labels").and_then(Value::as_object) {
                labels = map
                    .iter()
                    .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                    .collect();
            }
        }
        Self {
            key: key.to_owned(),
            revision,
            json: encode(tree.as_object()).into(),
            labels,
            shape,
            terminating,
            fields,
            tree,
        }
    }

    /// Returns the object in its storage version.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.tree
    }

    /// Returns the approximate memory of this version in bytes, which counts towards the history limit.
    pub(super) fn weight(&self) -> usize {
        let pairs: usize = self.labels.iter().map(|(k, v)| k.len() + v.len() + 48).sum();
        size_of::<Self>() + self.key.len() + (1 + TREE_WEIGHT) * self.json.len() + pairs
    }
}

/// Encodes an object as JSON without `apiVersion` and `kind`.
fn encode(object: Option<&Map<String, Value>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.push(b'{');
    let fields = object.into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind")) {
        if out.len() > 1 {
            out.push(b',');
        }
        write(&mut out, name);
        out.push(b':');
        write(&mut out, value);
    }
    out.push(b'}');
    out
}

/// Appends a value as JSON. Encoding trees and strings into a `Vec` cannot fail.
pub(crate) fn write<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let _ = serde_json::to_writer(out, value);
}
