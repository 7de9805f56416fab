//! Helpers of the unit tests of store and subscription.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Delta;
use crate::object::{Key, Meta, MetaObject, Object, OwnerRef, Version};

/// Applies the deltas of a subscription, and asserts that they are consistent.
#[derive(Debug, Default)]
pub(super) struct Replica(pub(super) BTreeMap<Key, Arc<MetaObject>>);

impl Replica {
    pub(super) fn apply(&mut self, delta: &Delta<MetaObject>) {
        let key = delta.key();
        match delta {
            Delta::Added { new, .. } => {
                let old = self.0.insert(key, new.clone());
                assert!(old.is_none(), "{new:?} was added, but {old:?} exists");
            }
            Delta::Updated { old, new } => {
                let known = self.0.insert(key, new.clone()).expect("an update follows an add");
                assert!(
                    Arc::ptr_eq(old, &known),
                    "{old:?} was updated, but {known:?} was received"
                );
                assert_eq!(old.metadata.uid, new.metadata.uid, "an update keeps the uid");
            }
            Delta::Deleted { last } => {
                if let Some(known) = self.0.remove(&key) {
                    assert_eq!(known.metadata.uid, last.metadata.uid, "a delete keeps the uid");
                }
            }
        }
    }

    /// Returns true if the replica equals these objects.
    pub(super) fn equals<'a>(&self, objects: impl Iterator<Item = &'a Arc<MetaObject>>) -> bool {
        let objects: BTreeMap<Key, &Arc<MetaObject>> = objects.map(|it| (it.meta().key(), it)).collect();
        self.0.len() == objects.len()
            && self
                .0
                .iter()
                .all(|(key, known)| objects.get(key).is_some_and(|it| Arc::ptr_eq(it, known)))
    }
}

/// Returns an object with a controller and a label.
pub(super) fn object(
    namespace: &str,
    name: &str,
    uid: &str,
    version: u64,
    owner: &str,
    label: &str,
) -> MetaObject {
    let owners = [OwnerRef {
        uid: owner.into(),
        controller: true,
        ..OwnerRef::default()
    }];
    let metadata = Meta {
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
        resource_version: Version::from(&*version.to_string()),
        labels: [("app", label), ("other", label)].into_iter().collect(),
        annotations: [("dropped", "x")].into_iter().collect(),
        owner_references: owners.into(),
        ..Meta::default()
    };
    MetaObject { metadata }
}

/// Formats deltas.
pub(super) fn brief(deltas: &[Delta<MetaObject>]) -> Vec<String> {
    let kind = |delta: &Delta<MetaObject>| match delta {
        Delta::Added { initial: true, .. } => "initial",
        Delta::Added { .. } => "added",
        Delta::Updated { .. } => "updated",
        Delta::Deleted { .. } => "deleted",
    };
    let line = |delta: &Delta<MetaObject>| {
        let meta = delta.latest().meta();
        format!(
            "{} {} {}@{}",
            kind(delta),
            meta.name,
            meta.uid,
            meta.resource_version
        )
    };
    deltas.iter().map(line).collect()
}
