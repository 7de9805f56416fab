//! Controllers: sources → queue → workers → [`Reconciler`].
//!
//! - A key is never in two reconciles at the same time. An event during a reconcile causes another one after it.
//! - A reconcile that fails, panics or times out is retried after the backoff of its key, and not before the Retry-After of
//!   the API server. The worker proceeds with the next key.
//! - A controller runs in [terms](Runnable::run). Each term starts with the current state of the caches and an empty queue.
//!   Reconciles of an earlier term cannot write.
//! - Once a day, all existing objects are reconciled again, with low priority: a net below lost events and errors that are not
//!   retried. A reconciler that finds the desired state sends no requests.
//! - At a stop, or the end of the term, reconciles in process are finished and no others start.
//! - Every line that is logged in a reconcile is in a span with the controller, the object and the cause.
//!
//! A controller with several queues implements [`Runnable`] on [`Runtime`], which has the same lifecycle.
//!
//! A reconcile decides when its key is reconciled again. [`Controller`] shows the watches of a controller, and the
//! example of the [crate] shows a [`Reconciler`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_manager::client::Transport;
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! use steersman_manager::controller::{Action, Context, ReconcileError};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! async fn reconcile(ctx: Context<ConfigMap>) -> Result<Action, ReconcileError> {
//!     let Some(map) = ctx.object() else { return Ok(Action::Done) }; // deleted
//!     let Some(expiry) = map.data.as_ref().and_then(|it| it.get("expiry")) else { return Ok(Action::Done) };
//!     let expiry: jiff::Timestamp = expiry.parse().map_err(ReconcileError::terminal)?; // waits for the next change
//!     if let Ok(rest) = expiry.duration_since(ctx.env().clock.wall()).try_into() {
//!         return Ok(Action::RequeueAfter(rest));
//!     }
//!     ctx.api::<ConfigMap>().delete(&map).await?; // an error is retried after the backoff
//!     Ok(Action::Done)
//! }
//! # let controller = steersman_manager::controller::Controller::<ConfigMap>::new("expiry").reconcile(reconcile);
//! # let maps = transport.unfenced("user", None).api::<ConfigMap>();
//! # let mut map = ConfigMap::default();
//! # map.metadata.name = Some("settings".to_owned());
//! # map.metadata.namespace = Some("default".to_owned());
//! # map.data = Some([("expiry".to_owned(), "2026-01-01T00:00:00Z".to_owned())].into());
//! # let key = steersman_manager::object::Key::of(&maps.create(&map).await?);
//! # let manager = steersman_manager::manager::Manager::builder("example").controller(controller);
//! # env.tasks.spawn({
//! #     let env = env.clone();
//! #     async move { manager.run_with(&env, transport, tokio_util::sync::CancellationToken::new()).await }
//! # });
//! # while maps.get(&key).await?.is_some() {
//! #     tokio::task::yield_now().await;
//! # }
//! # Ok(())
//! # }
//! ```

mod authenticated;
mod builder;
mod context;
mod error;
pub(crate) mod key_queue;
mod metrics;
mod outcomes;
mod progress;
mod reconcile;
mod runtime;
mod task;
#[cfg(test)]
mod tests;
mod typed;

pub use authenticated::AuthenticatedController;
pub use builder::{Builder, QueueController};
pub use context::Context;
pub use error::{ControllerError, Fatal, ReconcileError, Unhealthy};
pub use key_queue::{Cause, Change};
pub use outcomes::{Activity, Outcomes, RecentError, Waiting};
pub use runtime::{HealthLimits, Queues, Runtime, Slot, TermState, Workers};
pub use task::TaskContext;
pub use typed::{Controller, Definition};

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Fence, Term};
use crate::env::Env;
use crate::object::Key;
use crate::queue::{Item, MaxOf, default_limiter};

/// The item that a controller reconciles: the key of an object, or any other type.
pub trait Request: Item + Sync {
    /// Returns the object for logs and health pages.
    fn key(&self) -> Key;
}

impl Request for Key {
    fn key(&self) -> Key {
        self.clone()
    }
}

/// Moves one object towards its desired state.
pub trait Reconciler<Q = Key>: Send + Sync + 'static {
    /// Observes the object, which may not exist, and acts. The future can be dropped at any await: at its timeout, or when the
    /// process ends.
    fn reconcile(
        &self,
        context: ReconcileContext,
        request: Q,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send;

    /// Returns the kind of an object, for logs. Defaults to an unknown one.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "implementations return a borrowed name"
    )]
    fn kind(&self, _request: &Q) -> &str {
        ""
    }
}

/// The context of one reconcile.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct ReconcileContext {
    /// The controller's client. Its writes fail once the term is over.
    pub client: Client,
    pub env: Env,
    /// The term. State that was remembered in another term is not valid.
    pub term: Term,
    pub cause: Cause,
    /// Cancelled at a stop or the end of the term. A long reconcile should return early then.
    pub stop: CancellationToken,
}

/// The result of a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No reconcile before the next event.
    Done,
    /// Another reconcile after this time, unless an event causes one before. As in controller-runtime, the backoff of earlier
    /// failures ends. Zero requeues the key after its backoff, as a failure would, so that no reconcile loops hot.
    RequeueAfter(Duration),
    /// Another reconcile after this time, because this one could not start: a cache is stale, for example. Neither a success
    /// nor a failure: the backoff of earlier failures continues, or an object that fails after each such wait would never
    /// back off.
    Postpone(Duration),
}

/// The options of a controller.
#[derive(Clone, Debug)]
pub struct Options<Q = Key> {
    /// The number of concurrent reconciles. Defaults to 1, which is the minimum.
    pub workers: usize,
    /// The time after which a reconcile is dropped and counts as failed. Defaults to 5 minutes.
    pub timeout: Duration,
    /// The time after which all existing objects are reconciled again, plus up to a tenth. Defaults to a day; the minimum is a
    /// second.
    pub resync: Duration,
    /// The name of the queue in metrics. Defaults to the name of the controller.
    pub queue: Option<String>,
    /// Returns the rate limiter of a new queue. Defaults to [`default_limiter`].
    pub limiter: fn() -> MaxOf<Q>,
}

/// A controller, as a manager runs it.
pub trait Runnable: Send + Sync {
    /// The name of the controller.
    fn name(&self) -> &str;

    /// The sources whose caches have not synced, or whose kinds are no longer served.
    fn unsynced(&self) -> Vec<String>;

    /// Runs one term: waits for the caches, then reconciles until `stop` or the end of the term, and returns when all
    /// reconciles have ended. Dropping the future cancels them at their next await. Terms must not overlap.
    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>>;

    /// The keys that are being reconciled.
    fn running(&self) -> Vec<Key>;

    /// Returns an error if the controller has work and makes no progress, or does not observe its objects. Of several reasons,
    /// one that [a restart fixes](Unhealthy::is_fixed_by_restart) is returned first.
    fn health(&self) -> Result<(), Unhealthy>;

    /// The load and the throughput of the controller. All zero if it has no queue.
    fn activity(&self) -> Activity {
        Activity::default()
    }

    /// The last errors, the latest one last.
    fn recent_errors(&self) -> Vec<RecentError> {
        Vec::new()
    }

    /// A problem that does not keep the controller from working, for the health page.
    fn remark(&self) -> Option<String> {
        None
    }

    /// The reason why the controller is dormant because another one does its work; none if it is active.
    fn yields(&self) -> Option<String> {
        None
    }
}

impl<Q: Item> Default for Options<Q> {
    fn default() -> Self {
        Self {
            workers: 1,
            timeout: Duration::from_mins(5),
            resync: Duration::from_hours(24),
            queue: None,
            limiter: default_limiter,
        }
    }
}
