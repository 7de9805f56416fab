//! CRDs and `APIService`s, whose changes announce a change of discovery. Only their names are read.

use std::collections::BTreeSet;
use std::future::pending;

use steersman_manager::cache::{Caches, Delta, Subscription};
use steersman_manager::object::{MetaObject, Resource};

use super::documents::Documents;

/// A resource to watch, and whether the documents list what one of its objects defines, by the name of the object.
type Watched = (Resource, fn(&Documents, &str) -> bool);

const WATCHED: [Watched; 2] = [
    (
        Resource::cluster(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        ),
        // `<plural>.<group>`
        |documents, name| {
            let name = name.split_once('.');
            name.is_some_and(|(plural, group)| documents.has(group, plural))
        },
    ),
    (
        Resource::cluster("apiregistration.k8s.io", "v1", "apiservices", "APIService"),
        // `<version>.<group>`
        |documents, name| {
            let name = name.split_once('.');
            name.is_some_and(|(version, group)| documents.lists(group, version))
        },
    ),
];

/// The watches of both resources.
#[derive(Default)]
pub(super) struct Triggers([Option<Trigger>; 2]);

struct Trigger {
    subscription: Subscription<MetaObject>,
    names: BTreeSet<String>,
    /// Deleted objects that the documents may still reflect.
    deleted: BTreeSet<String>,
}

impl Triggers {
    /// Watches each resource while it is served.
    pub(super) fn follow(&mut self, documents: &Documents, caches: &Caches) {
        for (trigger, (resource, _)) in self.0.iter_mut().zip(&WATCHED) {
            if !documents.serves(resource) {
                *trigger = None;
            } else if trigger.is_none() {
                *trigger = Some(Trigger {
                    subscription: caches.metadata(resource).subscribe(),
                    names: BTreeSet::new(),
                    deleted: BTreeSet::new(),
                });
            }
        }
    }

    /// Waits for changes. False if the objects already existed when the watch started. Cancel safe.
    pub(super) async fn changed(&mut self) -> bool {
        let [crds, services] = &mut self.0;
        tokio::select! {
            biased;
            changed = changed(crds) => changed,
            changed = changed(services) => changed,
        }
    }

    /// Whether a CRD defines the resource, or an `APIService` a version that the documents do not list.
    pub(super) fn define(&self, documents: &Documents, group: &str, version: &str, plural: &str) -> bool {
        let [crds, services] = &self.0;
        let has =
            |it: &Option<Trigger>, name: String| it.as_ref().is_some_and(|it| it.names.contains(&*name));
        has(crds, format!("{plural}.{group}"))
            || !documents.lists(group, version) && has(services, format!("{version}.{group}"))
    }

    /// Whether the documents do not reflect all objects yet.
    pub(super) fn lags(&mut self, documents: &Documents) -> bool {
        let mut lags = false;
        for (trigger, (_, lists)) in self.0.iter_mut().zip(&WATCHED) {
            let Some(it) = trigger else { continue };
            it.deleted.retain(|name| lists(documents, name));
            lags |= !it.deleted.is_empty() || !it.names.iter().all(|name| lists(documents, name));
        }
        lags
    }
}

async fn changed(trigger: &mut Option<Trigger>) -> bool {
    let Some(it) = trigger else {
        return pending().await;
    };
    let Some(first) = it.subscription.next().await else {
        // The cache was dropped because its resource is not served.
        *trigger = None;
        return true;
    };
    let mut changed = it.apply(&first);
    while let Some(next) = it.subscription.try_next() {
        changed |= it.apply(&next);
    }
    changed
}

impl Trigger {
    fn apply(&mut self, delta: &Delta<MetaObject>) -> bool {
        let name = delta.latest().metadata.name.to_string();
        if matches!(delta, Delta::Deleted { .. }) {
            self.names.remove(&name);
            self.deleted.insert(name);
            return true;
        }
        self.deleted.remove(&name);
        self.names.insert(name);
        !matches!(delta, Delta::Added { initial: true, .. })
    }
}
