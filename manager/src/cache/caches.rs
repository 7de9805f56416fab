//! The caches of a manager. Each is created by the first request for it, and shared by all later ones.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metrics::Registry;
use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::informer::Informer;
use super::metrics::{CacheCollector, CacheMetrics, CacheStats};
use super::pending_writes::{CachePosition, CachePositions};
use super::reflector::Reflector;
use super::scope::Scope;
use super::status::Status;
use super::{Cache, MetaCache, until};
use crate::client::Reader;
use crate::env::Env;
use crate::object::{Key, Kind, MetaObject, Object, Resource, Uid, Version};
use crate::sync::watch;

/// The number of pages of lists at once. A page takes about 2 MiB for whole pods, so that all take about 32 MiB.
/// Extension API servers serve fewer resources: one that does not respond does not delay the lists of others.
const LISTS_MAX: usize = 16;

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
    informers: Arc<InformerMap>,
    /// Bounds the pages of lists that are read at once.
    lists: Arc<Semaphore>,
    /// The resource whose reflector panicked.
    failed: watch::Sender<Option<Resource>>,
}

/// The informers by resource.
type InformerMap = Mutex<BTreeMap<Resource, Running>>;

struct Running {
    informer: Arc<Informer>,
    reflectors: Vec<AbortHandle>,
}

/// The status of the caches of one resource.
#[derive(Debug)]
pub(crate) struct CacheSummary {
    pub(crate) resource: Resource,
    pub(crate) status: Status,
    pub(crate) synced: bool,
    /// A controller depends on them, beyond their metadata.
    pub(crate) required: bool,
    #[cfg(feature = "serve")]
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
        let series = CacheMetrics::new(manager, registry)?;
        let informers: Arc<InformerMap> = Arc::default();
        let scraped = Arc::clone(&informers);
        let stats = move || {
            let stats = |informer: Arc<Informer>| (informer.resource.clone(), informer.stats());
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
            informers,
            lists: Arc::new(Semaphore::new(LISTS_MAX)),
            failed: watch::Sender::new(None),
        })))
    }

    /// Returns the cache of a resource in a projection. All projections of a resource share one list and watch, which the
    /// first call starts. A projection that is requested later is synced by a relist.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of<T: Object>(&self, resource: &Resource) -> Cache<T> {
        let (informer, store) = self.informer(resource, |informer| informer.store(true));
        Cache { informer, store }
    }

    /// Returns the cache of a type of objects: [`Caches::of`] its resource.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of_kind<K: Kind>(&self) -> Cache<K::Cached> {
        self.of(&K::resource())
    }

    /// Returns the metadata of a resource, from an existing cache in any projection or from a metadata-only cache. Without
    /// another projection, the resource is listed and watched as `PartialObjectMetadata`. The manager becomes ready and leads
    /// without waiting for metadata-only caches.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn metadata(&self, resource: &Resource) -> MetaCache {
        let (informer, store) = self.informer(resource, |informer| {
            let known = informer.any_store();
            known.unwrap_or_else(|| informer.store::<MetaObject>(false))
        });
        MetaCache { informer, store }
    }

    /// Drops the metadata-only cache of a resource that is no longer served. Its handles receive no more changes, and its
    /// memory is freed with the last handle. A later request creates a new cache. Caches of [`Caches::of`] are not affected.
    pub fn forget_metadata(&self, resource: &Resource) {
        // A concurrent scrape would recreate the metrics.
        let _scraping = self.0.series.scraping();
        let mut informers = lock(&self.0.informers);
        let running = informers.get(resource);
        if running.is_none_or(|running| !running.informer.forget_metadata()) {
            return;
        }
        if let Some(running) = informers.remove(resource) {
            running.reflectors.iter().for_each(AbortHandle::abort);
        }
        self.0.series.forget(resource);
    }

    /// Waits until all caches that exist now are synced.
    pub async fn synced(&self) {
        for informer in self.informers() {
            until(&informer, || informer.is_synced()).await;
        }
    }

    /// Returns the status of each cached resource, ordered by resource.
    #[must_use]
    pub fn statuses(&self) -> Vec<(Resource, Status)> {
        let informers = self.informers().into_iter();
        informers
            .map(|informer| (informer.resource.clone(), informer.status_of_all()))
            .collect()
    }

    /// Returns true if all caches of a resource are synced. They may be stale.
    #[must_use]
    pub fn is_synced(&self, resource: &Resource) -> bool {
        self.known(resource).is_none_or(|informer| informer.is_synced())
    }

    /// Returns true if the scope includes all objects of all resources.
    #[must_use]
    pub fn include_all(&self) -> bool {
        let any = Resource::namespaced("", "v1", "pods", "Pod");
        self.0.scope.includes_all(&any)
    }

    /// Requests a relist of a resource, if it is cached.
    pub fn relist(&self, resource: &Resource) {
        if let Some(informer) = self.known(resource) {
            informer.relist();
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

    /// Returns a summary of the caches of each resource, ordered by resource.
    pub(crate) fn summaries(&self) -> Vec<CacheSummary> {
        let informers = self.informers().into_iter();
        informers
            .map(|informer| CacheSummary {
                resource: informer.resource.clone(),
                status: informer.status_of_all(),
                synced: informer.is_synced(),
                required: informer.is_required(),
                #[cfg(feature = "serve")]
                stats: informer.stats(),
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

    /// Returns the informers of all resources.
    pub(super) fn informers(&self) -> Vec<Arc<Informer>> {
        all(&self.0.informers)
    }

    fn known(&self, resource: &Resource) -> Option<Arc<Informer>> {
        let informers = lock(&self.0.informers);
        informers
            .get(resource)
            .map(|running| Arc::clone(&running.informer))
    }

    /// Returns the informer of a resource with the store that `store` takes from it. Starts the reflectors of a new informer.
    fn informer<S>(&self, resource: &Resource, store: impl FnOnce(&Informer) -> S) -> (Arc<Informer>, S) {
        let mut informers = lock(&self.0.informers);
        if let Some(Running { informer, .. }) = informers.get(resource) {
            return (Arc::clone(informer), store(informer));
        }
        let Inner {
            env, scope, series, ..
        } = &*self.0;
        let informer = Arc::new(Informer::new(
            resource,
            scope.partitions(resource),
            scope.includes_all(resource),
            &env.clock,
            series.counters(resource),
        ));
        // The first list includes it.
        let store = store(&informer);
        let running = Running {
            informer: Arc::clone(&informer),
            reflectors: self.start(&informer),
        };
        informers.insert(resource.clone(), running);
        (informer, store)
    }

    fn start(&self, informer: &Arc<Informer>) -> Vec<AbortHandle> {
        let Inner {
            env,
            client,
            scope,
            lists,
            failed,
            ..
        } = &*self.0;
        let start = |partition| {
            let reflector = Reflector::new(env, client, lists, &scope.label_selector, informer, partition);
            let (failed, resource) = (failed.clone(), informer.resource.clone());
            let reflector = env.tasks.spawn(async move {
                // The panic hook logs the panic.
                if AssertUnwindSafe(reflector.run()).catch_unwind().await.is_err() {
                    failed.send_replace(Some(resource));
                }
            });
            reflector.abort_handle()
        };
        informer.partitions().map(start).collect()
    }
}

impl CachePositions for Caches {
    fn position(&self, resource: &Resource) -> Option<CachePosition> {
        Some(self.known(resource)?.position())
    }

    fn identity(&self, resource: &Resource, object: &Key) -> Option<(Uid, Version)> {
        self.known(resource)?.identity(object)
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

fn all(informers: &InformerMap) -> Vec<Arc<Informer>> {
    let informers = lock(informers);
    informers.values().map(|it| Arc::clone(&it.informer)).collect()
}

fn lock(informers: &InformerMap) -> MutexGuard<'_, BTreeMap<Resource, Running>> {
    informers.lock().unwrap_or_else(PoisonError::into_inner)
}
