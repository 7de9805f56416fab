//! Tests of the graph, without caches or an API server.

mod absence;
mod foreground;
mod inspect;
mod kinds;
mod memory;
mod mixed;
mod model;
mod observing;
mod orphaning;
mod references;
mod scale;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_manager::object::{Meta, OwnerRef, Resource, Text, Uid};
use tokio::time::Instant;

use super::super::kinds::{Kind, Kinds};
use super::*;

/// Two namespaced kinds, a cluster-scoped one, and one that is served in two versions and watched in one.
const POD: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const SET: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
const WIDGET: Resource = Resource::namespaced("example.com", "v1", "widgets", "Widget");
const OLD_WIDGET: Resource = Resource::namespaced("example.com", "v1beta1", "widgets", "Widget");
const ALL: [Resource; 5] = [POD, SET, NODE, WIDGET, OLD_WIDGET];
const WATCHED: [Resource; 4] = [POD, SET, NODE, WIDGET];

fn kinds(served: &[Resource], watched: &[Resource]) -> Arc<Kinds> {
    let watched: BTreeSet<Resource> = watched.iter().cloned().collect();
    let served = served.iter().map(|it| Kind::new(it.clone()));
    Arc::new(Kinds::new(served, &watched))
}

fn kind(resource: &Resource) -> Arc<Kind> {
    Arc::new(Kind::new(resource.clone()))
}

#[derive(Clone, Debug)]
struct Object {
    kind: Arc<Kind>,
    meta: Meta,
}

/// An object in namespace `a` (none if its kind is cluster-scoped) at version 1 with uid `uid-<name>`.
fn object(resource: &Resource, name: &str) -> Object {
    let meta = Meta {
        namespace: if resource.namespaced {
            "a".into()
        } else {
            Text::default()
        },
        name: name.into(),
        uid: Uid::from(&*format!("uid-{name}")),
        resource_version: "1".into(),
        ..Meta::default()
    };
    Object {
        kind: kind(resource),
        meta,
    }
}

impl Object {
    fn named(mut self, name: &str) -> Self {
        self.meta.name = name.into();
        self
    }

    fn within(mut self, namespace: &str) -> Self {
        self.meta.namespace = namespace.into();
        self
    }

    fn uid(mut self, uid: &str) -> Self {
        self.meta.uid = uid.into();
        self
    }

    fn at(mut self, version: u64) -> Self {
        self.meta.resource_version = version.to_string().as_str().into();
        self
    }

    fn refers(mut self, references: &[OwnerRef]) -> Self {
        self.meta.owner_references = references.into();
        self
    }

    fn finalizers(mut self, finalizers: &[&str]) -> Self {
        self.meta.finalizers = finalizers.iter().map(|it| Text::from(*it)).collect();
        self
    }

    fn deleting(mut self, finalizers: &[&str]) -> Self {
        self.meta.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
        self.finalizers(finalizers)
    }

    fn reference(&self) -> OwnerRef {
        OwnerRef {
            api_version: self.kind.api_version.clone(),
            kind: self.kind.kind.clone(),
            name: self.meta.name.clone(),
            uid: self.meta.uid.clone(),
            ..OwnerRef::default()
        }
    }

    fn blocking(&self) -> OwnerRef {
        OwnerRef {
            block_owner_deletion: true,
            ..self.reference()
        }
    }

    fn identity(&self) -> Identity {
        Identity::of(&self.kind, &self.meta.key(), &self.meta.uid)
    }

    fn item(&self) -> WorkItem {
        WorkItem::Object(self.meta.uid.clone())
    }

    fn owner_item(&self) -> WorkItem {
        WorkItem::Owner(self.identity())
    }
}

/// The graph at a point in time.
struct Fixture {
    graph: Graph,
    now: Instant,
}

impl Fixture {
    /// All kinds are served and synced.
    fn synced() -> Self {
        let mut case = Self::fresh();
        for resource in &WATCHED {
            let _ = case.graph.synced(&kind(resource));
        }
        case
    }

    /// All kinds are served, and no cache has synced.
    #[expect(clippy::disallowed_methods, reason = "any start time will do")]
    fn fresh() -> Self {
        let mut graph = Graph::default();
        let now = Instant::now();
        assert_eq!(graph.set_kinds(kinds(&ALL, &WATCHED), now), Effects::default());
        Self { graph, now }
    }

    /// Synced, with these objects observed.
    fn with(objects: &[&Object]) -> Self {
        let mut case = Self::synced();
        for object in objects {
            let _ = case.observe(object);
        }
        case
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
    }

    fn observe(&mut self, object: &Object) -> Effects {
        self.graph.observe(&object.kind, &object.meta)
    }

    fn delete(&mut self, object: &Object) -> Effects {
        self.graph.observe_deleted(&object.kind, &object.meta)
    }

    fn answer(&mut self, object: &Object, live: LiveState) {
        self.answer_in(object, live, Duration::ZERO);
    }

    /// The answer to a GET that took this long arrives now.
    fn answer_in(&mut self, object: &Object, live: LiveState, took: Duration) {
        let lookup = Lookup {
            kind: object.kind.clone(),
            identity: object.identity(),
        };
        // Sent before any proof of absence.
        let sent = (self.now - took, 0);
        let _ = self.graph.record_live_state(&lookup, live, sent, self.now);
    }

    fn evaluate(&self, object: &Object) -> Decision {
        self.graph.evaluate(&object.item(), self.now)
    }

    fn action(&self, object: &Object) -> Action {
        match self.evaluate(object) {
            Decision::Act(action) => action,
            other => panic!("no action: {other:?}"),
        }
    }

    fn operation(&self, object: &Object) -> Operation {
        self.action(object).operation
    }
}

fn items(work: &[WorkItem]) -> Effects {
    Effects {
        attempt_to_delete: work.to_vec(),
        ..Effects::default()
    }
}

fn read(object: &Object) -> Decision {
    Decision::LookUp(vec![Lookup {
        kind: object.kind.clone(),
        identity: object.identity(),
    }])
}
