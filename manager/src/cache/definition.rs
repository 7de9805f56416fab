//! The definition of a custom kind that is not served: whatever happens to it may be that it is served from now on.
//!
//! It is watched only while a reflector has a long wait before it, and only by its name: that is all one has to be
//! allowed. Who is not allowed that, or waits for a kind that is none of a definition, waits in full.

use std::future::pending;
use std::time::Duration;

use super::item::Item;
use super::wire::{self, Event};
use crate::client::{Client, View, present};
use crate::object::{Key, MetaObject, Resource, Version};

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
        match self.follow(client, time).await {
            Ok(changed) => self.seen = changed,
            Err(reason) => {
                tracing::debug!(definition = self.name, reason, "Watch ended");
                pending::<()>().await;
            }
        }
    }

    /// The version of another state than the last one, or why the watch for one ended.
    async fn follow(&self, client: &Client, time: Duration) -> Result<Version, String> {
        let key = Key::new("", self.name.as_str());
        let present = present(client, &DEFINITIONS, &key, View::Metadata).await;
        let present = present.map_err(|error| error.to_string())?;
        if let Some(version) = present.object_version()
            && version != self.seen
        {
            return Ok(version);
        }
        let query = present.watch(&key, time.as_secs() + 1);
        let lines = client.watch(&DEFINITIONS, "", &query, View::Metadata).await;
        let mut lines = lines.map_err(|error| error.to_string())?;
        loop {
            let line = lines.next().await.map_err(|error| error.to_string())?;
            let line = line.ok_or("the server closed the watch")?;
            match wire::event::<MetaObject>(&line).map_err(|error| error.to_string())? {
                Event::Put(Item::Known(it))
                    if it.metadata.name == *self.name && it.metadata.resource_version != self.seen =>
                {
                    return Ok(it.metadata.resource_version);
                }
                Event::Error(status) => {
                    return Err(format!(
                        "an error event with code {}: {}",
                        status.code, status.message
                    ));
                }
                _ => {}
            }
        }
    }
}
