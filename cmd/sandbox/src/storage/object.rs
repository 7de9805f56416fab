//! One version of one object in the store.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::json::Value;
use crate::meta;
use crate::storage::encode;

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
    /// The identifier of the schema that the object conformed to when it was written; 0 if unknown.
    pub shape: u64,
    /// Whether the object has a `deletionTimestamp`. Every create checks it on the namespace.
    pub terminating: bool,
    /// The position of the text of `resourceVersion` in the JSON.
    version: Range<usize>,
    tree: Tree,
}

/// The object as a tree.
#[derive(Debug)]
enum Tree {
    Written(Value),
    /// The tree of another version, with the `resourceVersion` of this one. Few readers need it.
    Revised(Arc<Object>, OnceLock<Value>),
}

/// The input of a write. The store adds the revision.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The whole object. The store overwrites its `resourceVersion`.
    pub value: Value,
    /// The identifier of the schema that the object conforms to; 0 if unknown or if the kind has no schema.
    pub shape: u64,
}

impl Object {
    /// Sets the revision of the draft and encodes it.
    pub(crate) fn seal(key: &str, revision: u64, draft: Draft) -> Self {
        let Draft { mut value, shape } = draft;
        set_version(&mut value, revision);
        let (json, version) = encode::object(&value);
        Self {
            key: key.to_owned(),
            revision,
            json: json.into(),
            shape,
            terminating: meta::is_terminating(&value),
            version,
            tree: Tree::Written(value),
        }
    }

    /// Returns the object with another revision and `resourceVersion`, without encoding it again.
    pub(crate) fn at_revision(self: &Arc<Self>, revision: u64) -> Self {
        let (before, after) = (0..self.version.start, self.version.end..self.json.len());
        let text = revision.to_string();
        let part = |range| self.json.get(range).unwrap_or_default();
        let json = [part(before), text.as_bytes(), part(after)].concat();
        Self {
            key: self.key.clone(),
            revision,
            json: json.into(),
            shape: self.shape,
            terminating: self.terminating,
            version: self.version.start..self.version.start + text.len(),
            tree: Tree::Revised(self.clone(), OnceLock::new()),
        }
    }

    /// Returns the object in its storage version.
    #[must_use]
    pub fn value(&self) -> &Value {
        match &self.tree {
            Tree::Written(value) => value,
            Tree::Revised(other, revised) => revised.get_or_init(|| {
                let mut value = other.value().clone();
                set_version(&mut value, self.revision);
                value
            }),
        }
    }

    /// Returns `metadata.labels`, or null.
    #[must_use]
    pub fn labels(&self) -> &Value {
        let labels = match &self.tree {
            Tree::Written(value) => value,
            Tree::Revised(other, _) => return other.labels(),
        };
        &labels["metadata"]["labels"]
    }

    /// Returns the approximate memory of this version in bytes, which counts towards the history limit.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.key.len() + (1 + TREE_WEIGHT) * self.json.len()
    }
}

fn set_version(object: &mut Value, revision: u64) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("resourceVersion".to_owned(), revision.to_string().into());
    }
}
