//! The graph at work on the world: what is told late, asked, judged, and done.

use std::collections::{BTreeMap, VecDeque};

use super::super::*;
use super::world::{News, World, is_unjudgeable, is_waiting};

pub struct Collector {
    pub world: World,
    pub graph: Graph,
    queue: BTreeSet<Work>,
    /// To be looked at again when time has passed.
    later: BTreeSet<Work>,
    orphans: BTreeSet<Uid>,
    /// Who a cache has shown.
    shown: BTreeSet<Uid>,
    pub deletes: u64,
    pub unblocked: u64,
    pub released: u64,
}

impl Collector {
    pub fn new(world: World) -> Self {
        let mut graph = Graph::default();
        let _ = graph.serve(world.kinds(), world.now);
        Self {
            world,
            graph,
            queue: BTreeSet::new(),
            later: BTreeSet::new(),
            orphans: BTreeSet::new(),
            shown: BTreeSet::new(),
            deletes: 0,
            unblocked: 0,
            released: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.orphans.is_empty() && self.world.news.values().all(VecDeque::is_empty)
    }

    fn apply(&mut self, effects: Effects) {
        self.queue.extend(effects.look);
        self.orphans.extend(effects.orphan);
    }

    /// Time passes: what was put off is looked at again.
    pub fn pass(&mut self, time: Duration) {
        self.world.now += time;
        self.queue.append(&mut self.later);
    }

    /// A cache tells something; in between it may have missed what did not last.
    pub fn deliver(&mut self, resource: &Resource) {
        let news = self.world.news.entry(resource.clone()).or_default();
        let Some(first) = news.pop_front() else {
            return;
        };
        let kind = kind(resource);
        let effects = match first {
            News::Synced => self.graph.synced(&kind),
            News::Gone(meta) => self.graph.gone(&kind, &meta),
            News::Shown(meta) => {
                let same = |it: &News| match it {
                    News::Shown(it) | News::Gone(it) => it.uid == meta.uid,
                    News::Synced => false,
                };
                let next = news.iter().find(|it| same(it)).cloned();
                let missed = match next {
                    Some(News::Shown(_)) => self.world.rng.below(2) == 0,
                    // Never shown, it never goes.
                    Some(News::Gone(_))
                        if !self.shown.contains(&meta.uid) && self.world.rng.below(2) == 0 =>
                    {
                        news.retain(|it| !same(it));
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
        while let Some(resource) = self.told() {
            self.deliver(&resource);
        }
    }

    fn told(&self) -> Option<Resource> {
        let news = self.world.news.iter().find(|(_, news)| !news.is_empty());
        news.map(|(resource, _)| resource.clone())
    }

    /// Widgets are watched in another version, or not served at all.
    pub fn reserve(&mut self) {
        let turn = [Some(WIDGET), Some(OLD_WIDGET), None];
        self.world.widget = self.world.pick(&turn).expect("three").clone();
        self.rewatch();
    }

    pub fn rewatch(&mut self) {
        let old: BTreeSet<Resource> = self.world.news.keys().cloned().collect();
        let watched = self.world.watched();
        for resource in old.iter().filter(|it| !watched.contains(it)) {
            self.world.news.remove(resource);
        }
        let before: Vec<Resource> = self
            .graph
            .kinds
            .collected()
            .iter()
            .map(|it| it.resource.clone())
            .collect();
        let effects = self.graph.serve(self.world.kinds(), self.world.now);
        self.apply(effects);
        for resource in watched.iter().filter(|it| !before.contains(it)) {
            let stored = if *resource == OLD_WIDGET {
                WIDGET
            } else {
                resource.clone()
            };
            let there = self.world.objects.iter().filter(|((of, _), _)| *of == stored);
            let mut news: Vec<News> = there.map(|(_, meta)| News::Shown(meta.clone())).collect();
            news.push(News::Synced);
            self.world.news.insert(resource.clone(), news.into());
        }
    }

    /// One item of work. Anything may happen between looking and acting.
    pub fn work(&mut self, stir: bool) {
        let items: Vec<Work> = self.queue.iter().cloned().collect();
        if let Some(work) = self.world.pick(&items).cloned() {
            self.queue.remove(&work);
            match self.graph.judge(&work, self.world.now) {
                Judgement::Nothing => {}
                Judgement::Later(rest) => {
                    assert!(rest <= PATIENCE && !rest.is_zero());
                    self.later.insert(work);
                }
                Judgement::Poll | Judgement::Unresolvable(_) => {
                    self.later.insert(work);
                }
                Judgement::Ask(questions) => {
                    self.ask(&questions, stir);
                    self.queue.insert(work);
                }
                Judgement::Act(act) => {
                    self.disturb(stir);
                    self.commit(&act);
                    self.queue.insert(work);
                }
            }
        }
        let orphans: Vec<Uid> = self.orphans.iter().cloned().collect();
        if let Some(owner) = self.world.pick(&orphans).cloned() {
            self.orphans.remove(&owner);
            self.release(&owner);
        }
    }

    fn disturb(&mut self, stir: bool) {
        if stir && self.world.chance(3) {
            self.world.stir();
        }
        if self.world.chance(3) {
            let resources = self.world.watched();
            let resource = self.world.pick(&resources).expect("some").clone();
            self.deliver(&resource);
        }
    }

    fn ask(&mut self, questions: &[Question], stir: bool) {
        let mut asked = BTreeSet::new();
        for question in questions {
            let Question { kind, identity } = question;
            assert!(asked.insert(identity.clone()), "asked twice: {identity:?}");
            let (at, key) = (self.world.now, identity.key());
            assert_eq!(
                kind.resource.namespaced,
                !key.namespace.is_empty(),
                "{identity:?}"
            );
            let stored = self.world.stored(&kind.api_version, &kind.kind);
            let answer = stored.map(|it| self.world.objects.get(&(it, key)).cloned());
            self.disturb(stir);
            let effects = match answer {
                // Not served any more: no answer that counts.
                None => continue,
                Some(None) => self.graph.absent(identity, Proof::NotFound),
                Some(Some(meta)) if meta.uid != identity.uid => {
                    self.graph.absent(identity, Proof::OtherUid(meta.uid))
                }
                Some(Some(meta)) => {
                    let live = if is_waiting(&meta) {
                        Live::Waiting
                    } else {
                        Live::Solid
                    };
                    self.graph.exists(question, live, at, self.world.now);
                    Effects::default()
                }
            };
            self.apply(effects);
        }
    }

    /// Everything there is to know is known before dependents are let go; of a kind that cannot be listed, afterwards.
    fn release(&mut self, owner: &Uid) {
        self.deliver_all();
        if self.world.widget.is_none() {
            self.graph.let_go(owner);
        }
        for act in self.graph.releases(owner) {
            assert!(
                matches!(&act.deed, Deed::RemoveOwners { uids, .. } if *uids == std::slice::from_ref(owner))
            );
            self.released += 1;
            if !self.commit(&act) {
                self.orphans.insert(owner.clone());
                return;
            }
        }
        if let Some(act) = self.graph.finish_orphaning(owner)
            && !self.commit(&act)
        {
            self.orphans.insert(owner.clone());
        }
    }

    /// The request, with its preconditions. False on a conflict.
    fn commit(&mut self, act: &Act) -> bool {
        let stored = if act.kind.resource == OLD_WIDGET {
            WIDGET
        } else {
            act.kind.resource.clone()
        };
        if self.world.stored(&act.kind.api_version, &act.kind.kind).is_none() {
            return false;
        }
        let identity = Identity::of(&act.kind, &act.key, &act.uid);
        let Some(meta) = self
            .world
            .objects
            .get(&(stored.clone(), act.key.clone()))
            .cloned()
        else {
            let effects = self.graph.absent(&identity, Proof::NotFound);
            self.apply(effects);
            return true;
        };
        if meta.uid != act.uid {
            let effects = self.graph.absent(&identity, Proof::OtherUid(meta.uid));
            self.apply(effects);
            return true;
        }
        if meta.resource_version != act.version {
            let effects = self.graph.refresh(&act.kind, &meta);
            self.apply(effects);
            return false;
        }
        let mut new = meta.clone();
        match &act.deed {
            Deed::Delete(policy) => {
                self.assert_deletable(&meta, act);
                self.deletes += 1;
                let effects = if let Some(meta) = self.world.delete(&stored, &meta, *policy) {
                    self.graph.refresh(&act.kind, &meta)
                } else {
                    self.graph.deleted(&act.uid, &act.version);
                    Effects::default()
                };
                self.apply(effects);
                return true;
            }
            Deed::RemoveOwners { uids, remaining } => {
                let left = meta.owner_references.iter().filter(|it| !uids.contains(&it.uid));
                new.owner_references = left.cloned().collect();
                assert_eq!(new.owner_references, *remaining);
            }
            Deed::Unblock { references } => {
                self.unblocked += 1;
                new.owner_references = references.clone();
            }
            Deed::RemoveFinalizer { finalizer, rest } => {
                assert!(meta.has_finalizer(finalizer) && meta.is_terminating());
                new.finalizers = rest.clone();
            }
        }
        let meta = self.world.put(&stored, new);
        let effects = self.graph.refresh(&act.kind, &meta);
        self.apply(effects);
        true
    }

    /// Nothing with an owner that lives and does not wait is deleted; nor with one that nobody can ask for.
    fn assert_deletable(&self, meta: &Meta, act: &Act) {
        assert!(!meta.is_terminating() && !is_unjudgeable(meta), "{act:?}");
        assert!(
            !self.world.spared.contains(&meta.uid),
            "was to be let go: {act:?}"
        );
        assert!(!meta.owner_references.is_empty(), "{act:?}");
        let mut reasons: BTreeMap<&Uid, &Verdict> = BTreeMap::new();
        reasons.extend(act.because.iter().map(|it| (&it.owner.uid, &it.verdict)));
        for reference in &meta.owner_references {
            assert!(reasons.contains_key(&reference.uid), "no reason: {act:?}");
            let Some(owner) = self.world.owner(reference, &meta.namespace) else {
                continue;
            };
            let swapped = self.world.swapped.get(&owner.uid);
            let lately = swapped.is_some_and(|then| self.world.now - *then <= FRESH);
            assert!(is_waiting(owner) || lately, "{owner:?} lives: {act:?}");
        }
    }
}
