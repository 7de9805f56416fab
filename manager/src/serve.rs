//! One HTTPS port for health and metrics, in HTTP/1.1 and HTTP/2.
//!
//! - `/healthz`, `/livez`, `/readyz`, each with `?verbose`, `?exclude=<check>` and `/<check>` below it, from [`Checks`];
//!   `/metrics` from a Prometheus registry; more by [`Endpoints::mount`].
//! - Open to everybody are the paths that are allowed by name; all else is 403 but for clients on this machine.
//! - Slow, silent and greedy clients cost a bounded amount and never keep others out: a full server closes a connection of
//!   the peer that holds the most (`slots`). A panic costs the request that it happened in.
//! - Told to stop, it accepts nobody any more, gives requests under way two seconds, and leaves no task behind.
//!
//! Layers: `checks` (who is asked) and `health` (what is said), `access` (who may ask), `endpoints` (request to answer),
//! `connection` (bytes to requests), `slots` (the number of connections), `tls`; this file accepts. What is behind the port
//! is a [`HttpHandler`]: the endpoints here, and another one in [`webhook`](crate::webhook).
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use coxswain_manager::env::{Env, TaskSet};
//! use coxswain_manager::serve::{ALWAYS_ALLOW_PATHS, Checks, Endpoints, Health, Probes, Server, Tls};
//!
//! let tasks = TaskSet::new();
//! let checks = Checks::new();
//! let _registration = checks.add("caches", Probes::READYZ, || Health::Failed("pods are not synced".to_owned()));
//! let endpoints = Endpoints::new(&checks, prometheus::Registry::new(), ALWAYS_ALLOW_PATHS)?;
//! let server = Server::bind("127.0.0.1:0".parse()?, Tls::self_signed([])?).await?;
//! println!("https://{}/readyz", server.address());
//! server.serve(Env::system(&tasks), endpoints, async { /* until a signal */ }).await;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod access;
mod checks;
mod connection;
mod endpoints;
mod health;
mod slots;
mod tls;

#[cfg(test)]
mod tests;

pub use self::checks::{Checks, Health, Probes, Registration};
pub use self::connection::HttpHandler;
pub use self::endpoints::{ALWAYS_ALLOW_PATHS, Endpoints, HttpResponse};
pub(crate) use self::endpoints::{answer, text};
pub use self::slots::MAX_CONNECTIONS;
pub use self::tls::{Tls, TlsError};

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::connection::{Activity, Host};
use self::slots::Slots;
use crate::env::Env;

/// After a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server does not start. Each is a mistake in what was given.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; choose another port with --secure-port, or another address with \
         --bind-address"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A path that everybody may ask for is none.
    #[error(
        "cannot allow the path {path:?}: in --authorization-always-allow-paths a path begins with / and has a * only at \
         its end"
    )]
    AllowedPath {
        /// The path.
        path: String,
    },
}

/// A bound server that does not serve yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Tls,
}

impl Server {
    /// Binds `address`; port 0 picks a free one.
    pub async fn bind(address: SocketAddr, tls: Tls) -> Result<Self, ServeError> {
        let bound = Self::listen(address, tls).await;
        bound.map_err(|source| ServeError::Bind { address, source })
    }

    /// [`Server::bind`] for who has other flags.
    pub(crate) async fn listen(address: SocketAddr, tls: Tls) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            tls,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `site`, such as [`Endpoints`], until `shutdown` is done; then lets requests under way finish for at most two
    /// seconds. Dropping the future closes everything at once.
    pub async fn serve(self, env: Env, site: impl HttpHandler, shutdown: impl Future<Output = ()>) {
        let clock = env.clock.clone();
        let host = Arc::new(Host {
            env,
            acceptor: self.tls.acceptor(),
            site,
        });
        let closing = CancellationToken::new();
        let mut slots = Slots::default();
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut failing = false;
        loop {
            // A finished connection is forgotten here, so that the set holds the open ones only.
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = self.listener.accept() => accepted,
            };
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: without a pause this would be a hot loop, and with a line
                    // each time a full disk.
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "Could not accept connections");
                    }
                    clock.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            failing = false;
            let peer = peer.ip().to_canonical();
            let activity = Arc::new(Activity::new(&clock));
            let (host, closing, of_slot) = (host.clone(), closing.clone(), activity.clone());
            let task = connections.spawn(async move {
                // Only a matter of speed, and the client may be gone already.
                let _ = socket.set_nodelay(true);
                if let Err(error) = connection::serve(host, socket, peer, activity, closing).await {
                    tracing::debug!(error, "A connection ended with an error");
                }
            });
            slots.add(peer, of_slot, task);
        }
        drop(self.listener);
        closing.cancel();
        // Each has a limit of its own.
        while connections.join_next().await.is_some() {}
    }
}
