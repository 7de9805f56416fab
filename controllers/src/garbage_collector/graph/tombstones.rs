//! The proofs that identities are absent, each with the objects that refer to it. An identity without dependents is not kept:
//! another live read costs one GET, and a restored storage could contain the object again.

use std::collections::{BTreeMap, BTreeSet};

use steersman_manager::object::Uid;
use steersman_manager::revived;

use super::{Identity, Proof};

#[derive(Debug, Default)]
pub(super) struct Tombstones {
    all: BTreeMap<Identity, Tombstone>,
    /// The number of proofs so far.
    proofs: u64,
}

#[derive(Debug)]
struct Tombstone {
    proof: Proof,
    /// The number of proofs when this one was found.
    number: u64,
    dependents: BTreeSet<Uid>,
}

impl Tombstones {
    /// Returns a proof that was found after the first `proofs` ones.
    pub(super) fn proof(&self, identity: &Identity, proofs: u64) -> Option<&Proof> {
        let held = self.all.get(identity).filter(|it| it.number > proofs);
        held.map(|it| &it.proof)
    }

    /// Returns the number of proofs so far.
    pub(super) fn proofs(&self) -> u64 {
        self.proofs
    }

    /// Returns a number between those of the proofs so far and those of later ones.
    pub(super) fn mark(&mut self) -> u64 {
        self.proofs += 1;
        self.proofs
    }

    /// Replaces the proof. Returns false if the identity is not known to be absent.
    pub(super) fn renew(&mut self, identity: &Identity, proof: &Proof) -> bool {
        let Some(held) = self.all.get_mut(identity) else {
            return false;
        };
        self.proofs += 1;
        (held.proof, held.number) = (proof.clone(), self.proofs);
        true
    }

    /// Records that an identity is absent. [`Tombstones::prune`] must follow once its dependents are known.
    pub(super) fn insert(&mut self, identity: &Identity, proof: Proof, dependents: BTreeSet<Uid>) {
        self.proofs += 1;
        let number = self.proofs;
        let tombstone = Tombstone {
            proof,
            number,
            dependents,
        };
        self.all.insert(identity.clone(), tombstone);
    }

    /// Drops the record if no object refers to it.
    pub(super) fn prune(&mut self, identity: &Identity) {
        if !revived!(A8) && self.all.get(identity).is_some_and(|it| it.dependents.is_empty()) {
            self.all.remove(identity);
        }
    }

    /// Adds a dependent. Returns false if the identity is not known to be absent.
    pub(super) fn add_dependent(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        let held = self.all.get_mut(identity);
        held.map(|it| it.dependents.insert(dependent.clone())).is_some()
    }

    /// Removes a dependent. Returns false if the identity is not known to be absent.
    pub(super) fn remove_dependent(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        let held = self.all.get_mut(identity);
        let is_held = held.map(|it| it.dependents.remove(dependent)).is_some();
        self.prune(identity);
        is_held
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Identity, &BTreeSet<Uid>)> {
        self.all
            .iter()
            .map(|(identity, held)| (identity, &held.dependents))
    }

    /// Removes an identity, and returns its dependents.
    pub(super) fn remove(&mut self, identity: &Identity) -> Option<BTreeSet<Uid>> {
        self.all.remove(identity).map(|it| it.dependents)
    }

    /// Removes all identities and returns them with their dependents.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = (Identity, BTreeSet<Uid>)> + use<> {
        let held = std::mem::take(&mut self.all).into_iter();
        held.map(|(identity, held)| (identity, held.dependents))
    }
}
