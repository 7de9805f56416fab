//! HTTPS in front of an API service: connections, their limits, and their end.

mod credentials;
pub(crate) mod kubeconfig;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

pub use credentials::{CONTEXT, Credentials, CredentialsError};

use crate::service::ApiService;

/// Connections at a time; one more waits to be accepted.
const MAX_CONNECTIONS: usize = 1024;
/// Watches and other requests at a time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The time limit of the TLS handshake, and then of the first request.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time limit from one request to the next. Clients keep idle connections for 90 seconds and must close them first: a
/// server that closes one may lose a request in flight, whose client cannot know its outcome.
const IDLE: Duration = Duration::from_mins(3);
/// The time limit of in-flight requests after the start of the shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// A bound server that does not serve yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    credentials: Credentials,
}

impl Server {
    /// Binds `address` and makes credentials for it.
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServeError::Bind { address, source })?;
        let address = listener
            .local_addr()
            .map_err(|source| ServeError::Bind { address, source })?;
        let credentials = Credentials::generate(address.ip())?;
        Ok(Self {
            listener,
            address,
            credentials,
        })
    }

    /// Where clients reach it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the credentials of clients.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Serves `service` to clients that show the token, until `shutdown` is done; then ends watches, lets requests
    /// under way finish, and closes what is left.
    pub async fn serve(self, api_service: ApiService, shutdown: impl Future<Output = ()>) {
        let env = api_service.env();
        let api_service = api_service.with_admin_token(&self.credentials.token);
        let acceptor = TlsAcceptor::from(self.credentials.tls.clone());
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            // A finished connection is forgotten here, so that the set holds the open ones only.
            while connections.try_join_next().is_some() {}
            let (slot, accepted) = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = accept(&self.listener, slots.clone()) => accepted,
            };
            let socket = match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    // Out of file descriptors, most likely: without a pause this would be a hot loop.
                    tracing::warn!(%error, "Could not accept a connection");
                    env.sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (acceptor, api_service, watcher, env) = (
                acceptor.clone(),
                api_service.clone(),
                graceful.watcher(),
                env.clone(),
            );
            connections.spawn(async move {
                let _slot = slot;
                let handshake = tokio::select! {
                    biased;
                    done = handshake(acceptor, socket) => done,
                    () = env.sleep(HANDSHAKE) => Err(io::ErrorKind::TimedOut.into()),
                };
                let Ok(stream) =
                    handshake.inspect_err(|error| tracing::debug!(%error, "A TLS handshake failed"))
                else {
                    return;
                };
                let first = Arc::new(Notify::new());
                let came = first.clone();
                let service = service_fn(move |request| {
                    came.notify_one();
                    api_service.clone().call(request)
                });
                let builder = builder();
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                let mut connection = pin!(watcher.watch(connection));
                // An idle client, of any protocol, frees its connection slot.
                let ended = tokio::select! {
                    biased;
                    ended = &mut connection => ended,
                    () = first.notified() => connection.await,
                    () = env.sleep(HANDSHAKE) => return,
                };
                if let Err(error) = ended {
                    tracing::debug!(error, "A connection ended with an error");
                }
            });
        }
        drop(self.listener);
        api_service.close_watches();
        tokio::select! {
            biased;
            () = graceful.shutdown() => {}
            () = env.sleep(DRAIN) => {}
        }
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    slots: Arc<Semaphore>,
) -> (Option<OwnedSemaphorePermit>, io::Result<(TcpStream, SocketAddr)>) {
    // The semaphore is never closed, so there always is a place in the end.
    let slot = slots.acquire_owned().await.ok();
    (slot, listener.accept().await)
}

async fn handshake(
    acceptor: TlsAcceptor,
    socket: TcpStream,
) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    socket.set_nodelay(true)?;
    acceptor.accept(socket).await
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(MAX_HEADER_BYTES);
    let header_limit = u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(header_limit)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; choose another address with --listen (port 0 picks a free one)"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// There are no credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}
