//! Shared caches: one list and watch per resource, however many controllers ask.
//!
//! - A view never goes back to an older version, whatever the API server shows; and it is never emptied because the API
//!   server does not answer.
//! - A subscriber is told every change as old and new state; one that comes late is told the present state first, without
//!   a gap; one that is slow delays nobody.
//! - What vanished while nobody looked becomes a deletion with the last known state; another uid under the same name
//!   becomes a deletion and an addition.
//! - An object that cannot be decoded is present but unknown: it is counted, named, and never taken for deleted.
//! - A kind that is not served, or not to us, waits and says so; the other caches go on.
//!
//! The walk of a change: `reflector` (list and watch; what to do when they fail in `problem`, `backoff` and
//! `definition`) → `wire` (decode) → `shared` (the lock) → `store` (diff, `index`) → [`Delta`] → [`Subscription`].
//! [`Caches`] makes caches, [`Written`] is for reading one's own writes, and `barrier` for a new leader to catch up.

mod barrier;
mod caches;
mod definition;
mod delta;
mod index;
mod item;
mod metrics;
mod problem;
mod reflector;
mod scope;
mod shared;
mod status;
mod store;
mod subscription;
#[cfg(test)]
mod told;
mod wire;
mod written;

pub use caches::{CacheError, Caches};
pub use delta::Delta;
pub use item::Lookup;
pub use scope::Scope;
pub use status::Status;
pub use subscription::Subscription;
#[cfg(test)]
pub(crate) use subscription::{Publisher, channel};
pub use written::{Readiness, ViewState, Views, Write, Written};

use std::fmt;
use std::sync::Arc;

use self::shared::{AnyCache, Shared};
use self::store::Store;
use tokio::sync::watch;

use crate::object::{Key, MetaObject, Object, Resource, Uid, Version};

/// The cache of one resource in one projection. Clones are handles of the same one.
#[derive(Debug)]
pub struct Cache<T>(Arc<Shared<T>>);

/// The metadata in the cache of one resource, whatever else is in it. Clones are handles of the same one.
///
/// Of annotations it has those that the projection of the cache keeps, which may be none.
#[derive(Clone)]
pub struct MetaCache(Arc<dyn AnyCache>);

impl<T: Object> Cache<T> {
    /// The object under a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Lookup<T> {
        self.0.read(|store| store.get(key))
    }

    /// The objects of a namespace, ordered by name.
    #[must_use]
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.0.read(|store| store.in_namespace(namespace))
    }

    /// The objects that are managed by the owner with this uid.
    #[must_use]
    pub fn by_owner(&self, owner: &Uid) -> Vec<Arc<T>> {
        self.0.read(|store| store.owned(owner))
    }

    /// The objects of a namespace that nobody manages, ordered by name. Slow unless they are
    /// [indexed](Object::INDEX_UNMANAGED).
    #[must_use]
    pub fn unmanaged(&self, namespace: &str) -> Vec<Arc<T>> {
        self.0.read(|store| store.unmanaged(namespace))
    }

    /// The objects that have this value of a label. Slow unless the label was among those of [`Caches::of_labels`].
    #[must_use]
    pub fn by_label(&self, label: &str, value: &str) -> Vec<Arc<T>> {
        self.0.read(|store| store.labelled(label, value))
    }

    /// All objects, ordered by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<T>> {
        self.0.read(|store| store.iter().cloned().collect())
    }

    /// The keys of the objects that are there but could not be decoded.
    #[must_use]
    pub fn undecodable(&self) -> Vec<Key> {
        self.0.read(|store| store.unknown().cloned().collect())
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.read(Store::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version that all of it has reached; none before it is synced.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.version()
    }

    /// Whether it was filled once. It stays so, whatever happens to the API server.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0.is_synced()
    }

    /// Resolves when it is filled: at once if it is already.
    pub async fn synced(&self) {
        until(&*self.0, || self.is_synced()).await;
    }

    /// The present state, as additions, then every change. Nothing falls in between, and nothing comes twice.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<T> {
        self.0.subscribe()
    }

    /// Reads a list again, to be sure.
    pub fn relist(&self) {
        self.0.relist();
    }

    /// What is cached.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.0.resource
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status_of_all()
    }

    /// Whether the API server did not know the kind when it was last asked, and it has not been read since. Then all that
    /// is shown here may be gone, without a word: nobody should act for it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.0.is_unknown()
    }

    /// Whether it holds all objects of the resource: of one that does not, an object may be gone only for having left
    /// the scope.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_whole()
    }
}

impl MetaCache {
    /// The object under a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Lookup<MetaObject> {
        self.0.get_meta(key)
    }

    /// All objects, ordered by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<MetaObject>> {
        self.0.all_meta()
    }

    /// As [`Cache::version`].
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.version()
    }

    /// As [`Cache::is_synced`].
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0.is_synced()
    }

    /// As [`Cache::synced`].
    pub async fn synced(&self) {
        until(&*self.0, || self.is_synced()).await;
    }

    /// As [`Cache::subscribe`].
    #[must_use]
    pub fn subscribe(&self) -> Subscription<MetaObject> {
        self.0.subscribe_meta()
    }

    /// As [`Cache::relist`].
    pub fn relist(&self) {
        self.0.relist();
    }

    /// Changes after each change of the cache or of its status, when all subscribers have been told.
    #[must_use]
    pub fn moved(&self) -> watch::Receiver<()> {
        self.0.moved()
    }

    /// What is cached.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.0.resource()
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status_of_all()
    }

    /// As [`Cache::is_whole`].
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_whole()
    }
}

// Not derived: a handle can be cloned whatever is cached.
impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl fmt::Debug for MetaCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetaCache").field(self.resource()).finish()
    }
}

/// Resolves when `condition` of a cache holds: at once if it does already. Cancel safe.
async fn until(cache: &dyn AnyCache, condition: impl Fn() -> bool) {
    until_some(cache, || condition().then_some(())).await;
}

/// Resolves to what `look` finds in a cache, when it finds something. Cancel safe.
async fn until_some<R>(cache: &dyn AnyCache, look: impl Fn() -> Option<R>) -> R {
    // Before looking, or a change in between would be missed.
    let mut moved = cache.moved();
    loop {
        if let Some(found) = look() {
            return found;
        }
        // The sender lives in the cache.
        let _ = moved.changed().await;
    }
}
