//! What the caches and the API server tell.

use std::sync::Arc;

use coxswain_manager::object::{Meta, Uid, Version};
use tokio::time::Instant;

use super::super::kinds::Kind;
use super::{Effects, FRESH, FRESH_MAX, Graph, Identity, Live, Node, Proof, Question};

impl Graph {
    /// A cache shows an object. An older state than the known one is ignored, and so is a kind that is not collected: nobody
    /// would see its objects go.
    pub fn observe(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        if self.kinds.watched(&kind.resource).is_none() {
            return Effects::default();
        }
        self.take_in(kind, meta)
    }

    /// An answer of the API server shows an object. Like `observe`, if the object is known; an object that no cache has shown
    /// may never be seen to go, and does not enter.
    pub fn refresh(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        let known = self.nodes.get(&meta.uid);
        // Asked for in another version of its kind, it would change its coordinates.
        if known.is_none_or(|known| known.kind.resource != kind.resource) {
            return Effects::default();
        }
        self.take_in(kind, meta)
    }

    /// A cache of all objects of the kind saw an object go.
    pub fn gone(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        self.absent(&Identity::of(kind, &meta.key(), &meta.uid), Proof::Watched)
    }

    /// A cache shows an object no longer, and is not to be believed: whoever refers to it has to ask.
    pub fn lost(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        let mut effects = Effects::default();
        let identity = Identity::of(kind, &meta.key(), &meta.uid);
        let known = self.nodes.get(&meta.uid);
        if known.is_some_and(|known| known.identity(&meta.uid) == identity) {
            self.replace(&meta.uid, None, &mut effects);
            self.look_at_names(&meta.uid, &mut effects);
        }
        effects.tidy()
    }

    /// The API server, asked, says that there is no such object.
    pub fn absent(&mut self, identity: &Identity, proof: Proof) -> Effects {
        let mut effects = Effects::default();
        let uid = &identity.uid;
        self.answers.remove(identity);
        if uid.is_empty() || self.tombstones.proof(identity).is_some() {
            return effects;
        }
        let dependents = self.unseen.remove(identity).unwrap_or_default();
        for dependent in &dependents {
            effects.object(dependent);
        }
        self.tombstones.bury(identity, proof, dependents);
        // Known in other coordinates, it is not this one that is gone.
        let known = self.nodes.get(uid);
        if known.is_some_and(|known| known.identity(uid) == *identity) {
            self.replace(uid, None, &mut effects);
            self.look_at_names(uid, &mut effects);
        }
        self.tombstones.prune(identity);
        effects.tidy()
    }

    /// The API server showed an owner. Ignored if the owner is known to be gone: the answer was overtaken.
    ///
    /// A stale `Solid` only delays a deletion: it is valid for [`FRESH`] after it arrived. A stale `Waiting` could delete the
    /// dependents of an owner that orphans them since: it is valid for [`FRESH`] after it was *sent*, and longer only by a
    /// latency that this GET and the one before it have both shown, up to [`FRESH_MAX`] altogether.
    pub fn exists(&mut self, question: &Question, live: Live, sent: Instant, arrived: Instant) {
        let Question { kind, identity } = question;
        let took = arrived.saturating_duration_since(sent);
        let before = self.latencies.insert(kind.resource.clone(), took);
        let valid = match live {
            Live::Solid => took + FRESH,
            Live::Waiting => FRESH_MAX.min(took.min(before.unwrap_or_default()) + FRESH),
        };
        self.answers.retain(|_, (_, until)| *until >= arrived);
        if self.tombstones.proof(identity).is_none() {
            self.answers.insert(identity.clone(), (live, sent + valid));
        }
    }

    /// A DELETE of the object at this version was accepted, and it is not known to linger: until a newer state is seen, there
    /// is nothing to do with it.
    pub fn deleted(&mut self, uid: &Uid, version: &Version) {
        if let Some(node) = self.nodes.get_mut(uid)
            && node.version == *version
        {
            node.deleted_at = Some(version.clone());
        }
    }

    fn take_in(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        let mut effects = Effects::default();
        let uid = &meta.uid;
        let known = self.nodes.get(uid);
        if uid.is_empty() || known.is_some_and(|known| known.knows(kind, &meta.resource_version)) {
            return effects;
        }
        let new = Node::of(kind, meta);
        let (foreground, orphaning) = (new.is_foreground(), new.is_orphaning());
        let may_go = !new.deleting && !new.owners.is_empty();
        let old = self.replace(uid, Some(new), &mut effects);

        if orphaning && !old.as_ref().is_some_and(Node::is_orphaning) {
            effects.orphan.push(uid.clone());
        }
        if foreground && !old.as_ref().is_some_and(Node::is_foreground) {
            if let Some(links) = self.links.get(uid) {
                links.dependents.iter().for_each(|it| effects.object(it));
            }
            effects.object(uid);
        }
        // A reference less may be all that held it; and what was deleted is still there.
        let changed = |old: &Node| old.deleted_at.is_some() || old.owners[..] != meta.owner_references[..];
        if may_go && old.as_ref().is_some_and(changed) {
            effects.object(uid);
        }
        effects.tidy()
    }

    /// Those who refer to this uid in coordinates that no node has have to be asked for, again.
    pub(super) fn look_at_names(&self, uid: &Uid, effects: &mut Effects) {
        let names = self.unseen.range(Identity::first_of(uid)..);
        names
            .take_while(|(identity, _)| identity.uid == *uid)
            .for_each(|(identity, _)| effects.owner(identity));
    }
}
