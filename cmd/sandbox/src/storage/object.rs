//! One version of one object, as the store keeps it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

/// An object at one revision. Kept as JSON text: lists and watches copy it as it is, and it takes a fraction of the
/// memory of a tree.
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
    /// The schema that the object kept to when it was written, 0 if that is not known.
    pub shape: u64,
    /// Whether it is marked for deletion. Every create asks that of what it creates in.
    pub terminating: bool,
    /// Values of the fields that field selectors may name.
    pub fields: Vec<(&'static str, String)>,
}

/// What a write wants to store: the store adds the revision.
pub struct Draft {
    /// The whole object; its resourceVersion is overwritten.
    pub value: Value,
    /// The schema that the object keeps to; 0 if that is not known, or if its kind has none.
    pub shape: u64,
    /// Values for field selectors.
    pub fields: Vec<(&'static str, String)>,
}

impl Object {
    /// Puts the revision into the draft and encodes it.
    pub(crate) fn seal(key: &str, revision: u64, draft: Draft) -> Self {
        let Draft {
            mut value,
            shape,
            fields,
        } = draft;
        let mut labels = BTreeMap::new();
        let terminating = crate::meta::is_terminating(&value);
        if let Some(map) = value.as_object_mut() {
            map.remove("apiVersion");
            map.remove("kind");
        }
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
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
            json: value.to_string().into(),
            labels,
            shape,
            terminating,
            fields,
        }
    }

    /// The object as a tree, without `apiVersion` and `kind`.
    #[must_use]
    pub fn value(&self) -> Value {
        // What is stored was encoded by `seal`, so it decodes; `Null` would only show up as an object without fields.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// What the version costs in memory, roughly: what history is bounded by.
    pub(super) fn weight(&self) -> usize {
        let pairs: usize = self.labels.iter().map(|(k, v)| k.len() + v.len() + 48).sum();
        size_of::<Self>() + self.key.len() + self.json.len() + pairs
    }
}
