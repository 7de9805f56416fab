//! Shared caches: one list and watch per resource, shared by all controllers.
//!
//! - A cache never goes back to an older resourceVersion, and stays as it is while the API server is unavailable.
//! - A subscriber receives every change with the old and the new state. A late subscriber receives the current state
//!   first, without a gap. A slow subscriber does not block others.
//! - An object that is missing in a relist becomes a delete with its last known state. A new uid under the same name
//!   becomes a delete and an add.
//! - An object that cannot be decoded is reported as [`Lookup::Undecodable`], counted, and never treated as deleted.
//! - The cache of a resource that is not served or forbidden waits for it without affecting other caches.
//!
//! The path of a change: `reflector` (list and watch) → `informer` (all projections of the resource) → `wire` (decode) →
//! `shared_store` (lock) → `store` (diff, `index`) → [`Delta`] → [`Subscription`]. [`Caches`] creates the caches, [`PendingWrites`] implements read-your-writes, and
//! `barrier` lets a new leader catch up.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_manager::client::Transport;
//! # use serde_json::json;
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! # let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": {"app": "web"}}});
//! # let client = transport.unfenced("admin", None);
//! # let _: serde_json::Value = client.create(&Resource::of::<ConfigMap>(), "default", map.to_string().into()).await?;
//! use steersman_manager::cache::{Caches, Delta, Scope};
//! use steersman_manager::object::{Key, Resource};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! let caches = Caches::new(&env, transport.reader("caches", None), Scope::default(), &registry)?;
//! let maps = caches.of_kind::<ConfigMap>();
//! let by_app = maps.index_label("app");
//! maps.synced().await;
//!
//! let settings = maps.get(&Key::new("default", "settings")).present().expect("a cached object");
//! assert_eq!(by_app.get("web"), [settings]);
//! assert!(matches!(maps.subscribe().next().await, Some(Delta::Added { initial: true, .. })));
//! # Ok(())
//! # }
//! ```

mod barrier;
mod caches;
mod delta;
mod index;
mod informer;
mod metrics;
mod pending_writes;
mod reflector;
mod scope;
mod shared_store;
mod status;
mod store;
mod subscription;
#[cfg(test)]
mod tests;
mod wire;

#[cfg(feature = "serve")]
pub(crate) use caches::CacheSummary;
pub use caches::{CacheError, Caches};
pub use delta::Delta;
pub use index::Index;
pub use pending_writes::{CachePosition, CachePositions, PendingWrites, Readiness, Write};
pub use scope::Scope;
pub use status::Status;
pub use store::Lookup;
pub use subscription::Subscription;
#[cfg(test)]
pub(crate) use subscription::{Publisher, channel};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::informer::Informer;
use self::shared_store::{AnyStore, SharedStore};
use self::store::Store;

use crate::object::{Key, MetaObject, Object, Resource, Text, Uid, Version};
use crate::sync::watch;

/// The cache of one resource in one projection. Clones share it.
pub struct Cache<T> {
    informer: Arc<Informer>,
    store: Arc<SharedStore<T>>,
}

/// The metadata in the cache of one resource, in any projection. Clones share it.
///
/// It has only the annotations that the projection of the cache keeps.
#[derive(Clone)]
pub struct MetaCache {
    informer: Arc<Informer>,
    store: Arc<dyn AnyStore>,
}

impl<T: Object> Cache<T> {
    /// Looks an object up by its key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Lookup<T> {
        self.store.read(|store| store.get(key))
    }

    /// Returns the objects of a namespace, ordered by name.
    #[must_use]
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.store.read(|store| store.in_namespace(namespace))
    }

    /// Returns the objects whose controller has this uid.
    #[must_use]
    pub fn by_owner(&self, owner: &Uid) -> Vec<Arc<T>> {
        self.store.read(|store| store.owned(owner))
    }

    /// Returns the objects of a namespace without a controller, ordered by name. Slow unless they are
    /// [indexed](Object::INDEX_UNMANAGED).
    #[must_use]
    pub fn unmanaged(&self, namespace: &str) -> Vec<Arc<T>> {
        self.store.read(|store| store.unmanaged(namespace))
    }

    /// Adds an index of the objects by the values that a function returns for each. The function must depend only on the
    /// object. The index exists as long as its handle.
    #[must_use]
    pub fn index<V: IntoIterator<Item = Text>>(
        &self,
        values: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Index<T> {
        Index::new(&self.store, move |object| values(object).into_iter().collect())
    }

    /// [`Cache::index`] by the value of a label.
    #[must_use]
    pub fn index_label(&self, label: &str) -> Index<T> {
        let label = Text::from(label);
        self.index(move |object| object.meta().labels.get(&label).cloned())
    }

    /// [`Cache::index`] by the uid, for [`Index::owner`].
    #[must_use]
    pub fn index_uid(&self) -> Index<T> {
        self.index(|object| Some(object.meta().uid.to_string().into()))
    }

    /// Returns all objects, ordered by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<T>> {
        self.store.read(|store| store.iter().cloned().collect())
    }

    /// Returns the keys of the objects that could not be decoded.
    #[must_use]
    pub fn undecodable(&self) -> Vec<Key> {
        self.store.read(|store| store.undecodable().collect())
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store.read(Store::len)
    }

    /// Returns true if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the resourceVersion that the cache has reached; none before it is synced.
    #[must_use]
    pub fn version(&self) -> Version {
        self.store.version()
    }

    /// Returns true once the first list is complete, and in a new leader once the cache includes all writes of the previous one.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.store.is_synced() && self.informer.behind().is_empty()
    }

    /// Waits until the cache [is synced](Self::is_synced).
    pub async fn synced(&self) {
        until(&self.informer, || self.is_synced()).await;
    }

    /// Subscribes to the current state, as initial adds, and to all later changes, without a gap or a repetition.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<T> {
        self.store.subscribe()
    }

    /// Requests a relist.
    pub fn relist(&self) {
        self.informer.relist();
    }

    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.informer.resource
    }

    /// Returns the status of the list and watch.
    #[must_use]
    pub fn status(&self) -> Status {
        self.informer.status_of_all()
    }

    /// Returns the time since the list and watch last worked: since an event, a bookmark, a page of a list, or the opening of a
    /// watch. Before the first one, the time since the cache was created. None while the API server does not serve the resource.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        self.informer.silence()
    }

    /// Returns true if the API server did not serve the resource at the last request. All cached objects may be deleted, so
    /// controllers must not act on them.
    #[must_use]
    pub fn is_unserved(&self) -> bool {
        self.informer.is_unserved()
    }

    /// Returns true if the scope includes all objects of the resource. Otherwise, a delete may only mean that an object has
    /// left the scope.
    #[must_use]
    pub fn includes_all(&self) -> bool {
        self.informer.includes_all
    }
}

impl MetaCache {
    /// Looks an object up by its key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Lookup<MetaObject> {
        self.store.get_meta(key)
    }

    /// Returns all objects, ordered by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<MetaObject>> {
        self.store.all_meta()
    }

    /// See [`Cache::version`].
    #[must_use]
    pub fn version(&self) -> Version {
        self.store.version()
    }

    /// See [`Cache::is_synced`].
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.store.is_synced()
    }

    /// See [`Cache::synced`].
    pub async fn synced(&self) {
        until(&self.informer, || self.is_synced()).await;
    }

    /// See [`Cache::subscribe`].
    #[must_use]
    pub fn subscribe(&self) -> Subscription<MetaObject> {
        Arc::clone(&self.store).subscribe_meta()
    }

    /// See [`Cache::relist`].
    pub fn relist(&self) {
        self.informer.relist();
    }

    /// Notifies of each change of the cache or its status, after the subscribers received it.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.informer.changes()
    }

    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.informer.resource
    }

    /// Returns the status of the list and watch.
    #[must_use]
    pub fn status(&self) -> Status {
        self.informer.status_of_all()
    }

    /// Returns the number of lists and watches that have failed, unless the API server has answered that it does not serve the
    /// resource. The storage of the API server may have been restored from a backup during each failure.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.informer.failures()
    }

    /// See [`Cache::silence`].
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        self.informer.silence()
    }

    /// See [`Cache::includes_all`].
    #[must_use]
    pub fn includes_all(&self) -> bool {
        self.informer.includes_all
    }
}

// Not derived: that would require `T: Clone`.
impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self {
            informer: Arc::clone(&self.informer),
            store: Arc::clone(&self.store),
        }
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.informer.resource).finish()
    }
}

impl fmt::Debug for MetaCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetaCache").field(self.resource()).finish()
    }
}

/// Waits until `condition` holds, which is evaluated at each change of the cache. Cancel safe.
async fn until(informer: &Informer, condition: impl Fn() -> bool) {
    until_some(informer, || condition().then_some(())).await;
}

/// Waits until `find` returns something, which is called at each change of the cache. Cancel safe.
async fn until_some<R>(informer: &Informer, find: impl Fn() -> Option<R>) -> R {
    // Before the first call, or a change in between would be missed.
    let mut changes = informer.changes();
    loop {
        if let Some(found) = find() {
            return found;
        }
        // The informer owns the sender.
        let _ = changes.changed().await;
    }
}
