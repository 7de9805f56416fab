//! The indexes of owners and dependents. Every change of a node computes the index entries of its references before and
//! after, and applies the difference.

use std::collections::BTreeSet;

use steersman_manager::object::Uid;

use super::{Effects, Graph, Identity, InvalidNamespace, Node};

/// The objects that refer to one owner.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    /// All objects with its uid in a reference.
    pub(super) dependents: BTreeSet<Uid>,
    /// The number of dependents that block its foreground deletion: their reference matches it in any served version. An
    /// object never blocks itself.
    pub(super) blocking: usize,
}

/// An index entry that follows from a reference of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IndexEntry {
    /// The object depends on this uid.
    Link(Uid),
    /// The object blocks the foreground deletion of this node.
    Block(Uid),
    /// The object refers to an identity that is not a node.
    Named(Identity),
    /// The target of the reference is unknown.
    Ambiguous,
}

impl Graph {
    /// The entries of an object's references; with `only`, those to that owner. `find` returns the node of a uid.
    pub(super) fn index_entries<'a>(
        &self,
        uid: &Uid,
        node: &Node,
        only: Option<&Uid>,
        find: impl Fn(&Uid) -> Option<&'a Node>,
    ) -> Vec<IndexEntry> {
        #[cfg(test)]
        self.visits.update(|it| it + 1);
        let mut index_entries = Vec::new();
        for reference in &*node.owners {
            let owner = &reference.uid;
            if owner.is_empty() || only.is_some_and(|only| only != owner) {
                continue;
            }
            index_entries.push(IndexEntry::Link(owner.clone()));
            let target =
                find(owner).filter(|it| it.is_target(&self.kinds, owner, reference, &node.key.namespace));
            if target.is_some() {
                if reference.block_owner_deletion && owner != uid {
                    index_entries.push(IndexEntry::Block(owner.clone()));
                }
                continue;
            }
            index_entries.push(
                Identity::from_reference(&self.kinds, reference, &node.key.namespace)
                    .map_or(IndexEntry::Ambiguous, IndexEntry::Named),
            );
        }
        index_entries.sort();
        index_entries.dedup();
        index_entries
    }

    /// Replaces a node, or removes it, and updates all indexes. Returns the old node.
    pub(super) fn replace(&mut self, uid: &Uid, node: Option<Node>, effects: &mut Effects) -> Option<Node> {
        self.accepted.remove(uid);
        let old = self.nodes.remove(uid);
        let moved = match (&old, &node) {
            (Some(old), Some(new)) => !old.has_same_key(new),
            (old, new) => old.is_some() != new.is_some(),
        };
        let relinked = match (&old, &node) {
            (Some(old), Some(new)) => moved || old.owners != new.owners,
            _ => true,
        };
        let index_entries = |state: &Option<Node>| {
            let node = state.as_ref()?;
            let find = |it: &Uid| {
                if it == uid { Some(node) } else { self.nodes.get(it) }
            };
            Some(self.index_entries(uid, node, None, find))
        };
        let own = relinked.then(|| {
            (
                index_entries(&old).unwrap_or_default(),
                index_entries(&node).unwrap_or_default(),
            )
        });

        if moved {
            self.index(uid, old.as_ref(), node.as_ref());
        }
        let dependents = moved.then(|| self.links.get(uid).map(|it| it.dependents.clone()));
        let dependents = dependents.flatten().unwrap_or_default();
        let appeared = node.is_some();
        let new = node.as_ref().filter(|_| moved).cloned();
        if node.as_ref().is_some_and(Node::is_finalizing) {
            self.finalizing.entry(uid.clone()).or_insert(self.generation);
        } else {
            self.finalizing.remove(uid);
            self.orphaning.remove(uid);
        }
        if let Some(node) = node {
            self.nodes.insert(uid.clone(), node);
        } else {
            self.doubted.remove(uid);
        }
        if let Some((before, after)) = own {
            self.reindex(uid, &before, &after, effects);
        }
        for dependent in dependents.iter().filter(|it| *it != uid) {
            let Some(node) = self.nodes.get(dependent) else {
                continue;
            };
            let before = self.index_entries(dependent, node, Some(uid), |_| old.as_ref());
            let after = self.index_entries(dependent, node, Some(uid), |_| new.as_ref());
            self.reindex(dependent, &before, &after, effects);
            if appeared {
                self.invalid_namespace(dependent, uid, effects);
            }
        }
        old
    }

    fn index(&mut self, uid: &Uid, old: Option<&Node>, new: Option<&Node>) {
        if let Some(old) = old
            && let Some(uids) = self.by_kind.get_mut(&old.kind.resource)
        {
            uids.remove(uid);
            if uids.is_empty() {
                self.by_kind.remove(&old.kind.resource);
            }
        }
        if let Some(new) = new {
            let uids = self.by_kind.entry(new.kind.resource.clone()).or_default();
            uids.insert(uid.clone());
        }
    }

    pub(super) fn reindex(
        &mut self,
        uid: &Uid,
        before: &[IndexEntry],
        after: &[IndexEntry],
        effects: &mut Effects,
    ) {
        for entry in before.iter().filter(|it| after.binary_search(it).is_err()) {
            self.remove_entry(uid, entry, effects);
        }
        for entry in after.iter().filter(|it| before.binary_search(it).is_err()) {
            self.insert_entry(uid, entry, effects);
        }
    }

    fn remove_entry(&mut self, uid: &Uid, entry: &IndexEntry, effects: &mut Effects) {
        match entry {
            IndexEntry::Link(owner) => {
                self.unlink(owner, |links| links.dependents.remove(uid));
            }
            IndexEntry::Block(owner) => {
                let free = self.unlink(owner, |links| {
                    links.blocking -= 1;
                    links.blocking == 0
                });
                if free && self.nodes.get(owner).is_some_and(Node::is_foreground) {
                    effects.object(owner);
                }
            }
            IndexEntry::Named(identity) => {
                if !self.tombstones.remove_dependent(identity, uid)
                    && let Some(dependents) = self.virtual_owners.get_mut(identity)
                {
                    dependents.remove(uid);
                    if dependents.is_empty() {
                        self.virtual_owners.remove(identity);
                        self.answers.remove(identity);
                    }
                }
            }
            IndexEntry::Ambiguous => {
                self.ambiguous.remove(uid);
            }
        }
    }

    fn insert_entry(&mut self, uid: &Uid, entry: &IndexEntry, effects: &mut Effects) {
        match entry {
            IndexEntry::Link(owner) => {
                self.links
                    .entry(owner.clone())
                    .or_default()
                    .dependents
                    .insert(uid.clone());
                let known = self.nodes.get(owner);
                if known.is_some_and(Node::is_foreground) || self.orphaned_owners.contains(owner) {
                    effects.object(uid);
                }
                if known.is_some_and(Node::is_orphaning) {
                    effects.attempt_to_orphan.push(owner.clone());
                }
                self.invalid_namespace(uid, owner, effects);
            }
            IndexEntry::Block(owner) => {
                self.links.entry(owner.clone()).or_default().blocking += 1;
                if self.nodes.get(owner).is_some_and(Node::is_foreground) {
                    effects.object(uid);
                }
            }
            IndexEntry::Named(identity) => {
                if self.tombstones.add_dependent(identity, uid) {
                    effects.object(uid);
                    return;
                }
                let dependents = self.virtual_owners.entry(identity.clone()).or_default();
                if dependents.is_empty() {
                    effects.owner(identity);
                }
                dependents.insert(uid.clone());
            }
            IndexEntry::Ambiguous => {
                self.ambiguous.insert(uid.clone());
            }
        }
    }

    fn unlink(&mut self, owner: &Uid, take: impl FnOnce(&mut Links) -> bool) -> bool {
        let Some(links) = self.links.get_mut(owner) else {
            return false;
        };
        let taken = take(links);
        if *links == Links::default() {
            self.links.remove(owner);
        }
        taken
    }

    /// Reports references of an object to an owner in another namespace.
    fn invalid_namespace(&self, uid: &Uid, owner: &Uid, effects: &mut Effects) {
        let (Some(node), Some(known)) = (self.nodes.get(uid), self.nodes.get(owner)) else {
            return;
        };
        if known.is_in_other_namespace(&node.key.namespace) {
            let references = node.owners.iter().filter(|it| it.uid == *owner);
            effects
                .invalid_namespace
                .extend(references.map(|reference| InvalidNamespace {
                    kind: node.kind.clone(),
                    key: node.key.clone(),
                    uid: uid.clone(),
                    reference: reference.clone(),
                }));
        }
    }
}
