//! An object as far as it could be read, on its way into a store and out of it.

use std::sync::Arc;

use crate::object::{Key, Uid, Version};

/// An object, as far as it could be read.
#[derive(Debug)]
pub(super) enum Item<T> {
    /// It was decoded. Without a name or a uid it counts as unreadable: it could be any object.
    Known(T),
    /// It could not be decoded, but it is known which one it is.
    Unknown(Identity),
    /// It is some object of the resource.
    Unreadable,
}

/// Which object it is, and in which state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Where it is found.
    pub(super) key: Key,
    /// Which one it is.
    pub(super) uid: Uid,
    /// Its version.
    pub(super) version: Version,
}

/// What a cache answers when asked for an object.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// It is not in the cache: it may be gone, or not there yet.
    Absent,
    /// It is there, but its state could not be decoded: the cache and this program disagree about its form.
    Unknown,
    /// Its state.
    Present(Arc<T>),
}

impl<T> Lookup<T> {
    /// Its state, if it is known.
    #[must_use]
    pub fn present(self) -> Option<Arc<T>> {
        match self {
            Self::Present(object) => Some(object),
            Self::Absent | Self::Unknown => None,
        }
    }
}
