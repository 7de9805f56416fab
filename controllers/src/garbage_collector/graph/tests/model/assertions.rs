//! Invariants of the graph at any time, and in the end.

use std::collections::BTreeMap;

use steersman_manager::object::Key;

use super::super::*;
use super::cluster::{FOREIGN, is_unresolvable, is_waiting, named};
use super::collector::Collector;

impl Collector {
    /// Asserts that the indexes are those that follow from the nodes alone.
    pub fn assert_exact(&self) {
        let graph = &self.graph;
        let mut links: BTreeMap<Uid, Links> = BTreeMap::new();
        let mut blocking: BTreeSet<(Uid, Uid)> = BTreeSet::new();
        let mut named: BTreeMap<Identity, BTreeSet<Uid>> = BTreeMap::new();
        let mut ambiguous = BTreeSet::new();
        for (uid, node) in &graph.nodes {
            for reference in node.owners.iter().filter(|it| !it.uid.is_empty()) {
                let it = links.entry(reference.uid.clone()).or_default();
                it.dependents.insert(uid.clone());
                let resolved = graph.kinds.resolve(&reference.api_version, &reference.kind);
                let namespaced = resolved.is_none_or(|it| it.resource.namespaced);
                let namespace = if namespaced {
                    node.key.namespace.clone()
                } else {
                    Text::default()
                };
                let written = (&reference.api_version, &reference.kind);
                let meant = resolved.map_or(written, |it| (&it.api_version, &it.kind));
                let owner = graph.nodes.get(&reference.uid).filter(|it| {
                    (&it.kind.api_version, &it.kind.kind) == meant
                        && it.key == Key::new(namespace.clone(), reference.name.clone())
                });
                if owner.is_some() {
                    if reference.block_owner_deletion && reference.uid != *uid {
                        let is_new = blocking.insert((reference.uid.clone(), uid.clone()));
                        it.blocking += usize::from(is_new);
                    }
                } else if resolved.is_some() && namespaced && namespace.is_empty() {
                    ambiguous.insert(uid.clone());
                } else {
                    let identity = Identity {
                        uid: reference.uid.clone(),
                        api_version: meant.0.clone(),
                        kind: meant.1.clone(),
                        namespace,
                        name: reference.name.clone(),
                    };
                    named.entry(identity).or_default().insert(uid.clone());
                }
            }
        }
        let mut known = graph.virtual_owners.clone();
        for (identity, dependents) in graph.tombstones.iter() {
            assert!(known.insert(identity.clone(), dependents.clone()).is_none());
        }
        let mut by_kind: BTreeMap<Resource, BTreeSet<Uid>> = BTreeMap::new();
        for (uid, node) in &graph.nodes {
            let uids = by_kind.entry(node.kind.resource.clone()).or_default();
            uids.insert(uid.clone());
        }
        assert_eq!(graph.by_kind, by_kind);
        assert_eq!(graph.links, links);
        assert_eq!(known, named);
        assert_eq!(graph.ambiguous, ambiguous);
        for (uid, node) in &graph.nodes {
            assert_eq!(graph.tombstones.proof(&node.identity(uid), 0), None);
        }
    }

    /// Asserts that no garbage is left, and that no object waits without a reason.
    pub fn assert_settled(&self) {
        let cluster = &self.cluster;
        for (at, meta) in &cluster.objects {
            let node = self
                .graph
                .nodes
                .get(&meta.uid)
                .expect("all events were delivered");
            assert_eq!(node.version, meta.resource_version, "{at:?}");
            if meta.owner_references.is_empty() || meta.is_terminating() || is_unresolvable(meta) {
                continue;
            }
            let lives = |it: &OwnerRef| {
                cluster
                    .owner(it, &meta.namespace)
                    .is_some_and(|it| !is_waiting(it))
            };
            let solid: BTreeSet<_> = meta
                .owner_references
                .iter()
                .filter(|it| lives(it))
                .map(|it| &it.uid)
                .collect();
            assert!(!solid.is_empty(), "dangles: {at:?} {meta:?}");
            assert!(
                meta.owner_references.iter().all(|it| solid.contains(&it.uid)),
                "unclean: {meta:?}"
            );
        }
        let mut stuck: BTreeSet<&Uid> = BTreeSet::new();
        loop {
            let more: Vec<&Uid> = cluster
                .objects
                .values()
                .filter(|it| !stuck.contains(&it.uid))
                .filter(|meta| {
                    is_unresolvable(meta) && !meta.is_terminating()
                        || meta.has_finalizer(FOREIGN) && meta.is_terminating()
                        || is_waiting(meta) && self.blockers(meta).any(|it| stuck.contains(&it.uid))
                })
                .map(|it| &it.uid)
                .collect();
            if more.is_empty() {
                break;
            }
            stuck.extend(more);
        }
        for meta in cluster.objects.values() {
            assert!(
                !is_waiting(meta) || stuck.contains(&meta.uid),
                "waits for nothing: {meta:?}"
            );
            assert!(
                !(meta.is_terminating() && meta.has_finalizer(ORPHAN)),
                "not orphaned: {meta:?}"
            );
        }
        for identity in self.graph.virtual_owners.keys() {
            let reference = OwnerRef {
                api_version: identity.api_version.clone(),
                kind: identity.kind.clone(),
                ..OwnerRef::default()
            };
            let there = cluster.objects.values().any(|it| it.uid == identity.uid);
            assert!(named(&reference).is_none() || there, "{identity:?}");
        }
    }

    fn blockers<'a>(&'a self, owner: &'a Meta) -> impl Iterator<Item = &'a Meta> {
        self.cluster.objects.values().filter(move |meta| {
            meta.owner_references.iter().any(|it| {
                it.block_owner_deletion
                    && meta.uid != owner.uid
                    && self
                        .cluster
                        .owner(it, &meta.namespace)
                        .is_some_and(|it| it.uid == owner.uid)
            })
        })
    }
}
