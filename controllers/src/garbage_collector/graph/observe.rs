//! Updates of the graph by caches and by answers of the API server.

use std::sync::Arc;

use steersman_manager::object::{Meta, Uid, Version};
use steersman_manager::revived;
use tokio::time::Instant;

use super::super::kinds::Kind;
use super::{Answer, Effects, FRESH, FRESH_MAX, Graph, Identity, LiveState, Lookup, Node, Proof};

impl Graph {
    /// A cache shows an object. A state older than the known one is ignored, and so is a kind that is not collected, because its
    /// deletions are not observed.
    pub fn observe(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        if self.kinds.watched(&kind.resource).is_none() {
            return Effects::default();
        }
        self.update_node(kind, meta)
    }

    /// A cache that includes a list at the version `listed` shows an object. If the known state is newer than the object, but not
    /// than the list, the storage was restored from a backup, so the known state is replaced. An object whose deletion was
    /// accepted before the list was requested exists again, so it is evaluated again.
    pub fn observe_listed(
        &mut self,
        kind: &Arc<Kind>,
        meta: &Meta,
        (listed, requested): (&Version, Option<Instant>),
    ) -> Effects {
        let (uid, version) = (&meta.uid, &meta.resource_version);
        let mut exists_again = false;
        if let Some(known) = self.nodes.get_mut(uid) {
            let accepted = self.accepted.get(uid).copied();
            exists_again = known.version == *version && accepted.is_some_and(|at| Some(at) < requested);
            if known.version > *version && known.version <= *listed {
                known.outdated = true;
                exists_again = accepted.is_some();
                // Objects of other kinds may exist again, too.
                self.proofs_at_restore = self.tombstones.mark();
            }
        }
        if !meta.is_terminating() {
            self.orphaned_owners.exists(uid, listed);
        }
        let mut effects = self.observe(kind, meta);
        if exists_again {
            self.reopen(uid, &mut effects);
        }
        effects.deduplicated()
    }

    /// Evaluates an object again whose deletion was accepted, after its owners were proven absent again.
    pub(super) fn reopen(&mut self, uid: &Uid, effects: &mut Effects) {
        self.accepted.remove(uid);
        let Some(node) = self.nodes.get(uid) else {
            return;
        };
        if node.is_orphaning() {
            effects.attempt_to_orphan.push(uid.clone());
        } else {
            effects.object(uid);
        }
        self.record_failure(uid);
    }

    /// An answer of the API server shows an object. Ignored for an object that no cache has shown, because its deletion may never
    /// be observed.
    pub fn refresh(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        let known = self.nodes.get(&meta.uid);
        // A GET in another version of the kind would change the identity of the node.
        if known.is_none_or(|known| known.kind.resource != kind.resource) {
            return Effects::default();
        }
        self.update_node(kind, meta)
    }

    /// A complete cache of the kind observed the deletion of an object.
    pub fn observe_deleted(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        self.absent(&Identity::of(kind, &meta.key(), &meta.uid), Proof::Watched)
    }

    /// A cache that is not trusted no longer shows an object: its dependents have to read it.
    pub fn observe_lost(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        let mut effects = Effects::default();
        let identity = Identity::of(kind, &meta.key(), &meta.uid);
        let known = self.nodes.get(&meta.uid);
        if known.is_some_and(|known| known.identity(&meta.uid) == identity) {
            self.replace(&meta.uid, None, &mut effects);
            self.enqueue_virtual_owners(&meta.uid, &mut effects);
        }
        effects.deduplicated()
    }

    /// Records a live read that has shown that an object is absent, and was sent after the first `sent` proofs. None if it is not a
    /// proof, because the list or watch of the kind has failed since.
    pub fn read_absent(&mut self, identity: &Identity, proof: Proof, sent: u64) -> Option<Effects> {
        (self.disregarded_proofs(identity) <= sent).then(|| self.absent(identity, proof))
    }

    /// An owner is proven absent.
    pub fn absent(&mut self, identity: &Identity, proof: Proof) -> Effects {
        let mut effects = Effects::default();
        let uid = &identity.uid;
        let known = revived!(G1).then(|| self.nodes.get(uid)).flatten();
        let known = known.map(|it| it.identity(uid));
        let identity = known.as_ref().unwrap_or(identity);
        self.answers.remove(identity);
        if uid.is_empty() || self.tombstones.renew(identity, &proof) {
            return effects;
        }
        let dependents = self.virtual_owners.remove(identity).unwrap_or_default();
        for dependent in &dependents {
            effects.object(dependent);
        }
        self.tombstones.insert(identity, proof, dependents);
        // A node with the uid but another name or kind still exists.
        let known = self.nodes.get(uid);
        if known.is_some_and(|known| known.identity(uid) == *identity) {
            self.replace(uid, None, &mut effects);
            self.enqueue_virtual_owners(uid, &mut effects);
        }
        self.tombstones.prune(identity);
        effects.deduplicated()
    }

    /// A live read returned an owner. Ignored if the owner was proven absent since the read was sent, after `proofs` proofs.
    ///
    /// A stale `Solid` only delays a deletion: it is valid for [`FRESH`] after it arrived. A stale `Waiting` could delete the
    /// dependents of an owner that orphans them since: it is valid for [`FRESH`] after it was *sent*, plus the lower of the
    /// latencies of this GET and the one before it, up to [`FRESH_MAX`] in total. For an object whose owners are not read in
    /// one pass, it is valid for [`FRESH_MAX`]: they may never all be read within a shorter time.
    pub fn record_live_state(
        &mut self,
        lookup: &Lookup,
        live: LiveState,
        (sent, proofs): (Instant, u64),
        arrived: Instant,
    ) -> Effects {
        let Lookup { kind, identity } = lookup;
        let took = arrived.saturating_duration_since(sent);
        let before = self.latencies.insert(kind.resource.clone(), took);
        let valid = match live {
            _ if revived!(A3) => FRESH,
            LiveState::Solid => took + FRESH,
            LiveState::Waiting => FRESH_MAX.min(took.min(before.unwrap_or_default()) + FRESH),
        };
        self.answers
            .retain(|_, it| it.sent + it.valid.max(FRESH_MAX) >= arrived);
        let mut effects = Effects::default();
        if self.tombstones.proof(identity, proofs).is_none() {
            let answer = Answer { live, sent, valid };
            self.answers.insert(identity.clone(), answer);
            if let Some(dependents) = self.tombstones.remove(identity) {
                self.make_virtual(identity.clone(), dependents, &mut effects);
            }
        }
        effects
    }

    /// The number of proofs of absence so far.
    #[must_use]
    pub fn proofs(&self) -> u64 {
        self.tombstones.proofs()
    }

    /// A write to an object has failed without a response of the storage, which may have been restored from a backup since:
    /// before the next write, the owners of the object are proven absent again.
    pub fn record_failure(&mut self, uid: &Uid) {
        if self.nodes.contains_key(uid) {
            self.doubted.insert(uid.clone(), self.tombstones.proofs());
        }
    }

    /// A DELETE of the object at this version was accepted: the object is not evaluated before a newer state is observed.
    pub fn record_delete(&mut self, uid: &Uid, version: &Version, now: Instant) {
        if self.nodes.get(uid).is_some_and(|it| it.version == *version) {
            self.accepted.insert(uid.clone(), now);
        }
    }

    fn update_node(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        let mut effects = Effects::default();
        let uid = &meta.uid;
        let known = self.nodes.get(uid);
        if uid.is_empty() || known.is_some_and(|known| known.is_at_least(kind, &meta.resource_version)) {
            return effects;
        }
        let new = Node::of(kind, meta);
        let (foreground, orphaning) = (new.is_foreground(), new.is_orphaning());
        let may_go = !new.deleting && !new.owners.is_empty();
        let was_accepted = self.accepted.contains_key(uid);
        let old = self.replace(uid, Some(new), &mut effects);

        if orphaning && !old.as_ref().is_some_and(Node::is_orphaning) {
            effects.attempt_to_orphan.push(uid.clone());
            self.orphaning.insert(uid.clone(), self.tombstones.mark());
        }
        let was_foreground = |old: &Node| old.is_foreground() || revived!(G8) && old.deleting;
        if foreground && !old.as_ref().is_some_and(was_foreground) {
            if let Some(links) = self.links.get(uid) {
                links.dependents.iter().for_each(|it| effects.object(it));
            }
            effects.object(uid);
        }
        // The object may have lost its last solid owner, still exists after a DELETE, or exists again after a restore.
        let changed =
            |old: &Node| was_accepted || old.deleting || old.owners[..] != meta.owner_references[..];
        if may_go && old.as_ref().is_some_and(changed) {
            effects.object(uid);
        }
        effects.deduplicated()
    }

    /// Enqueues the virtual owners with this uid.
    pub(super) fn enqueue_virtual_owners(&self, uid: &Uid, effects: &mut Effects) {
        let names = self.virtual_owners.range(Identity::first_of(uid)..);
        names
            .take_while(|(identity, _)| identity.uid == *uid)
            .for_each(|(identity, _)| effects.owner(identity));
    }
}
