//! The caches of a manager. Each is created by the first request for it, and shared by all later ones.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use prometheus::Registry;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::metrics::{CacheCollector, CacheMetrics, CacheStats};
use super::pending_writes::{CachePosition, CachePositions};
use super::reflector::Reflector;
use super::scope::Scope;
use super::shared_store::{AnyCache, SharedStore};
use super::status::Status;
use super::{Cache, MetaCache, until};
use crate::client::{Reader, View};
use crate::env::Env;
use crate::object::{Key, Kind, MetaObject, Object, Resource, Text, Uid, Version};

/// The error of creating caches.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The metrics are registered already, which is a programming error.
    #[error("cannot register the metrics of the caches: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The caches of a manager. Clones share them.
#[derive(Clone)]
pub struct Caches(Arc<Inner>);

struct Inner {
    env: Env,
    client: Reader,
    scope: Scope,
    series: CacheMetrics,
    registry: Registry,
    caches: Arc<CacheMap>,
    /// The resource whose reflector panicked.
    failed: watch::Sender<Option<Resource>>,
}

/// The caches by resource and projection.
type CacheMap = Mutex<ByResource>;
type ByResource = BTreeMap<Resource, BTreeMap<TypeId, Entry>>;

struct Entry {
    cache: Arc<dyn AnyCache>,
    /// It was requested by [`Caches::of`], not only by [`Caches::metadata`].
    required: bool,
    reflectors: Vec<AbortHandle>,
}

/// The status of one cache.
#[derive(Debug)]
pub(crate) struct CacheSummary {
    pub(crate) resource: Resource,
    pub(crate) status: Status,
    pub(crate) synced: bool,
    /// A controller depends on it, beyond its metadata.
    pub(crate) required: bool,
    pub(crate) stats: CacheStats,
}

impl Caches {
    /// Returns an empty set of caches that list and watch the objects in `scope` by `client`.
    pub fn new(env: &Env, client: Reader, scope: Scope, registry: &Registry) -> Result<Self, CacheError> {
        Self::for_manager("", env, client, scope, registry)
    }

    /// [`Caches::new`] with the name of the manager, which is the value of the label `name` in metrics.
    pub(crate) fn for_manager(
        manager: &str,
        env: &Env,
        client: Reader,
        scope: Scope,
        registry: &Registry,
    ) -> Result<Self, CacheError> {
        let series = CacheMetrics::new(manager)?;
        let caches: Arc<CacheMap> = Arc::default();
        let scraped = Arc::clone(&caches);
        let stats = move || {
            let stats = |cache: Arc<dyn AnyCache>| (cache.resource().clone(), cache.stats());
            all(&scraped).into_iter().map(stats).collect()
        };
        registry.register(Box::new(CacheCollector {
            series: series.clone(),
            stats,
        }))?;
        Ok(Self(Arc::new(Inner {
            env: env.clone(),
            client,
            scope,
            series,
            registry: registry.clone(),
            caches,
            failed: watch::Sender::new(None),
        })))
    }

    /// Returns the cache of a resource in a projection. The first call starts its list and watch.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of<T: Object>(&self, resource: &Resource) -> Cache<T> {
        self.of_labels(resource, &[])
    }

    /// Returns the cache of a type of objects: [`Caches::of`] its resource.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of_kind<K: Kind>(&self) -> Cache<K::Cached> {
        self.of(&K::resource())
    }

    /// [`Caches::of`] with an index for each of these labels, in addition to those of earlier calls.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of_labels<T: Object>(&self, resource: &Resource, labels: &[&str]) -> Cache<T> {
        Cache(self.cache(resource, labels, true))
    }

    /// Returns the metadata of a resource, from an existing cache in any projection or from a metadata-only cache. Call
    /// [`Caches::of`] first where both are needed, or there will be two caches. The manager becomes ready and leads without
    /// waiting for metadata-only caches.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn metadata(&self, resource: &Resource) -> MetaCache {
        let known = self.caches_of(resource).into_iter().next();
        MetaCache(known.unwrap_or_else(|| self.cache::<MetaObject>(resource, &[], false)))
    }

    /// Stops the metadata-only cache of a resource that is no longer served. Its handles receive no more changes, and its
    /// memory is freed with the last handle. A later request creates a new cache. Caches of [`Caches::of`] are not affected.
    pub fn forget_metadata(&self, resource: &Resource) {
        // A concurrent scrape would recreate the metrics.
        let _scraping = self.0.series.scraping();
        let mut caches = lock(&self.0.caches);
        let Some(projections) = caches.get_mut(resource) else {
            return;
        };
        let id = TypeId::of::<MetaObject>();
        if projections.get(&id).is_none_or(|kept| kept.required) {
            return;
        }
        let forgotten = projections.remove(&id);
        for reflector in forgotten.into_iter().flat_map(|kept| kept.reflectors) {
            reflector.abort();
        }
        if projections.is_empty() {
            caches.remove(resource);
            self.0.series.forget(resource);
        }
    }

    /// Waits until all caches that exist now are synced.
    pub async fn synced(&self) {
        for cache in all(&self.0.caches) {
            until(&*cache, || cache.is_synced()).await;
        }
    }

    /// Returns the status of each cache, ordered by resource.
    #[must_use]
    pub fn statuses(&self) -> Vec<(Resource, Status)> {
        let caches = all(&self.0.caches).into_iter();
        caches
            .map(|cache| (cache.resource().clone(), cache.status_of_all()))
            .collect()
    }

    /// Returns true if all caches of a resource are synced. They may be stale.
    #[must_use]
    pub fn is_synced(&self, resource: &Resource) -> bool {
        self.caches_of(resource).iter().all(|cache| cache.is_synced())
    }

    /// Returns true if the scope includes all objects of all resources.
    #[must_use]
    pub fn include_all(&self) -> bool {
        let any = Resource::namespaced("", "v1", "pods", "Pod");
        self.0.scope.includes_all(&any)
    }

    /// Requests a relist of a resource, if it is cached.
    pub fn relist(&self, resource: &Resource) {
        for cache in self.caches_of(resource) {
            cache.relist();
        }
    }

    /// Waits until a reflector panics, and returns its resource. The process should exit: the cache will only become more
    /// stale.
    pub async fn failed(&self) -> Resource {
        let mut failed = self.0.failed.subscribe();
        let resource = failed
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|it| it.clone());
        match resource {
            Some(resource) => resource,
            // `self` owns the sender.
            None => std::future::pending().await,
        }
    }

    /// Returns a summary of each cache, ordered by resource.
    pub(crate) fn summaries(&self) -> Vec<CacheSummary> {
        let kept = self.entries().into_iter();
        kept.map(|(cache, required)| CacheSummary {
            resource: cache.resource().clone(),
            status: cache.status_of_all(),
            synced: cache.is_synced(),
            required,
            stats: cache.stats(),
        })
        .collect()
    }

    pub(super) fn client(&self) -> &Reader {
        &self.0.client
    }

    pub(super) fn env(&self) -> &Env {
        &self.0.env
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.0.scope
    }

    fn caches_of(&self, resource: &Resource) -> Vec<Arc<dyn AnyCache>> {
        let caches = lock(&self.0.caches);
        let projections = caches.get(resource).into_iter().flat_map(BTreeMap::values);
        projections.map(|kept| Arc::clone(&kept.cache)).collect()
    }

    /// Returns all caches, each with whether it is required.
    pub(super) fn entries(&self) -> Vec<(Arc<dyn AnyCache>, bool)> {
        let caches = lock(&self.0.caches);
        let kept = caches.values().flat_map(BTreeMap::values);
        kept.map(|kept| (Arc::clone(&kept.cache), kept.required))
            .collect()
    }

    fn cache<T: Object>(&self, resource: &Resource, labels: &[&str], required: bool) -> Arc<SharedStore<T>> {
        let mut caches = lock(&self.0.caches);
        let id = TypeId::of::<T>();
        if let Some(known) = caches.get_mut(resource).and_then(|it| it.get_mut(&id))
            && let Ok(shared) = Arc::clone(&known.cache).any().downcast::<SharedStore<T>>()
        {
            known.required |= required;
            shared.index(labels);
            return shared;
        }
        let (shared, reflectors) = self.start::<T>(resource, labels);
        let entry = Entry {
            cache: Arc::clone(&shared) as _,
            required,
            reflectors,
        };
        caches.entry(resource.clone()).or_default().insert(id, entry);
        shared
    }

    fn start<T: Object>(
        &self,
        resource: &Resource,
        labels: &[&str],
    ) -> (Arc<SharedStore<T>>, Vec<AbortHandle>) {
        let Inner {
            env,
            client,
            scope,
            series,
            failed,
            ..
        } = &*self.0;
        let namespaces = scope.partitions(resource);
        let partitions = namespaces.len();
        let shared = Arc::new(SharedStore::new(
            resource,
            namespaces,
            scope.includes_all(resource),
            labels.iter().map(|label| Text::from(*label)),
            &env.clock,
            series.counters(resource),
        ));
        let view = if TypeId::of::<T>() == TypeId::of::<MetaObject>() {
            View::Metadata
        } else {
            View::Full
        };
        let reflectors = (0..partitions).map(|partition| {
            let reflector = Reflector::new(env, client, view, &scope.label_selector, &shared, partition);
            let (failed, resource) = (failed.clone(), resource.clone());
            let reflector = env.tasks.spawn(async move {
                // The panic hook logs the panic.
                if AssertUnwindSafe(reflector.run()).catch_unwind().await.is_err() {
                    failed.send_replace(Some(resource));
                }
            });
            reflector.abort_handle()
        });
        let reflectors = reflectors.collect();
        (shared, reflectors)
    }
}

/// Reports the oldest of several caches of one resource.
impl CachePositions for Caches {
    fn position(&self, resource: &Resource) -> Option<CachePosition> {
        let positions = self.caches_of(resource).into_iter().map(|cache| cache.position());
        positions.reduce(|a, b| CachePosition {
            version: least(a.version, b.version),
            epoch: a.epoch + b.epoch,
            list_started_at: a.list_started_at.min(b.list_started_at),
        })
    }

    fn identity(&self, resource: &Resource, object: &Key) -> Option<(Uid, Version)> {
        let caches = self.caches_of(resource).into_iter();
        let held: Option<Vec<_>> = caches.map(|cache| cache.identity(object)).collect();
        // If the uids differ, one of the caches is stale.
        held?.into_iter().map(Some).reduce(|a, b| match (a?, b?) {
            (a, b) if a.0 == b.0 => Some((a.0, least(a.1, b.1))),
            _ => None,
        })?
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let scrape = CacheCollector {
            series: self.series.clone(),
            stats: Vec::<(Resource, CacheStats)>::new,
        };
        // Fails only if it is not registered.
        let _ = self.registry.unregister(Box::new(scrape));
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.statuses()).finish()
    }
}

fn least(a: Version, b: Version) -> Version {
    if a.has_reached(&b) {
        b
    } else if b.has_reached(&a) || a == b {
        a
    } else {
        Version::none()
    }
}

fn all(caches: &CacheMap) -> Vec<Arc<dyn AnyCache>> {
    let caches = lock(caches);
    let kept = caches.values().flat_map(BTreeMap::values);
    kept.map(|kept| Arc::clone(&kept.cache)).collect()
}

fn lock(caches: &CacheMap) -> std::sync::MutexGuard<'_, ByResource> {
    caches.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_sandbox::Sandbox;
    use jiff::Timestamp;

    use crate::client::Transport;
    use crate::env::TaskSet;

    #[tokio::test(start_paused = true)]
    async fn labels_of_later_calls_are_indexed() {
        let (tasks, registry) = (TaskSet::new(), Registry::new());
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
        let service = Sandbox::builder().start().expect("a sandbox").service();
        let transport = Transport::from_service(service, "sandbox", "test", &env.clock, &registry);
        let client = transport.expect("a transport").reader("test", None);
        let caches = Caches::new(&env, client, Scope::default(), &registry).expect("caches");
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        let Cache(first) = caches.of_labels::<MetaObject>(&pods, &["app"]);
        let indexed = |label: &str| first.read(|store| store.has_index(label));
        assert!(indexed("app") && !indexed("tier"));
        let Cache(later) = caches.of_labels::<MetaObject>(&pods, &["tier"]);
        assert!(Arc::ptr_eq(&first, &later), "one cache");
        assert!(indexed("app") && indexed("tier"));
    }
}
