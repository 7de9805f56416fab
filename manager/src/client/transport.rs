//! The connection to the API server. The fence is checked at its end, next to the socket.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::metrics::Registry;
use futures_util::future::{BoxFuture, ready};
use http::{HeaderValue, Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::config::AuthInfo;
use tokio::task::JoinError;
use tower_layer::Layer as _;
use tower_service::Service;

use super::exec_plugin::{ExecPlugin, PluginError};
use super::fence::{FenceClosed, FenceClosedInFlight};
use super::metrics::Metrics;
use super::response::error_chain;
use super::{Client, Fence, RateLimit, Reader, Term, WriteTracker};
use crate::env::{Clock, Tasks};
use crate::trace::Tracer;

/// The timeout of a TCP connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of TCP keepalive probes, which detect dead connections of idle watches.
const KEEPALIVE: Duration = Duration::from_secs(15);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection to an API server, shared by any number of clients.
#[derive(Clone)]
pub struct Transport {
    pub(super) kube: kube::Client,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
    pub(super) writes: WriteTracker,
    /// The prefix of all user agents.
    agent: Arc<str>,
    /// Starts the traces of watch events.
    pub(super) tracer: Tracer,
    plugin: Option<ExecPlugin>,
}

/// The error of building a transport.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig or in-cluster configuration is invalid.
    #[error("cannot connect to {server}: {reason}")]
    #[expect(missing_docs, reason = "plain data")]
    Config { server: String, reason: String },
    /// The metrics are registered already, which is a programming error.
    #[error("cannot register the metrics of the API client: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The fence that a write has to pass, and its term.
#[derive(Clone, Debug)]
pub(super) struct FencedTerm(pub(super) Fence, pub(super) Term);

impl Transport {
    /// Returns a transport over `service`, an API server in the same process or a test double. `host` is its name in
    /// metrics.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn from_service<S, B>(
        service: S,
        host: &str,
        agent: &str,
        clock: &Clock,
        registry: &Registry,
    ) -> Result<Self, ConnectError>
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let metrics = Metrics::register(host, registry)?;
        Ok(Self {
            kube: kube::Client::new(Fenced(service), "default"),
            clock: clock.clone(),
            metrics: Arc::new(metrics),
            writes: WriteTracker::new(clock.clone()),
            agent: agent.into(),
            tracer: Tracer::default(),
            plugin: None,
        })
    }

    /// Returns a transport over the network. It connects, and runs an exec credential plugin, with the first request.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(
        config: &kube::Config,
        agent: &str,
        clock: &Clock,
        registry: &Registry,
    ) -> Result<Self, ConnectError> {
        let metrics = Metrics::register(&host(config), registry)?;
        let plugin = ExecPlugin::of(config, clock, authenticated);
        Ok(Self {
            kube: socket(config, plugin.as_ref())?,
            plugin,
            clock: clock.clone(),
            metrics: Arc::new(metrics),
            writes: WriteTracker::new(clock.clone()),
            agent: agent.into(),
            tracer: Tracer::default(),
        })
    }

    /// Returns the same transport with connections of its own: requests on the others do not delay it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn reconnect(&self, config: &kube::Config) -> Result<Self, ConnectError> {
        let plugin = ExecPlugin::of(config, &self.clock, authenticated);
        Ok(Self {
            kube: socket(config, plugin.as_ref())?,
            plugin,
            ..self.clone()
        })
    }

    /// Runs the exec credential plugin, if there is one, to report its failure before the first request.
    pub async fn authenticate(&self) -> Result<(), ConnectError> {
        let Some(plugin) = &self.plugin else {
            return Ok(());
        };
        let failed = |error: PluginError| ConnectError::Config {
            server: host(plugin.config()),
            reason: error.to_string(),
        };
        plugin.authenticate().await.map_err(failed)
    }

    /// [`Transport::reconnect`] on the runtime of `tasks`, which then drives the connections, and
    /// [`Transport::authenticate`]. Does not block.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn reconnect_on(&self, tasks: &Tasks, config: kube::Config) -> Result<Self, ConnectError> {
        let (server, transport) = (host(&config), self.clone());
        let failed = |error: JoinError| ConnectError::Config {
            server,
            reason: error.to_string(),
        };
        let connect = async {
            // Connecting reads files, may run the command of an auth provider, and blocks.
            let connected = tokio::task::spawn_blocking(move || transport.reconnect(&config)).await?;
            Ok(match connected {
                Ok(transport) => transport.authenticate().await.map(|()| transport),
                Err(error) => Err(error),
            })
        };
        tasks.spawn(connect).await.flatten().map_err(failed)?
    }

    /// Returns the same transport with connections of its own and without the credentials in `config`: neither token nor
    /// client certificate. Its requests are authenticated by a [`ServiceAccount`](super::ServiceAccount).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn without_credentials(&self, config: &kube::Config) -> Result<Self, ConnectError> {
        let mut config = config.clone();
        config.auth_info = AuthInfo::default();
        self.reconnect(&config)
    }

    /// Returns the same transport with a tracer: the watch events of its caches start traces.
    #[must_use]
    pub fn traced(self, tracer: Tracer) -> Self {
        Self { tracer, ..self }
    }

    /// Returns a client that only reads, until [`Reader::in_term`].
    #[must_use]
    pub fn reader(&self, name: &str, limit: Option<RateLimit>) -> Reader {
        Reader::new(self.clone(), self.user_agent(name), limit)
    }

    /// Returns an [unfenced](Reader::unfenced) client.
    #[must_use]
    pub fn unfenced(&self, name: &str, limit: Option<RateLimit>) -> Client {
        self.reader(name, limit).unfenced()
    }

    /// Returns the tracker of all fenced writes.
    #[must_use]
    pub fn write_tracker(&self) -> &WriteTracker {
        &self.writes
    }

    fn user_agent(&self, name: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("{}/{name}", self.agent))
            .unwrap_or_else(|_| HeaderValue::from_static("controller-manager"))
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// Returns host and port without user information, which may contain a password.
fn host(config: &kube::Config) -> String {
    let authority = config.cluster_url.authority().map_or("", |it| it.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.to_owned()
}

/// Builds a client with the credentials of a configuration or of its plugin.
fn socket(config: &kube::Config, plugin: Option<&ExecPlugin>) -> Result<kube::Client, ConnectError> {
    match plugin {
        Some(plugin) => Ok(kube::Client::new(
            plugin.clone(),
            config.default_namespace.clone(),
        )),
        None => authenticated(config).map_err(|reason| ConnectError::Config {
            server: host(config),
            reason,
        }),
    }
}

/// Builds kube's client without its retries, its tracing, which may log sensitive data, and its read timeout, which ends
/// idle watches. Callers set deadlines.
fn authenticated(config: &kube::Config) -> Result<kube::Client, String> {
    let failed = |error: kube::Error| error_chain(&error);
    if config.proxy_url.is_some() {
        // The URL may contain a password.
        return Err("proxies are not supported, remove the proxy URL from the configuration".to_owned());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(3));
    let tls = config
        .rustls_https_connector_with_connector(tcp)
        .map_err(failed)?;
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        // A request is sent once. hyper would retry it on a connection that the server has just closed.
        .retry_canceled_requests(false)
        .build::<_, Body>(tls);
    let fenced = config.extra_headers_layer().map_err(failed)?.layer(Fenced(http));
    let base = config.base_uri_layer();
    let namespace = config.default_namespace.clone();
    Ok(match config.auth_layer().map_err(failed)? {
        Some(auth) => kube::Client::new(base.layer(auth.layer(fenced)), namespace),
        None => kube::Client::new(base.layer(fenced), namespace),
    })
}

/// Checks the fence directly before the socket.
#[derive(Clone)]
struct Fenced<S>(S);

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>, Response: Send + 'static, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let fenced = request.extensions_mut().remove::<FencedTerm>();
        if let Some(FencedTerm(fence, term)) = &fenced
            && !fence.allows(*term)
        {
            return Box::pin(ready(Err(FenceClosed.into())));
        }
        let answer = self.0.call(request);
        let answer = async move { answer.await.map_err(Into::into) };
        match fenced {
            Some(FencedTerm(fence, term)) => Box::pin(guard(fence, term, answer)),
            None => Box::pin(answer),
        }
    }
}

/// Polls a request only while the term is open. One check before the send is not sufficient: the request may wait for a
/// connection or a stream, or the machine may be suspended. So the fence is checked before each poll, and the request is
/// cancelled when it closes.
async fn guard<T>(
    fence: Fence,
    term: Term,
    answer: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    let (mut answer, mut closed) = (pin!(answer), pin!(fence.closed(term)));
    poll_fn(|context| {
        if !fence.allows(term) || closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(FenceClosedInFlight.into()));
        }
        answer.as_mut().poll(context)
    })
    .await
}
