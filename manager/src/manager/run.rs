//! The lifecycle of a manager: initial sync, election, terms, shutdown.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{Manager, ManagerError, health};
use crate::cache::Status;
use crate::client::{Takeover, Term};
use crate::election::{Elector, Leadership, Release};
use crate::panics;

/// The time for the initial sync before the election. Each controller waits for its own caches in any case.
const INITIAL_SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// The status of a cache must be polled.
const SYNC_POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Manager {
    /// Runs until `stop`, with leader election or without, and shuts down in order: controllers first, then the Lease.
    pub async fn run(
        mut self,
        election: Option<Elector>,
        stop: CancellationToken,
    ) -> Result<(), ManagerError> {
        if let Some(elector) = &election {
            let check = health::add_election_check(&self.checks, elector.health());
            self.registrations.push(check);
        }
        tokio::select! {
            biased;
            resource = self.caches.failed() => Err(ManagerError::Failed {
                what: format!("cache of {resource}"),
                reason: "reflector panicked".to_owned(),
            }),
            ended = self.run_until_stopped(election, stop) => ended,
        }
    }

    async fn run_until_stopped(
        &self,
        election: Option<Elector>,
        stop: CancellationToken,
    ) -> Result<(), ManagerError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = self.wait_for_initial_sync() => {}
        }
        let Some(elector) = election else {
            let term = self.fence.open_forever();
            let led = self.lead(term, &Takeover::Unclean, &stop).await;
            self.fence.close();
            return led.map(|_| ());
        };
        Box::pin(self.elect(elector, stop)).await
    }

    /// Waits until each needed cache is synced or has failed once: a failing resource must not block the others.
    async fn wait_for_initial_sync(&self) {
        let filling = || {
            let caches = self.caches.summaries().into_iter();
            caches.filter(|it| it.required && it.status == Status::Syncing)
        };
        let filled = async {
            while filling().next().is_some() {
                self.env.clock.sleep(SYNC_POLL_INTERVAL).await;
            }
        };
        if self
            .env
            .clock
            .timeout(INITIAL_SYNC_TIMEOUT, filled)
            .await
            .is_none()
        {
            let slow: Vec<_> = filling().map(|it| it.resource.to_string()).collect();
            tracing::warn!(
                resources = slow.join(","),
                "Starting before all caches are synced"
            );
        }
    }

    async fn elect(&self, elector: Elector, stop: CancellationToken) -> Result<(), ManagerError> {
        let leadership = elector.leadership();
        let (finish, finished) = oneshot::channel();
        let election = elector.run(stop.clone(), async { finished.await.ok().flatten() });
        let mut election = std::pin::pin!(self.run_election(election));
        let released = tokio::select! {
            biased;
            // The election must not end before the terms.
            ended = &mut election => ended,
            release = self.lead_terms(leadership, &stop) => {
                // Fails only if the election has just failed, which is handled next.
                let _ = finish.send(release?);
                election.await
            }
        };
        match released {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "Failed to release lease");
                Ok(())
            }
            Err(reason) => Err(ManagerError::Failed {
                what: "leader election".to_owned(),
                reason,
            }),
        }
    }

    /// Runs the election here, or apart from the reconciles if there is a runtime for it. Returns the message of a panic.
    async fn run_election<T: Send + 'static>(
        &self,
        election: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        let Some(control) = &self.control else {
            let ended = AssertUnwindSafe(election).catch_unwind().await;
            return ended.map_err(|panic| panics::message(&*panic).to_owned());
        };
        let election = control.spawn(election);
        let _aborted = AbortOnDrop(election.abort_handle());
        election.await.map_err(|error| error.to_string())
    }

    /// Leads whenever this process is elected, until `stop`. Returns whether the Lease can be released.
    async fn lead_terms(
        &self,
        mut leadership: watch::Receiver<Leadership>,
        stop: &CancellationToken,
    ) -> Result<Option<Release>, ManagerError> {
        let mut last = None;
        loop {
            let (term, takeover) = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                elected = elected(&mut leadership, last) => elected,
            };
            last = Some(term);
            let versions = self.lead(term, &takeover, stop).await?;
            if stop.is_cancelled() {
                let Some(versions) = versions else {
                    tracing::warn!("Not releasing lease, writes of the previous leader are unknown");
                    return Ok(None);
                };
                if !self.transport.write_tracker().is_settled() {
                    tracing::warn!("Not releasing lease, the outcome of a write is unknown");
                    return Ok(None);
                }
                return Ok(Some(Release { term, versions }));
            }
            tracing::warn!("Lost lease, continuing as standby");
        }
    }
}

/// Aborts a task with the future that waits for it.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the next term after `last`.
async fn elected(leadership: &mut watch::Receiver<Leadership>, last: Option<Term>) -> (Term, Takeover) {
    let new = |leadership: &Leadership| match leadership {
        Leadership::Leading { term, .. } => Some(*term) != last,
        Leadership::Standby => false,
    };
    let leadership = leadership.wait_for(new).await.ok().map(|it| it.clone());
    match leadership {
        Some(Leadership::Leading { term, takeover }) => (term, takeover),
        // The elector has failed, which ends the manager.
        _ => std::future::pending().await,
    }
}
