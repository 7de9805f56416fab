//! What the caches show of the pods of an owner, and what they do not show yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::cache::Lookup;
use coxswain_manager::object::{Key, Text, Uid};
use coxswain_manager::selector::Selector;

use super::Engine;
use crate::replicaset::act::Hands;
use crate::replicaset::victims::Crowds;
use crate::replicaset::{Owner, Pod, naming, plan};

/// How long until what was done and is not shown is looked for.
const UNSEEN: Duration = Duration::from_secs(30);

impl Engine {
    /// When to look again for what the cache has not shown: what came and went while nobody looked leads to no event. Not
    /// more than a read per second, if it is out of the cache's scope.
    pub(super) fn unseen(&self, hands: &Hands<'_>) -> Option<Duration> {
        let (key, now) = (hands.key, hands.env.clock.now());
        let names = self.expectations.pending_creates(key, now).len();
        let open = names > 0 || !self.expectations.satisfied(key, now);
        open.then(|| UNSEEN.max(Duration::from_secs(names.try_into().unwrap_or(u64::MAX))))
    }

    /// Strikes off what the cache shows. A pod that was deleted cannot have become somebody else's.
    pub(super) fn settle(&self, key: &Key, owner: &Owner) {
        let pods = &self.pods;
        let is_absent = |it: &Lookup<Pod>| matches!(it, Lookup::Absent);
        let shown = |name: &Text, _| !is_absent(&pods.get(&Key::new(key.namespace.clone(), name.clone())));
        let mut here: Option<BTreeSet<Uid>> = None;
        let gone = |uid: &Uid| {
            let here = here.get_or_insert_with(|| {
                let all = pods.by_owner(&owner.metadata.uid).into_iter();
                let staying = all.filter(|it| !it.metadata.is_terminating());
                staying.map(|it| it.metadata.uid.clone()).collect()
            });
            !here.contains(uid)
        };
        self.expectations.observe_cache(key, shown, gone);
    }

    /// The pods that the cache shows although they may have been deleted.
    pub(super) fn doubtful(&self, hands: &Hands<'_>) -> Vec<Arc<Pod>> {
        let uids = self
            .expectations
            .unknown_deletes(hands.key, hands.env.clock.now());
        if uids.is_empty() {
            return Vec::new();
        }
        let mut pods = self.pods.by_owner(&hands.owner.metadata.uid);
        pods.retain(|it| uids.contains(&it.metadata.uid));
        pods
    }

    /// The pods that may concern an owner: its own, and those that are nobody's.
    pub(super) fn candidates(&self, owner: &Owner) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.by_owner(&owner.metadata.uid);
        pods.extend(self.pods.unmanaged(&owner.metadata.namespace));
        pods
    }

    /// How many pods of the application there are on each node: of all owners that the manager of this one has. Without a
    /// manager there is no application.
    pub(super) fn crowds(&self, owner: &Owner) -> Crowds {
        let Some(manager) = owner.manager() else {
            return Crowds::new();
        };
        let related = self.owners.by_owner(manager);
        let related = related.iter();
        let selectors: Vec<&Selector> = related.filter_map(|it| it.selector().ok()).collect();
        plan::crowds(&selectors, &self.pods.list_namespace(&owner.metadata.namespace))
    }

    /// The names of pods that may be the owner's, and cannot be read.
    pub(super) fn unreadable(&self, owner: &Owner) -> impl Iterator<Item = Text> {
        let base = naming::base(&owner.metadata.name);
        let namespace = owner.metadata.namespace.clone();
        let mut keys = self.pods.undecodable();
        keys.retain(|it| it.namespace == namespace && naming::is_made_of(&base, &it.name));
        keys.into_iter().map(|it| it.name)
    }
}
