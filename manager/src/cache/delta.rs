//! What changed in a cache.

use std::sync::Arc;

use crate::object::{Key, Object};

/// A change, as a subscriber sees it: `old` is the last state that this subscriber was told, not the one stored before.
#[derive(Debug)]
pub enum Delta<T> {
    /// An object is there that was not.
    Added {
        /// Its state.
        new: Arc<T>,
        /// It was there when the cache was filled, or when the subscriber came: not news, work of low priority.
        initial: bool,
    },
    /// An object has changed; it is the same one, by its uid. Its projection may be equal: then only its version is new.
    Updated {
        /// Its state before.
        old: Arc<T>,
        /// Its state.
        new: Arc<T>,
    },
    /// An object is gone. A subscriber may never have been told that it was there.
    Deleted {
        /// Its last known state, which may be older than the deletion.
        last: Arc<T>,
    },
}

impl<T> Delta<T> {
    /// The newest state there is of the object.
    #[must_use]
    pub fn latest(&self) -> &Arc<T> {
        match self {
            Self::Added { new, .. } | Self::Updated { new, .. } => new,
            Self::Deleted { last } => last,
        }
    }
}

impl<T: Object> Delta<T> {
    /// Where the object is, or was.
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
