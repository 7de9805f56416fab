//! Identities that are gone forever, each with its proof and the objects that refer to it. An identity without dependents is
//! not kept: a restored store could contain it again, and asking again costs one GET.

use std::collections::{BTreeMap, BTreeSet};

use coxswain_manager::object::Uid;

use super::{Identity, Proof};

#[derive(Debug, Default)]
pub(super) struct Tombstones(BTreeMap<Identity, Held>);

#[derive(Debug)]
struct Held {
    proof: Proof,
    dependents: BTreeSet<Uid>,
}

impl Tombstones {
    /// The proof that an identity is gone.
    pub(super) fn proof(&self, identity: &Identity) -> Option<&Proof> {
        self.0.get(identity).map(|it| &it.proof)
    }

    /// Records that an identity is gone. [`Tombstones::prune`] follows once its dependents are known.
    pub(super) fn bury(&mut self, identity: &Identity, proof: Proof, dependents: BTreeSet<Uid>) {
        self.0.insert(identity.clone(), Held { proof, dependents });
    }

    /// Drops the record if no object refers to it.
    pub(super) fn prune(&mut self, identity: &Identity) {
        if self.0.get(identity).is_some_and(|it| it.dependents.is_empty()) {
            self.0.remove(identity);
        }
    }

    /// Adds a dependent, if the identity is gone: else false.
    pub(super) fn hold(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        let held = self.0.get_mut(identity);
        held.map(|it| it.dependents.insert(dependent.clone())).is_some()
    }

    /// Removes a dependent, if the identity is gone: else false.
    pub(super) fn release(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        let held = self.0.get_mut(identity);
        let is_held = held.map(|it| it.dependents.remove(dependent)).is_some();
        self.prune(identity);
        is_held
    }

    /// All identities, with their dependents.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Identity, &BTreeSet<Uid>)> {
        self.0.iter().map(|(identity, held)| (identity, &held.dependents))
    }

    /// Forgets all, and returns them with their dependents.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = (Identity, BTreeSet<Uid>)> + use<> {
        let held = std::mem::take(&mut self.0).into_iter();
        held.map(|(identity, held)| (identity, held.dependents))
    }
}
