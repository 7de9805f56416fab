//! What a store keeps under a key.

use std::sync::Arc;

use super::Feed;
use crate::cache::item::Identity;
use crate::object::{Object, Uid, Version};

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) feed: Feed,
    pub(super) state: State<T>,
}

#[derive(Debug)]
pub(super) enum State<T> {
    Known(Arc<T>),
    /// Boxed, because there is hardly ever one.
    Unknown(Box<Unknown<T>>),
}

#[derive(Debug)]
pub(super) struct Unknown<T> {
    pub(super) uid: Uid,
    pub(super) version: Version,
    /// The last state of the same object that could be decoded: what subscribers were told.
    pub(super) last: Option<Arc<T>>,
}

/// An item whose identity is known.
pub(super) enum Readable<T> {
    Known(Arc<T>),
    Unknown(Identity),
}

impl<T: Object> Readable<T> {
    pub(super) fn identity(&self) -> Identity {
        match self {
            Self::Known(object) => Identity {
                key: object.meta().key(),
                uid: object.meta().uid.clone(),
                version: object.meta().resource_version.clone(),
            },
            Self::Unknown(identity) => identity.clone(),
        }
    }
}

impl<T: Object> State<T> {
    pub(super) fn uid(&self) -> &Uid {
        match self {
            Self::Known(object) => &object.meta().uid,
            Self::Unknown(unknown) => &unknown.uid,
        }
    }

    pub(super) fn version(&self) -> &Version {
        match self {
            Self::Known(object) => &object.meta().resource_version,
            Self::Unknown(unknown) => &unknown.version,
        }
    }

    pub(super) fn last(&self) -> Option<&Arc<T>> {
        match self {
            Self::Known(object) => Some(object),
            Self::Unknown(unknown) => unknown.last.as_ref(),
        }
    }

    pub(super) fn into_last(self) -> Option<Arc<T>> {
        match self {
            Self::Known(object) => Some(object),
            Self::Unknown(unknown) => unknown.last,
        }
    }
}
