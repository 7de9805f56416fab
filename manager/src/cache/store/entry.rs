//! The entries of a store.

use std::sync::Arc;

use super::Partition;
use crate::cache::wire::Identity;
use crate::object::{Object, Uid, Version};

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) partition: Partition,
    pub(super) state: State<T>,
}

#[derive(Debug)]
pub(super) enum State<T> {
    Decoded(Arc<T>),
    /// Boxed because it is rare.
    Undecodable(Box<Undecodable<T>>),
}

#[derive(Debug)]
pub(super) struct Undecodable<T> {
    pub(super) uid: Uid,
    pub(super) version: Version,
    /// The last decoded state of the same object, which subscribers received.
    pub(super) last: Option<Arc<T>>,
}

/// An item with a known identity.
pub(super) enum Readable<T> {
    Decoded(Arc<T>),
    Undecodable(Identity),
}

impl<T: Object> Readable<T> {
    pub(super) fn identity(&self) -> Identity {
        match self {
            Self::Decoded(object) => Identity {
                key: object.meta().key(),
                uid: object.meta().uid.clone(),
                version: object.meta().resource_version.clone(),
            },
            Self::Undecodable(identity) => identity.clone(),
        }
    }
}

impl<T: Object> State<T> {
    pub(super) fn uid(&self) -> &Uid {
        match self {
            Self::Decoded(object) => &object.meta().uid,
            Self::Undecodable(it) => &it.uid,
        }
    }

    pub(super) fn version(&self) -> &Version {
        match self {
            Self::Decoded(object) => &object.meta().resource_version,
            Self::Undecodable(it) => &it.version,
        }
    }

    pub(super) fn last(&self) -> Option<&Arc<T>> {
        match self {
            Self::Decoded(object) => Some(object),
            Self::Undecodable(it) => it.last.as_ref(),
        }
    }

    pub(super) fn into_last(self) -> Option<Arc<T>> {
        match self {
            Self::Decoded(object) => Some(object),
            Self::Undecodable(it) => it.last,
        }
    }
}
