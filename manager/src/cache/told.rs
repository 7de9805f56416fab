//! A subscriber that believes what it is told, and complains when that makes no sense.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Delta;
use crate::object::{Key, Meta, MetaObject, Object, OwnerRef, Version};

#[derive(Debug, Default)]
pub(super) struct Told(pub(super) BTreeMap<Key, Arc<MetaObject>>);

impl Told {
    pub(super) fn apply(&mut self, delta: &Delta<MetaObject>) {
        let key = delta.key();
        match delta {
            Delta::Added { new, .. } => {
                let old = self.0.insert(key, new.clone());
                assert!(old.is_none(), "{new:?} was added, but {old:?} was there");
            }
            Delta::Updated { old, new } => {
                let told = self.0.insert(key, new.clone()).expect("what is updated was told");
                assert!(
                    Arc::ptr_eq(old, &told),
                    "{old:?} was updated, but {told:?} was told"
                );
                assert_eq!(old.metadata.uid, new.metadata.uid, "another object is no update");
            }
            Delta::Deleted { last } => {
                if let Some(told) = self.0.remove(&key) {
                    assert_eq!(told.metadata.uid, last.metadata.uid, "another one was there");
                }
            }
        }
    }

    /// Whether it was told what is there, and nothing else.
    pub(super) fn holds<'a>(&self, objects: impl Iterator<Item = &'a Arc<MetaObject>>) -> bool {
        let objects: BTreeMap<Key, &Arc<MetaObject>> = objects.map(|it| (it.meta().key(), it)).collect();
        self.0.len() == objects.len()
            && self
                .0
                .iter()
                .all(|(key, told)| objects.get(key).is_some_and(|it| Arc::ptr_eq(it, told)))
    }
}

/// An object of namespace `namespace`, with uid `uid`, an owner and a label.
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

/// Short for the kinds of changes and their keys, in order.
pub(super) fn kinds(deltas: &[Delta<MetaObject>]) -> Vec<String> {
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
