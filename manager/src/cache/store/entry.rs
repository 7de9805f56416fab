//! The entries of a store, ordered by namespace and name.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Partition;
use crate::cache::wire::Identity;
use crate::object::{Key, Object, Text, Uid, Version};

/// The entries by namespace and name, which the objects share. No namespace is empty.
#[derive(Debug)]
pub(super) struct Entries<T>(BTreeMap<Text, BTreeMap<Text, Entry<T>>>);

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) partition: Partition,
    /// The number of the last list that included it: see [`StagedList`](super::StagedList).
    pub(super) list: u32,
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
#[derive(Debug)]
pub(super) enum Readable<T> {
    Decoded(Arc<T>),
    Undecodable(Identity),
}

impl<T> Entries<T> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Entry<T>> {
        self.0.get(namespace)?.get(name)
    }

    pub(super) fn get_mut(&mut self, namespace: &str, name: &str) -> Option<&mut Entry<T>> {
        self.0.get_mut(namespace)?.get_mut(name)
    }

    /// Returns the name as it is stored.
    pub(super) fn name(&self, namespace: &str, name: &str) -> Option<&Text> {
        let (name, _) = self.0.get(namespace)?.get_key_value(name)?;
        Some(name)
    }

    pub(super) fn insert(&mut self, key: &Key, entry: Entry<T>) -> Option<Entry<T>> {
        let Key { namespace, name } = key;
        if let Some(names) = self.0.get_mut(namespace) {
            return names.insert(name.clone(), entry);
        }
        let names = BTreeMap::from([(name.clone(), entry)]);
        self.0.insert(namespace.clone(), names);
        None
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Entry<T>> {
        let names = self.0.get_mut(&key.namespace)?;
        let removed = names.remove(&key.name);
        if names.is_empty() {
            self.0.remove(&key.namespace);
        }
        removed
    }

    /// Iterates with namespace and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Text, &Text, &Entry<T>)> {
        let namespaces = self.0.iter();
        namespaces
            .flat_map(|(namespace, names)| names.iter().map(move |(name, entry)| (namespace, name, entry)))
    }

    /// Iterates over the entries after a key.
    pub(super) fn after(&self, key: Option<&Key>) -> impl Iterator<Item = &Entry<T>> {
        let names = key.and_then(|key| {
            let bounds = (Bound::Excluded(&*key.name), Bound::Unbounded);
            Some(self.0.get(&key.namespace)?.range::<str, _>(bounds))
        });
        let namespaces = match key {
            Some(key) => (Bound::Excluded(&*key.namespace), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let later = self.0.range::<str, _>(namespaces);
        let names = names.into_iter().flatten().map(|(_, entry)| entry);
        names.chain(later.flat_map(|(_, names)| names.values()))
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Entry<T>> {
        self.0.get(namespace).into_iter().flat_map(BTreeMap::values)
    }
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
