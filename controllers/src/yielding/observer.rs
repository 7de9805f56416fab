//! Observes one Lease by reads and watches.
//!
//! Each read is a list restricted to one name: its resourceVersion starts a watch that misses no change, also if the Lease does
//! not exist. It needs `list` and `watch` of that one Lease. A read is sent when a watch has ended or is silent, and when the
//! lease expires.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::BoxFuture;
use steersman_manager::backoff::Backoff;
use steersman_manager::client::{ClientError, ObjectEvent, ObjectWatch, Reader, View, WatchEnd};
use steersman_manager::env::Env;
use steersman_manager::object::{Key, Resource};
use tokio::time::Instant;

use super::State;
use super::observed_lease::{Lease, ObservedLease};
use super::shared_state::Writer;

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// Bounds a read, and opening a watch.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A silent watch is reopened after this time. Bookmarks arrive about every minute.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// A watch that ended sooner counts as a failure.
const WATCH_DURATION_MIN: Duration = Duration::from_secs(5);
/// Delays after failures, from half a second to [`RETRY_MAX`].
const BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(500), Duration::from_secs(15)).jitter(1.0);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Publishes the state of the Lease.
pub(super) struct Observer {
    env: Env,
    lease: ObjectWatch,
    observed: ObservedLease,
    /// Whether an absent Lease means that kube-controller-manager does not run.
    assume_absent: bool,
    state: Writer,
    /// Time at which the current watch was opened.
    opened: Option<Instant>,
}

/// The reason why a watch ended without an error.
#[derive(PartialEq, Eq)]
enum Ended {
    /// The watch was closed, or is silent.
    Closed,
    /// The lease expires and must be read.
    ReadDue,
}

impl Observer {
    pub(super) fn new(env: &Env, client: Reader, lease: Key, assume_absent: bool, state: Writer) -> Self {
        Self {
            env: env.clone(),
            lease: ObjectWatch {
                env: env.clone(),
                client,
                resource: LEASES,
                key: lease,
                view: View::Full,
                idle_timeout: WATCH_IDLE_TIMEOUT,
            },
            observed: ObservedLease::new(env.clock.now()),
            assume_absent,
            state,
            opened: None,
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) -> Infallible {
        let clock = self.env.clock.clone();
        let mut backoff = BACKOFF;
        loop {
            let ended = self.read_and_watch().await;
            let opened = self.opened.take();
            let lasted =
                opened.is_some_and(|at| clock.now().saturating_duration_since(at) >= WATCH_DURATION_MIN);
            if lasted {
                backoff.reset();
            }
            let (reason, retry_after) = match ended {
                Ok(Ended::ReadDue) => continue,
                Ok(Ended::Closed) if lasted => continue,
                Ok(Ended::Closed) => ("the watch is closed immediately".to_owned(), None),
                Err(error) => {
                    if backoff.is_healthy(clock.now()) {
                        tracing::warn!(%error, object = %self.lease.key.logged("Lease"), "Failed to watch lease");
                    }
                    (reason(&error), error.retry_after())
                }
            };
            self.observed.watch_lost(clock.now(), reason);
            self.publish();
            let pause = backoff.next_at_least(retry_after, RETRY_MAX, clock.now(), &self.env.rng);
            let sleep = clock.sleep(pause);
            self.publish_while(sleep).await;
        }
    }

    /// Reads the Lease, then watches it until the watch ends or is silent, or the lease expires.
    async fn read_and_watch(&mut self) -> Result<Ended, ClientError> {
        let clock = self.env.clock.clone();
        let sent = clock.now();
        let watch = self.lease.clone();
        let state = self
            .with_timeout(Box::pin(async move { watch.list().await }))
            .await?;
        self.observed
            .observe_read(sent, clock.now(), state.object.as_ref().map(Lease::new));
        self.publish();
        let watch = self.lease.clone();
        let open = async move { watch.open(&state.version).await };
        let mut events = self.with_timeout(Box::pin(open)).await?;
        self.opened = Some(clock.now());
        self.observed.watch_opened();
        self.publish();
        loop {
            let due = self.observed.read_due().unwrap_or(clock.after(Duration::MAX));
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = clock.sleep_until(due) => return Ok(Ended::ReadDue),
            };
            let lease = match event {
                Ok(ObjectEvent::Updated(lease)) => Some(Lease::new(&lease)),
                Ok(ObjectEvent::Deleted(_)) => None,
                Err(WatchEnd::Request(error)) => return Err(error),
                Err(_) => return Ok(Ended::Closed),
            };
            self.observed.observe(clock.now(), lease);
            self.publish();
        }
    }

    async fn with_timeout<T>(
        &mut self,
        request: BoxFuture<'static, Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let clock = self.env.clock.clone();
        let result = self
            .publish_while(async move { clock.timeout(REQUEST_TIMEOUT, request).await })
            .await;
        result.unwrap_or_else(|| {
            Err(ClientError::Timeout {
                request_line: format!("lease {}", self.lease.key),
                deadline: REQUEST_TIMEOUT,
            })
        })
    }

    /// Awaits `future`, and publishes the state when it becomes stale meanwhile.
    async fn publish_while<T>(&mut self, future: impl Future<Output = T>) -> T {
        let clock = self.env.clock.clone();
        let mut future = std::pin::pin!(future);
        let now = clock.now();
        if let Some(stale_at) = self.observed.stale_at().filter(|at| *at > now) {
            tokio::select! {
                biased;
                done = &mut future => return done,
                () = clock.sleep_until(stale_at) => self.publish(),
            }
        }
        future.await
    }

    fn publish(&self) {
        let state = match self.observed.state(self.env.clock.now()) {
            State::Absent if self.assume_absent => State::AssumedAbsent,
            state => state,
        };
        self.state.set(state);
    }
}

/// Describes an error for the health check, which is public: the message of the server is left out.
fn reason(error: &ClientError) -> String {
    match error.code() {
        Some(code) => format!("the API server returned {code}"),
        None => "the API server did not respond".to_owned(),
    }
}
