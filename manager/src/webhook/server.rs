//! The server: a port, and the hooks behind it.

use std::io;
use std::net::SocketAddr;

use prometheus::Registry;

use super::certificates::Certificates;
use super::hooks::Hooks;
use super::metrics::Requests;
use super::site::Reviews;
use crate::env::Env;
use crate::serve::{self, TlsError};

/// Why there is no server. Each but [`WebhookError::Metrics`] is a mistake in what was given.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address cannot be listened on.
    #[error("cannot listen for webhooks on {address}: {source}; choose another port with --webhook-port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The files cannot be used.
    #[error(
        "{reason}; --webhook-cert-dir must name a folder with a certificate, tls.crt, and its key, tls.key"
    )]
    Files {
        /// Why.
        reason: String,
    },
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The series are there already: a mistake in the program.
    #[error("cannot register the metrics of webhooks: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A bound server that does not serve yet.
pub struct Server {
    inner: serve::Server,
    certificates: Certificates,
    requests: Requests,
}

impl Server {
    /// Binds `address`; port 0 picks a free one.
    pub async fn bind(
        address: SocketAddr,
        certificates: Certificates,
        registry: &Registry,
    ) -> Result<Self, WebhookError> {
        let requests = Requests::register(registry)?;
        let inner = serve::Server::listen(address, certificates.tls()).await;
        let inner = inner.map_err(|source| WebhookError::Bind { address, source })?;
        Ok(Self {
            inner,
            certificates,
            requests,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.inner.address()
    }

    /// What it proves itself with.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Serves `hooks` until `shutdown` is done; then lets reviews under way finish for at most two seconds. Dropping the
    /// future closes everything at once.
    pub async fn serve(self, env: Env, hooks: Hooks, shutdown: impl Future<Output = ()>) {
        let Self {
            inner,
            certificates,
            requests,
        } = self;
        let reviews = Reviews::new(hooks, requests, env.clock.clone());
        inner.serve(env, reviews, shutdown).await;
        drop(certificates);
    }
}
