//! A small world to tell the graph of.

mod absence;
mod coordinates;
mod foreground;
mod mixed;
mod model;
mod observing;
mod orphaning;
mod scale;
mod serving;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::object::{Meta, OwnerRef, Resource, Text, Uid};
use jiff::Timestamp;
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

/// A state of an object.
#[derive(Clone, Debug)]
struct Thing {
    kind: Arc<Kind>,
    meta: Meta,
}

/// An object in namespace `a`, if its kind has namespaces, at version 1. Its uid is `uid-` and its name.
fn thing(resource: &Resource, name: &str) -> Thing {
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
    Thing {
        kind: kind(resource),
        meta,
    }
}

impl Thing {
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

    fn object(&self) -> Work {
        Work::Object(self.meta.uid.clone())
    }

    fn owner(&self) -> Work {
        Work::Owner(self.identity())
    }
}

/// The graph at a time.
struct Scene {
    graph: Graph,
    now: Instant,
}

impl Scene {
    /// All kinds are served and known whole.
    fn settled() -> Self {
        let mut scene = Self::fresh();
        for resource in &WATCHED {
            let _ = scene.graph.synced(&kind(resource));
        }
        scene
    }

    /// All kinds are served, and nothing is known.
    #[expect(clippy::disallowed_methods, reason = "any time will do to begin with")]
    fn fresh() -> Self {
        let mut graph = Graph::default();
        let now = Instant::now();
        assert_eq!(graph.serve(kinds(&ALL, &WATCHED), now), Effects::default());
        Self { graph, now }
    }

    /// Settled, with these.
    fn with(things: &[&Thing]) -> Self {
        let mut scene = Self::settled();
        for thing in things {
            let _ = scene.see(thing);
        }
        scene
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn see(&mut self, thing: &Thing) -> Effects {
        self.graph.observe(&thing.kind, &thing.meta)
    }

    fn lose(&mut self, thing: &Thing) -> Effects {
        self.graph.gone(&thing.kind, &thing.meta)
    }

    fn answer(&mut self, thing: &Thing, live: Live) {
        self.answer_in(thing, live, Duration::ZERO);
    }

    /// The answer to a GET that took this long arrives now.
    fn answer_in(&mut self, thing: &Thing, live: Live, took: Duration) {
        let question = Question {
            kind: thing.kind.clone(),
            identity: thing.identity(),
        };
        self.graph.exists(&question, live, self.now - took, self.now);
    }

    fn judge(&self, thing: &Thing) -> Judgement {
        self.graph.judge(&thing.object(), self.now)
    }

    fn act(&self, thing: &Thing) -> Act {
        match self.judge(thing) {
            Judgement::Act(act) => act,
            other => panic!("nothing is done: {other:?}"),
        }
    }

    fn deed(&self, thing: &Thing) -> Deed {
        self.act(thing).deed
    }
}

fn look(work: &[Work]) -> Effects {
    Effects {
        look: work.to_vec(),
        ..Effects::default()
    }
}

fn ask(thing: &Thing) -> Judgement {
    Judgement::Ask(vec![Question {
        kind: thing.kind.clone(),
        identity: thing.identity(),
    }])
}
