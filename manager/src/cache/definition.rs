//! The definition of a custom kind that is not served: whatever happens to it may be that it is served from now on.
//!
//! It is watched only while a reflector has a long wait before it, and only by its name: that is all one has to be
//! allowed. Who is not allowed that, or waits for a kind that is none of a definition, waits in full.

use std::future::pending;
use std::time::Duration;

use super::item::Item;
use super::wire::{self, Event};
use crate::client::{Client, View, WatchQuery};
use crate::object::{MetaObject, Resource, Version};

/// Where they are.
const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// The definition of one kind.
#[derive(Debug)]
pub(super) struct Definition {
    name: String,
    /// The state that was last told of: it is told of once.
    seen: Version,
}

impl Definition {
    /// That of a resource; none if there can be none.
    pub(super) fn of(resource: &Resource) -> Option<Self> {
        // The group of a custom kind is a domain.
        resource.group.contains('.').then(|| Self {
            name: format!("{}.{}", resource.plural, resource.group),
            seen: Version::none(),
        })
    }

    /// Resolves when it is in another state than the last time; never if that does not happen within `time`, or cannot be
    /// told.
    pub(super) async fn changed(&mut self, client: &Client, time: Duration) {
        let query = WatchQuery {
            field_selector: format!("metadata.name={}", self.name),
            timeout_seconds: time.as_secs() + 1,
            // The present state comes first.
            ..WatchQuery::default()
        };
        let Ok(mut lines) = client.watch(&DEFINITIONS, "", &query, View::Metadata).await else {
            return pending().await;
        };
        while let Ok(Some(line)) = lines.next().await {
            if let Ok(Event::Put(Item::Known(it))) = wire::event::<MetaObject>(&line)
                && it.metadata.resource_version != self.seen
            {
                self.seen = it.metadata.resource_version;
                return;
            }
        }
        pending::<()>().await;
    }
}
