//! The served kinds, and the sync state of their caches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steersman_manager::object::{Resource, Text, Uid};
use steersman_manager::revived;
use tokio::time::Instant;

use super::super::kinds::{ALL_RESOURCES, Kind, Kinds, group};
use super::links::IndexEntry;
use super::{Effects, Graph, Identity, Node, SYNC_TIMEOUT};

impl Graph {
    /// Replaces the served kinds and evaluates references to changed kinds again. Nodes of a kind that is no longer collected
    /// are removed without a tombstone; those with dependents become virtual owners.
    pub fn set_kinds(&mut self, kinds: Arc<Kinds>, now: Instant) -> Effects {
        let mut effects = Effects::default();
        let synced = self.synced_generation();
        let gone = self.by_kind.iter();
        let gone = gone.filter(|(resource, _)| !revived!(A4) && kinds.watched(resource).is_none());
        let gone: Vec<Uid> = gone.flat_map(|(_, uids)| uids.iter().cloned()).collect();
        for uid in &gone {
            self.replace(uid, None, &mut effects);
            self.enqueue_virtual_owners(uid, &mut effects);
        }
        self.replace_kinds(kinds, &mut effects);

        self.next_generation(now);
        self.synced.retain(|it| self.kinds.watched(it).is_some());
        self.unproven.retain(|it| self.kinds.watched(it).is_some());
        self.failed.retain(|it, _| self.kinds.watched(it).is_some());
        self.enqueue_unblocked(synced, &mut effects);
        effects.deduplicated()
    }

    /// The cache of a kind was applied completely.
    pub fn synced(&mut self, kind: &Arc<Kind>) -> Effects {
        let mut effects = Effects::default();
        let synced = self.synced_generation();
        if self.kinds.watched(&kind.resource).is_none() || !self.synced.insert(kind.resource.clone()) {
            return effects;
        }
        for identity in self.virtual_owners.keys() {
            if identity.api_version == kind.api_version && identity.kind == kind.kind {
                effects.owner(identity);
            }
        }
        self.enqueue_unblocked(synced, &mut effects);
        effects
    }

    /// The cache of a kind was filled before the term. Its watch may have failed silently, so it is not a proof that there are no
    /// blocking dependents before [`Graph::proven`].
    pub fn mark_unproven(&mut self, resource: &Resource) {
        self.unproven.insert(resource.clone());
    }

    /// The cache of a kind has reached a state of this term.
    pub fn proven(&mut self, resource: &Resource) -> Effects {
        let mut effects = Effects::default();
        if self.unproven.remove(resource) && self.unproven.is_empty() {
            self.foreground().for_each(|uid| effects.object(uid));
        }
        effects
    }

    /// The kinds to prove current, if a foreground deletion waits for it and the proof has not started. Decisions wait for it
    /// until `deadline`.
    pub fn begin_proof(&mut self, deadline: Instant) -> Vec<Resource> {
        if self.proof_deadline.is_some() || self.unproven.is_empty() || self.foreground().next().is_none() {
            return Vec::new();
        }
        self.proof_deadline = Some(deadline);
        self.unproven.iter().cloned().collect()
    }

    /// The time that a foreground deletion still waits for caches that are not proven current.
    pub(super) fn unproven(&self, now: Instant) -> Option<Duration> {
        let deadline = self.proof_deadline;
        let left = deadline.map_or(SYNC_TIMEOUT, |it| it.saturating_duration_since(now));
        (!self.unproven.is_empty() && !left.is_zero()).then_some(left)
    }

    /// Disregards the proofs so far that objects of a kind are absent: its list or watch has failed, and the storage may have been
    /// restored from a backup meanwhile. They count again when the kind is no longer served.
    pub fn disregard_proofs(&mut self, resource: &Resource) {
        if !revived!(A8) {
            self.failed.insert(resource.clone(), self.tombstones.mark());
        }
    }

    /// Returns the number of proofs that do not count for an identity, because the list or watch of its kind has failed, or the
    /// storage was restored since.
    pub(super) fn disregarded_proofs(&self, identity: &Identity) -> u64 {
        if self.failed.is_empty() {
            return self.proofs_at_restore;
        }
        let kind = self.kinds.resolve(&identity.api_version, &identity.kind);
        let failed = kind.and_then(|it| self.failed.get(&it.resource));
        failed.copied().unwrap_or_default().max(self.proofs_at_restore)
    }

    /// Returns the number of proofs before which a list of an owner's dependents may be incomplete: its orphan finalizer was
    /// observed later, the list or watch of its kind has failed since, or the storage was restored.
    #[must_use]
    pub fn disregarded_lists(&self, owner: &Uid) -> u64 {
        let node = self.nodes.get(owner).map(|it| it.identity(owner));
        let failed = node.map_or(self.proofs_at_restore, |it| self.disregarded_proofs(&it));
        let observed = self.orphaning.get(owner).copied().unwrap_or_default();
        failed.max(observed)
    }

    fn foreground(&self) -> impl Iterator<Item = &Uid> {
        let foreground = |uid: &&Uid| self.nodes.get(*uid).is_some_and(Node::is_foreground);
        self.finalizing.keys().filter(foreground)
    }

    /// The storage of the API server was restored, so that deleted objects may exist again. Drops tombstones and live reads, and
    /// accepts any version as newer. Must be called before objects of the restored storage are observed.
    pub fn reset(&mut self) -> Effects {
        let mut effects = Effects::default();
        self.proofs_at_restore = self.tombstones.mark();
        self.answers.clear();
        self.orphaned_owners.reset();
        for (identity, dependents) in self.tombstones.clear() {
            self.make_virtual(identity, dependents, &mut effects);
        }
        self.nodes.values_mut().for_each(|it| it.outdated = true);
        for uid in std::mem::take(&mut self.accepted).keys() {
            self.reopen(uid, &mut effects);
        }
        effects
    }

    /// An owner is no longer proven absent.
    pub(super) fn make_virtual(
        &mut self,
        identity: Identity,
        dependents: BTreeSet<Uid>,
        effects: &mut Effects,
    ) {
        effects.owner(&identity);
        self.virtual_owners.insert(identity, dependents);
    }

    /// The time that an owner with a finalizer of the collector still waits for unsynced kinds: those that were served when it
    /// was deleted. Kinds that are added later are not waited for.
    pub fn unsynced_wait(&self, owner: &Uid, now: Instant) -> Option<Duration> {
        let generation = *self.finalizing.get(owner)?;
        let kinds = self
            .served_since
            .iter()
            .filter(|(_, (_, served_since))| *served_since <= generation);
        kinds.filter_map(|(kind, _)| self.sync_wait(kind, now)).max()
    }

    /// All kinds of earlier generations have synced.
    fn synced_generation(&self) -> u64 {
        let kinds = self
            .served_since
            .iter()
            .filter(|(kind, _)| !self.synced.contains(*kind));
        kinds
            .map(|(_, (_, generation))| *generation)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Enqueues foreground deletions that waited for kinds which have synced, or are no longer served.
    fn enqueue_unblocked(&self, synced: u64, effects: &mut Effects) {
        let generations = synced..self.synced_generation();
        if generations.is_empty() {
            return;
        }
        let waiting = self
            .finalizing
            .iter()
            .filter(|(_, generation)| generations.contains(generation));
        let waiting = waiting.filter(|(uid, _)| self.nodes.get(*uid).is_some_and(Node::is_foreground));
        waiting.for_each(|(uid, _)| effects.object(uid));
    }

    /// The time that decisions still wait for a collected kind; none if it has synced or timed out.
    pub(super) fn sync_wait(&self, resource: &Resource, now: Instant) -> Option<Duration> {
        let (served_since, _) = self
            .served_since
            .get(resource)
            .filter(|_| !self.synced.contains(resource))?;
        let left = SYNC_TIMEOUT.saturating_sub(now.saturating_duration_since(*served_since));
        (!left.is_zero()).then_some(left)
    }

    /// Starts a generation. A new kind gets the generation of another version of it, or of its undescribed group, if there was one.
    fn next_generation(&mut self, now: Instant) {
        self.generation += 1;
        let before = std::mem::take(&mut self.served_since);
        for kind in self.kinds.collected().iter().chain(self.kinds.undescribed()) {
            let it = &kind.resource;
            let served_since = before.get(it).copied().unwrap_or_else(|| {
                let same = before.iter().filter(|(other, _)| {
                    other.group == it.group && (other.plural == it.plural || other.plural == ALL_RESOURCES)
                });
                (
                    now,
                    same.map(|(_, (_, generation))| *generation)
                        .min()
                        .unwrap_or(self.generation),
                )
            });
            self.served_since.insert(it.clone(), served_since);
        }
    }

    /// Replaces the kinds and updates the index entries of objects that refer to a changed kind: their references may have
    /// another target now.
    fn replace_kinds(&mut self, kinds: Arc<Kinds>, effects: &mut Effects) {
        let changed = self.kinds.changed(&kinds);
        let has_changed = |group: &str, kind: &str| {
            changed
                .get(group)
                .is_some_and(|it| it.contains(&Text::from(kind)))
        };
        let of = |identity: &Identity| has_changed(group(&identity.api_version), &identity.kind);
        let mut moved = BTreeSet::new();
        if !changed.is_empty() {
            moved.clone_from(&self.ambiguous);
            let named = self.virtual_owners.iter().chain(self.tombstones.iter());
            moved.extend(
                named
                    .filter(|(it, _)| of(it))
                    .flat_map(|(_, it)| it.iter().cloned()),
            );
            let nodes = self.by_kind.iter();
            let nodes = nodes.filter(|(it, _)| has_changed(&it.group, &it.kind));
            let links = nodes
                .flat_map(|(_, uids)| uids)
                .filter_map(|uid| self.links.get(uid));
            moved.extend(links.flat_map(|it| it.dependents.iter().cloned()));
        }
        let before: Vec<_> = self.all_index_entries(&moved);
        self.kinds = kinds;
        let after = self.all_index_entries(&moved);
        for ((uid, before), (_, after)) in before.iter().zip(&after) {
            self.reindex(uid, before, after, effects);
        }
        let named = self.virtual_owners.keys().filter(|it| of(it));
        named.for_each(|identity| effects.owner(identity));
    }

    fn all_index_entries(&self, uids: &BTreeSet<Uid>) -> Vec<(Uid, Vec<IndexEntry>)> {
        let known = |uid: &Uid| -> Option<&Node> { self.nodes.get(uid) };
        let nodes = uids.iter().filter_map(|uid| Some((uid, known(uid)?)));
        nodes
            .map(|(uid, node)| (uid.clone(), self.index_entries(uid, node, None, known)))
            .collect()
    }
}
