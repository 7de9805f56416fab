//! Changes of a cache.

use std::sync::Arc;

use crate::object::{Key, Object};

/// A change, relative to the last state that the subscriber received: the store may have had other states in between.
#[expect(missing_docs, reason = "plain data")]
#[derive(Debug)]
pub enum Delta<T> {
    /// An object was added. `initial` if it is part of the first list, or existed when the subscription started: such
    /// changes have a low priority.
    Added { new: Arc<T>, initial: bool },
    /// An object of the same uid changed. If the projections are equal, only its resourceVersion changed.
    Updated { old: Arc<T>, new: Arc<T> },
    /// An object was deleted. `last` is its last known state, which may be older than the deletion. The subscriber may not
    /// have received an add of it.
    Deleted { last: Arc<T> },
}

impl<T> Delta<T> {
    /// Returns the latest known state.
    #[must_use]
    pub fn latest(&self) -> &Arc<T> {
        match self {
            Self::Added { new, .. } | Self::Updated { new, .. } => new,
            Self::Deleted { last } => last,
        }
    }
}

impl<T: Object> Delta<T> {
    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn key(&self) -> Key {
        self.latest().meta().key()
    }
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { new, initial } => Self::Added {
                new: new.clone(),
                initial: *initial,
            },
            Self::Updated { old, new } => Self::Updated {
                old: old.clone(),
                new: new.clone(),
            },
            Self::Deleted { last } => Self::Deleted { last: last.clone() },
        }
    }
}
