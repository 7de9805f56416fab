//! The checker's own model of the store, built from the commits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::super::record::Commit;

use super::kinds::{Kinds, Served};
use super::rollout::Bounds;
use super::symbols::{
    APP_REPLICA_SETS, APP_SERVICES, CRDS, DEPLOYMENTS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Symbol,
    Symbols,
};
use super::view::{
    DefinitionSpec, DeploymentSpec, Meta, Observed, PodStatus, SetSpec, SetStatus, Skipped, View,
};

/// An object in the store.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) uid: Symbol,
    pub(super) collection: Symbol,
    /// Empty for a cluster-scoped object.
    pub(super) namespace: Symbol,
    pub(super) name: Symbol,
    pub(super) revision: u64,
    pub(super) generation: i64,
    pub(super) terminating: bool,
    /// It has the finalizer `foregroundDeletion`.
    pub(super) foreground: bool,
    /// It has the finalizer `orphan`.
    pub(super) orphan: bool,
    /// The other finalizers.
    pub(super) finalizers: Vec<Symbol>,
    pub(super) references: Vec<Reference>,
    /// The revision of the last change of the references.
    pub(super) referred: u64,
    pub(super) detail: Detail,
    /// The last JSON.
    pub(super) state: Bytes,
}

/// An ownerReference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) uid: Symbol,
    pub(super) api_version: Symbol,
    pub(super) kind: Symbol,
    pub(super) name: Symbol,
    pub(super) controller: bool,
    pub(super) blocks: bool,
}

/// The fields of the resources that the checker knows.
#[derive(Clone, Debug)]
pub(super) enum Detail {
    Other,
    Pod {
        /// The phase is Failed or Succeeded.
        finished: bool,
        /// The phase is Running.
        running: bool,
        /// The Ready condition, if there is one.
        ready: Option<bool>,
    },
    /// A `ReplicaSet`, a `ReplicationController` or an `AppReplicaSet`.
    Set {
        replicas: i64,
        pods: i64,
        available: i64,
        observed: i64,
    },
    Deployment {
        bounds: Bounds,
        observed: i64,
    },
    AppService {
        observed: i64,
    },
}

/// The target of an ownerReference.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// The API does not serve the kind.
    Unserved,
    /// The object is cluster-scoped, and the kind of the owner is not.
    Ambiguous,
    Absent,
    Live(&'a Object),
}

/// A commit that was applied.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) uid: Symbol,
    pub(super) old: Option<Object>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    objects: BTreeMap<Symbol, Object>,
    keys: BTreeMap<(Symbol, Symbol, Symbol), Symbol>,
    /// Pairs of an owner that a reference names and the object with the reference.
    dependents: BTreeSet<(Symbol, Symbol)>,
    /// The uids of removed objects.
    removed: BTreeSet<Symbol>,
    /// The position of the last removal of an object with this key.
    freed: BTreeMap<(Symbol, Symbol, Symbol), u64>,
    /// The time of the last change of each resource.
    changed: BTreeMap<Symbol, Duration>,
    /// The position of the last change in each namespace.
    namespaces: BTreeMap<Symbol, u64>,
    /// The newest revision.
    pub(super) revision: u64,
    /// The largest number of objects at one time.
    pub(super) peak: usize,
}

impl Object {
    pub(super) fn controller(&self) -> Option<&Reference> {
        self.references.iter().find(|it| it.controller)
    }

    /// Reports whether the object waits for the deletion of its dependents.
    pub(super) fn is_waiting(&self) -> bool {
        self.terminating && self.foreground && !self.orphan
    }

    /// Reports whether the object waits until its dependents are orphaned.
    pub(super) fn is_orphaning(&self) -> bool {
        self.terminating && self.orphan
    }

    /// Reports whether the object is a pod that has not finished and is not terminating.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.detail, Detail::Pod { finished: false, .. }) && !self.terminating
    }

    /// Reports whether a reference with blockOwnerDeletion matches `owner`.
    pub(super) fn blocks(&self, kinds: &Kinds, owner: &Self) -> bool {
        let matches = |it: &Reference| {
            it.blocks
                && it.uid == owner.uid
                && it.name == owner.name
                && (owner.namespace.is_empty() || owner.namespace == self.namespace)
                && kinds
                    .resolve(it.api_version, it.kind)
                    .is_some_and(|served| served.collection == owner.collection)
        };
        self.uid != owner.uid && self.references.iter().any(matches)
    }

    /// Returns the observed generation of a kind that has one.
    pub(super) fn observed(&self) -> Option<i64> {
        match self.detail {
            Detail::Set { observed, .. }
            | Detail::Deployment { observed, .. }
            | Detail::AppService { observed } => Some(observed),
            Detail::Other | Detail::Pod { .. } => None,
        }
    }
}

impl Model {
    /// Applies a commit. Returns an error for an object that is not readable.
    pub(super) fn apply(
        &mut self,
        commit: &Commit,
        position: u64,
        symbols: &mut Symbols,
        kinds: &mut Kinds,
    ) -> Result<Option<Applied>, serde_json::Error> {
        let collection = symbols.intern(&commit.collection);
        let (namespace, name) = commit.key.rsplit_once('/').unwrap_or(("", &commit.key));
        let key = (collection, symbols.intern(namespace), symbols.intern(name));
        self.revision = self.revision.max(commit.revision);
        self.changed.insert(collection, commit.at);
        self.namespaces.insert(key.1, position);
        if let Some(before) = &commit.before
            && !self.keys.contains_key(&key)
        {
            // The object is older than the record.
            let object = read(key, 0, before, position, symbols, kinds)?;
            self.insert(object);
        }
        let Some(after) = &commit.after else {
            let Some(uid) = self.keys.remove(&key) else {
                return Ok(None);
            };
            if collection == CRDS {
                kinds.define(uid, None, position, symbols);
            }
            let old = self.take(uid);
            self.removed.insert(uid);
            self.freed.insert(key, position);
            return Ok(Some(Applied { uid, old }));
        };
        let mut object = read(key, commit.revision, after, position, symbols, kinds)?;
        let uid = object.uid;
        if let Some(other) = self.keys.get(&key).copied().filter(|it| *it != uid) {
            self.take(other);
            self.removed.insert(other);
        }
        let old = self.take(uid);
        if let Some(old) = &old
            && old.references == object.references
        {
            object.referred = old.referred;
        }
        self.insert(object);
        Ok(Some(Applied { uid, old }))
    }

    fn insert(&mut self, object: Object) {
        let uid = object.uid;
        self.keys
            .insert((object.collection, object.namespace, object.name), uid);
        self.dependents
            .extend(object.references.iter().map(|it| (it.uid, uid)));
        self.objects.insert(uid, object);
        self.peak = self.peak.max(self.objects.len());
    }

    fn take(&mut self, uid: Symbol) -> Option<Object> {
        let object = self.objects.remove(&uid)?;
        for reference in &object.references {
            self.dependents.remove(&(reference.uid, uid));
        }
        Some(object)
    }

    pub(super) fn get(&self, uid: Symbol) -> Option<&Object> {
        self.objects.get(&uid)
    }

    pub(super) fn at(&self, collection: Symbol, namespace: Symbol, name: Symbol) -> Option<&Object> {
        self.get(*self.keys.get(&(collection, namespace, name))?)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    /// Returns the objects of a resource.
    pub(super) fn of(&self, collection: Symbol) -> impl Iterator<Item = &Object> {
        let first = (collection, Symbol::default(), Symbol::default());
        let last = (collection, Symbol::MAX, Symbol::MAX);
        self.keys
            .range(first..=last)
            .filter_map(|(_, uid)| self.get(*uid))
    }

    /// Returns the objects with a reference to a uid, whether or not it matches the object of that uid.
    pub(super) fn dependents(&self, owner: Symbol) -> impl Iterator<Item = &Object> {
        self.dependents
            .range((owner, Symbol::default())..=(owner, Symbol::MAX))
            .filter_map(|(_, uid)| self.get(*uid))
    }

    /// Returns the time of the last change of a resource.
    pub(super) fn changed(&self, collection: Symbol) -> Duration {
        self.changed.get(&collection).copied().unwrap_or_default()
    }

    /// Returns the namespaces, each with the position of its last change.
    pub(super) const fn namespaces(&self) -> &BTreeMap<Symbol, u64> {
        &self.namespaces
    }

    /// Reports whether an object with this uid existed and was removed.
    pub(super) fn was_removed(&self, uid: Symbol) -> bool {
        self.removed.contains(&uid)
    }

    /// Reports whether an object had the key of another one, and was removed after a position.
    pub(super) fn was_freed(&self, object: &Object, position: u64) -> bool {
        let key = (object.collection, object.namespace, object.name);
        self.freed.get(&key).is_some_and(|it| *it > position)
    }

    /// Resolves a reference of `object`, which may have been removed itself.
    pub(super) fn resolve<'a>(
        &'a self,
        kinds: &Kinds,
        object: &'a Object,
        reference: &Reference,
    ) -> Target<'a> {
        let Some(Served {
            collection,
            namespaced,
        }) = kinds.resolve(reference.api_version, reference.kind)
        else {
            return Target::Unserved;
        };
        if namespaced && object.namespace.is_empty() {
            return Target::Ambiguous;
        }
        let owner = if reference.uid == object.uid {
            Some(object)
        } else {
            self.get(reference.uid)
        };
        let matches = |owner: &&Object| {
            owner.collection == collection
                && owner.name == reference.name
                && (!namespaced || owner.namespace == object.namespace)
        };
        owner.filter(matches).map_or(Target::Absent, Target::Live)
    }
}

/// Reads an object of a resource.
fn read(
    key: (Symbol, Symbol, Symbol),
    revision: u64,
    json: &Bytes,
    position: u64,
    symbols: &mut Symbols,
    kinds: &mut Kinds,
) -> Result<Object, serde_json::Error> {
    let (collection, namespace, name) = key;
    let mut object = Object {
        uid: Symbol::default(),
        collection,
        namespace,
        name,
        revision,
        generation: 0,
        terminating: false,
        foreground: false,
        orphan: false,
        finalizers: Vec::new(),
        references: Vec::new(),
        referred: revision,
        detail: Detail::Other,
        state: json.clone(),
    };
    let mut meta = |meta: Meta<'_>| object.fill(&meta, symbols, kinds);
    match collection {
        PODS => {
            let it: View<'_, Skipped, PodStatus<'_>> = parse(json)?;
            meta(it.metadata);
            let conditions = it.status.conditions.unwrap_or_default();
            let ready = conditions.iter().find(|it| it.type_ == "Ready");
            object.detail = Detail::Pod {
                finished: matches!(&*it.status.phase, "Failed" | "Succeeded"),
                running: it.status.phase == "Running",
                ready: ready.map(|it| it.status == "True"),
            };
        }
        REPLICA_SETS | REPLICATION_CONTROLLERS | APP_REPLICA_SETS => {
            let it: View<'_, SetSpec, SetStatus> = parse(json)?;
            meta(it.metadata);
            object.detail = Detail::Set {
                replicas: it.spec.replicas.unwrap_or(1),
                pods: it.status.replicas,
                available: it.status.available_replicas,
                observed: it.status.observed_generation,
            };
        }
        DEPLOYMENTS => {
            let it: View<'_, DeploymentSpec, Observed> = parse(json)?;
            meta(it.metadata);
            object.detail = Detail::Deployment {
                bounds: Bounds::of(&it.spec),
                observed: it.status.observed_generation.unwrap_or(0),
            };
        }
        APP_SERVICES => {
            let it: View<'_, Skipped, Observed> = parse(json)?;
            meta(it.metadata);
            object.detail = Detail::AppService {
                observed: it.status.observed_generation.unwrap_or(0),
            };
        }
        CRDS => {
            let it: View<'_, DefinitionSpec, Skipped> = parse(json)?;
            meta(it.metadata);
            kinds.define(object.uid, Some(&it.spec), position, symbols);
        }
        _ => {
            let it: View<'_, Skipped, Skipped> = parse(json)?;
            meta(it.metadata);
        }
    }
    Ok(object)
}

fn parse<'a, T: Deserialize<'a>>(json: &'a Bytes) -> Result<T, serde_json::Error> {
    serde_json::from_slice(json)
}

impl Object {
    fn fill(&mut self, meta: &Meta<'_>, symbols: &mut Symbols, kinds: &mut Kinds) {
        self.uid = symbols.intern(&meta.uid);
        self.generation = meta.generation;
        self.terminating = meta.deletion_timestamp.is_some();
        for finalizer in meta.finalizers.iter().flatten() {
            match &*finalizer.0 {
                "foregroundDeletion" => self.foreground = true,
                "orphan" => self.orphan = true,
                other => self.finalizers.push(symbols.intern(other)),
            }
        }
        for reference in meta.owner_references.iter().flatten() {
            let reference = Reference {
                uid: symbols.intern(&reference.uid),
                api_version: symbols.intern(&reference.api_version),
                kind: symbols.intern(&reference.kind),
                name: symbols.intern(&reference.name),
                controller: reference.controller.unwrap_or(false),
                blocks: reference.block_owner_deletion.unwrap_or(false),
            };
            kinds.learn(reference.api_version, reference.kind, symbols);
            self.references.push(reference);
        }
    }
}
