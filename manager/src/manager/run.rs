//! The life of a manager: warm up, be elected, lead, step down, end.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Manager, ManagerError, health};
use crate::cache::Status;
use crate::client::Term;
use crate::election::{Elector, Leadership, Release, Takeover};
use crate::panics;

/// How long the first lists are waited for before the lease is asked for. Each controller waits for its own all the same.
const WARM: Duration = Duration::from_secs(30);
/// How often it is looked whether they are there: changes of a status are not announced.
const LOOK: Duration = Duration::from_millis(100);

impl Manager {
    /// Works until `stop`, by election or without, and ends in order: controllers first, then the lease.
    pub async fn run(
        mut self,
        election: Option<Elector>,
        stop: CancellationToken,
    ) -> Result<(), ManagerError> {
        if let Some(elector) = &election {
            let check = health::of_election(&self.checks, elector.health());
            self.registrations.push(check);
        }
        tokio::select! {
            biased;
            resource = self.caches.failed() => Err(ManagerError::Died {
                what: format!("the cache of {resource}"),
                reason: "see the panic above".to_owned(),
            }),
            ended = self.work(election, stop) => ended,
        }
    }

    async fn work(&self, election: Option<Elector>, stop: CancellationToken) -> Result<(), ManagerError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = self.warm() => {}
        }
        let Some(elector) = election else {
            let term = self.fence.open_forever();
            let led = self.lead(term, &Takeover::Unclean, &stop).await;
            self.fence.close();
            return led.map(|_| ());
        };
        Box::pin(self.elect(elector, stop)).await
    }

    /// Waits until each cache that somebody needs has been filled, or has met a difficulty that it will try to overcome: what
    /// is broken in one kind keeps nobody from the rest.
    async fn warm(&self) {
        let filling = || {
            let caches = self.caches.summaries().into_iter();
            caches.filter(|it| it.required && it.status == Status::Syncing)
        };
        let filled = async {
            while filling().next().is_some() {
                self.env.clock.sleep(LOOK).await;
            }
        };
        if self.env.clock.timeout(WARM, filled).await.is_none() {
            let slow: Vec<_> = filling().map(|it| it.resource.to_string()).collect();
            tracing::warn!(
                resources = slow.join(","),
                "Going on before all caches are filled"
            );
        }
    }

    async fn elect(&self, elector: Elector, stop: CancellationToken) -> Result<(), ManagerError> {
        let leadership = elector.leadership();
        let (finish, finished) = oneshot::channel();
        let election = elector.run(stop.clone(), async { finished.await.ok().flatten() });
        let mut election = std::pin::pin!(AssertUnwindSafe(election).catch_unwind());
        let released = tokio::select! {
            biased;
            // Its own end before that of the terms is a mistake, however it comes.
            ended = &mut election => ended,
            release = self.terms(leadership, &stop) => {
                // Nobody listens only if the election has just died, which is seen next.
                let _ = finish.send(release?);
                election.await
            }
        };
        match released {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "The next leader has to wait");
                Ok(())
            }
            Err(panic) => Err(ManagerError::Died {
                what: "the election".to_owned(),
                reason: panics::message(&*panic).to_owned(),
            }),
        }
    }

    /// Leads whenever this process is elected, until `stop`. What is returned then is whether the lease can be given back.
    async fn terms(
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
                    tracing::warn!("What the last leader wrote is not known, the lease is left to expire");
                    return Ok(None);
                };
                if !self.transport.write_tracker().is_settled() {
                    tracing::warn!("The outcome of a write is not known, the lease is left to expire");
                    return Ok(None);
                }
                return Ok(Some(Release { term, versions }));
            }
            tracing::warn!("Lost the lease, going on as a standby");
        }
    }
}

/// The next term after `last`.
async fn elected(leadership: &mut watch::Receiver<Leadership>, last: Option<Term>) -> (Term, Takeover) {
    let new = |leadership: &Leadership| match leadership {
        Leadership::Leading { term, .. } => Some(*term) != last,
        Leadership::Standby => false,
    };
    let leadership = leadership.wait_for(new).await.ok().map(|it| it.clone());
    match leadership {
        Some(Leadership::Leading { term, takeover }) => (term, takeover),
        // The elector is gone, which ends the manager elsewhere.
        _ => std::future::pending().await,
    }
}
