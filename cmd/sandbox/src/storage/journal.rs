//! The journal: every commit of the store in the order of its revisions, until a test takes it.

use std::sync::Arc;

use bytes::Bytes;

use crate::storage::{Change, Object};

/// One committed change of one object. The JSON shares the memory of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The revision of the commit: the resourceVersion of `after`.
    pub revision: u64,
    /// The collection of the object: `pods`, `deployments.apps`.
    pub collection: String,
    /// `namespace/name`, or `name` for cluster-scoped kinds.
    pub key: String,
    /// The replaced or removed version as stored; `None` for a create.
    pub before: Option<Bytes>,
    /// The new version as stored; `None` for a removal.
    pub after: Option<Bytes>,
}

impl Commit {
    pub(super) fn new(collection: &str, change: &Change) -> Self {
        let json = |object: &Option<Arc<Object>>| object.as_ref().map(|object| object.json_bytes());
        Self {
            revision: change.revision,
            collection: collection.to_owned(),
            key: change.key().to_owned(),
            before: json(&change.before),
            after: json(&change.after),
        }
    }
}
