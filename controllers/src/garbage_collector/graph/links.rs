//! Who depends on whom. Exact after every step: what an object's references come to is computed for before and after, and
//! the difference applied.

use std::collections::BTreeSet;

use coxswain_manager::object::Uid;

use super::{Effects, Graph, Identity, Misplaced, Node};

/// Those who refer to one owner.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    /// All with its uid in a reference.
    pub(super) dependents: BTreeSet<Uid>,
    /// Dependents that block its foreground deletion: their reference is to it, in any served version. An object never
    /// blocks itself.
    pub(super) blocking: BTreeSet<Uid>,
}

/// One consequence of an object's references.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// It depends on this uid.
    Link(Uid),
    /// It blocks this one.
    Block(Uid),
    /// It refers to somebody who no node is.
    Named(Identity),
    /// It refers to somebody, and nobody can say to whom.
    Astray,
}

impl Graph {
    /// What the references of an object come to; with `only`, those to that owner. `find` says who is observed.
    pub(super) fn places<'a>(
        &self,
        uid: &Uid,
        node: &Node,
        only: Option<&Uid>,
        find: impl Fn(&Uid) -> Option<&'a Node>,
    ) -> Vec<Place> {
        #[cfg(test)]
        self.visits.update(|it| it + 1);
        let mut places = Vec::new();
        for reference in &node.owners {
            let owner = &reference.uid;
            if owner.is_empty() || only.is_some_and(|only| only != owner) {
                continue;
            }
            places.push(Place::Link(owner.clone()));
            let meant =
                find(owner).filter(|it| it.is_meant(&self.kinds, owner, reference, &node.key.namespace));
            if meant.is_some() {
                if reference.block_owner_deletion && owner != uid {
                    places.push(Place::Block(owner.clone()));
                }
                continue;
            }
            places.push(
                Identity::meant(&self.kinds, reference, &node.key.namespace)
                    .map_or(Place::Astray, Place::Named),
            );
        }
        places.sort();
        places.dedup();
        places
    }

    /// Puts a new state of an object, or none, in the place of what is known of it, and everything right that hangs on it.
    /// Answers what was known.
    pub(super) fn replace(&mut self, uid: &Uid, node: Option<Node>, effects: &mut Effects) -> Option<Node> {
        let old = self.nodes.remove(uid);
        let moved = match (&old, &node) {
            (Some(old), Some(new)) => !old.is_where(new),
            (old, new) => old.is_some() != new.is_some(),
        };
        let relinked = match (&old, &node) {
            (Some(old), Some(new)) => moved || old.owners != new.owners,
            _ => true,
        };
        let places = |state: &Option<Node>| {
            let node = state.as_ref()?;
            let find = |it: &Uid| {
                if it == uid { Some(node) } else { self.nodes.get(it) }
            };
            Some(self.places(uid, node, None, find))
        };
        let own = relinked.then(|| {
            (
                places(&old).unwrap_or_default(),
                places(&node).unwrap_or_default(),
            )
        });

        if moved {
            self.index(uid, old.as_ref(), node.as_ref());
        }
        let dependents = moved.then(|| self.links.get(uid).map(|it| it.dependents.clone()));
        let dependents = dependents.flatten().unwrap_or_default();
        let appeared = node.is_some();
        let new = node.as_ref().filter(|_| moved).cloned();
        if node.as_ref().is_some_and(Node::is_leaving) {
            self.leaving.entry(uid.clone()).or_insert(self.turn);
        } else {
            self.leaving.remove(uid);
        }
        if let Some(node) = node {
            self.nodes.insert(uid.clone(), node);
        }
        if let Some((before, after)) = own {
            self.shift(uid, &before, &after, effects);
        }
        for dependent in dependents.iter().filter(|it| *it != uid) {
            let Some(node) = self.nodes.get(dependent) else {
                continue;
            };
            let before = self.places(dependent, node, Some(uid), |_| old.as_ref());
            let after = self.places(dependent, node, Some(uid), |_| new.as_ref());
            self.shift(dependent, &before, &after, effects);
            if appeared {
                self.misplaced(dependent, uid, effects);
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

    /// Takes an object from where it was to where it is.
    pub(super) fn shift(&mut self, uid: &Uid, before: &[Place], after: &[Place], effects: &mut Effects) {
        for place in before.iter().filter(|it| after.binary_search(it).is_err()) {
            self.leave(uid, place, effects);
        }
        for place in after.iter().filter(|it| before.binary_search(it).is_err()) {
            self.enter(uid, place, effects);
        }
    }

    fn leave(&mut self, uid: &Uid, place: &Place, effects: &mut Effects) {
        match place {
            Place::Link(owner) => {
                self.unlink(owner, |links| links.dependents.remove(uid));
            }
            Place::Block(owner) => {
                let free = self.unlink(owner, |links| {
                    links.blocking.remove(uid) && links.blocking.is_empty()
                });
                if free && self.nodes.get(owner).is_some_and(Node::is_foreground) {
                    effects.object(owner);
                }
            }
            Place::Named(identity) => {
                if !self.tombstones.release(identity, uid)
                    && let Some(dependents) = self.unseen.get_mut(identity)
                {
                    dependents.remove(uid);
                    if dependents.is_empty() {
                        self.unseen.remove(identity);
                        self.answers.remove(identity);
                    }
                }
            }
            Place::Astray => {
                self.astray.remove(uid);
            }
        }
    }

    fn enter(&mut self, uid: &Uid, place: &Place, effects: &mut Effects) {
        match place {
            Place::Link(owner) => {
                self.links
                    .entry(owner.clone())
                    .or_default()
                    .dependents
                    .insert(uid.clone());
                let known = self.nodes.get(owner);
                if known.is_some_and(Node::is_foreground) || self.let_go.contains(owner) {
                    effects.object(uid);
                }
                if known.is_some_and(Node::is_orphaning) {
                    effects.orphan.push(owner.clone());
                }
                self.misplaced(uid, owner, effects);
            }
            Place::Block(owner) => {
                self.links
                    .entry(owner.clone())
                    .or_default()
                    .blocking
                    .insert(uid.clone());
                if self.nodes.get(owner).is_some_and(Node::is_foreground) {
                    effects.object(uid);
                }
            }
            Place::Named(identity) => {
                if self.tombstones.hold(identity, uid) {
                    effects.object(uid);
                    return;
                }
                let dependents = self.unseen.entry(identity.clone()).or_default();
                if dependents.is_empty() {
                    effects.owner(identity);
                }
                dependents.insert(uid.clone());
            }
            Place::Astray => {
                self.astray.insert(uid.clone());
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

    /// Tells of the references of an object to an owner that is known to be in another namespace.
    fn misplaced(&self, uid: &Uid, owner: &Uid, effects: &mut Effects) {
        let (Some(node), Some(known)) = (self.nodes.get(uid), self.nodes.get(owner)) else {
            return;
        };
        if known.is_elsewhere(&node.key.namespace) {
            let references = node.owners.iter().filter(|it| it.uid == *owner);
            effects.misplaced.extend(references.map(|reference| Misplaced {
                kind: node.kind.clone(),
                key: node.key.clone(),
                uid: uid.clone(),
                reference: reference.clone(),
            }));
        }
    }
}
