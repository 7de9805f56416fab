//! One reconcile of a key: timeout, panic, metrics and requeue.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, field};

use super::key_queue::{Cause, KeyQueue};
use super::metrics::{Metrics, Outcome};
use super::outcomes::Outcomes;
use super::{Action, ReconcileContext, ReconcileError, Reconciler, Request};
use crate::client::{Client, Term};
use crate::env::Env;
use crate::panics;
use crate::trace::{self, Span};

/// The longest Retry-After that is honoured. A longer one would lose the key.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);
/// The shortest [`ReconcileError::again_within`] that is honoured. A shorter one would bypass the backoff.
const AGAIN_WITHIN_MIN: Duration = Duration::from_secs(1);

/// The state that the reconciles of one term share.
pub(super) struct Reconciles<R, Q: Request> {
    pub(super) controller: Arc<str>,
    pub(super) reconciler: Arc<R>,
    /// Fenced: it writes during the term only.
    pub(super) client: Client,
    pub(super) env: Env,
    pub(super) term: Term,
    pub(super) timeout: Duration,
    pub(super) metrics: Arc<Metrics>,
    pub(super) outcomes: Arc<Outcomes>,
    pub(super) queue: KeyQueue<Q>,
    pub(super) stop: CancellationToken,
}

/// The end of a reconcile: none after its timeout, the outer error after a panic.
type Ended = Option<Result<Result<Action, ReconcileError>, Box<dyn Any + Send>>>;

impl<Q: Request, R: Reconciler<Q>> Reconciles<R, Q> {
    pub(super) async fn process(self: Arc<Self>, request: Q, cause: Cause, trace: Option<Span>) {
        // An error span, so that no level filter removes the object from the lines of its reconcile.
        let key = request.key();
        let object = key.logged(self.reconciler.kind(&request));
        let span = tracing::error_span!("reconcile", controller = %self.controller, %object, %cause, traceID = field::Empty);
        if let Some(trace) = &trace {
            span.record("traceID", format!("{:032x}", trace.context().trace_id));
            trace.set("controller", &*self.controller);
            trace.set("kind", object.kind());
            trace.set("namespace", object.namespace());
            trace.set("name", object.name());
            trace.set("cause", cause.to_string());
        }
        let reconcile = self.reconcile(&request, cause, trace.as_ref());
        trace::scope(trace.clone(), reconcile).instrument(span).await;
    }

    async fn reconcile(&self, request: &Q, cause: Cause, trace: Option<&Span>) {
        let clock = &self.env.clock;
        let _active = self.metrics.active();
        let start = clock.now();
        let context = ReconcileContext {
            client: self.client.clone(),
            env: self.env.clone(),
            term: self.term,
            cause,
            stop: self.stop.clone(),
        };
        tracing::debug!("Reconciling");
        // The call is inside the async block: the part before the first await can panic too. In a box, because the futures around
        // it would all have its size, several kilobytes, and are moved.
        let reconcile = Box::pin(async { self.reconciler.reconcile(context, request.clone()).await });
        let ended = clock
            .timeout(self.timeout, AssertUnwindSafe(reconcile).catch_unwind())
            .await;
        let duration = clock.now().duration_since(start);
        if let Some(trace) = trace {
            self.queue.link_requeue(request, trace.clone());
        }
        let outcome = self.requeue(request, ended);
        self.metrics.ended(outcome, duration);
        if let Some(trace) = trace {
            if !outcome.requeues() {
                self.queue.unlink_requeue(request);
            }
            trace.set("result", outcome.name());
            if outcome.is_failure() {
                trace.fail(outcome.name());
            }
            trace.end();
        }
    }

    fn requeue(&self, key: &Q, ended: Ended) -> Outcome {
        let queue = &self.queue.queue;
        match ended {
            Some(Ok(Ok(Action::Done))) => {
                queue.forget(key);
                Outcome::Success
            }
            Some(Ok(Ok(Action::RequeueAfter(Duration::ZERO) | Action::Postpone(Duration::ZERO)))) => {
                queue.add_rate_limited(key.clone());
                Outcome::Requeue
            }
            Some(Ok(Ok(Action::RequeueAfter(delay)))) => {
                queue.forget(key);
                queue.add_after(key.clone(), delay);
                Outcome::RequeueAfter
            }
            Some(Ok(Ok(Action::Postpone(delay)))) => {
                queue.add_after(key.clone(), delay);
                Outcome::RequeueAfter
            }
            Some(Ok(Err(error))) => self.failed(key, &error),
            Some(Err(panic)) => {
                queue.add_rate_limited(key.clone());
                let failures = queue.num_requeues(key);
                let message = panics::message(&*panic);
                self.outcomes
                    .failed(&key.key(), &format_args!("panicked: {message}"));
                tracing::error!(panic = message, failures, "Reconcile panicked");
                Outcome::Panic
            }
            None => {
                queue.add_rate_limited(key.clone());
                let (timeout, failures) = (self.timeout.as_secs_f64(), queue.num_requeues(key));
                self.outcomes
                    .failed(&key.key(), &format_args!("timed out after {timeout} s"));
                tracing::error!(timeoutSeconds = timeout, failures, "Reconcile timed out");
                Outcome::Timeout
            }
        }
    }

    fn failed(&self, key: &Q, error: &ReconcileError) -> Outcome {
        let queue = &self.queue.queue;
        if error.is_fenced() {
            tracing::info!(%error, "Reconcile was interrupted by the end of the term");
            return Outcome::Fenced;
        }
        self.outcomes.failed(&key.key(), error);
        if error.is_terminal() {
            queue.forget(key);
            tracing::error!(%error, "Reconcile failed, not retrying before the next event");
            return Outcome::TerminalError;
        }
        let least = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
        queue.add_rate_limited_after(key.clone(), least);
        if let Some(within) = error.within() {
            queue.add_after(key.clone(), within.max(least).max(AGAIN_WITHIN_MIN));
        }
        let failures = queue.num_requeues(key);
        tracing::warn!(%error, failures, "Reconcile failed, retrying");
        Outcome::Error
    }
}
