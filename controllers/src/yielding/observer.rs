//! The look at the one Lease: a read, and a watch from there, again and again.
//!
//! Each read is a list of one name, because a list has a version to watch from, also when there is nothing in it: no change
//! is missed in between. It needs `list` and `watch` of that one Lease. A read is sent when a watch has ended or fallen
//! silent, and when the holder is due to be gone.

use std::convert::Infallible;
use std::time::Duration;

use coxswain_manager::backoff::Backoff;
use coxswain_manager::client::{Client, ClientError, ObjectEvent, ObjectWatch, View as Form, WatchEnd};
use coxswain_manager::env::Env;
use coxswain_manager::object::{Key, Resource};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::State;
use super::board::Writer;
use super::view::{Lease, View};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// How long a read may take, and a watch to open.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a watch may be silent. Bookmarks come every minute or so.
const SILENCE: Duration = Duration::from_secs(90);
/// A watch that ended sooner has not worked.
const QUICK: Duration = Duration::from_secs(5);
/// The delays after failures: from half a second to [`RETRY_MAX`].
const BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(500), Duration::from_secs(15)).jitter(1.0);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Who looks, and whom it tells.
pub(super) struct Observer {
    env: Env,
    lease: ObjectWatch,
    view: View,
    /// Whether an absent Lease means that its holder does not run.
    assume_absent: bool,
    board: Writer,
    /// When the present watch was opened.
    opened: Option<Instant>,
}

/// Why a watch is not listened to any more.
#[derive(PartialEq, Eq)]
enum Ended {
    /// It is over, or silent.
    Over,
    /// It is time to see whether the holder is gone.
    Due,
}

impl Observer {
    pub(super) fn new(env: &Env, client: Client, lease: Key, assume_absent: bool, board: Writer) -> Self {
        Self {
            env: env.clone(),
            lease: ObjectWatch {
                env: env.clone(),
                client,
                resource: LEASES,
                key: lease,
                view: Form::Full,
                idle_timeout: SILENCE,
            },
            view: View::new(env.clock.now()),
            assume_absent,
            board,
            opened: None,
        }
    }

    /// Looks for ever.
    pub(super) async fn run(mut self) -> Infallible {
        let clock = self.env.clock.clone();
        let mut backoff = BACKOFF;
        loop {
            let ended = self.once().await;
            let opened = self.opened.take();
            let lasted = opened.is_some_and(|at| clock.now().saturating_duration_since(at) >= QUICK);
            if lasted {
                backoff.reset();
            }
            let (why, asked) = match ended {
                Ok(Ended::Due) => continue,
                Ok(Ended::Over) if lasted => continue,
                Ok(Ended::Over) => ("its watch ends at once".to_owned(), None),
                Err(error) => {
                    if backoff.is_healthy(clock.now()) {
                        tracing::warn!(%error, lease = %self.lease.key, "Cannot watch the lease");
                    }
                    (reason(&error), error.retry_after())
                }
            };
            self.view.lost(clock.now(), why);
            self.tell();
            let pause = backoff.next_at_least(asked, RETRY_MAX, clock.now(), &self.env.rng);
            let sleep = clock.sleep(pause);
            self.meanwhile(sleep).await;
        }
    }

    /// One read, and one watch until it ends, falls silent or the holder is due.
    async fn once(&mut self) -> Result<Ended, ClientError> {
        let clock = self.env.clock.clone();
        let sent = clock.now();
        let watch = self.lease.clone();
        let state = self.in_time(Box::pin(async move { watch.list().await })).await?;
        self.view
            .read(sent, clock.now(), state.object.as_ref().map(Lease::new));
        self.tell();
        let watch = self.lease.clone();
        let open = async move { watch.open(&state.version).await };
        let mut events = self.in_time(Box::pin(open)).await?;
        self.opened = Some(clock.now());
        self.view.watched();
        self.tell();
        loop {
            let due = self.view.due().unwrap_or(clock.after(Duration::MAX));
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = clock.sleep_until(due) => return Ok(Ended::Due),
            };
            let lease = match event {
                Ok(ObjectEvent::Updated(lease)) => Some(Lease::new(&lease)),
                Ok(ObjectEvent::Deleted(_)) => None,
                Err(WatchEnd::Request(error)) => return Err(error),
                Err(_) => return Ok(Ended::Over),
            };
            self.view.see(clock.now(), lease);
            self.tell();
        }
    }

    async fn in_time<T>(
        &mut self,
        request: BoxFuture<'static, Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let clock = self.env.clock.clone();
        let answer = self
            .meanwhile(async move { clock.timeout(PATIENCE, request).await })
            .await;
        answer.unwrap_or_else(|| {
            Err(ClientError::Timeout {
                request_line: format!("lease {}", self.lease.key),
                deadline: PATIENCE,
            })
        })
    }

    /// Waits for something, while what is known grows too old.
    async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> T {
        let clock = self.env.clock.clone();
        let mut future = std::pin::pin!(future);
        let now = clock.now();
        if let Some(stale_at) = self.view.stale_at().filter(|at| *at > now) {
            tokio::select! {
                biased;
                done = &mut future => return done,
                () = clock.sleep_until(stale_at) => self.tell(),
            }
        }
        future.await
    }

    fn tell(&self) {
        let state = match self.view.state(self.env.clock.now()) {
            State::Absent if self.assume_absent => State::Assumed,
            state => state,
        };
        self.board.write(state);
    }
}

/// Why the Lease is not to be had. Everybody may read this, so it does not quote the server.
fn reason(error: &ClientError) -> String {
    match error.code() {
        Some(code) => format!("the API server answers {code}"),
        None => "the API server does not answer".to_owned(),
    }
}
