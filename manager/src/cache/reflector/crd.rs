//! The watch of a `CustomResourceDefinition` whose resource is not served: a change may mean that it is served now.
//!
//! The definition is watched only during a long backoff, and only by its name, which limits the required permissions.
//! Without them, and for other resources, the reflector waits for its whole backoff.

use std::future::pending;
use std::time::Duration;

use crate::client::{ObjectEvent, ObjectWatch, Reader, View, WatchEnd};
use crate::env::Env;
use crate::object::{Key, LoggedObject, Resource, Version};

const CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// The definition of one resource.
#[derive(Debug)]
pub(super) struct CrdWatch {
    name: String,
    /// The last reported version: each is reported once.
    seen: Version,
}

impl CrdWatch {
    /// Returns the definition of a resource; none if it cannot be a custom resource.
    pub(super) fn of(resource: &Resource) -> Option<Self> {
        // The group of a custom resource is a domain.
        resource.group.contains('.').then(|| Self {
            name: format!("{}.{}", resource.plural, resource.group),
            seen: Version::none(),
        })
    }

    /// Waits for a change since the last call. Never returns if there is none within `time`, or if the watch fails.
    pub(super) async fn changed(&mut self, env: &Env, client: &Reader, time: Duration) {
        match self.follow(env, client, time).await {
            Ok(changed) => self.seen = changed,
            Err(reason) => {
                let object = LoggedObject::new("CustomResourceDefinition", "", &self.name);
                tracing::debug!(%object, %reason, "Watch ended");
                pending::<()>().await;
            }
        }
    }

    /// Returns the next resourceVersion of the definition, or why the watch ended.
    async fn follow(&self, env: &Env, client: &Reader, time: Duration) -> Result<Version, WatchEnd> {
        let watch = ObjectWatch {
            env: env.clone(),
            client: client.clone(),
            resource: CRDS,
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
