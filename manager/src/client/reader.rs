//! The read-only client, and the path of every request: rate limiter, token, deadline, transport.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use kube::client::Body;

use super::fence::FenceClosedInFlight;
use super::rate_limiter::RateLimiter;
use super::request_span::RequestSpan;
use super::service_account::{Bearer, NoToken};
use super::transport::FencedTerm;
use super::{
    Call, Client, ClientError, Fence, RateLimit, ServiceAccount, SharedRateLimit, Term, Transport, View,
    WatchStream, response,
};
use crate::object::{Key, MetaObject, Resource, Uid};
use crate::revived;
use crate::trace::Tracer;

/// A client that only reads. Clones share its rate limiter.
///
/// A [`Client`] creates an object:
/// ```
/// # use steersman_manager::client::{Client, ClientError};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// async fn create(client: &Client, map: &ConfigMap) -> Result<ConfigMap, ClientError> {
///     client.api().create(map).await
/// }
/// ```
/// A reader does not have the method:
/// ```compile_fail,E0599
/// # use steersman_manager::client::{ClientError, Reader};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// async fn create(client: &Reader, map: &ConfigMap) -> Result<ConfigMap, ClientError> {
///     client.api().create(map).await
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) transport: Transport,
    user_agent: HeaderValue,
    limiter: Option<Arc<RateLimiter>>,
    /// The term of a fenced [`Client`], whose reads end with it, too.
    pub(super) term: Option<FencedTerm>,
    /// None for the credentials of the transport.
    account: Option<ServiceAccount>,
    /// The token of the account; none if each request obtains it.
    bearer: Option<Bearer>,
}

impl AsRef<Self> for Reader {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Reader {
    pub(super) fn new(transport: Transport, user_agent: HeaderValue, limit: Option<RateLimit>) -> Self {
        Self {
            transport,
            user_agent,
            limiter: limit.map(|limit| Arc::new(RateLimiter::new(&SharedRateLimit::new(Some(limit)), 1.0))),
            term: None,
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

    /// Returns the client that writes while `term` is open.
    #[must_use]
    pub fn in_term(&self, fence: &Fence, term: Term) -> Client {
        Client(Self {
            term: Some(FencedTerm(fence.clone(), term)),
            ..self.clone()
        })
    }

    /// Returns the client that writes whether or not this process is the leader, for the election and for tests. All other
    /// clients must be fenced.
    #[must_use]
    pub fn unfenced(&self) -> Client {
        Client(Self {
            term: None,
            ..self.clone()
        })
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

    /// Reports whether the write to an object with this uid failed with `error` because the object does not exist. A webhook can
    /// answer 404 too, so the object is read. Returns the error of a read that fails.
    pub async fn is_absent(
        &self,
        resource: &Resource,
        key: &Key,
        uid: &Uid,
        error: &ClientError,
    ) -> Result<bool, ClientError> {
        if !error.is_not_found(&key.name) {
            return Ok(false);
        }
        match self.get_as::<MetaObject>(resource, key, View::Metadata).await {
            // An answer about another object proves nothing.
            Ok(MetaObject { metadata }) => {
                Ok(metadata.key() == *key && !metadata.uid.is_empty() && metadata.uid != *uid)
            }
            Err(error) if error.is_not_found(&key.name) => Ok(true),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn with_token(&self, verb: &'static str) -> Result<Self, ClientError> {
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

    pub(super) async fn read(
        &self,
        call: Call,
        request_line: &str,
    ) -> Result<http::Response<Bytes>, ClientError> {
        self.token(call.verb, request_line).await?;
        // Boxed to keep the futures of callers small.
        Box::pin(self.until_term_ends(request_line, async {
            let bearer = self.bearer(request_line).await?;
            self.exchange(call, bearer, request_line).await
        }))
        .await
    }

    /// Sends a request and reads the response within the deadline.
    pub(super) async fn exchange(
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
    pub(super) async fn stream(&self, call: Call) -> Result<WatchStream, ClientError> {
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
    pub(super) async fn bearer(&self, request_line: &str) -> Result<Option<Bearer>, ClientError> {
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
    pub(super) async fn bearer_of_write(&self, request_line: &str) -> Result<Option<Bearer>, ClientError> {
        let Some(FencedTerm(fence, term)) = &self.term else {
            return self.bearer(request_line).await;
        };
        tokio::select! {
            biased;
            bearer = self.bearer(request_line) => bearer,
            () = fence.ending(*term) => Err(ClientError::Fenced { request_line: request_line.to_owned() }),
        }
    }

    /// Cancels a read when the term is over or draining.
    pub(super) async fn until_term_ends<T>(
        &self,
        request_line: &str,
        read: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let Some(FencedTerm(fence, term)) = self.term.as_ref().filter(|_| !revived!(C1)) else {
            return read.await;
        };
        tokio::select! {
            biased;
            () = fence.ending(*term) => Err(ClientError::Fenced { request_line: request_line.to_owned() }),
            answer = read => answer,
        }
    }

    /// Reads a body until the term is over. The transport checks the fence until the head arrives.
    pub(super) async fn body<T>(
        &self,
        request_line: &str,
        body: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        let Some(FencedTerm(fence, term)) = &self.term else {
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

    pub(super) async fn token(&self, verb: &'static str, request_line: &str) -> Result<(), ClientError> {
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
        let taken = if let Some(FencedTerm(fence, term)) = self.term.as_ref().filter(|_| !revived!(C1)) {
            tokio::select! {
                biased;
                () = limiter.take(clock) => true,
                () = fence.ending(*term) => false,
            }
        } else {
            limiter.take(clock).await;
            true
        };
        self.transport.metrics.limited(verb, clock.now() - start);
        taken
    }

    /// Sends a request. A response that is not a success is an error.
    pub(super) async fn send(
        &self,
        call: Call,
        bearer: Option<Bearer>,
        request_line: &str,
    ) -> Result<http::Response<Body>, ClientError> {
        let verb = call.verb;
        let request = self.request(call, bearer.as_ref(), request_line)?;
        let response = self.dispatch(request, verb, request_line).await?;
        let code = response.status();
        if code.is_success() {
            return Ok(response);
        }
        if code == StatusCode::UNAUTHORIZED
            && let (Some(account), Some(bearer)) = (&self.account, &bearer)
        {
            account.reject(bearer);
        }
        Err(self
            .body(request_line, response::refused(response, request_line))
            .await?)
    }

    /// Sends a request in its span, and counts it. Returns a response with any status code.
    pub(super) async fn dispatch(
        &self,
        mut request: Request<Body>,
        verb: &'static str,
        request_line: &str,
    ) -> Result<http::Response<Body>, ClientError> {
        let clock = &self.transport.clock;
        let start = clock.now();
        let method = request.method().clone();
        let span = RequestSpan::start(&method, verb, request.uri().path());
        if let Some(traceparent) = span.header() {
            request.headers_mut().insert("traceparent", traceparent);
        }
        let answer = self.transport.kube.send(request).await;
        let took = clock.now() - start;
        let metrics = &self.transport.metrics;
        let code = match &answer {
            Ok(response) => {
                let code = response.status();
                span.answered(code);
                metrics.answered(&method, verb, code.as_str(), took);
                Some(code.as_u16())
            }
            Err(error) => {
                let error = response::failed(error, request_line);
                span.failed(&error);
                if matches!(error, ClientError::Fenced { .. }) {
                    return Err(error);
                }
                metrics.answered(&method, verb, "<error>", took);
                None
            }
        };
        tracing::trace!(
            request = request_line,
            code,
            tookMs = took.as_millis(),
            "Received response"
        );
        answer.map_err(|error| response::failed(&error, request_line))
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
            .header(header::ACCEPT, call.accept);
        let body = match call.body {
            None => Body::empty(),
            Some((content_type, body)) => {
                request = request.header(header::CONTENT_TYPE, content_type);
                self.transport.metrics.sent(call.verb, body.len());
                Body::from(body)
            }
        };
        let mut request = request.body(body).map_err(|error| invalid(error.to_string()))?;
        self.identify(&mut request, bearer)
            .map_err(|error| invalid(error.to_string()))?;
        Ok(request)
    }

    /// Adds user agent, token and, to a write, the fence.
    pub(super) fn identify(
        &self,
        request: &mut Request<Body>,
        bearer: Option<&Bearer>,
    ) -> Result<(), http::header::InvalidHeaderValue> {
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        if let Some(bearer) = bearer {
            headers.insert(header::AUTHORIZATION, bearer.header()?);
        }
        if request.method() != Method::GET
            && let Some(term) = &self.term
        {
            request.extensions_mut().insert(term.clone());
        }
        Ok(())
    }
}
