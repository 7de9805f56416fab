//! The lifecycle of a manager: initial sync, terms, shutdown.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Manager, ManagerError};
use crate::cache::Status;
use crate::client::Takeover;

/// The time for the initial sync before the first term. Each controller waits for its own caches in any case.
const INITIAL_SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// The status of a cache must be polled.
const SYNC_POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Manager {
    /// Runs until `stop`, and shuts down in order: controllers first, then the Lease.
    #[cfg_attr(not(feature = "election"), expect(unused_mut))]
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), ManagerError> {
        #[cfg(feature = "election")]
        let elector = self.elector.take();
        let running = async {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = self.wait_for_initial_sync() => {}
            }
            #[cfg(feature = "election")]
            if let Some(elector) = elector {
                return Box::pin(self.lead_while_elected(elector, stop.clone())).await;
            }
            let term = self.fence.open_forever();
            let led = self.lead(term, &Takeover::Unclean, &stop).await;
            self.fence.close();
            led.map(|_| ())
        };
        tokio::select! {
            biased;
            resource = self.caches.failed() => Err(ManagerError::Failed {
                what: format!("cache of {resource}"),
                reason: "reflector panicked".to_owned(),
            }),
            ended = running => ended,
        }
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
}
