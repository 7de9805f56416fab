//! One version of one object, as the store keeps it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::meta;

/// The tree of an object takes about this many times the memory of its JSON text.
const TREE_WEIGHT: usize = 3;

/// An object at one revision, as a tree for reads and writes and as JSON text for answers, lists and watches. Both are
/// made once, by the write, and shared by every reader.
#[derive(Debug)]
pub struct Object {
    /// `namespace/name`, or `name` for cluster-scoped kinds: the order of lists.
    pub key: String,
    /// The revision of the write that made this version: its resourceVersion.
    pub revision: u64,
    /// The object, compact, without `apiVersion` and `kind`: those depend on the path that it is read through.
    pub json: Bytes,
    /// Labels, for selectors.
    pub labels: BTreeMap<String, String>,
    /// The schema that the object conformed to when it was written, 0 if that is not known.
    pub shape: u64,
    /// Whether it has a deletionTimestamp. Every create reads that of its namespace.
    pub terminating: bool,
    /// Values of the fields that field selectors may name.
    pub fields: Vec<(&'static str, String)>,
    tree: Value,
}

/// The input of a write: the store adds the revision.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The whole object; the store overwrites its resourceVersion.
    pub value: Value,
    /// The schema that the object conforms to; 0 if that is not known, or if its kind has none.
    pub shape: u64,
    /// Values for field selectors.
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

    /// The object in the version that is stored.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.tree
    }

    /// The approximate memory of the version, which bounds the history.
    pub(super) fn weight(&self) -> usize {
        let pairs: usize = self.labels.iter().map(|(k, v)| k.len() + v.len() + 48).sum();
        size_of::<Self>() + self.key.len() + (1 + TREE_WEIGHT) * self.json.len() + pairs
    }
}

/// The JSON text of an object without `apiVersion` and `kind`.
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

/// Appends JSON text. Trees and strings always encode, and a `Vec` always takes more.
pub(crate) fn write<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let _ = serde_json::to_writer(out, value);
}
