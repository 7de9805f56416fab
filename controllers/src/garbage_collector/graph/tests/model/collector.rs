//! A collector on a simulated cluster: delivers events late, evaluates items, and sends writes.

use std::collections::{BTreeMap, VecDeque};

use super::super::*;
use super::cluster::{CacheEvent, Cluster, is_unresolvable, is_waiting};

pub struct Collector {
    pub cluster: Cluster,
    pub graph: Graph,
    queue: BTreeSet<WorkItem>,
    /// Items to evaluate again when time has passed.
    later: BTreeSet<WorkItem>,
    orphans: BTreeSet<Uid>,
    shown: BTreeSet<Uid>,
    pub deletes: u64,
    pub unblocked: u64,
    pub orphaned: u64,
}

impl Collector {
    pub fn new(cluster: Cluster) -> Self {
        let mut graph = Graph::default();
        let _ = graph.set_kinds(cluster.kinds(), cluster.now);
        Self {
            cluster,
            graph,
            queue: BTreeSet::new(),
            later: BTreeSet::new(),
            orphans: BTreeSet::new(),
            shown: BTreeSet::new(),
            deletes: 0,
            unblocked: 0,
            orphaned: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.orphans.is_empty()
            && self.cluster.events.values().all(VecDeque::is_empty)
    }

    fn apply(&mut self, effects: Effects) {
        self.queue.extend(effects.attempt_to_delete);
        self.orphans.extend(effects.attempt_to_orphan);
    }

    /// Advances the clock and enqueues postponed items.
    pub fn advance(&mut self, time: Duration) {
        self.cluster.now += time;
        self.queue.append(&mut self.later);
    }

    /// Delivers an event of a cache, or skips one that a later event supersedes.
    pub fn deliver(&mut self, resource: &Resource) {
        let events = self.cluster.events.entry(resource.clone()).or_default();
        let Some(first) = events.pop_front() else {
            return;
        };
        let kind = kind(resource);
        let effects = match first {
            CacheEvent::Synced => self.graph.synced(&kind),
            CacheEvent::Gone(meta) => self.graph.observe_deleted(&kind, &meta),
            CacheEvent::Shown(meta) => {
                let same = |it: &CacheEvent| match it {
                    CacheEvent::Shown(it) | CacheEvent::Gone(it) => it.uid == meta.uid,
                    CacheEvent::Synced => false,
                };
                let next = events.iter().find(|it| same(it)).cloned();
                let missed = match next {
                    Some(CacheEvent::Shown(_)) => self.cluster.rng.below(2) == 0,
                    // An object that was never shown is never deleted.
                    Some(CacheEvent::Gone(_))
                        if !self.shown.contains(&meta.uid) && self.cluster.rng.below(2) == 0 =>
                    {
                        events.retain(|it| !same(it));
                        true
                    }
                    _ => false,
                };
                if missed {
                    return;
                }
                self.shown.insert(meta.uid.clone());
                self.graph.observe(&kind, &meta)
            }
        };
        self.apply(effects);
    }

    pub fn deliver_all(&mut self) {
        while let Some(resource) = self.pending() {
            self.deliver(&resource);
        }
    }

    fn pending(&self) -> Option<Resource> {
        let events = self.cluster.events.iter().find(|(_, events)| !events.is_empty());
        events.map(|(resource, _)| resource.clone())
    }

    /// Watches widgets in another version, or stops serving them.
    pub fn change_widget_version(&mut self) {
        let versions = [Some(WIDGET), Some(OLD_WIDGET), None];
        self.cluster.widget = self.cluster.pick(&versions).expect("three").clone();
        self.update_kinds();
    }

    pub fn update_kinds(&mut self) {
        let old: BTreeSet<Resource> = self.cluster.events.keys().cloned().collect();
        let watched = self.cluster.watched();
        for resource in old.iter().filter(|it| !watched.contains(it)) {
            self.cluster.events.remove(resource);
        }
        let before: Vec<Resource> = self
            .graph
            .kinds
            .collected()
            .iter()
            .map(|it| it.resource.clone())
            .collect();
        let effects = self.graph.set_kinds(self.cluster.kinds(), self.cluster.now);
        self.apply(effects);
        for resource in watched.iter().filter(|it| !before.contains(it)) {
            let stored = if *resource == OLD_WIDGET {
                WIDGET
            } else {
                resource.clone()
            };
            let there = self.cluster.objects.iter().filter(|((of, _), _)| *of == stored);
            let mut events: Vec<CacheEvent> =
                there.map(|(_, meta)| CacheEvent::Shown(meta.clone())).collect();
            events.push(CacheEvent::Synced);
            self.cluster.events.insert(resource.clone(), events.into());
        }
    }

    /// Processes one item. Other clients may write between its evaluation and its request.
    pub fn work(&mut self, mutate: bool) {
        let items: Vec<WorkItem> = self.queue.iter().cloned().collect();
        if let Some(work) = self.cluster.pick(&items).cloned() {
            self.queue.remove(&work);
            match self.graph.evaluate(&work, self.cluster.now) {
                Decision::Nothing => {}
                Decision::Later(rest) => {
                    assert!(rest <= SYNC_TIMEOUT && !rest.is_zero());
                    self.later.insert(work);
                }
                Decision::Poll | Decision::Unresolvable(_) => {
                    self.later.insert(work);
                }
                Decision::LookUp(lookups) => {
                    self.look_up(&lookups, mutate);
                    self.queue.insert(work);
                }
                Decision::Act(action) => {
                    self.interfere(mutate);
                    // The request may be lost.
                    if self.cluster.chance(10) {
                        self.graph.record_failure(&action.uid);
                    } else {
                        self.commit(&action);
                    }
                    self.queue.insert(work);
                }
            }
        }
        let orphans: Vec<Uid> = self.orphans.iter().cloned().collect();
        if let Some(owner) = self.cluster.pick(&orphans).cloned() {
            self.orphans.remove(&owner);
            self.orphan(&owner);
        }
    }

    fn interfere(&mut self, mutate: bool) {
        if mutate && self.cluster.chance(3) {
            self.cluster.mutate();
        }
        if self.cluster.chance(3) {
            let resources = self.cluster.watched();
            let resource = self.cluster.pick(&resources).expect("some").clone();
            self.deliver(&resource);
        }
    }

    fn look_up(&mut self, lookups: &[Lookup], mutate: bool) {
        let mut asked = BTreeSet::new();
        for lookup in lookups {
            let Lookup { kind, identity } = lookup;
            assert!(asked.insert(identity.clone()), "asked twice: {identity:?}");
            let (sent, key) = ((self.cluster.now, self.graph.proofs()), identity.key());
            assert_eq!(
                kind.resource.namespaced,
                !key.namespace.is_empty(),
                "{identity:?}"
            );
            let stored = self.cluster.stored(&kind.api_version, &kind.kind);
            let answer = stored.map(|it| self.cluster.objects.get(&(it, key)).cloned());
            self.interfere(mutate);
            let effects = match answer {
                // No longer served: the answer proves nothing.
                None => continue,
                Some(None) => self.graph.absent(identity, Proof::NotFound),
                Some(Some(meta)) if meta.uid != identity.uid => {
                    self.graph.absent(identity, Proof::OtherUid(meta.uid))
                }
                Some(Some(meta)) => {
                    let live = if is_waiting(&meta) {
                        LiveState::Waiting
                    } else {
                        LiveState::Solid
                    };
                    let now = self.cluster.now;
                    self.graph.record_live_state(lookup, live, sent, now)
                }
            };
            self.apply(effects);
        }
    }

    /// Orphans the dependents of an owner after all events were delivered, except those of a kind that cannot be listed.
    fn orphan(&mut self, owner: &Uid) {
        self.deliver_all();
        if self.cluster.widget.is_none() {
            self.graph.add_orphaned_owner(owner);
        }
        for action in self.graph.orphan_dependents(owner, usize::MAX) {
            assert!(
                matches!(&action.operation, Operation::RemoveOwners { uids, .. } if *uids == std::slice::from_ref(owner))
            );
            self.orphaned += 1;
            if !self.commit(&action) {
                self.orphans.insert(owner.clone());
                return;
            }
        }
        if let Some(action) = self.graph.remove_orphan_finalizer(owner)
            && !self.commit(&action)
        {
            self.orphans.insert(owner.clone());
        }
    }

    /// Sends the request with its preconditions. Returns false on a conflict.
    fn commit(&mut self, action: &Action) -> bool {
        let stored = if action.kind.resource == OLD_WIDGET {
            WIDGET
        } else {
            action.kind.resource.clone()
        };
        if self
            .cluster
            .stored(&action.kind.api_version, &action.kind.kind)
            .is_none()
        {
            return false;
        }
        let identity = Identity::of(&action.kind, &action.key, &action.uid);
        let Some(meta) = self
            .cluster
            .objects
            .get(&(stored.clone(), action.key.clone()))
            .cloned()
        else {
            let effects = self.graph.absent(&identity, Proof::NotFound);
            self.apply(effects);
            return true;
        };
        if meta.uid != action.uid {
            let effects = self.graph.absent(&identity, Proof::OtherUid(meta.uid));
            self.apply(effects);
            return true;
        }
        if meta.resource_version != action.version {
            let effects = self.graph.refresh(&action.kind, &meta);
            self.apply(effects);
            return false;
        }
        let mut new = meta.clone();
        match &action.operation {
            Operation::Delete(policy) => {
                self.assert_deletable(&meta, action);
                self.deletes += 1;
                let effects = if let Some(meta) = self.cluster.delete(&stored, &meta, *policy) {
                    self.graph.refresh(&action.kind, &meta)
                } else {
                    self.graph
                        .record_delete(&action.uid, &action.version, self.cluster.now);
                    Effects::default()
                };
                self.apply(effects);
                return true;
            }
            Operation::RemoveOwners { uids, remaining } => {
                let left = meta.owner_references.iter().filter(|it| !uids.contains(&it.uid));
                new.owner_references = left.cloned().collect();
                assert_eq!(new.owner_references[..], remaining[..]);
            }
            Operation::Unblock { references } => {
                self.unblocked += 1;
                new.owner_references = references.clone().into();
            }
            Operation::RemoveFinalizer { finalizer, rest } => {
                assert!(meta.has_finalizer(finalizer) && meta.is_terminating());
                new.finalizers = rest.clone();
            }
        }
        let meta = self.cluster.put(&stored, new);
        let effects = self.graph.refresh(&action.kind, &meta);
        self.apply(effects);
        true
    }

    /// Nothing with an owner that lives and does not wait is deleted; nor with one that cannot be read.
    fn assert_deletable(&self, meta: &Meta, action: &Action) {
        assert!(!meta.is_terminating() && !is_unresolvable(meta), "{action:?}");
        assert!(
            !self.cluster.spared.contains(&meta.uid),
            "was to be orphaned: {action:?}"
        );
        assert!(!meta.owner_references.is_empty(), "{action:?}");
        let mut reasons: BTreeMap<&Uid, &OwnerState> = BTreeMap::new();
        reasons.extend(action.reasons.iter().map(|it| (&it.owner.uid, &it.state)));
        for reference in &*meta.owner_references {
            assert!(reasons.contains_key(&reference.uid), "no reason: {action:?}");
            let Some(owner) = self.cluster.owner(reference, &meta.namespace) else {
                continue;
            };
            let swapped = self.cluster.swapped.get(&owner.uid);
            let lately = swapped.is_some_and(|then| self.cluster.now - *then <= FRESH);
            assert!(is_waiting(owner) || lately, "{owner:?} lives: {action:?}");
        }
    }
}
