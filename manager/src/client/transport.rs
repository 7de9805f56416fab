//! The connection to the API server, with the fence at its end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use http::{HeaderValue, Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use prometheus::Registry;
use tower_layer::Layer as _;
use tower_service::Service;

use super::answer::chain;
use super::metrics::Metrics;
use super::{Client, Fence, Ledger, Limit, Permit, Term};
use crate::env::Clock;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How often an idle connection is probed: one that nobody answers on is found dead, and its watch reopened.
const KEEPALIVE: Duration = Duration::from_secs(15);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A way to an API server, for any number of clients.
#[derive(Clone)]
pub struct Transport {
    pub(super) kube: kube::Client,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
    pub(super) ledger: Ledger,
    /// What all user agents begin with.
    agent: Arc<str>,
}

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig, or what the cluster provides in its place, cannot be used.
    #[error("cannot connect to {server}: {reason}")]
    Config {
        /// The server's address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The series are there already: a mistake in the program.
    #[error("cannot register the metrics of the API client: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The fence that a request has to pass, and the term in which it was made.
#[derive(Clone)]
pub(super) struct Ticket(pub(super) Fence, pub(super) Term);

/// The fence was shut.
#[derive(Debug, thiserror::Error)]
#[error("the fence is shut")]
pub(super) struct Shut;

/// The fence was shut while the request was under way.
#[derive(Debug, thiserror::Error)]
#[error("given up without an answer, this process may no longer be the leader")]
pub(super) struct Late;

impl Transport {
    /// A way through `service`: an API server in the same process, or a stand-in for one. `host` is its name in metrics.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn over<S, B>(
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
            ledger: Ledger::new(clock.clone()),
            agent: agent.into(),
        })
    }

    /// A way over the network. Nothing is sent yet.
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
        Ok(Self {
            kube: socket(config)?,
            clock: clock.clone(),
            metrics: Arc::new(metrics),
            ledger: Ledger::new(clock.clone()),
            agent: agent.into(),
        })
    }

    /// The same way on connections of its own: what waits on the others does not delay it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn reconnect(&self, config: &kube::Config) -> Result<Self, ConnectError> {
        Ok(Self {
            kube: socket(config)?,
            ..self.clone()
        })
    }

    /// The client of one controller. It only reads until it is told in which term it works: see [`Client::in_term`].
    #[must_use]
    pub fn client(&self, name: &str, limit: Option<Limit>) -> Client {
        Client::new(self.clone(), self.user_agent(name), limit, Permit::Never)
    }

    /// A client that writes whether or not this process leads: for the election itself, and for tests. Everything else
    /// belongs behind the fence.
    #[must_use]
    pub fn unfenced(&self, name: &str, limit: Option<Limit>) -> Client {
        Client::new(self.clone(), self.user_agent(name), limit, Permit::Always)
    }

    /// What was written through all clients that work in a term.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn user_agent(&self, name: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("{}/{name}", self.agent))
            .unwrap_or_else(|_| HeaderValue::from_static("coxswain"))
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// Host and port, without a password that may be in front of them.
fn host(config: &kube::Config) -> String {
    let authority = config.cluster_url.authority().map_or("", |it| it.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.to_owned()
}

/// kube's client without its retries, its tracing (which prints what it should not) and its read timeout (which ends idle
/// watches): deadlines are the caller's.
fn socket(config: &kube::Config) -> Result<kube::Client, ConnectError> {
    let refused = |reason: String| ConnectError::Config {
        server: host(config),
        reason,
    };
    let failed = |error: kube::Error| refused(chain(&error));
    if config.proxy_url.is_some() {
        // Not its value: there may be a password in it.
        let reason = "proxies are not supported, remove the proxy URL from the configuration";
        return Err(refused(reason.to_owned()));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(3));
    let tls = config
        .rustls_https_connector_with_connector(tcp)
        .map_err(failed)?;
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        // A request is sent once. On a connection that the server has just closed, hyper would send it again.
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

/// The last thing before the socket.
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
        let ticket = request.extensions_mut().remove::<Ticket>();
        if let Some(Ticket(fence, term)) = &ticket
            && !fence.allows(*term)
        {
            return Box::pin(ready(Err(Shut.into())));
        }
        let answer = self.0.call(request);
        let answer = async move { answer.await.map_err(Into::into) };
        match ticket {
            Some(Ticket(fence, term)) => Box::pin(guard(fence, term, answer)),
            None => Box::pin(answer),
        }
    }
}

/// The answer to a request that is only to be sent while the term is on. The look at the fence is not the last thing that
/// happens before the send: there may be a connection to be made, or streams to be waited for, or the machine may fall
/// asleep over it. So the fence is looked at each time that the request could move on, and given up when it shuts.
async fn guard<T>(
    fence: Fence,
    term: Term,
    answer: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    let (mut answer, mut closed) = (pin!(answer), pin!(fence.closed(term)));
    poll_fn(|context| {
        if !fence.allows(term) || closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(Late.into()));
        }
        answer.as_mut().poll(context)
    })
    .await
}
