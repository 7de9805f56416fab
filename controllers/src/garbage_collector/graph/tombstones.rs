//! Who is gone for ever, exactly.
//!
//! A tombstone that a known object refers to stays. Of the others the latest few stay: a miss costs one question.

use std::collections::{BTreeMap, BTreeSet};

use coxswain_manager::object::Uid;

use super::{Identity, Proof};

/// How many that nobody refers to are kept.
const LOOSE: usize = 500;

#[derive(Debug, Default)]
pub(super) struct Tombstones {
    /// Those that somebody refers to, with those that do.
    held: BTreeMap<Identity, Held>,
    /// The others, with the turn at which they came.
    loose: BTreeMap<Identity, (Proof, u64)>,
    /// The others, the oldest first.
    turns: BTreeMap<u64, Identity>,
    turn: u64,
}

#[derive(Debug)]
struct Held {
    proof: Proof,
    dependents: BTreeSet<Uid>,
}

impl Tombstones {
    /// How it is known that this one is gone.
    pub(super) fn proof(&self, identity: &Identity) -> Option<&Proof> {
        let held = self.held.get(identity).map(|it| &it.proof);
        held.or_else(|| self.loose.get(identity).map(|(proof, _)| proof))
    }

    /// This one is gone. These refer to it.
    pub(super) fn bury(&mut self, identity: &Identity, proof: Proof, dependents: BTreeSet<Uid>) {
        if dependents.is_empty() {
            self.loosen(identity.clone(), proof);
        } else {
            self.held.insert(identity.clone(), Held { proof, dependents });
        }
    }

    /// An object refers to it, if it is gone: else false.
    pub(super) fn hold(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        if let Some(proof) = self.unloosen(identity) {
            let dependents = BTreeSet::new();
            self.held.insert(identity.clone(), Held { proof, dependents });
        }
        let held = self.held.get_mut(identity);
        held.map(|it| it.dependents.insert(dependent.clone())).is_some()
    }

    /// An object no longer refers to it, if it is gone: else false.
    pub(super) fn release(&mut self, identity: &Identity, dependent: &Uid) -> bool {
        let Some(held) = self.held.get_mut(identity) else {
            return false;
        };
        held.dependents.remove(dependent);
        if held.dependents.is_empty()
            && let Some(held) = self.held.remove(identity)
        {
            self.loosen(identity.clone(), held.proof);
        }
        true
    }

    /// It lives. Nobody holds it: whoever refers to it refers to a node now.
    pub(super) fn forget(&mut self, identity: &Identity) {
        self.unloosen(identity);
    }

    /// Those that somebody refers to, with those that do.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Identity, &BTreeSet<Uid>)> {
        self.held
            .iter()
            .map(|(identity, held)| (identity, &held.dependents))
    }

    /// Forgets all, and answers those that somebody refers to.
    pub(super) fn clear(&mut self) -> BTreeMap<Identity, BTreeSet<Uid>> {
        let held = std::mem::take(self).held;
        held.into_iter()
            .map(|(identity, held)| (identity, held.dependents))
            .collect()
    }

    fn loosen(&mut self, identity: Identity, proof: Proof) {
        self.turn += 1;
        self.turns.insert(self.turn, identity.clone());
        self.loose.insert(identity, (proof, self.turn));
        if self.loose.len() > LOOSE
            && let Some((_, oldest)) = self.turns.pop_first()
        {
            self.loose.remove(&oldest);
        }
    }

    fn unloosen(&mut self, identity: &Identity) -> Option<Proof> {
        let (proof, turn) = self.loose.remove(identity)?;
        self.turns.remove(&turn);
        Some(proof)
    }
}
