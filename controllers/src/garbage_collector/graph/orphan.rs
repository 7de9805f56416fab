//! The orphaning of dependents.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use steersman_manager::object::{Uid, Version};

use super::{Action, Graph, Node, ORPHAN, Operation, OwnerState, Reason};

/// The maximum number of owners whose late dependents are orphaned. The oldest are forgotten first.
pub(super) const ORPHANED_OWNERS_MAX: usize = 100_000;

/// Owners that were orphaned although not all kinds could be listed. Their late dependents are orphaned, not deleted, for the
/// lifetime of the process, or until the owner exists again, in a restored storage.
#[derive(Clone, Debug, Default)]
pub struct OrphanedOwners {
    /// With the last known version of the owner; empty after a restore of the storage to an earlier revision.
    uids: BTreeMap<Uid, Version>,
    /// Oldest first.
    order: VecDeque<Uid>,
}

impl OrphanedOwners {
    pub(super) fn contains(&self, owner: &Uid) -> bool {
        self.uids.contains_key(owner)
    }

    fn insert(&mut self, owner: Uid, version: Version) {
        if version.is_none() && self.contains(&owner) {
            return;
        }
        if self.uids.insert(owner.clone(), version).is_none() {
            self.order.push_back(owner);
        }
        if self.order.len() > ORPHANED_OWNERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    /// The storage was restored to an earlier revision: its versions do not compare with the known ones.
    pub(super) fn reset(&mut self) {
        self.uids.values_mut().for_each(|it| *it = Version::none());
    }

    /// A list at this version shows an owner that is not terminating. After a newer list than its orphaning, that is possible only
    /// in a restored storage.
    pub(super) fn exists(&mut self, owner: &Uid, listed: &Version) {
        let is_later = |known: &Version| known.is_none() || known <= listed;
        if self.uids.get(owner).is_some_and(is_later) {
            self.uids.remove(owner);
            self.order.retain(|it| it != owner);
        }
    }
}

impl Graph {
    /// Orphans late dependents of this owner instead of deleting them: not all of its dependents could be listed.
    pub fn add_orphaned_owner(&mut self, owner: &Uid) {
        let node = self.nodes.get(owner);
        // In a restored storage, the owner may exist again.
        if !owner.is_empty() && node.is_none_or(Node::is_orphaning) {
            let version = node.map(|it| it.version.clone());
            self.orphaned_owners
                .insert(owner.clone(), version.unwrap_or_default());
        }
    }

    pub fn orphaned_owners(&self) -> OrphanedOwners {
        self.orphaned_owners.clone()
    }

    pub fn contains(&self, uid: &Uid) -> bool {
        self.nodes.contains_key(uid)
    }

    /// Returns whether the graph shows an object with a reference to an owner.
    pub fn has_dependent(&self, owner: &Uid, dependent: &Uid) -> bool {
        let links = self.links.get(owner);
        links.is_some_and(|it| it.dependents.contains(dependent)) && self.nodes.contains_key(dependent)
    }

    /// The actions that orphan up to `max` known dependents of an owner; none if it is not being deleted with the orphan
    /// finalizer.
    pub fn orphan_dependents(&self, owner: &Uid, max: usize) -> Vec<Action> {
        let (Some(known), Some(links)) = (self.nodes.get(owner), self.links.get(owner)) else {
            return Vec::new();
        };
        if !known.is_orphaning() {
            return Vec::new();
        }
        let reasons = vec![Reason {
            owner: known.identity(owner),
            state: OwnerState::Orphaning,
        }];
        let others = links.dependents.iter().filter(|it| *it != owner);
        others
            .filter_map(|uid| {
                let node = self.nodes.get(uid)?;
                let operation = node.remove_owners(vec![owner.clone()]);
                Some(node.action(uid, operation, reasons.clone()))
            })
            .take(max)
            .collect()
    }

    /// The action that ends the orphaning; none if the owner was deleted or does not have the finalizer.
    pub fn remove_orphan_finalizer(&self, owner: &Uid) -> Option<Action> {
        let orphans = |it: &&Node| it.is_orphaning() && !self.accepted.contains_key(owner);
        let node = self.nodes.get(owner).filter(orphans)?;
        let operation = Operation::RemoveFinalizer {
            finalizer: ORPHAN,
            rest: node.without(ORPHAN),
        };
        Some(node.action(owner, operation, Vec::new()))
    }
}

impl Node {
    pub(super) fn action(&self, uid: &Uid, operation: Operation, reasons: Vec<Reason>) -> Action {
        Action {
            kind: self.kind.clone(),
            key: self.key.clone(),
            uid: uid.clone(),
            version: self.version.clone(),
            operation,
            reasons,
        }
    }

    pub(super) fn remove_owners(&self, uids: Vec<Uid>) -> Operation {
        let lost: BTreeSet<&Uid> = uids.iter().collect();
        let remaining = self.owners.iter().filter(|it| !lost.contains(&it.uid));
        Operation::RemoveOwners {
            remaining: remaining.cloned().collect(),
            uids,
        }
    }
}
