//! The definition of a custom kind that is not served: whatever happens to it may be that it is served from now on.
//!
//! It is watched only while a reflector has a long wait before it, and only by its name: that is all one has to be
//! allowed. Who is not allowed that, or waits for a kind that is none of a definition, waits in full.

use std::future::pending;
use std::time::Duration;

use crate::client::{Client, ObjectEvent, ObjectWatch, View, WatchEnd};
use crate::env::Env;
use crate::object::{Key, Resource, Version};

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
    pub(super) async fn changed(&mut self, env: &Env, client: &Client, time: Duration) {
        match self.follow(env, client, time).await {
            Ok(changed) => self.seen = changed,
            Err(reason) => {
                tracing::debug!(definition = self.name, %reason, "Watch ended");
                pending::<()>().await;
            }
        }
    }

    /// Returns the next resourceVersion of the definition, or why the watch ended.
    async fn follow(&self, env: &Env, client: &Client, time: Duration) -> Result<Version, WatchEnd> {
        let watch = ObjectWatch {
            env: env.clone(),
            client: client.clone(),
            resource: DEFINITIONS,
            key: Key::new("", self.name.as_str()),
            view: View::Metadata,
            idle_timeout: Duration::MAX,
        };
        let is_new = |version: &Version| *version != self.seen;
        let state = watch.read().await?;
        if let Some(version) = state.object_version().filter(is_new) {
            return Ok(version);
        }
        let timeout = time.saturating_add(Duration::from_secs(1));
        let mut events = watch.open_for(&state.version, timeout).await?;
        loop {
            let event = events.next().await?;
            if matches!(event, ObjectEvent::Updated(_)) && is_new(&event.version()) {
                return Ok(event.version());
            }
        }
    }
}
