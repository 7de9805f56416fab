//! The evaluation of an object: whether it is garbage, and why.
//!
//! An object is deleted only if *every* owner that it names is proven absent, or in foreground deletion by a fresh live read.
//! Otherwise, in this order: a reference without a known target keeps the object, an owner of an unknown kind keeps it for
//! now, an owner of an unsynced kind is waited for, and an owner that was not read is read.

use std::collections::BTreeSet;
use std::time::Duration;

use steersman_manager::client::Propagation;
use steersman_manager::object::{OwnerRef, Text, Uid};
use steersman_manager::revived;
use tokio::time::Instant;

use super::{
    Action, Answer, Decision, FOREGROUND, FRESH, FRESH_MAX, Graph, Identity, LOOKUPS_PER_PASS, LiveState,
    Lookup, Node, ORPHAN, Operation, OwnerState, Reason, WorkItem,
};

/// The effect of one reference on the object that has it.
enum Ownership {
    /// The target is unknown: the object is cluster-scoped, the kind of the owner is not.
    Ambiguous,
    /// The kind of the owner is unknown, or the reference has no name or uid.
    Unresolvable(Identity),
    /// The kind of the owner has not synced.
    Later(Duration),
    /// The owner has to be read.
    LookUp(Lookup),
    /// The owner keeps the object.
    Solid,
    /// The owner keeps the object by a live read that contradicts the cache.
    SolidLive,
    /// The owner does not keep the object.
    Dangling(Reason),
}

impl Graph {
    /// Evaluates an item. After an action the object has changed, and has to be evaluated again.
    pub fn evaluate(&self, item: &WorkItem, now: Instant) -> Decision {
        if revived!(G6) && self.synced.len() < self.kinds.collected().len() {
            return Decision::Later(FRESH);
        }
        match item {
            WorkItem::Owner(identity) => self.evaluate_owner(identity, now),
            WorkItem::Object(uid) => match self.nodes.get(uid) {
                Some(node) => self.evaluate_object(uid, node, now),
                None => Decision::Nothing,
            },
        }
    }

    /// The namespace that an item counts against: that of the object, or of a dependent of the owner.
    pub fn namespace(&self, item: &WorkItem) -> Option<Text> {
        let object = match item {
            WorkItem::Object(uid) => uid,
            WorkItem::Owner(owner) if !owner.namespace.is_empty() => return Some(owner.namespace.clone()),
            WorkItem::Owner(owner) => self.virtual_owners.get(owner)?.first()?,
        };
        Some(self.nodes.get(object)?.key.namespace.clone())
    }

    fn evaluate_owner(&self, identity: &Identity, now: Instant) -> Decision {
        if !self.virtual_owners.contains_key(identity) {
            return Decision::Nothing;
        }
        match self.virtual_ownership(identity, 1, now) {
            Ownership::Unresolvable(identity) => Decision::Unresolvable(identity),
            Ownership::Later(rest) => Decision::Later(rest),
            Ownership::LookUp(lookup) => Decision::LookUp(vec![lookup]),
            // A cache shows it under another name or kind, and will observe its deletion.
            _ if self.nodes.contains_key(&identity.uid) => Decision::Nothing,
            _ => Decision::Poll,
        }
    }

    fn evaluate_object(&self, uid: &Uid, node: &Node, now: Instant) -> Decision {
        // Without a version there is no precondition for a write.
        if self.accepted.contains_key(uid) || node.version.is_none() {
            return Decision::Nothing;
        }
        if node.is_foreground() {
            return self.evaluate_foreground(uid, node, now);
        }
        if node.deleting || node.owners.is_empty() {
            return Decision::Nothing;
        }
        let doubted = self.doubted.get(uid).copied().unwrap_or_default();
        let mut unresolvable = None;
        let mut later = None;
        let mut lookups: Vec<Lookup> = Vec::new();
        let mut asked = BTreeSet::new();
        let mut solid = BTreeSet::new();
        let mut contradicted = false;
        let mut reasons = Vec::new();
        for reference in &*node.owners {
            match self.ownership(node, reference, doubted, now) {
                Ownership::Ambiguous => return Decision::Nothing,
                Ownership::Unresolvable(identity) => unresolvable = unresolvable.or(Some(identity)),
                Ownership::Later(rest) => later = later.max(Some(rest)),
                Ownership::LookUp(lookup) => {
                    if asked.insert(lookup.identity.clone()) {
                        lookups.push(lookup);
                    }
                }
                Ownership::Solid => {
                    solid.insert(&reference.uid);
                }
                Ownership::SolidLive => {
                    solid.insert(&reference.uid);
                    contradicted = true;
                }
                Ownership::Dangling(reason) => reasons.push(reason),
            }
        }
        if let Some(identity) = unresolvable {
            return Decision::Unresolvable(identity);
        }
        if let Some(rest) = later {
            return Decision::Later(rest);
        }
        // One solid owner keeps the object. It is evaluated again when a virtual owner turns out to be absent; the live reads
        // of all of them may never be valid at the same time.
        if !solid.is_empty() {
            lookups.retain(|it| !self.virtual_owners.contains_key(&it.identity));
        }
        if !lookups.is_empty() {
            return Decision::LookUp(lookups);
        }
        match self.decide(uid, node, &solid, reasons) {
            Some(action) => Decision::Act(action),
            None if contradicted => Decision::Poll,
            None => Decision::Nothing,
        }
    }

    /// The action once the state of every owner is known.
    fn decide(
        &self,
        uid: &Uid,
        node: &Node,
        solid: &BTreeSet<&Uid>,
        mut reasons: Vec<Reason>,
    ) -> Option<Action> {
        let orphaned = reasons.iter().any(|it| it.state == OwnerState::Orphaning);
        if !solid.is_empty() || orphaned {
            // The patch removes references by uid: a correct one and a wrong one with the same uid are removed together.
            reasons.retain(|it| !solid.contains(&it.owner.uid));
            let uids: BTreeSet<Uid> = reasons.iter().map(|it| it.owner.uid.clone()).collect();
            let operation = node.remove_owners(uids.into_iter().collect());
            return (!reasons.is_empty()).then(|| node.action(uid, operation, reasons));
        }
        let awaited = reasons.iter().any(|it| it.state == OwnerState::Waiting);
        let has_dependents = self.links.contains_key(uid);
        let operation = if node.has(ORPHAN) {
            Operation::Delete(Propagation::Orphan)
        } else if awaited && has_dependents {
            self.unblock(uid, node)
                .unwrap_or(Operation::Delete(Propagation::Foreground))
        } else if node.has(FOREGROUND) {
            Operation::Delete(Propagation::Foreground)
        } else {
            Operation::Delete(Propagation::Background)
        };
        Some(node.action(uid, operation, reasons))
    }

    /// An object in foreground deletion.
    fn evaluate_foreground(&self, uid: &Uid, node: &Node, now: Instant) -> Decision {
        if self.links.get(uid).is_some_and(|it| it.blocking > 0) {
            let unblock = self.unblock(uid, node);
            return unblock.map_or(Decision::Nothing, |operation| {
                Decision::Act(node.action(uid, operation, Vec::new()))
            });
        }
        // An object of an unsynced kind may still block it.
        let unsynced = self.unsynced_wait(uid, now).filter(|_| !revived!(G14));
        let unproven = self.unproven(now).filter(|_| !revived!(A9));
        if let Some(rest) = unsynced.max(unproven) {
            return Decision::Later(rest);
        }
        let operation = Operation::RemoveFinalizer {
            finalizer: FOREGROUND,
            rest: node.without(FOREGROUND),
        };
        Decision::Act(node.action(uid, operation, Vec::new()))
    }

    /// Of the proofs that the owner is absent, the first `doubted` ones do not suffice.
    fn ownership(&self, node: &Node, reference: &OwnerRef, doubted: u64, now: Instant) -> Ownership {
        let owner = &reference.uid;
        let Some(identity) = Identity::from_reference(&self.kinds, reference, &node.key.namespace) else {
            return Ownership::Ambiguous;
        };
        if owner.is_empty() || reference.name.is_empty() {
            return Ownership::Unresolvable(identity);
        }
        match self.target_ownership(node, reference, identity, doubted, now) {
            Ownership::Dangling(Reason { owner: identity, .. }) if self.orphaned_owners.contains(owner) => {
                Ownership::dangling(identity, OwnerState::Orphaning)
            }
            other => other,
        }
    }

    /// The effect of a reference to an owner that was not orphaned.
    fn target_ownership(
        &self,
        node: &Node,
        reference: &OwnerRef,
        identity: Identity,
        doubted: u64,
        now: Instant,
    ) -> Ownership {
        let owner = &reference.uid;
        let known = self.nodes.get(owner);
        if let Some(known) =
            known.filter(|it| it.is_target(&self.kinds, owner, reference, &node.key.namespace))
        {
            // A stale state only delays: dependents are evaluated again when the owner is deleted.
            if !known.is_foreground() {
                return Ownership::Solid;
            }
            let identity = known.identity(owner);
            return match self.answer(&identity, node.owners.len(), now) {
                Some(LiveState::Waiting) => Ownership::dangling(identity, OwnerState::Waiting),
                Some(LiveState::Solid) => Ownership::SolidLive,
                None => Ownership::LookUp(Lookup {
                    kind: known.kind.clone(),
                    identity,
                }),
            };
        }
        let doubted = doubted.max(self.disregarded_proofs(&identity));
        match self.tombstones.proof(&identity, doubted) {
            Some(proof) => Ownership::dangling(identity, OwnerState::Absent(proof.clone())),
            None => self.virtual_ownership(&identity, node.owners.len(), now),
        }
    }

    /// The effect of a reference to a virtual owner, on an object with this number of owners.
    fn virtual_ownership(&self, identity: &Identity, owners: usize, now: Instant) -> Ownership {
        let kind = self.kinds.resolve(&identity.api_version, &identity.kind);
        // A GET without a name would list the collection.
        let Some(kind) = kind.filter(|_| !identity.name.is_empty()) else {
            return Ownership::Unresolvable(identity.clone());
        };
        if let Some(rest) = self.sync_wait(&kind.resource, now) {
            return Ownership::Later(rest);
        }
        match self.answer(identity, owners, now) {
            Some(LiveState::Waiting) => Ownership::dangling(identity.clone(), OwnerState::Waiting),
            Some(LiveState::Solid) => Ownership::Solid,
            None => Ownership::LookUp(Lookup {
                kind: kind.clone(),
                identity: identity.clone(),
            }),
        }
    }

    /// The live state of an owner of an object with this number of owners, if it was read lately.
    fn answer(&self, identity: &Identity, owners: usize, now: Instant) -> Option<LiveState> {
        let Answer { live, sent, valid } = self.answers.get(identity)?;
        let in_one_pass = owners <= LOOKUPS_PER_PASS;
        let valid = if in_one_pass {
            *valid
        } else {
            FRESH_MAX.max(*valid)
        };
        (now <= *sent + valid).then_some(*live)
    }

    /// Two foreground deletions that block each other would deadlock: the dependent stops blocking. None without a cycle.
    fn unblock(&self, uid: &Uid, node: &Node) -> Option<Operation> {
        if revived!(G9) || !self.is_in_cycle(uid, node) {
            return None;
        }
        let references = node.owners.iter().map(|reference| OwnerRef {
            block_owner_deletion: false,
            ..reference.clone()
        });
        Some(Operation::Unblock {
            references: references.collect(),
        })
    }

    /// Whether the object blocks itself through a chain of owners in foreground deletion. Every cycle is found when its last
    /// member starts to wait or to block, because that member is evaluated then.
    fn is_in_cycle(&self, uid: &Uid, node: &Node) -> bool {
        let mut seen = BTreeSet::from([uid]);
        let mut open = vec![(uid, node)];
        while let Some((dependent, node)) = open.pop() {
            for reference in node.owners.iter().filter(|it| it.block_owner_deletion) {
                let Some((owner, known)) = self.nodes.get_key_value(&reference.uid) else {
                    continue;
                };
                if owner == dependent || !known.is_target(&self.kinds, owner, reference, &node.key.namespace)
                {
                    continue;
                }
                if owner == uid {
                    return true;
                }
                if known.is_foreground() && seen.insert(owner) {
                    open.push((owner, known));
                }
            }
        }
        false
    }
}

impl Ownership {
    fn dangling(owner: Identity, state: OwnerState) -> Self {
        Self::Dangling(Reason { owner, state })
    }
}
