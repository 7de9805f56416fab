//! HTTPS server for health, metrics and debugging endpoints, over HTTP/1.1 and HTTP/2.
//!
//! - `/healthz`, `/livez` and `/readyz` from [`Checks`], with `?verbose`, `?exclude=<check>` and `/<check>`, and
//!   `/metrics/slis`, which counts their results; `/metrics` from a Prometheus registry; `/version`, `/configz`, `/flagz`,
//!   `/statusz`, `/debug/flags/v` and `/debug/controllers/` by methods of [`Endpoints`]; others by [`Endpoints::mount`].
//! - Every client may access the allowed paths. Other paths need an authorized user, see [`Access`].
//! - Connections, header sizes and durations are bounded. A full server closes a connection of the peer with the most
//!   connections (`slots`). A panic fails only its own request.
//! - On shutdown the listener is closed and in-flight requests are drained for two seconds.
//!
//! Modules: `health` and `slis` (the results of health checks), `access` (which client may access which path), `auth` (users,
//! certificates and reviews), `endpoints` (routing), `connection` (one connection), `slots` (the number of connections), `tls`,
//! and one module per page. The handler of requests is an [`HttpHandler`]: [`Endpoints`] here, another one in
//! [`webhook`](crate::webhook).
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use steersman_manager::env::{Env, TaskSet};
//! use steersman_manager::health::{Checks, Health, Probes};
//! use steersman_manager::serve::{ALWAYS_ALLOW_PATHS, Access, Endpoints, Server, Tls};
//!
//! let tasks = TaskSet::new();
//! let env = Env::system(&tasks);
//! let checks = Checks::new();
//! let _registration = checks.add("caches", Probes::READYZ, || Health::Failed("pods are not synced".to_owned()));
//! let access = Access::new(ALWAYS_ALLOW_PATHS)?;
//! let endpoints = Endpoints::new(&checks, steersman_manager::metrics::Registry::new("example"), access, &env.clock)?;
//! let server = Server::bind("127.0.0.1:0".parse()?, Tls::self_signed([])?).await?;
//! println!("https://{}/readyz", server.address());
//! server.serve(env, endpoints, async { /* until a signal */ }).await;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Checks`]: crate::health::Checks

mod access;
mod allowed_paths;
mod auth;
mod build_info;
pub(crate) mod certificate_metrics;
mod configz;
mod connection;
mod debug;
mod endpoints;
pub(crate) mod files;
mod flagz;
mod health;
mod slis;
mod slots;
mod status;
mod statusz;
mod structured;
mod tls;

#[cfg(test)]
mod tests;

pub use self::access::{Access, Authorized};
pub use self::auth::{
    AuthenticationOptions, Authenticator, AuthorityError, AuthorityOption, AuthorizationOptions, Authorizer,
    RequestHeaderNames, RequestHeaderOptions, User,
};
pub use self::build_info::BuildInfo;
pub use self::certificate_metrics::CertificateMetrics;
pub use self::connection::{HttpHandler, HttpResponse, Peer};
pub(crate) use self::endpoints::response;
#[cfg(feature = "webhook")]
pub(crate) use self::endpoints::text;
pub use self::endpoints::{ALWAYS_ALLOW_PATHS, Endpoints};
pub use self::slots::MAX_CONNECTIONS;
pub use self::tls::{
    CertificateFiles, CertificateWatcher, ServingCertificates, SniCertificate, Tls, TlsError, TlsOptions,
    TlsVersion,
};
#[cfg(feature = "webhook")]
pub(crate) use self::tls::{KeyPairError, parse_key_pair};

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::connection::{Activity, ServerContext};
use self::slots::Slots;
use crate::env::Env;

/// The delay after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Errors while the server starts. All are configuration errors.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "plain data")]
pub enum ServeError {
    /// The listener cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: io::Error },
    /// An always allowed path is invalid.
    #[error(
        "invalid path {path:?} in always_allow_paths: a path must start with / and may contain * only at its end"
    )]
    AllowedPath { path: String },
    /// The metrics of the health checks cannot be created.
    #[error("cannot create metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A bound server.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Tls,
}

impl Server {
    /// Binds `address`. Port 0 selects a free port.
    pub async fn bind(address: SocketAddr, tls: Tls) -> Result<Self, ServeError> {
        let bound = Self::listen(address, tls).await;
        bound.map_err(|source| ServeError::Bind { address, source })
    }

    /// Binds `address`, for callers with their own error message.
    pub(crate) async fn listen(address: SocketAddr, tls: Tls) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            tls,
        })
    }

    /// Returns the bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `handler`, such as [`Endpoints`], until `shutdown` resolves, then drains in-flight requests for at most two
    /// seconds. Dropping the future closes all connections.
    pub async fn serve(self, env: Env, handler: impl HttpHandler, shutdown: impl Future<Output = ()>) {
        let clock = env.clock.clone();
        let context = Arc::new(ServerContext {
            env,
            acceptor: self.tls.acceptor(),
            handler,
        });
        let closing = CancellationToken::new();
        let mut slots = Slots::default();
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut failing = false;
        loop {
            // Finished connections are removed, so that the set holds only open ones.
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = self.listener.accept() => accepted,
            };
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Usually out of file descriptors. The delay prevents a hot loop; only the first error of an episode is
                    // logged.
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "Failed to accept connection");
                    }
                    clock.sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            failing = false;
            let peer = peer.ip().to_canonical();
            let activity = Arc::new(Activity::new(&clock));
            let (context, closing, of_slot) = (context.clone(), closing.clone(), activity.clone());
            let task = connections.spawn(async move {
                // Only an optimisation, and the client may have disconnected.
                let _ = socket.set_nodelay(true);
                if let Err(error) = connection::serve(context, socket, peer, activity, closing).await {
                    tracing::debug!(error, "Connection closed with an error");
                }
            });
            slots.add(peer, of_slot, task);
        }
        drop(self.listener);
        closing.cancel();
        // Each connection has its own drain timeout.
        while connections.join_next().await.is_some() {}
    }
}
