//! Controllers of one type of objects, defined by their sources and a reconcile function.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Action, AuthenticatedController, Builder, Context, ControllerError, Options, ReconcileContext,
    ReconcileError, Reconciler,
};
use crate::cache::{Cache, Caches, Lookup};
use crate::events::Recorder;
use crate::handler::Handler;
use crate::manager::Manager;
use crate::object::{Key, Kind};
use crate::predicate::Predicate;
use crate::queue::MaxOf;
use crate::source::{Source, Trigger};

/// The delay of a reconcile while the API server does not serve the resource: its cached objects may be deleted.
const UNSERVED_DELAY: Duration = Duration::from_secs(30);

/// A controller of the objects of type `K`, before it has a reconcile function.
///
/// ```
/// use steersman_manager::controller::{Action, Context, Controller, ReconcileError};
/// use steersman_manager::object::MetadataOf;
/// use steersman_manager::predicate::Predicate;
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
///
/// async fn reconcile(ctx: Context<Deployment>) -> Result<Action, ReconcileError> {
///     let Some(deployment) = ctx.object() else { return Ok(Action::Done) };
///     tracing::info!(replicas = deployment.spec.as_ref().and_then(|it| it.replicas), "Reconciling Deployment");
///     Ok(Action::Done)
/// }
///
/// let controller = Controller::<Deployment>::new("deployment")
///     .owns::<MetadataOf<ReplicaSet>>()
///     .filter(Predicate::generation_changed())
///     .workers(4)
///     .reconcile(reconcile);
/// ```
#[must_use]
pub struct Controller<K: Kind> {
    name: String,
    options: Options,
    predicate: Predicate<K::Cached>,
    sources: Vec<AddSource>,
}

/// A controller or [task](Definition::task) that a [`Manager`] can [build](Manager::add_controller).
#[must_use]
pub struct Definition {
    pub(crate) name: String,
    pub(crate) add: AddController,
}

/// Builds a controller and adds it to a manager.
type AddController = Box<dyn FnOnce(&mut Manager) -> Result<(), ControllerError> + Send>;

/// Adds a source to the builder of a controller, for any reconciler.
type AddSource = Box<dyn FnOnce(&Caches, &mut Sources) + Send>;

/// The sources of a controller, while it is built.
type Sources = Vec<Box<dyn crate::source::AnySource<Key>>>;

/// Calls the reconcile function of a user.
struct FnReconciler<K: Kind, F> {
    cache: Cache<K::Cached>,
    caches: Caches,
    recorder: Recorder,
    kind: String,
    reconcile: F,
    _kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Controller<K> {
    /// Returns a controller that reconciles each object when it changes. The name is unique in a manager; it is the name in
    /// logs, metrics and health checks, the component of events, and part of the user agent.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            options: Options::default(),
            predicate: Predicate::changed(),
            sources: Vec::new(),
        }
    }

    /// Reconciles the controller of each object of type `T` that changes, by its controller reference.
    pub fn owns<T: Kind>(self) -> Self {
        self.watch(|caches| Source::new(caches.of_kind::<T>(), Handler::for_owner(K::resource())))
    }

    /// Reconciles all owners of each object of type `T` that changes, not only its controller.
    pub fn owns_shared<T: Kind>(self) -> Self {
        self.watch(|caches| Source::new(caches.of_kind::<T>(), Handler::for_any_owner(K::resource())))
    }

    /// Reconciles the keys that `map` returns for each object of type `T` that changes. It is called for the state before
    /// and after an update.
    pub fn watches<T: Kind>(self, map: impl Fn(&T::Cached) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.watch(|caches| Source::new(caches.of_kind::<T>(), Handler::map(map)))
    }

    /// [`Controller::watches`] the changes that pass a predicate.
    pub fn watches_if<T: Kind>(
        self,
        predicate: Predicate<T::Cached>,
        map: impl Fn(&T::Cached) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.watch(|caches| Source::new(caches.of_kind::<T>(), Handler::map(map)).only(predicate))
    }

    /// Reconciles the keys that are sent to a trigger: events from outside the cluster.
    pub fn triggered_by(mut self, trigger: &Trigger<Key>) -> Self {
        let trigger = trigger.clone();
        self.sources
            .push(Box::new(move |_, sources| sources.push(Box::new(trigger))));
        self
    }

    fn watch<T: crate::object::Object>(
        mut self,
        source: impl FnOnce(&Caches) -> Source<T, Cache<T>> + Send + 'static,
    ) -> Self {
        self.sources.push(Box::new(move |caches, sources| {
            sources.push(Box::new(source(caches)));
        }));
        self
    }

    /// Reconciles an object only after changes that pass `predicate`. Defaults to [`Predicate::changed`]. It does not apply
    /// to objects that the controller owns or watches.
    pub fn filter(self, predicate: Predicate<K::Cached>) -> Self {
        Self { predicate, ..self }
    }

    /// Sets the number of concurrent reconciles. Defaults to 1.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers;
        self
    }

    /// Sets the time after which a reconcile is dropped and counts as failed. Defaults to 5 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sets the rate limiter of retries. Defaults to [`default_limiter`](crate::queue::default_limiter).
    pub fn rate_limiter(mut self, limiter: fn() -> MaxOf<Key>) -> Self {
        self.options.limiter = limiter;
        self
    }

    /// Sets the time after which all existing objects are reconciled again, plus up to a tenth. Defaults to a day: caches miss
    /// no change. A shorter one detects drift of state outside the cluster.
    pub fn resync(mut self, period: Duration) -> Self {
        self.options.resync = period;
        self
    }

    /// Sets the reconcile function. An error `Box<dyn Error + Send + Sync>` is retried; other types decide it by their
    /// conversion into a [`ReconcileError`].
    pub fn reconcile<F, R, E>(self, reconcile: F) -> Definition
    where
        F: Fn(Context<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send,
        E: Into<ReconcileError>,
    {
        self.reconcile_with(|_| reconcile)
    }

    /// Sets the reconcile function, which `build` returns from the caches of the manager: for indexes of a cache, which are
    /// built once.
    pub fn reconcile_with<F, R, E>(self, build: impl FnOnce(&Caches) -> F + Send + 'static) -> Definition
    where
        F: Fn(Context<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send,
        E: Into<ReconcileError>,
    {
        let Self {
            name,
            options,
            predicate,
            sources,
        } = self;
        Definition {
            name: name.clone(),
            add: Box::new(move |manager| {
                let caches = manager.caches().clone();
                let cache = caches.of_kind::<K>();
                let account = manager.service_account(&name);
                let recorder = manager.recorder(&name, account.as_ref());
                let recorder = recorder.map_err(|source| ControllerError::Events {
                    name: name.clone(),
                    source,
                })?;
                let reconciler = FnReconciler {
                    cache: cache.clone(),
                    recorder,
                    kind: K::resource().kind.into_owned(),
                    reconcile: build(&caches),
                    _kind: PhantomData::<fn() -> K>,
                    caches: caches.clone(),
                };
                let mut others = Vec::new();
                for add in sources {
                    add(&caches, &mut others);
                }
                let own = Source::new(cache, Handler::for_object()).only(predicate);
                let client = manager.reader(&name).authenticated_as(account.as_ref());
                let controller = Builder::new(&*name, options, reconciler)
                    .watch(own)
                    .sources(others)
                    .build(manager.env(), client, manager.registry())?;
                manager.add(AuthenticatedController::new(controller, account));
                Ok(())
            }),
        }
    }
}

impl<K, F, R, E> Reconciler for FnReconciler<K, F>
where
    K: Kind,
    F: Fn(Context<K>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<ReconcileError>,
{
    async fn reconcile(&self, inner: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        if self.cache.is_unserved() {
            return Ok(Action::Postpone(UNSERVED_DELAY));
        }
        let object: Option<Arc<K::Cached>> = match self.cache.get(&key) {
            Lookup::Present(object) => Some(object),
            Lookup::Absent => None,
            // The object exists: it must not be treated as deleted.
            Lookup::Undecodable => return Err(ReconcileError::terminal(Undecodable)),
        };
        let context = Context {
            key,
            object,
            inner,
            caches: self.caches.clone(),
            recorder: self.recorder.clone(),
        };
        (self.reconcile)(context).await.map_err(Into::into)
    }

    fn kind(&self, _: &Key) -> &str {
        &self.kind
    }
}

/// The cached object could not be decoded.
#[derive(Debug, thiserror::Error)]
#[error("the object cannot be decoded, so it is not reconciled; compare it with the type of the controller")]
struct Undecodable;

impl<K: Kind> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
