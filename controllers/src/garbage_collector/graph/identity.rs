//! Who is meant: by a node, and by a reference.

use coxswain_manager::object::{Key, OwnerRef, Text, Uid};

use super::super::kinds::{Kind, Kinds};

/// One object, for all time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Its uid.
    pub uid: Uid,
    /// The watched version of its kind if there is one, so that references in any served version have one identity; else
    /// the version of the reference.
    pub api_version: Text,
    /// Its kind.
    pub kind: Text,
    /// Its namespace; empty if its kind is cluster-scoped. Of a kind that nobody knows: that of whoever refers to it.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}

impl Identity {
    /// Who an object is.
    #[must_use]
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

    /// Where to ask for it.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(self.namespace.clone(), self.name.clone())
    }

    /// Before all others with this uid.
    pub(super) fn first_of(uid: &Uid) -> Self {
        Self {
            uid: uid.clone(),
            api_version: Text::default(),
            kind: Text::default(),
            namespace: Text::default(),
            name: Text::default(),
        }
    }

    /// Who is meant by a reference of an object in this namespace. None if the object is cluster-scoped and the reference
    /// is to a namespaced kind: then nobody can say.
    pub(super) fn meant(kinds: &Kinds, reference: &OwnerRef, namespace: &Text) -> Option<Self> {
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
            namespace: if namespaced {
                namespace.clone()
            } else {
                Text::default()
            },
            name: reference.name.clone(),
        })
    }
}

/// The key of an object of a kind: without a namespace, if the kind has none.
pub(super) fn in_scope(kind: &Kind, key: &Key) -> Key {
    if kind.resource.namespaced {
        key.clone()
    } else {
        Key::cluster(key.name.clone())
    }
}
