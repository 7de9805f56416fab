//! A simulated cluster: its objects, and the effect of requests.

use std::collections::{BTreeMap, VecDeque};

use steersman_manager::client::Propagation;
use steersman_manager::env::Rng;
use steersman_manager::object::Key;

use super::super::*;

/// A finalizer of another controller.
pub const FOREIGN: &str = "example.com/hold";
/// A version that is not served.
pub const UNSERVED: &str = "v9";

/// An event that a cache will deliver.
#[derive(Clone, Debug)]
pub enum CacheEvent {
    Shown(Meta),
    Gone(Meta),
    Synced,
}

pub struct Cluster {
    pub rng: Rng,
    pub now: Instant,
    /// By storage version: `WIDGET` for both versions.
    pub objects: BTreeMap<(Resource, Key), Meta>,
    pub events: BTreeMap<Resource, VecDeque<CacheEvent>>,
    /// The watched version of widgets, if they are served.
    pub widget: Option<Resource>,
    /// The time at which a foreground deletion was changed into another deletion.
    pub swapped: BTreeMap<Uid, Instant>,
    /// Objects whose only owner was deleted with orphan propagation.
    pub spared: BTreeSet<Uid>,
    pub past: Vec<OwnerRef>,
    revision: u64,
    pub writes: u64,
}

pub fn is_waiting(meta: &Meta) -> bool {
    meta.is_terminating() && meta.has_finalizer(FOREGROUND) && !meta.has_finalizer(ORPHAN)
}

/// The kind of a reference, if it can be served.
pub fn named(reference: &OwnerRef) -> Option<Resource> {
    let of_kind = |it: &Resource| it.api_version() == *reference.api_version && it.kind == *reference.kind;
    ALL.into_iter().find(of_kind)
}

/// Whether one of its owners cannot be resolved.
pub fn is_unresolvable(meta: &Meta) -> bool {
    meta.owner_references.iter().any(|it| {
        let invalid_namespace = |of: Resource| meta.namespace.is_empty() && of.namespaced;
        it.uid.is_empty() || named(it).is_none_or(invalid_namespace)
    })
}

impl Cluster {
    pub fn new(seed: u64, now: Instant) -> Self {
        Self {
            rng: Rng::from_seed(seed),
            now,
            objects: BTreeMap::new(),
            events: BTreeMap::new(),
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

    /// The storage version of a kind.
    pub fn stored(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let kinds = self.kinds();
        let kind = kinds.resolve(&api_version.into(), &kind.into())?;
        Some(if kind.resource == OLD_WIDGET {
            WIDGET
        } else {
            kind.resource.clone()
        })
    }

    /// The existing owner of a reference, even if its kind is not served at the moment.
    pub fn owner(&self, reference: &OwnerRef, namespace: &str) -> Option<&Meta> {
        let resource = named(reference)?;
        let resource = if resource == OLD_WIDGET { WIDGET } else { resource };
        let namespace = if resource.namespaced { namespace } else { "" };
        let key = Key::new(namespace, reference.name.clone());
        self.objects
            .get(&(resource, key))
            .filter(|it| it.uid == reference.uid)
    }

    fn notify(&mut self, resource: &Resource, events: CacheEvent) {
        self.writes += 1;
        let watched = if *resource == WIDGET {
            self.widget.clone()
        } else {
            Some(resource.clone())
        };
        if let Some(watched) = watched {
            self.events.entry(watched).or_default().push_back(events);
        }
    }

    /// Writes an object, or removes it if it is terminating without finalizers.
    pub fn put(&mut self, resource: &Resource, mut meta: Meta) -> Meta {
        self.revision += 1;
        meta.resource_version = self.revision.to_string().as_str().into();
        let at = (resource.clone(), meta.key());
        if self.objects.get(&at).is_some_and(is_waiting) && !is_waiting(&meta) {
            self.swapped.insert(meta.uid.clone(), self.now);
        }
        if meta.is_terminating() && meta.finalizers.is_empty() {
            self.objects.remove(&at);
            self.notify(resource, CacheEvent::Gone(meta.clone()));
        } else {
            self.objects.insert(at, meta.clone());
            self.notify(resource, CacheEvent::Shown(meta.clone()));
        }
        meta
    }

    /// Applies a DELETE. Returns the object if it still exists.
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

    /// Another client writes at random.
    pub fn mutate(&mut self) {
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

    /// Records whether the objects with this owner only have to be orphaned.
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

    /// A reference to an existing or deleted object, mostly a correct one.
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
