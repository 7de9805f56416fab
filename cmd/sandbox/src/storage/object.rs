//! One version of one object in the store.

use bytes::Bytes;

use crate::json::Value;
use crate::meta;
use crate::storage::encode::Encoded;

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
    /// The identifier of the schema that the object conformed to when it was written; 0 if unknown.
    pub shape: u64,
    /// Whether the object has a `deletionTimestamp`. Every create checks it on the namespace.
    pub terminating: bool,
    value: Value,
    encoded: Encoded,
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
    /// Sets the revision of the draft and encodes it. `base` is the version that it replaces.
    pub(crate) fn seal(key: &str, revision: u64, draft: Draft, base: Option<&Self>) -> Self {
        let Draft { mut value, shape } = draft;
        set_version(&mut value, revision);
        Self {
            key: key.to_owned(),
            revision,
            shape,
            terminating: meta::is_terminating(&value),
            encoded: Encoded::new(&value, base.map(|base| &base.encoded)),
            value,
        }
    }

    /// Returns the object with another revision and `resourceVersion`, without encoding it again.
    pub(crate) fn at_revision(&self, revision: u64) -> Self {
        let mut value = self.value.clone();
        set_version(&mut value, revision);
        Self {
            key: self.key.clone(),
            revision,
            shape: self.shape,
            terminating: self.terminating,
            encoded: self.encoded.with_version(&revision.to_string()),
            value,
        }
    }

    /// Returns the object as compact JSON with a newline.
    #[must_use]
    pub fn line(&self) -> &Bytes {
        &self.encoded.line
    }

    /// Returns the object as compact JSON.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        self.line().strip_suffix(b"\n").unwrap_or_default()
    }

    /// Returns [`json`](Self::json) as bytes that share the memory of the object.
    pub(super) fn json_bytes(&self) -> Bytes {
        self.line().slice(..self.json().len())
    }

    /// Returns the members of the object without `kind` and `apiVersion`, as JSON with the closing brace.
    #[must_use]
    pub fn members(&self) -> &[u8] {
        self.json().get(self.encoded.members..).unwrap_or_default()
    }

    /// Returns the object in its storage version.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns `metadata.labels`, or null.
    #[must_use]
    pub fn labels(&self) -> &Value {
        &self.value["metadata"]["labels"]
    }

    /// Returns the approximate memory of this version in bytes, which counts towards the history limit.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.key.len() + (1 + TREE_WEIGHT) * self.json().len()
    }
}

fn set_version(object: &mut Value, revision: u64) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("resourceVersion", ecow::eco_format!("{revision}").into());
    }
}
