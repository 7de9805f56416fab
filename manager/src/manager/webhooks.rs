//! The webhook server of a process. It serves on the leader and on standbys, and stops after the manager.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::builder::{ManagerBuilder, RunError};
use super::endpoints::{InvalidAddress, parse};
use super::instance::Instance;
use super::servers::RunningServer;
use crate::env::Env;
use crate::health::Checks;
use crate::metrics::Registry;
use crate::serve::CertificateMetrics;
use crate::webhook::{Certificates, Hooks, Server, Source};

/// Webhooks are served this long after the manager has stopped on a signal: API servers keep sending reviews until they
/// observe that this pod has left the Service.
const WEBHOOK_DRAIN: Duration = Duration::from_secs(5);

/// The requested server.
#[derive(Default)]
pub(super) struct RequestedWebhooks {
    server: Option<(Result<SocketAddr, InvalidAddress>, Source, Hooks)>,
    client_ca: Option<PathBuf>,
}

/// A bound server that does not accept connections yet.
pub(super) struct BoundWebhooks {
    pub(super) server: Server,
    pub(super) hooks: Hooks,
}

impl ManagerBuilder {
    /// Serves webhooks over HTTPS at an address such as `0.0.0.0:9443`, on the leader and on standbys. A replica is ready when
    /// it has the certificate. After a signal, the webhooks are served for 5 s after the controllers have stopped: API servers
    /// send reviews until the pod has left the Service.
    pub fn webhooks(mut self, address: &str, certificate: Source, hooks: Hooks) -> Self {
        self.webhooks.server = Some((parse(address), certificate, hooks));
        self
    }

    /// Requires the clients of webhooks to present a certificate that a CA in this PEM file has signed. By default, clients need no certificate.
    pub fn webhook_client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.webhooks.client_ca = Some(file.into());
        self
    }
}

impl Instance {
    /// Adds webhooks, or replaces those of the same path. Does nothing if the manager serves no webhooks.
    pub fn extend_webhooks(&mut self, hooks: Hooks) {
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.hooks.extend(hooks);
        }
    }
}

impl RequestedWebhooks {
    /// Binds the server in `env`; none without a server.
    pub(super) async fn bind(
        self,
        env: &Env,
        metrics: &CertificateMetrics,
        checks: &Checks,
        registry: &Registry,
    ) -> Result<Option<BoundWebhooks>, RunError> {
        let Some((address, certificate, hooks)) = self.server else {
            return Ok(None);
        };
        let address = address?;
        let mut certificates = Certificates::new(certificate, metrics, checks)?;
        if let Some(client_ca) = self.client_ca {
            certificates = certificates.verifying_clients(&client_ca)?;
        }
        let registry = registry.clone();
        // The listener belongs to the runtime on which it is bound.
        let bound = env
            .tasks
            .spawn(async move { Server::bind(address, certificates, &registry).await });
        Ok(Some(BoundWebhooks {
            server: bound.await.map_err(io::Error::other)??,
            hooks,
        }))
    }
}

impl BoundWebhooks {
    /// Serves until the manager has stopped, or longer if the reason is `stop`.
    pub(super) fn start(self, env: &Env, stop: &CancellationToken) -> RunningServer {
        tracing::info!(address = %self.server.address(), "Serving webhooks");
        let manager_stopped = CancellationToken::new();
        let (clock, stop, until) = (env.clock.clone(), stop.clone(), manager_stopped.clone());
        let until = async move {
            until.cancelled().await;
            if stop.is_cancelled() {
                let seconds = WEBHOOK_DRAIN.as_secs();
                tracing::info!(seconds, "Serving webhooks until the pod has left the Service");
                clock.sleep(WEBHOOK_DRAIN).await;
            }
        };
        let serve = self.server.serve(env.clone(), self.hooks, until);
        RunningServer {
            name: "webhook server",
            stop: manager_stopped,
            ended: env.tasks.spawn(serve),
        }
    }
}
