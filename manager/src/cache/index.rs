//! The indexes of a store: by controller, by label, and of objects without a controller.
//!
//! They change in the same step as the store. A label index can be added later. The store is ordered by namespace, so
//! there is no index by namespace.

use std::collections::{BTreeMap, BTreeSet};

use crate::object::{Key, Meta, Text, Uid};

/// The indexes of one store. No set of keys is empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Indexes {
    /// By the uid of the controller.
    owned: BTreeMap<Uid, BTreeSet<Key>>,
    /// By label and value, for the indexed labels.
    labelled: BTreeMap<Text, BTreeMap<Text, BTreeSet<Key>>>,
    /// Objects without a controller; none if they are not indexed.
    unmanaged: Option<BTreeSet<Key>>,
}

impl Indexes {
    /// Returns empty indexes by controller, by each of `labels` and, if `unmanaged`, of objects without a controller.
    pub(super) fn new(labels: impl IntoIterator<Item = Text>, unmanaged: bool) -> Self {
        Self {
            owned: BTreeMap::new(),
            labelled: labels.into_iter().map(|label| (label, BTreeMap::new())).collect(),
            unmanaged: unmanaged.then(BTreeSet::new),
        }
    }

    pub(super) fn has(&self, label: &str) -> bool {
        self.labelled.contains_key(label)
    }

    /// Adds a label index of these objects, unless the label is indexed.
    pub(super) fn add<'a>(&mut self, label: Text, objects: impl Iterator<Item = &'a Meta>) {
        if self.has(&label) {
            return;
        }
        let mut values: BTreeMap<Text, BTreeSet<Key>> = BTreeMap::new();
        for meta in objects {
            if let Some(value) = meta.labels.get(&label) {
                values.entry(value.clone()).or_default().insert(meta.key());
            }
        }
        self.labelled.insert(label, values);
    }

    /// Updates the indexes when the object under a key changes.
    pub(super) fn change(&mut self, key: &Key, old: Option<&Meta>, new: Option<&Meta>) {
        if owner(old) != owner(new) {
            shift(&mut self.owned, key, owner(old), owner(new));
        }
        if let Some(unmanaged) = &mut self.unmanaged {
            match (is_unmanaged(old), is_unmanaged(new)) {
                (false, true) => drop(unmanaged.insert(key.clone())),
                (true, false) => drop(unmanaged.remove(key)),
                _ => {}
            }
        }
        for (label, values) in &mut self.labelled {
            let value = |meta: Option<&'_ Meta>| meta.and_then(|meta| meta.labels.get(label)).cloned();
            let (old, new) = (value(old), value(new));
            if old != new {
                shift(values, key, old.as_ref(), new.as_ref());
            }
        }
    }

    /// Returns the keys of the objects whose controller has this uid, in order.
    pub(super) fn owned(&self, owner: &Uid) -> impl Iterator<Item = &Key> {
        self.owned.get(owner).into_iter().flatten()
    }

    /// Returns the keys of the objects with this label value, in order; none if the label is not indexed.
    pub(super) fn labelled(&self, label: &str, value: &str) -> Option<impl Iterator<Item = &Key>> {
        let values = self.labelled.get(label)?;
        Some(values.get(value).into_iter().flatten())
    }

    /// Returns the keys of the objects of a namespace without a controller, in order; none if they are not indexed.
    pub(super) fn unmanaged(&self, namespace: &str) -> Option<impl Iterator<Item = &Key>> {
        let keys = self.unmanaged.as_ref()?.range(Key::new(namespace, "")..);
        Some(keys.take_while(move |key| key.namespace == namespace))
    }
}

fn is_unmanaged(meta: Option<&Meta>) -> bool {
    meta.is_some_and(|meta| meta.controller().is_none())
}

fn owner(meta: Option<&Meta>) -> Option<&Uid> {
    meta?
        .controller()
        .map(|owner| &owner.uid)
        .filter(|uid| !uid.is_empty())
}

fn shift<V: Clone + Ord>(sets: &mut BTreeMap<V, BTreeSet<Key>>, key: &Key, from: Option<&V>, to: Option<&V>) {
    if let Some(from) = from
        && let Some(set) = sets.get_mut(from)
    {
        set.remove(key);
        if set.is_empty() {
            sets.remove(from);
        }
    }
    if let Some(to) = to {
        sets.entry(to.clone()).or_default().insert(key.clone());
    }
}
