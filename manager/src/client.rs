//! The API client: rate limiter, deadlines, request metrics and leader fence.
//!
//! All controllers share a [`Transport`], the connection to the API server. Each has its own [`Client`], with a rate
//! limiter and a user agent, and optionally a [`ServiceAccount`]. The path of a request: rate limiter → deadline → kube's client → [`Fence`] → socket. The rate
//! limiter runs before the request enters kube's client, where it would block all other requests. The fence is checked
//! last, and again until the response arrives: a write that was not sent when the fence closes is never sent. Reads and
//! waits for the rate limiter end with the term, too, and when the term is drained.
//!
//! A request is sent once; the work queue retries, with [`ClientError::retry_after`]. Bodies and credentials are never
//! logged nor part of an error, at any verbosity.
//!
//! Writes are patches of the fields that the writer owns; deletes carry the uid. A conditional write, with a
//! resourceVersion or creating a chosen name, has the deadline [`CONDITIONAL_WRITE_TIMEOUT`]. Any other write has to reach
//! the API server before another process can become the leader: [`UNCONDITIONAL_WRITE_TIMEOUT`].

mod error;
mod fence;
mod metrics;
mod object_watch;
mod rate_limiter;
mod read;
mod request_span;
mod response;
mod service_account;
mod transport;
mod watch_stream;
mod write;
mod write_tracker;

pub use error::{Cause, ClientError, Details, Status};
pub use fence::{Fence, Term};
pub use object_watch::{ObjectEvent, ObjectEvents, ObjectState, ObjectWatch, WatchEnd, WatchReport};
pub use rate_limiter::SharedRateLimit;
pub use read::{ListQuery, MetaPage, RawResponse, View, WatchQuery};
pub use service_account::{ServiceAccount, ServiceAccounts, TokenError};
pub use transport::{ConnectError, Transport};
pub use watch_stream::WatchStream;
pub use write::{Delete, Patch, Propagation};
pub use write_tracker::WriteTracker;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use kube::client::Body;

use self::fence::FenceClosedInFlight;
use self::rate_limiter::RateLimiter;
use self::request_span::RequestSpan;
use self::service_account::{Bearer, NoToken};
use self::transport::FencedTerm;
use crate::object::{Resource, Version};
use crate::trace::Tracer;

/// The deadline of a write that fails if the object was changed meanwhile.
pub const CONDITIONAL_WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The deadline of any other write: less than the time between the closing of the fence and the expiry of the lease.
pub const UNCONDITIONAL_WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// The deadline of a read, or of one page of a list.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The rate limit of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second on average.
    pub qps: f64,
    /// Requests at once.
    pub burst: u32,
}

/// A client of one controller. Clones share its rate limiter.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    user_agent: HeaderValue,
    limiter: Option<Arc<RateLimiter>>,
    access: WriteAccess,
    /// None for the credentials of the transport.
    account: Option<ServiceAccount>,
    /// The token of the account; none if each request obtains it.
    bearer: Option<Bearer>,
}

/// Decides when a client may write, and when its reads are cancelled.
#[derive(Clone, Debug)]
enum WriteAccess {
    /// Never writes: [`Client::in_term`] was not called.
    ReadOnly,
    /// Writes while the term is open.
    InTerm(Fence, Term),
    /// Always writes: the election and its events.
    Unfenced,
}

struct Call {
    method: Method,
    /// The verb in metrics: `LIST` and `WATCH` are both `GET`.
    verb: &'static str,
    path: String,
    query: Vec<(&'static str, String)>,
    accept: &'static str,
    /// The content type and the body.
    body: Option<(&'static str, Bytes)>,
    deadline: Duration,
}

/// The field of the response to a write that [`WriteTracker`] needs.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct WrittenObject {
    metadata: WrittenMeta,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenMeta {
    resource_version: Version,
}

impl Client {
    fn new(
        transport: Transport,
        user_agent: HeaderValue,
        limit: Option<RateLimit>,
        access: WriteAccess,
    ) -> Self {
        Self {
            transport,
            user_agent,
            limiter: limit.map(|limit| Arc::new(RateLimiter::new(&SharedRateLimit::new(Some(limit)), 1.0))),
            access,
            account: None,
            bearer: None,
        }
    }

    /// Returns the same client, authenticated as `account`; without one, by the credentials of the process.
    #[must_use]
    pub fn authenticated_as(&self, account: Option<&ServiceAccount>) -> Self {
        let Some(account) = account else {
            return self.clone();
        };
        Self {
            transport: account.transport().clone(),
            account: Some(account.clone()),
            bearer: None,
            ..self.clone()
        }
    }

    /// Returns the same client with a rate limiter of `factor` times the rate of `limit`.
    pub(crate) fn with_limit(self, limit: &SharedRateLimit, factor: f64) -> Self {
        Self {
            limiter: Some(Arc::new(RateLimiter::new(limit, factor))),
            ..self
        }
    }

    /// Returns the same client with write access while `term` is open.
    #[must_use]
    pub fn in_term(&self, fence: &Fence, term: Term) -> Self {
        Self {
            access: WriteAccess::InTerm(fence.clone(), term),
            ..self.clone()
        }
    }

    /// Returns the same client with a separate rate limiter of the same rate.
    #[must_use]
    pub fn with_own_limiter(&self) -> Self {
        let own = |limiter: &Arc<RateLimiter>| Arc::new(limiter.full());
        Self {
            limiter: self.limiter.as_ref().map(own),
            ..self.clone()
        }
    }

    /// Waits for the rate limiter and for the token of the service account, and returns the same client for one request
    /// that no longer waits. A caller that decides after the wait does not act on outdated state. Fails if the term ends
    /// first, or without a token of the account.
    pub async fn with_token(&self, verb: &'static str) -> Result<Self, ClientError> {
        self.token(verb, verb).await?;
        let bearer = Box::pin(self.bearer_of_write(verb)).await?;
        Ok(Self {
            limiter: None,
            bearer,
            ..self.clone()
        })
    }

    /// Returns the tracer of the transport.
    pub(crate) fn tracer(&self) -> &Tracer {
        &self.transport.tracer
    }

    async fn read(&self, call: Call, request_line: &str) -> Result<http::Response<Bytes>, ClientError> {
        self.token(call.verb, request_line).await?;
        // Boxed to keep the futures of callers small.
        Box::pin(self.until_term_ends(request_line, async {
            let bearer = self.bearer(request_line).await?;
            self.exchange(call, bearer, request_line).await
        }))
        .await
    }

    /// Sends a write, and records its outcome if it is fenced.
    async fn write<T: serde::de::DeserializeOwned>(
        &self,
        resource: &Resource,
        call: Call,
    ) -> Result<T, ClientError> {
        let request_line = call.request_line();
        self.token(call.verb, &request_line).await?;
        let bearer = Box::pin(self.bearer_of_write(&request_line)).await?;
        // After the waits for the rate limiter and the token of the service account: a write that is cancelled
        // there was never sent.
        let entry = match &self.access {
            WriteAccess::InTerm(..) => Some(self.transport.writes.begin(resource, call.deadline)),
            WriteAccess::ReadOnly | WriteAccess::Unfenced => None,
        };
        let answer = Box::pin(self.exchange(call, bearer, &request_line)).await;
        let answer = answer.map(http::Response::into_body);
        match (&answer, entry) {
            (Ok(body), Some(entry)) => {
                // A Status has no resourceVersion, but its outcome is known.
                let stored: WrittenObject = serde_json::from_slice(body).unwrap_or_default();
                entry.executed(stored.metadata.resource_version);
            }
            (Err(error), Some(entry)) if !error.is_unknown_outcome() => entry.not_executed(),
            // The server has stopped working on it, but does not report whether it was executed.
            (Err(error), Some(entry)) if error.is_internal() => entry.executed(Version::none()),
            _ => {}
        }
        response::decode(&answer?, &request_line)
    }

    /// Sends a request and reads the response within the deadline.
    async fn exchange(
        &self,
        call: Call,
        bearer: Option<Bearer>,
        request_line: &str,
    ) -> Result<http::Response<Bytes>, ClientError> {
        let (deadline, verb) = (call.deadline, call.verb);
        let answered = self.transport.clock.timeout(deadline, async {
            let (head, body) = self.send(call, bearer, request_line).await?.into_parts();
            let body = self
                .body(request_line, response::collect(body, request_line))
                .await??;
            self.transport.metrics.received(verb, body.len());
            Ok(http::Response::from_parts(head, body))
        });
        let late = || ClientError::Timeout {
            request_line: request_line.to_owned(),
            deadline,
        };
        answered.await.unwrap_or_else(|| Err(late()))
    }

    /// Opens a watch. It is not rate limited, as in client-go: after an outage a manager reopens all watches at once.
    async fn stream(&self, call: Call) -> Result<WatchStream, ClientError> {
        let request_line = call.request_line();
        let deadline = call.deadline;
        let clock = &self.transport.clock;
        let opened = async {
            let bearer = self.bearer(&request_line).await?;
            let opened = clock
                .timeout(deadline, self.send(call, bearer, &request_line))
                .await;
            opened.unwrap_or_else(|| {
                Err(ClientError::Timeout {
                    request_line: request_line.clone(),
                    deadline,
                })
            })
        };
        let body = Box::pin(self.until_term_ends(&request_line, opened))
            .await?
            .into_body();
        Ok(WatchStream::new(body, request_line))
    }

    /// Returns the token of the service account; none for the credentials of the transport.
    async fn bearer(&self, request_line: &str) -> Result<Option<Bearer>, ClientError> {
        let Some(account) = self.account.as_ref().filter(|_| self.bearer.is_none()) else {
            return Ok(self.bearer.clone());
        };
        let bearer = account.bearer().await;
        bearer
            .map(Some)
            .map_err(|NoToken { error, retry_after }| ClientError::Unauthenticated {
                request_line: request_line.to_owned(),
                source: error,
                retry_after,
            })
    }

    /// [`Self::bearer`] for a write or [`Self::with_token`]. A draining term sends a write that has its token, and does not
    /// wait for one.
    async fn bearer_of_write(&self, request_line: &str) -> Result<Option<Bearer>, ClientError> {
        let WriteAccess::InTerm(fence, term) = &self.access else {
            return self.bearer(request_line).await;
        };
        tokio::select! {
            biased;
            bearer = self.bearer(request_line) => bearer,
            () = fence.ending(*term) => Err(ClientError::Fenced { request_line: request_line.to_owned() }),
        }
    }

    /// Cancels a read when the term is over or draining.
    async fn until_term_ends<T>(
        &self,
        request_line: &str,
        read: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let WriteAccess::InTerm(fence, term) = &self.access else {
            return read.await;
        };
        tokio::select! {
            biased;
            () = fence.ending(*term) => Err(ClientError::Fenced { request_line: request_line.to_owned() }),
            answer = read => answer,
        }
    }

    /// Reads a body until the term is over. The transport checks the fence until the head arrives.
    async fn body<T>(&self, request_line: &str, body: impl Future<Output = T>) -> Result<T, ClientError> {
        let WriteAccess::InTerm(fence, term) = &self.access else {
            return Ok(body.await);
        };
        tokio::select! {
            biased;
            body = body => Ok(body),
            () = fence.closed(*term) => Err(ClientError::Connection {
                request_line: request_line.to_owned(),
                connected: true,
                reason: FenceClosedInFlight.to_string(),
            }),
        }
    }

    async fn token(&self, verb: &'static str, request_line: &str) -> Result<(), ClientError> {
        if self.take_token(verb).await {
            return Ok(());
        }
        Err(ClientError::Fenced {
            request_line: request_line.to_owned(),
        })
    }

    /// Waits for a token of the rate limiter. Returns false if the term ended first.
    async fn take_token(&self, verb: &'static str) -> bool {
        let Some(limiter) = &self.limiter else { return true };
        let clock = &self.transport.clock;
        let start = clock.now();
        let taken = match &self.access {
            WriteAccess::InTerm(fence, term) => tokio::select! {
                biased;
                () = limiter.take(clock) => true,
                () = fence.ending(*term) => false,
            },
            WriteAccess::ReadOnly | WriteAccess::Unfenced => {
                limiter.take(clock).await;
                true
            }
        };
        self.transport.metrics.limited(verb, clock.now() - start);
        taken
    }

    /// Sends a request. A response that is not a success is an error.
    async fn send(
        &self,
        call: Call,
        bearer: Option<Bearer>,
        request_line: &str,
    ) -> Result<http::Response<Body>, ClientError> {
        let clock = self.transport.clock.clone();
        let start = clock.now();
        let (method, verb) = (call.method.clone(), call.verb);
        let span = RequestSpan::start(&call);
        let mut request = self.request(call, bearer.as_ref(), request_line)?;
        if let Some(traceparent) = span.header() {
            request.headers_mut().insert("traceparent", traceparent);
        }
        let answer = self.transport.kube.send(request).await;
        let took = clock.now() - start;
        let metrics = &self.transport.metrics;
        let response = match answer {
            Ok(response) => response,
            Err(error) => {
                let error = response::failed(&error, request_line);
                span.failed(&error);
                if !matches!(error, ClientError::Fenced { .. }) {
                    metrics.answered(&method, verb, "<error>", took);
                    log(request_line, &error, took);
                }
                return Err(error);
            }
        };
        let code = response.status();
        span.answered(code);
        metrics.answered(&method, verb, code.as_str(), took);
        if code.is_success() {
            tracing::trace!(
                request = request_line,
                code = code.as_u16(),
                tookMs = took.as_millis(),
                "Received response"
            );
            return Ok(response);
        }
        if code == StatusCode::UNAUTHORIZED
            && let (Some(account), Some(bearer)) = (&self.account, &bearer)
        {
            account.reject(bearer);
        }
        let error = self
            .body(request_line, response::refused(response, request_line))
            .await?;
        log(request_line, &error, took);
        Err(error)
    }

    fn request(
        &self,
        call: Call,
        bearer: Option<&Bearer>,
        request_line: &str,
    ) -> Result<Request<Body>, ClientError> {
        let invalid = |reason: String| ClientError::Invalid {
            request_line: request_line.to_owned(),
            reason,
        };
        let is_write = call.method != Method::GET;
        let mut uri = call.path;
        if !call.query.is_empty() {
            uri.push('?');
            uri.push_str(
                &form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(&call.query)
                    .finish(),
            );
        }
        let mut request = Request::builder()
            .method(call.method)
            .uri(uri)
            .header(header::ACCEPT, call.accept)
            .header(header::USER_AGENT, self.user_agent.clone());
        if let Some(bearer) = bearer {
            let authorization = bearer.header().map_err(|error| invalid(error.to_string()))?;
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let body = match call.body {
            None => Body::empty(),
            Some((content_type, body)) => {
                request = request.header(header::CONTENT_TYPE, content_type);
                self.transport.metrics.sent(call.verb, body.len());
                Body::from(body)
            }
        };
        let mut request = request.body(body).map_err(|error| invalid(error.to_string()))?;
        let request_line = || request_line.to_owned();
        match &self.access {
            WriteAccess::ReadOnly if is_write => {
                return Err(ClientError::ReadOnly {
                    request_line: request_line(),
                });
            }
            WriteAccess::InTerm(fence, term) if is_write => {
                request.extensions_mut().insert(FencedTerm(fence.clone(), *term));
            }
            WriteAccess::ReadOnly | WriteAccess::InTerm(..) | WriteAccess::Unfenced => {}
        }
        Ok(request)
    }
}

impl Call {
    fn request_line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Returns the `timeout` parameter in whole seconds, the precision of the API server.
fn timeout_parameter(deadline: Duration) -> (&'static str, String) {
    ("timeout", format!("{}s", deadline.as_secs()))
}

fn log(request_line: &str, error: &ClientError, took: Duration) {
    tracing::trace!(
        request = request_line,
        code = error.code(),
        tookMs = took.as_millis(),
        "Request failed"
    );
}
