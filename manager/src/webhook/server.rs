//! The webhook server.

use std::io;
use std::net::SocketAddr;

use crate::metrics::Registry;

use super::certificates::Certificates;
use super::handler::ReviewHandler;
use super::hooks::Hooks;
use super::metrics::RequestMetrics;
use crate::env::Env;
use crate::serve::{self, TlsError};

/// Errors while the server starts. All but [`WebhookError::Metrics`] are configuration errors.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The listener cannot be bound.
    #[error("cannot listen for webhooks on {address}: {source}")]
    #[expect(missing_docs, reason = "plain data")]
    Bind { address: SocketAddr, source: io::Error },
    /// The certificate files or the client CAs are invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The metrics are registered already, which is a programming error.
    #[error("failed to register webhook metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A bound server.
pub struct Server {
    inner: serve::Server,
    certificates: Certificates,
    requests: RequestMetrics,
}

impl Server {
    /// Binds `address`. Port 0 selects a free port.
    pub async fn bind(
        address: SocketAddr,
        certificates: Certificates,
        registry: &Registry,
    ) -> Result<Self, WebhookError> {
        let requests = RequestMetrics::register(registry)?;
        let inner = serve::Server::listen(address, certificates.tls()).await;
        let inner = inner.map_err(|source| WebhookError::Bind { address, source })?;
        Ok(Self {
            inner,
            certificates,
            requests,
        })
    }

    /// Returns the bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.inner.address()
    }

    /// Returns the serving certificate.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Serves `hooks` until `shutdown` resolves, then drains in-flight reviews for at most two seconds. Dropping the
    /// future closes all connections.
    pub async fn serve(self, env: Env, hooks: Hooks, shutdown: impl Future<Output = ()>) {
        let Self {
            inner,
            certificates,
            requests,
        } = self;
        let handler = ReviewHandler::new(hooks, requests, env.clock.clone());
        inner.serve(env, handler, shutdown).await;
        drop(certificates);
    }
}
