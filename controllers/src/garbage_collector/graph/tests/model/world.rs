//! What there is, and what the API makes of requests.

use std::collections::{BTreeMap, VecDeque};

use coxswain_manager::client::Propagation;
use coxswain_manager::env::Rng;
use coxswain_manager::object::Key;

use super::super::*;

/// A finalizer of somebody else.
pub const FOREIGN: &str = "example.com/hold";
/// A version that nobody serves.
pub const UNSERVED: &str = "v9";

/// What a cache is going to tell.
#[derive(Clone, Debug)]
pub enum News {
    Shown(Meta),
    Gone(Meta),
    Synced,
}

/// All objects, and what the caches have yet to tell of them.
pub struct World {
    pub rng: Rng,
    pub now: Instant,
    /// By the kind that stores them: `WIDGET` for both versions.
    pub objects: BTreeMap<(Resource, Key), Meta>,
    pub news: BTreeMap<Resource, VecDeque<News>>,
    /// In which version widgets are watched, if they are.
    pub widget: Option<Resource>,
    /// When an object that was deleted in the foreground ceased to be.
    pub swapped: BTreeMap<Uid, Instant>,
    /// Only owned by one that was deleted to orphan them.
    pub spared: BTreeSet<Uid>,
    pub past: Vec<OwnerRef>,
    revision: u64,
    pub writes: u64,
}

pub fn is_waiting(meta: &Meta) -> bool {
    meta.is_terminating() && meta.has_finalizer(FOREGROUND) && !meta.has_finalizer(ORPHAN)
}

/// The kind that a reference names, if it is ever served.
pub fn named(reference: &OwnerRef) -> Option<Resource> {
    let of_kind = |it: &Resource| it.api_version() == *reference.api_version && it.kind == *reference.kind;
    ALL.into_iter().find(of_kind)
}

/// Whether nobody can say who one of its owners is, or whether it exists.
pub fn is_unjudgeable(meta: &Meta) -> bool {
    meta.owner_references.iter().any(|it| {
        let misplaced = |of: Resource| meta.namespace.is_empty() && of.namespaced;
        it.uid.is_empty() || named(it).is_none_or(misplaced)
    })
}

impl World {
    pub fn new(seed: u64, now: Instant) -> Self {
        Self {
            rng: Rng::from_seed(seed),
            now,
            objects: BTreeMap::new(),
            news: BTreeMap::new(),
            widget: Some(WIDGET),
            swapped: BTreeMap::new(),
            spared: BTreeSet::new(),
            past: Vec::new(),
            revision: 10,
            writes: 0,
        }
    }

    pub fn chance(&self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0
    }

    pub fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.rng.below(of.len() as u64)).expect("small"))
    }

    pub fn watched(&self) -> Vec<Resource> {
        [POD, SET, NODE].into_iter().chain(self.widget.clone()).collect()
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        let served = if self.widget.is_some() {
            &ALL[..]
        } else {
            &ALL[..3]
        };
        kinds(served, &self.watched())
    }

    /// The kind that stores what a reference names.
    pub fn stored(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let kinds = self.kinds();
        let kind = kinds.resolve(&api_version.into(), &kind.into())?;
        Some(if kind.resource == OLD_WIDGET {
            WIDGET
        } else {
            kind.resource.clone()
        })
    }

    /// The live owner that a reference of an object in this namespace is to, if there is one. Kinds that are not served
    /// just now count as well.
    pub fn owner(&self, reference: &OwnerRef, namespace: &str) -> Option<&Meta> {
        let resource = named(reference)?;
        let resource = if resource == OLD_WIDGET { WIDGET } else { resource };
        let namespace = if resource.namespaced { namespace } else { "" };
        let key = Key::new(namespace, reference.name.clone());
        self.objects
            .get(&(resource, key))
            .filter(|it| it.uid == reference.uid)
    }

    fn tell(&mut self, resource: &Resource, news: News) {
        self.writes += 1;
        let watched = if *resource == WIDGET {
            self.widget.clone()
        } else {
            Some(resource.clone())
        };
        if let Some(watched) = watched {
            self.news.entry(watched).or_default().push_back(news);
        }
    }

    /// Writes a state of an object; one that is deleted and has no finalizers goes.
    pub fn put(&mut self, resource: &Resource, mut meta: Meta) -> Meta {
        self.revision += 1;
        meta.resource_version = self.revision.to_string().as_str().into();
        let at = (resource.clone(), meta.key());
        if self.objects.get(&at).is_some_and(is_waiting) && !is_waiting(&meta) {
            self.swapped.insert(meta.uid.clone(), self.now);
        }
        if meta.is_terminating() && meta.finalizers.is_empty() {
            self.objects.remove(&at);
            self.tell(resource, News::Gone(meta.clone()));
        } else {
            self.objects.insert(at, meta.clone());
            self.tell(resource, News::Shown(meta.clone()));
        }
        meta
    }

    /// A DELETE that was accepted. Answers the object if it lingers.
    pub fn delete(&mut self, resource: &Resource, meta: &Meta, policy: Propagation) -> Option<Meta> {
        let mut new = meta.clone();
        let mut finalizers: Vec<Text> = meta.finalizers.to_vec();
        finalizers.retain(|it| *it != FOREGROUND && *it != ORPHAN);
        match policy {
            Propagation::Foreground => finalizers.push(FOREGROUND.into()),
            Propagation::Orphan => finalizers.push(ORPHAN.into()),
            Propagation::Background => {}
        }
        new.finalizers = finalizers.into();
        new.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
        if meta.is_terminating() && new.finalizers == meta.finalizers {
            return Some(new);
        }
        let new = self.put(resource, new);
        (!new.finalizers.is_empty()).then_some(new)
    }

    /// Somebody does something.
    pub fn stir(&mut self) {
        let all: Vec<(Resource, Key)> = self.objects.keys().cloned().collect();
        let one = self.pick(&all).cloned();
        match (self.rng.below(10), one) {
            (0..=4, _) | (_, None) => self.create(),
            (5 | 6, Some(at)) => {
                let mut meta = self.objects[&at].clone();
                let mut references = meta.owner_references.to_vec();
                if !references.is_empty() && self.chance(2) {
                    let last = references.len() - 1;
                    if self.chance(2) {
                        references.remove(last);
                    } else {
                        references[last].block_owner_deletion ^= true;
                    }
                } else {
                    references.extend(self.reference());
                }
                meta.owner_references = references.into();
                self.spared.remove(&meta.uid);
                self.put(&at.0, meta);
            }
            (7..=8, Some(at)) => {
                let meta = self.objects[&at].clone();
                let policies = [
                    Propagation::Background,
                    Propagation::Foreground,
                    Propagation::Orphan,
                ];
                let policy = *self.pick(&policies).expect("three");
                if policy == Propagation::Orphan && !meta.is_terminating() {
                    self.spare(&meta, true);
                } else if policy != Propagation::Orphan {
                    self.spare(&meta, false);
                }
                self.delete(&at.0, &meta, policy);
            }
            (_, Some(at)) => {
                let mut meta = self.objects[&at].clone();
                meta.finalizers = meta
                    .finalizers
                    .iter()
                    .filter(|it| **it != FOREIGN)
                    .cloned()
                    .collect();
                self.put(&at.0, meta);
            }
        }
    }

    /// Whoever has this owner only is to be let go; or not any more.
    fn spare(&mut self, owner: &Meta, spare: bool) {
        for meta in self.objects.values() {
            if let [reference] = &meta.owner_references[..]
                && reference.uid == owner.uid
            {
                if spare && self.owner(reference, &meta.namespace).is_some() {
                    self.spared.insert(meta.uid.clone());
                } else {
                    self.spared.remove(&meta.uid);
                }
            }
        }
    }

    fn create(&mut self) {
        let resource = self.pick(&WATCHED).expect("some").clone();
        let namespace = if resource.namespaced {
            *self.pick(&["a", "b"]).expect("two")
        } else {
            ""
        };
        let key = Key::new(namespace, *self.pick(&["x", "y", "z", "u", "v"]).expect("some"));
        if self.objects.contains_key(&(resource.clone(), key.clone())) {
            return;
        }
        let references = (0..self.rng.below(3)).filter_map(|_| self.reference()).collect();
        let finalizers = if self.chance(12) {
            vec![Text::from(FOREIGN)]
        } else {
            vec![]
        };
        let meta = Meta {
            namespace: key.namespace,
            name: key.name,
            uid: Uid::from(&*format!("uid-{}", self.revision)),
            owner_references: references,
            finalizers: finalizers.into(),
            ..Meta::default()
        };
        self.past.push(OwnerRef {
            api_version: resource.api_version().into(),
            kind: (&*resource.kind).into(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..OwnerRef::default()
        });
        self.put(&resource, meta);
    }

    /// A reference to somebody who is or was; mostly a right one.
    fn reference(&self) -> Option<OwnerRef> {
        let mut reference = self.pick(&self.past)?.clone();
        reference.block_owner_deletion = self.chance(2);
        match self.rng.below(30) {
            0 => reference.name = "x".into(),
            1 => reference.kind = "Pod".into(),
            2 => reference.api_version = UNSERVED.into(),
            3..=5 if reference.kind == "Widget" => reference.api_version = "example.com/v1beta1".into(),
            6 => reference.uid = "uid-never".into(),
            7 if self.chance(10) => reference.uid = Uid::default(),
            _ => {}
        }
        Some(reference)
    }
}
