//! All caches of a manager: each is made when it is first asked for, and shared from then on.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use prometheus::Registry;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::metrics::{Scrape, Series};
use super::reflector::Reflector;
use super::scope::Scope;
use super::shared::{AnyCache, Numbers, Shared};
use super::status::Status;
use super::written::{ViewState, Views};
use super::{Cache, MetaCache, until};
use crate::client::{Client, View};
use crate::env::Env;
use crate::object::{Key, MetaObject, Object, Resource, Text, Uid, Version};

/// Why there are no caches.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The series are not to be had: most likely there are caches in that registry already, a mistake in the program.
    #[error("cannot register the metrics of the caches: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The caches. Clones are handles of the same ones.
#[derive(Clone)]
pub struct Caches(Arc<Inner>);

struct Inner {
    env: Env,
    client: Client,
    scope: Scope,
    series: Series,
    registry: Registry,
    caches: Arc<Known>,
    /// The resource whose reflector has died.
    failed: watch::Sender<Option<Resource>>,
}

/// The caches that were asked for, by resource and projection.
type Known = Mutex<ByResource>;
type ByResource = BTreeMap<Resource, BTreeMap<TypeId, Kept>>;

/// One of them.
struct Kept {
    cache: Arc<dyn AnyCache>,
    /// Somebody cannot do without it: it was asked for by its projection, not as whatever has the metadata.
    needed: bool,
    /// What fills it.
    reflectors: Vec<AbortHandle>,
}

/// How one cache is doing.
#[derive(Debug)]
pub(crate) struct Overview {
    pub(crate) resource: Resource,
    pub(crate) status: Status,
    /// It has been filled.
    pub(crate) synced: bool,
    /// Somebody cannot do without it.
    pub(crate) needed: bool,
}

impl Caches {
    /// None yet. They read through `client`, what is in `scope`, and are measured in `registry`.
    pub fn new(env: &Env, client: Client, scope: Scope, registry: &Registry) -> Result<Self, CacheError> {
        let series = Series::new()?;
        let caches: Arc<Known> = Arc::default();
        let scraped = Arc::clone(&caches);
        let numbers = move || {
            let numbers = |cache: Arc<dyn AnyCache>| (cache.resource().clone(), cache.numbers());
            all(&scraped).into_iter().map(numbers).collect()
        };
        registry.register(Box::new(Scrape {
            series: series.clone(),
            numbers,
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

    /// The cache of a resource in a projection. It begins to fill when it is first asked for.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of<T: Object>(&self, resource: &Resource) -> Cache<T> {
        self.of_labels(resource, &[])
    }

    /// [`Caches::of`] with an index for each of these labels. Those that the cache does not have yet are added.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of_labels<T: Object>(&self, resource: &Resource, labels: &[&str]) -> Cache<T> {
        Cache(self.cache(resource, labels, true))
    }

    /// The metadata of a resource: from a cache that there is, whatever its projection, or from one of metadata only. Who
    /// needs more asks first, or there are two. One that nobody has asked for otherwise is waited for by nobody but its
    /// readers: the manager leads, and is ready, without it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn metadata(&self, resource: &Resource) -> MetaCache {
        let known = self.caches_of(resource).into_iter().next();
        MetaCache(known.unwrap_or_else(|| self.cache::<MetaObject>(resource, &[], false)))
    }

    /// Lets go of what only [`Caches::metadata`] has asked for, because the resource is no longer served: nothing is read
    /// any more, and the memory is free when the last handle is dropped. Handles see no more changes. Whoever asks again gets
    /// a new cache. One that somebody asked for by its projection stays.
    pub fn forget_metadata(&self, resource: &Resource) {
        // Not while the series are shown, or they would come back.
        let _shown = self.0.series.showing();
        let mut caches = lock(&self.0.caches);
        let Some(projections) = caches.get_mut(resource) else {
            return;
        };
        let id = TypeId::of::<MetaObject>();
        if projections.get(&id).is_none_or(|kept| kept.needed) {
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

    /// Resolves when all that were asked for so far are filled.
    pub async fn synced(&self) {
        for cache in all(&self.0.caches) {
            until(&*cache, || cache.is_synced()).await;
        }
    }

    /// How each is doing, ordered by resource.
    #[must_use]
    pub fn statuses(&self) -> Vec<(Resource, Status)> {
        let caches = all(&self.0.caches).into_iter();
        caches
            .map(|cache| (cache.resource().clone(), cache.status_of_all()))
            .collect()
    }

    /// Whether every cache of a resource has been filled. It may be old.
    #[must_use]
    pub fn is_synced(&self, resource: &Resource) -> bool {
        self.caches_of(resource).iter().all(|cache| cache.is_synced())
    }

    /// Whether all objects there are, of any resource, are within the scope.
    #[must_use]
    pub fn are_whole(&self) -> bool {
        let any = Resource::namespaced("", "v1", "pods", "Pod");
        self.0.scope.is_whole(&any)
    }

    /// Reads the list of a resource again, to be sure. Without effect if it is not cached.
    pub fn relist(&self, resource: &Resource) {
        for cache in self.caches_of(resource) {
            cache.relist();
        }
    }

    /// Resolves when a cache has stopped following its resource because of a mistake in the program: what it shows will
    /// only grow older, so the process should end.
    pub async fn failed(&self) -> Resource {
        let mut failed = self.0.failed.subscribe();
        let resource = failed
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|it| it.clone());
        match resource {
            Some(resource) => resource,
            // The sender lives in `self`.
            None => std::future::pending().await,
        }
    }

    /// How each is doing, ordered by resource, and who cares.
    pub(crate) fn overview(&self) -> Vec<Overview> {
        let kept = self.kept().into_iter();
        kept.map(|(cache, needed)| Overview {
            resource: cache.resource().clone(),
            status: cache.status_of_all(),
            synced: cache.is_synced(),
            needed,
        })
        .collect()
    }

    pub(super) fn client(&self) -> &Client {
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

    /// All of them, with whether somebody cannot do without it.
    pub(super) fn kept(&self) -> Vec<(Arc<dyn AnyCache>, bool)> {
        let caches = lock(&self.0.caches);
        let kept = caches.values().flat_map(BTreeMap::values);
        kept.map(|kept| (Arc::clone(&kept.cache), kept.needed)).collect()
    }

    fn cache<T: Object>(&self, resource: &Resource, labels: &[&str], needed: bool) -> Arc<Shared<T>> {
        let mut caches = lock(&self.0.caches);
        let id = TypeId::of::<T>();
        if let Some(known) = caches.get_mut(resource).and_then(|it| it.get_mut(&id))
            && let Ok(shared) = Arc::clone(&known.cache).any().downcast::<Shared<T>>()
        {
            known.needed |= needed;
            shared.index(labels);
            return shared;
        }
        let (shared, reflectors) = self.start::<T>(resource, labels);
        let kept = Kept {
            cache: Arc::clone(&shared) as _,
            needed,
            reflectors,
        };
        caches.entry(resource.clone()).or_default().insert(id, kept);
        shared
    }

    fn start<T: Object>(&self, resource: &Resource, labels: &[&str]) -> (Arc<Shared<T>>, Vec<AbortHandle>) {
        let Inner {
            env,
            client,
            scope,
            series,
            failed,
            ..
        } = &*self.0;
        let namespaces = scope.feeds(resource);
        let feeds = namespaces.len();
        let shared = Arc::new(Shared::new(
            resource,
            namespaces,
            scope.is_whole(resource),
            labels.iter().map(|label| Text::from(*label)),
            &env.clock,
            series.meter(resource),
        ));
        let view = if TypeId::of::<T>() == TypeId::of::<MetaObject>() {
            View::Metadata
        } else {
            View::Full
        };
        let reflectors = (0..feeds).map(|feed| {
            let reflector = Reflector::new(env, client, view, &scope.label_selector, &shared, feed);
            let (failed, resource) = (failed.clone(), resource.clone());
            let reflector = env.tasks.spawn(async move {
                // A panic is reported by the hook of the process, and by whoever waits for this.
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

/// Of several caches of one resource, the one that is furthest behind counts.
impl Views for Caches {
    fn view(&self, resource: &Resource) -> Option<ViewState> {
        let views = self.caches_of(resource).into_iter().map(|cache| cache.view());
        views.reduce(|a, b| ViewState {
            version: least(a.version, b.version),
            epoch: a.epoch + b.epoch,
            list_begun_at: a.list_begun_at.min(b.list_begun_at),
        })
    }

    fn holds(&self, resource: &Resource, object: &Key) -> Option<(Uid, Version)> {
        let caches = self.caches_of(resource).into_iter();
        let held: Option<Vec<_>> = caches.map(|cache| cache.holds(object)).collect();
        // If they do not hold the same object, one of them is about to change.
        held?.into_iter().map(Some).reduce(|a, b| match (a?, b?) {
            (a, b) if a.0 == b.0 => Some((a.0, least(a.1, b.1))),
            _ => None,
        })?
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let scrape = Scrape {
            series: self.series.clone(),
            numbers: Vec::<(Resource, Numbers)>::new,
        };
        // The only error is that it is not registered, which is what is wanted.
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

fn all(caches: &Known) -> Vec<Arc<dyn AnyCache>> {
    let caches = lock(caches);
    let kept = caches.values().flat_map(BTreeMap::values);
    kept.map(|kept| Arc::clone(&kept.cache)).collect()
}

fn lock(caches: &Known) -> std::sync::MutexGuard<'_, ByResource> {
    caches.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_sandbox::{Options, Sandbox};
    use jiff::Timestamp;

    use crate::client::Transport;
    use crate::env::TaskSet;

    #[tokio::test(start_paused = true)]
    async fn labels_of_later_callers_are_indexed_too() {
        let (tasks, registry) = (TaskSet::new(), Registry::new());
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
        let door = Sandbox::new(Options::default()).door();
        let transport = Transport::over(door, "sandbox", "test", &env.clock, &registry);
        let client = transport.expect("a transport").client("test", None);
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
