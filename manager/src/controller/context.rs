//! The context of a reconcile of a [`Controller`](super::Controller).

use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Action, Cause, ReconcileContext};
use crate::cache::{Cache, Caches};
use crate::client::{Api, Client, ClientError, Patch};
use crate::env::Env;
use crate::events::{EventType, ObjectRef, Recorder};
use crate::finalizer;
use crate::object::{ApiObject, Key, Kind, Object as _, Typed};

/// The object to reconcile, and everything that a reconcile needs.
pub struct Context<K: Kind> {
    pub(super) key: Key,
    /// As cached when the reconcile started.
    pub(super) object: Option<Arc<K::Cached>>,
    pub(super) inner: ReconcileContext,
    pub(super) caches: Caches,
    pub(super) recorder: Recorder,
}

impl<K: Kind> Context<K> {
    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the object as it was cached when the reconcile started; none if it does not exist.
    #[must_use]
    pub fn object(&self) -> Option<Arc<K::Cached>> {
        self.object.clone()
    }

    /// Returns the client of the controller. Its writes fail once this process may no longer be the leader.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Returns the objects of another type, read from and written to the API server.
    #[must_use]
    pub fn api<T: ApiObject>(&self) -> Api<T, Client> {
        self.inner.client.api()
    }

    /// Returns the cache of another type, such as one that the controller owns or watches. The cache of any other type is
    /// started by the first call, and empty until it is [synced](Cache::synced).
    #[must_use]
    pub fn cache<T: Kind>(&self) -> Cache<T::Cached> {
        self.caches.of_kind::<T>()
    }

    /// Returns clock and random numbers.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Returns the reason for this reconcile, for logs.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.inner.cause
    }

    /// Is cancelled at a stop or the end of the term. A long reconcile should return early then.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.inner.stop
    }

    /// Records an event about the object, if it exists. `reason` is one `CamelCase` word.
    pub fn event(&self, type_: EventType, reason: &str, message: &str) {
        let Some(object) = &self.object else { return };
        let (resource, meta) = (K::resource(), object.meta());
        let object = ObjectRef {
            api_version: resource.api_version().into(),
            kind: (&*resource.kind).into(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        };
        self.recorder.event(&object, type_, reason, message);
    }

    /// Keeps a finalizer on the object while it exists, so that `cleanup` runs before it is deleted.
    ///
    /// `apply` runs while the object is not terminating, with the finalizer in place. `cleanup` runs while it is terminating;
    /// when it returns [`Action::Done`], the finalizer is removed. Neither runs if the object does not exist, or is
    /// terminating without the finalizer.
    pub async fn with_finalizer<A, C, E>(
        self,
        finalizer: &str,
        apply: impl FnOnce(Self) -> A,
        cleanup: impl FnOnce(Self) -> C,
    ) -> Result<Action, E>
    where
        A: Future<Output = Result<Action, E>>,
        C: Future<Output = Result<Action, E>>,
        E: From<ClientError>,
    {
        let Some(object) = self.object() else {
            return Ok(Action::Done);
        };
        let (client, resource, meta) = (self.client().clone(), K::resource(), object.meta());
        if meta.is_terminating() {
            if !meta.has_finalizer(finalizer) {
                return Ok(Action::Done);
            }
            let action = cleanup(self).await?;
            if action == Action::Done {
                finalizer::remove(&client, &resource, meta, finalizer).await?;
            }
            return Ok(action);
        }
        let Some(patch) = finalizer::add_patch(meta, finalizer) else {
            return apply(self).await;
        };
        // The rest of the reconcile continues from the new resourceVersion.
        let object: K::Cached = client.patch(&resource, &meta.key(), Patch::merge(&patch)).await?;
        let object = Some(Arc::new(object));
        apply(Self { object, ..self }).await
    }
}

impl<K: ApiObject + Serialize> Context<K> {
    /// Sets the status of the object, if it exists. Sends only the difference to the cached status, and nothing if there is
    /// none. A concurrent change fails it with 409 Conflict.
    pub async fn patch_status(&self, status: &impl Serialize) -> Result<(), ClientError> {
        let Some(object) = &self.object else {
            return Ok(());
        };
        let object: &Typed<K> = object;
        self.api().patch_status(&**object, status).await.map(drop)
    }
}

impl<K: Kind> std::fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
