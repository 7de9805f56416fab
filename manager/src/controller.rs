//! Sources → queue → workers → [`Reconciler`].
//!
//! - A key is never in two reconciles at once, and an event during a reconcile leads to another one after it.
//! - A reconcile that fails, panics or takes too long is tried again after the backoff of its key, and no earlier than the
//!   API server asked for; the worker goes on with the next one.
//! - A controller works in terms ([`Runnable::run`]). Each begins with the present state of its caches and an empty queue;
//!   nothing of the term before is left, and what that one has left behind cannot write.
//! - When it is told to stop, or its term is over, it finishes what it has begun and begins nothing more.
//! - Every line logged in a reconcile is in a span with the controller, the key and the cause.

mod error;
mod floor;
pub(crate) mod inbox;
mod metrics;
mod run;
#[cfg(test)]
mod tests;

pub use error::{ControllerError, Fatal, ReconcileError, Unhealthy};
pub use inbox::{Cause, Change};
pub use run::{Builder, Controller};

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Fence, Term};
use crate::env::Env;
use crate::object::Key;
use crate::queue::{MaxOf, default_limiter};

/// Brings one object closer to what is wanted of it.
pub trait Reconciler: Send + Sync + 'static {
    /// Looks at the object, which may be gone, and acts. It may be dropped at any await, after its timeout or because the
    /// process ends.
    fn reconcile(
        &self,
        context: Context,
        key: Key,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

/// What a reconcile is given.
#[derive(Clone, Debug)]
pub struct Context {
    /// The controller's client. It writes while the term is on.
    pub client: Client,
    /// Time, chance and tasks.
    pub env: Env,
    /// The term: what is remembered from another one does not count.
    pub term: Term,
    /// Why.
    pub cause: Cause,
    /// Cancelled when the controller is told to stop or its term is over: a reconcile that has much left to do leaves it.
    pub stop: CancellationToken,
}

/// The next step after a reconcile that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until the next event.
    Done,
    /// Another reconcile after this time, if no event comes before. With no time at all it comes after a backoff, as if this
    /// one had failed: nothing may run in circles. The reconcile has succeeded: as in controller-runtime, the backoff of
    /// earlier failures ends.
    RequeueAfter(Duration),
    /// Another reconcile after this time, because this one could not start: a cache is behind, say. That is neither a success
    /// nor a failure: the backoff of earlier failures goes on, or an object that fails after each such wait would never
    /// back off.
    Postpone(Duration),
}

/// How a controller works.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many objects are reconciled at once. At least 1, which is the default.
    pub workers: usize,
    /// How long a reconcile may take before it is dropped and counted as failed. 5 minutes unless told.
    pub timeout: Duration,
    /// The name of its queue in metrics; that of the controller unless told.
    pub queue: Option<String>,
    /// The backoff of a new queue: [`default_limiter`] unless told.
    pub limiter: fn() -> MaxOf<Key>,
}

/// What a manager runs, whatever it reconciles.
pub trait Runnable: Send + Sync {
    /// The name of the controller.
    fn name(&self) -> &str;

    /// The sources whose caches do not know the present state: not yet, or no longer, because their kind is not served.
    fn unsynced(&self) -> Vec<String>;

    /// Works through one term: waits for its caches, then reconciles until `stop`, or until the term is over, and ends when
    /// all that was begun has ended. Dropping the future cuts that off at its next await. One term at a time.
    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>>;

    /// What is in a reconcile now.
    fn running(&self) -> Vec<Key>;

    /// Whether it makes progress, as far as it has work.
    fn health(&self) -> Result<(), Unhealthy>;

    /// What an operator should know that does not keep it from working.
    fn remark(&self) -> Option<String> {
        None
    }

    /// To whom it leaves its work for now, and why; none if it does its work itself.
    fn yields(&self) -> Option<String> {
        None
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1,
            timeout: Duration::from_mins(5),
            queue: None,
            limiter: default_limiter,
        }
    }
}
