//! The proofs that identities are absent, each with the objects that refer to it. An identity without dependents is not kept:
//! another live read costs one GET, and a restored storage could contain the object again.

use std::collections::{BTreeMap, BTreeSet};

use coxswain_manager::object::Uid;
use coxswain_manager::revived;

use super::{Identity, Proof};

#[derive(Debug, Default)]
pub(super) struct Tombstones(BTreeMap<Identity, Tombstone>);

#[derive(Debug)]
struct Tombstone {
    proof: Proof,
    dependents: BTreeSet<Uid>,
}

impl Tombstones {
    pub(super) fn proof(&self, identity: &Identity) -> Option<&Proof> {
        self.0.get(identity).map(|it| &it.proof)
    }

    /// Records that an identity is absent. [`Tombstones::prune`] must follow once its dependents are known.
    pub(super) fn insert(&mut self, identity: &Identity, proof: Proof, dependents: BTreeSet<Uid>) {
        self.0.insert(identity.clone(), Tombstone { proof, dependents });
    }

    /// Drops the record if no object refers to it.
    pub(super) fn prune(&mut self, identity: &Identity) {
        if !revived!(A8) && self.0.get(identity).is_some_and(|it| it.dependents.is_empty()) {
            self.0.remove(identity);
        }
    }

    /// Adds a dependent. Returns false if the identity is not known to be absent.
    pub(super) fn add_dependent(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        let held = self.0.get_mut(identity);
        held.map(|it| it.dependents.insert(dependent.clone())).is_some()
    }

    /// Removes a dependent. Returns false if the identity is not known to be absent.
    pub(super) fn remove_dependent(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        let held = self.0.get_mut(identity);
        let is_held = held.map(|it| it.dependents.remove(dependent)).is_some();
        self.prune(identity);
        is_held
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Identity, &BTreeSet<Uid>)> {
        self.0.iter().map(|(identity, held)| (identity, &held.dependents))
    }

    /// Removes all identities and returns them with their dependents.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = (Identity, BTreeSet<Uid>)> + use<> {
        let held = std::mem::take(&mut self.0).into_iter();
        held.map(|(identity, held)| (identity, held.dependents))
    }
}
