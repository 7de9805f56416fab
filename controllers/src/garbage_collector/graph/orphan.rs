//! Letting dependents go.

use std::collections::{BTreeSet, VecDeque};

use coxswain_manager::object::Uid;

use super::{Act, Deed, Graph, Node, ORPHAN, Reason, Verdict};

/// The maximum number of owners whose late dependents are orphaned. The oldest are forgotten first.
pub(super) const ORPHANED_OWNERS_MAX: usize = 100_000;

/// Owners that were orphaned although not all kinds could be listed. Their late dependents are orphaned, not deleted, for the
/// lifetime of the process.
#[derive(Clone, Debug, Default)]
pub struct OrphanedOwners {
    uids: BTreeSet<Uid>,
    /// The oldest first.
    order: VecDeque<Uid>,
}

impl OrphanedOwners {
    pub(super) fn contains(&self, owner: &Uid) -> bool {
        self.uids.contains(owner)
    }

    fn insert(&mut self, owner: Uid) {
        if self.uids.insert(owner.clone()) {
            self.order.push_back(owner);
        }
        if self.order.len() > ORPHANED_OWNERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

impl Graph {
    /// Dependents of this owner are orphaned, not deleted, from now on: not all of them could be found.
    pub fn let_go(&mut self, owner: &Uid) {
        if !owner.is_empty() {
            self.let_go.insert(owner.clone());
        }
    }

    /// Owners whose dependents are orphaned: they outlive the term.
    #[must_use]
    pub fn orphaning(&self) -> OrphanedOwners {
        self.let_go.clone()
    }

    /// Whether a cache has shown an object.
    #[must_use]
    pub fn contains(&self, uid: &Uid) -> bool {
        self.nodes.contains_key(uid)
    }

    /// What has to be done to orphan the dependents of an owner that are known: an `Act` with `Deed::RemoveOwners` each. None
    /// if it does not let its dependents go.
    #[must_use]
    pub fn releases(&self, owner: &Uid) -> Vec<Act> {
        let (Some(known), Some(links)) = (self.nodes.get(owner), self.links.get(owner)) else {
            return Vec::new();
        };
        if !known.is_orphaning() {
            return Vec::new();
        }
        let because = vec![Reason {
            owner: known.identity(owner),
            verdict: Verdict::Orphaning,
        }];
        let others = links.dependents.iter().filter(|it| *it != owner);
        others
            .filter_map(|uid| {
                let node = self.nodes.get(uid)?;
                let deed = node.remove_owners(vec![owner.clone()]);
                Some(node.act(uid, deed, because.clone()))
            })
            .collect()
    }

    /// What has to be done to finish the orphaning: none if the object is gone, or was told to go, or is not being deleted with
    /// that finalizer.
    #[must_use]
    pub fn finish_orphaning(&self, owner: &Uid) -> Option<Act> {
        let orphans = |it: &&Node| it.is_orphaning() && it.deleted_at.is_none();
        let node = self.nodes.get(owner).filter(orphans)?;
        let deed = Deed::RemoveFinalizer {
            finalizer: ORPHAN,
            rest: node.without(ORPHAN),
        };
        Some(node.act(owner, deed, Vec::new()))
    }
}

impl Node {
    pub(super) fn act(&self, uid: &Uid, deed: Deed, because: Vec<Reason>) -> Act {
        Act {
            kind: self.kind.clone(),
            key: self.key.clone(),
            uid: uid.clone(),
            version: self.version.clone(),
            deed,
            because,
        }
    }

    pub(super) fn remove_owners(&self, uids: Vec<Uid>) -> Deed {
        let lost: BTreeSet<&Uid> = uids.iter().collect();
        let remaining = self.owners.iter().filter(|it| !lost.contains(&it.uid));
        Deed::RemoveOwners {
            remaining: remaining.cloned().collect(),
            uids,
        }
    }
}
