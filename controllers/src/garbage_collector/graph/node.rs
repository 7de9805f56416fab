//! The latest known state of one object.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_manager::object::{Key, Meta, OwnerRef, Text, Uid, Version};
use steersman_manager::revived;

use super::super::kinds::{Kind, Kinds};
use super::identity::in_scope;
use super::{FOREGROUND, Identity, ORPHAN};

/// An object that a cache has shown.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Arc<Kind>,
    pub(super) key: Key,
    pub(super) version: Version,
    /// Shared with the cache.
    pub(super) owners: Arc<[OwnerRef]>,
    pub(super) finalizers: Box<[Text]>,
    pub(super) deleting: bool,
    /// The state is older than a restore of the API server's storage: any other state is newer.
    pub(super) outdated: bool,
}

impl Node {
    pub(super) fn of(kind: &Arc<Kind>, meta: &Meta) -> Self {
        Self {
            kind: Arc::clone(kind),
            key: in_scope(kind, &meta.key()),
            version: meta.resource_version.clone(),
            owners: meta.owner_references.clone(),
            finalizers: meta.finalizers.clone(),
            deleting: meta.is_terminating(),
            outdated: false,
        }
    }

    pub(super) fn identity(&self, uid: &Uid) -> Identity {
        Identity::of(&self.kind, &self.key, uid)
    }

    /// Whether the kind and key are the same; the uids are.
    pub(super) fn has_same_key(&self, other: &Self) -> bool {
        self.kind.resource == other.kind.resource && self.key == other.key
    }

    /// Whether this state is at least as new as `version`. Versions of a resource compare across the API versions of its kind;
    /// the same state in another API version is newer.
    pub(super) fn is_at_least(&self, kind: &Kind, version: &Version) -> bool {
        if self.outdated {
            return false;
        }
        match self.version.partial_cmp(version) {
            Some(Ordering::Greater) => true,
            Some(Ordering::Equal) => self.kind.resource == kind.resource,
            Some(Ordering::Less) | None => false,
        }
    }

    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|it| it == finalizer)
    }

    pub(super) fn is_orphaning(&self) -> bool {
        self.deleting && self.has(ORPHAN)
    }

    pub(super) fn is_foreground(&self) -> bool {
        self.deleting && self.has(FOREGROUND) && !self.has(ORPHAN)
    }

    /// Whether the object is terminating and has a finalizer of the collector.
    pub(super) fn is_finalizing(&self) -> bool {
        self.is_orphaning() || self.is_foreground()
    }

    /// Whether a reference of an object in `namespace` refers to this object, in any served version of its kind.
    pub(super) fn is_target(&self, kinds: &Kinds, uid: &Uid, reference: &OwnerRef, namespace: &Text) -> bool {
        let (api_version, kind) = (&reference.api_version, &reference.kind);
        let is_watched = || *api_version == self.kind.api_version && *kind == self.kind.kind;
        let resolved = || kinds.resolve(api_version, kind).filter(|_| !revived!(A5));
        reference.uid == *uid
            && reference.name == self.key.name
            && !self.is_in_other_namespace(namespace)
            && (is_watched() || resolved().is_some_and(|it| it.resource == self.kind.resource))
    }

    pub(super) fn is_in_other_namespace(&self, namespace: &Text) -> bool {
        self.kind.resource.namespaced && self.key.namespace != *namespace
    }

    pub(super) fn without(&self, finalizer: &str) -> Box<[Text]> {
        self.finalizers
            .iter()
            .filter(|it| **it != finalizer)
            .cloned()
            .collect()
    }
}
