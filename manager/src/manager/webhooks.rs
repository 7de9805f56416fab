//! The webhook server of a process. It serves on the leader and on standbys, and stops after the manager.

use std::io;
use std::time::Duration;

use crate::metrics::Registry;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::builder::Address;
use crate::env::{Clock, Env};
use crate::serve::{CertificateMetrics, Checks};
use crate::webhook::{Certificates, Hooks, Server, Source};

/// Webhooks are served this long after the manager has stopped on a signal: API servers keep sending reviews until they
/// observe that this pod has left the Service.
const WEBHOOK_DRAIN: Duration = Duration::from_secs(5);

/// The options of the server.
pub(super) struct Webhooks {
    pub(super) address: Address,
    pub(super) certificate: Source,
    pub(super) hooks: Hooks,
}

impl Webhooks {
    /// Binds the server in `env`.
    pub(super) async fn bind(
        self,
        env: &Env,
        metrics: &CertificateMetrics,
        checks: &Checks,
        registry: &Registry,
    ) -> Result<(Server, Hooks), RunError> {
        let address = self.address?;
        let certificates = Certificates::new(self.certificate, metrics, checks)?;
        let registry = registry.clone();
        // The listener belongs to the runtime on which it is bound.
        let bound = env
            .tasks
            .spawn(async move { Server::bind(address, certificates, &registry).await });
        Ok((bound.await.map_err(io::Error::other)??, self.hooks))
    }
}

/// Resolves when the server stops: when the manager has stopped, or later if the reason is `stop`.
pub(super) async fn shutdown(clock: Clock, stop: CancellationToken, manager_stopped: CancellationToken) {
    manager_stopped.cancelled().await;
    if stop.is_cancelled() {
        let seconds = WEBHOOK_DRAIN.as_secs();
        tracing::info!(seconds, "Serving webhooks until the pod has left the Service");
        clock.sleep(WEBHOOK_DRAIN).await;
    }
}
