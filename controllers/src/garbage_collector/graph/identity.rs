//! The identity of an object or of the target of an ownerReference.

use steersman_manager::object::{Key, LoggedObject, OwnerRef, Text, Uid};
use steersman_manager::revived;

use super::super::kinds::{Kind, Kinds};

/// The identity of an object. It is never reused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub uid: Uid,
    /// The watched version of the kind, so that references in all served versions have the same identity; otherwise the version
    /// of the reference.
    pub api_version: Text,
    pub kind: Text,
    /// Empty if the kind is cluster-scoped. The namespace of the dependent if the kind is unknown.
    pub namespace: Text,
    pub name: Text,
}

impl Identity {
    pub fn of(kind: &Kind, key: &Key, uid: &Uid) -> Self {
        let key = in_scope(kind, key);
        Self {
            uid: uid.clone(),
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            namespace: key.namespace,
            name: key.name,
        }
    }

    pub fn key(&self) -> Key {
        Key::new(self.namespace.clone(), self.name.clone())
    }

    pub fn logged(&self) -> LoggedObject<'_> {
        LoggedObject::new(&self.kind, &self.namespace, &self.name)
    }

    /// The lower bound of all identities with this uid.
    pub fn first_of(uid: &Uid) -> Self {
        Self {
            uid: uid.clone(),
            api_version: Text::default(),
            kind: Text::default(),
            namespace: Text::default(),
            name: Text::default(),
        }
    }

    /// The target of a reference of an object in `namespace`. None if the object is cluster-scoped and the kind of the owner is
    /// not: the reference has no namespace.
    pub(super) fn from_reference(kinds: &Kinds, reference: &OwnerRef, namespace: &Text) -> Option<Self> {
        let kind = kinds.resolve(&reference.api_version, &reference.kind);
        let namespaced = kind.is_none_or(|kind| kind.resource.namespaced);
        if kind.is_some() && namespaced && namespace.is_empty() {
            return None;
        }
        let names = (&reference.api_version, &reference.kind);
        let (api_version, kind) = kind.map_or(names, |it| (&it.api_version, &it.kind));
        Some(Self {
            uid: reference.uid.clone(),
            api_version: api_version.clone(),
            kind: kind.clone(),
            namespace: if namespaced || revived!(G5) {
                namespace.clone()
            } else {
                Text::default()
            },
            name: reference.name.clone(),
        })
    }
}

/// The key without a namespace if the kind is cluster-scoped.
pub(super) fn in_scope(kind: &Kind, key: &Key) -> Key {
    if kind.resource.namespaced {
        key.clone()
    } else {
        Key::cluster(key.name.clone())
    }
}
