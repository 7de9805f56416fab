//! Which kinds there are, and how much of them is known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::object::{Resource, Text, Uid};
use tokio::time::Instant;

use super::super::kinds::{ALL_RESOURCES, Kind, Kinds, group};
use super::links::Place;
use super::{Effects, Graph, Identity, Node, OrphanedOwners, PATIENCE};

impl Graph {
    /// From now on these kinds are served. Scopes and what could not be resolved are looked at again. Kinds that are no
    /// longer collected leave: their nodes that have dependents become unseen owners, the others go; no tombstones.
    pub fn serve(&mut self, kinds: Arc<Kinds>, now: Instant) -> Effects {
        let mut effects = Effects::default();
        let whole = self.whole();
        let gone = self.by_kind.iter();
        let gone = gone.filter(|(resource, _)| kinds.watched(resource).is_none());
        let gone: Vec<Uid> = gone.flat_map(|(_, uids)| uids.iter().cloned()).collect();
        for uid in &gone {
            self.replace(uid, None, &mut effects);
            self.look_at_names(uid, &mut effects);
        }
        self.rename(kinds, &mut effects);

        self.begin(now);
        self.synced.retain(|it| self.kinds.watched(it).is_some());
        self.unproven.retain(|it| self.kinds.watched(it).is_some());
        self.wake(whole, &mut effects);
        effects.tidy()
    }

    /// All that there is of a kind has been told.
    pub fn synced(&mut self, kind: &Arc<Kind>) -> Effects {
        let mut effects = Effects::default();
        let whole = self.whole();
        if self.kinds.watched(&kind.resource).is_none() || !self.synced.insert(kind.resource.clone()) {
            return effects;
        }
        for identity in self.unseen.keys() {
            if identity.api_version == kind.api_version && identity.kind == kind.kind {
                effects.owner(identity);
            }
        }
        self.wake(whole, &mut effects);
        effects
    }

    /// The cache of a kind was filled before the term: its watch may have died silently, so it proves nothing about the absence
    /// of blocking dependents until [`Graph::proven`].
    pub fn inherited(&mut self, resource: &Resource) {
        self.unproven.insert(resource.clone());
    }

    /// The cache of a kind has shown a state of this term.
    pub fn proven(&mut self, resource: &Resource) -> Effects {
        let mut effects = Effects::default();
        if self.unproven.remove(resource) && self.unproven.is_empty() {
            self.foreground().for_each(|uid| effects.object(uid));
        }
        effects
    }

    /// The kinds to prove current, if a foreground deletion waits for it and the proof has not begun. It is waited for until
    /// `deadline`.
    pub fn begin_proof(&mut self, deadline: Instant) -> Vec<Resource> {
        if self.proof_deadline.is_some() || self.unproven.is_empty() || self.foreground().next().is_none() {
            return Vec::new();
        }
        self.proof_deadline = Some(deadline);
        self.unproven.iter().cloned().collect()
    }

    /// The time that a foreground deletion waits for caches that are not proven current.
    pub(super) fn unproven(&self, now: Instant) -> Option<Duration> {
        let deadline = self.proof_deadline;
        let left = deadline.map_or(PATIENCE, |it| it.saturating_duration_since(now));
        (!self.unproven.is_empty() && !left.is_zero()).then_some(left)
    }

    fn foreground(&self) -> impl Iterator<Item = &Uid> {
        let foreground = |uid: &&Uid| self.nodes.get(*uid).is_some_and(Node::is_foreground);
        self.leaving.keys().filter(foreground)
    }

    /// The API's store was restored: who was dead may live. Forgets tombstones and whatever was asked; states that are told
    /// from now on are newer than those that are known. So this comes before what the restored store shows.
    pub fn start_over(&mut self) -> Effects {
        let mut effects = Effects::default();
        self.answers.clear();
        self.let_go = OrphanedOwners::default();
        for (identity, dependents) in self.tombstones.clear() {
            effects.owner(&identity);
            self.unseen.insert(identity, dependents);
        }
        for (uid, node) in &mut self.nodes {
            node.outdated = true;
            if node.deleted_at.take().is_some() {
                effects.object(uid);
            }
        }
        effects
    }

    /// How much longer an owner with a finalizer of the collector waits for kinds that are not known whole: those that were
    /// there when it was deleted, each for its time. For ever new ones nobody waits.
    #[must_use]
    pub fn unsettled(&self, owner: &Uid, now: Instant) -> Option<Duration> {
        let turn = *self.leaving.get(owner)?;
        let kinds = self.began.iter().filter(|(_, (_, began))| *began <= turn);
        kinds.filter_map(|(kind, _)| self.patience(kind, now)).max()
    }

    /// Of all turns before this one, all kinds are known whole.
    fn whole(&self) -> u64 {
        let kinds = self.began.iter().filter(|(kind, _)| !self.synced.contains(*kind));
        kinds.map(|(_, (_, turn))| *turn).min().unwrap_or(u64::MAX)
    }

    /// Who waited for kinds that were not known `whole`, and are now, or have gone, need not wait longer.
    fn wake(&self, whole: u64, effects: &mut Effects) {
        let turns = whole..self.whole();
        if turns.is_empty() {
            return;
        }
        let waiting = self.leaving.iter().filter(|(_, turn)| turns.contains(turn));
        let waiting = waiting.filter(|(uid, _)| self.nodes.get(*uid).is_some_and(Node::is_foreground));
        waiting.for_each(|(uid, _)| effects.object(uid));
    }

    /// How much longer a kind that is collected is waited for; none if it is settled.
    pub(super) fn patience(&self, resource: &Resource, now: Instant) -> Option<Duration> {
        let (began, _) = self
            .began
            .get(resource)
            .filter(|_| !self.synced.contains(resource))?;
        let left = PATIENCE.saturating_sub(now.saturating_duration_since(*began));
        (!left.is_zero()).then_some(left)
    }

    /// Begins a turn: each new kind gets its own time to sync. A kind counts as known before if another version of it was, or
    /// if its group was not described.
    fn begin(&mut self, now: Instant) {
        self.turn += 1;
        let before = std::mem::take(&mut self.began);
        for kind in self.kinds.collected().iter().chain(self.kinds.undescribed()) {
            let it = &kind.resource;
            let began = before.get(it).copied().unwrap_or_else(|| {
                let same = before.iter().filter(|(other, _)| {
                    other.group == it.group && (other.plural == it.plural || other.plural == ALL_RESOURCES)
                });
                (now, same.map(|(_, (_, turn))| *turn).min().unwrap_or(self.turn))
            });
            self.began.insert(it.clone(), began);
        }
    }

    /// Replaces the kinds. A reference to a kind that has changed may name another identity now. Only objects that refer to
    /// such kinds are visited.
    fn rename(&mut self, kinds: Arc<Kinds>, effects: &mut Effects) {
        let changed = self.kinds.changed(&kinds);
        let has_changed = |group: &str, kind: &str| {
            changed
                .get(group)
                .is_some_and(|it| it.contains(&Text::from(kind)))
        };
        let of = |identity: &Identity| has_changed(group(&identity.api_version), &identity.kind);
        let mut moved = BTreeSet::new();
        if !changed.is_empty() {
            moved.clone_from(&self.astray);
            let named = self.unseen.iter().chain(self.tombstones.held());
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
        let before: Vec<_> = self.all_places(&moved);
        self.kinds = kinds;
        let after = self.all_places(&moved);
        for ((uid, before), (_, after)) in before.iter().zip(&after) {
            self.shift(uid, before, after, effects);
        }
        let named = self.unseen.keys().filter(|it| of(it));
        named.for_each(|identity| effects.owner(identity));
    }

    fn all_places(&self, uids: &BTreeSet<Uid>) -> Vec<(Uid, Vec<Place>)> {
        let known = |uid: &Uid| -> Option<&Node> { self.nodes.get(uid) };
        let nodes = uids.iter().filter_map(|uid| Some((uid, known(uid)?)));
        nodes
            .map(|(uid, node)| (uid.clone(), self.places(uid, node, None, known)))
            .collect()
    }
}
