//! The HTTP handler for admission reviews.
//!
//! A request acquires a review slot only after its body is read, so that slow clients do not occupy slots. The buffered
//! bytes of all bodies together are bounded.
//!
//! A review that a hook has decided is answered with 200, whether allowed or denied. Any other status means that there is
//! no decision, and the `failurePolicy` of the webhook applies.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::hooks::{Hook, Hooks};
use super::metrics::RequestMetrics;
use super::review;
use crate::env::Clock;
use crate::panics;
use crate::serve::{HttpHandler, HttpResponse, Peer, response, text};

/// The API server accepts objects of up to 3 MiB, and the review of an update contains two of them.
pub(super) const MAX_BODY_BYTES: usize = 7 * 1024 * 1024;
/// The default `timeoutSeconds` of a webhook.
pub(super) const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent reviews. Others wait until they time out.
const MAX_REVIEWS: usize = 64;
/// Buffered bytes of all bodies together. A request over the limit is rejected with 503.
pub(super) const MAX_BUFFERED_BYTES: usize = 16 * MAX_BODY_BYTES;

type ErrorResponse = Box<HttpResponse>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct ReviewHandler {
    hooks: Hooks,
    metrics: RequestMetrics,
    clock: Clock,
    slots: Semaphore,
    /// One permit per buffered byte.
    buffer: Semaphore,
}

impl ReviewHandler {
    pub(super) fn new(hooks: Hooks, metrics: RequestMetrics, clock: Clock) -> Self {
        hooks.0.keys().for_each(|path| metrics.init(path));
        Self {
            hooks,
            metrics,
            clock,
            slots: Semaphore::new(MAX_REVIEWS),
            buffer: Semaphore::new(MAX_BUFFERED_BYTES),
        }
    }

    pub(super) async fn handle_any<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let path = request.uri().path().to_owned();
        let http1 = request.version() < Version::HTTP_2;
        let Some(hook) = self.hooks.0.get(&path) else {
            return close_connection(text(StatusCode::NOT_FOUND, "404 page not found\n"), http1);
        };
        let _in_flight = self.metrics.begin(&path);
        let start = self.clock.now();
        let reviewed = self
            .clock
            .timeout(REVIEW_TIMEOUT, self.review(&path, hook, request))
            .await;
        let response = match reviewed {
            Some(Ok(review)) => response(StatusCode::OK, "application/json", review),
            // The rest of the body may not have been read.
            Some(Err(error)) => close_connection(*error, http1),
            None => {
                tracing::warn!(path, "Admission review timed out");
                let body = format!("no decision within {} s\n", REVIEW_TIMEOUT.as_secs());
                close_connection(text(StatusCode::GATEWAY_TIMEOUT, body), http1)
            }
        };
        self.metrics
            .observe_request(&path, response.status(), self.clock.now() - start);
        response
    }

    async fn review<B>(&self, path: &str, hook: &Hook, request: Request<B>) -> Result<Bytes, ErrorResponse>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        check_head(&request)?;
        let (body, _buffered) = self.read(request.into_body()).await?;
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        let request = review::decode(&body)
            .map_err(|error| Box::new(error_response(StatusCode::BAD_REQUEST, &error)))?;
        drop(body);
        let uid = request.uid.clone();
        // The call itself may panic, not only its future.
        let decision = AssertUnwindSafe(async { hook(request).await })
            .catch_unwind()
            .await;
        let decision = decision.map_err(|panic| {
            tracing::error!(
                path,
                panic = panics::message(&*panic),
                "Admission handler panicked"
            );
            Box::new(text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "500 internal server error\n",
            ))
        })?;
        Ok(review::encode(&uid, decision))
    }

    /// Reads a body. Returns it with the permits for its bytes.
    async fn read<B>(&self, body: B) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), ErrorResponse>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let mut body = Box::pin(Limited::new(body, MAX_BODY_BYTES));
        let (mut read, mut held) = (Vec::new(), None::<SemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Box::new(if error.is::<LengthLimitError>() {
                    too_large()
                } else {
                    error_response(StatusCode::BAD_REQUEST, &"request body is truncated")
                })
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let Ok(permits) = self.buffer.try_acquire_many(count) else {
                tracing::warn!("Rejected admission review, too many bytes in flight");
                let message = "too many admission reviews in flight, try again";
                return Err(Box::new(error_response(
                    StatusCode::SERVICE_UNAVAILABLE,
                    &message,
                )));
            };
            match &mut held {
                Some(held) => held.merge(permits),
                None => held = Some(permits),
            }
            read.extend_from_slice(&data);
        }
        Ok((read, held))
    }
}

impl HttpHandler for ReviewHandler {
    async fn handle(&self, _: &Peer, request: Request<Incoming>) -> HttpResponse {
        self.handle_any(request).await
    }
}

/// Rejects a request by its method and headers.
fn check_head<B: Body>(request: &Request<B>) -> Result<(), ErrorResponse> {
    if request.method() != Method::POST {
        let mut response = error_response(
            StatusCode::METHOD_NOT_ALLOWED,
            &"an admission review must be sent by POST",
        );
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(Box::new(response));
    }
    let content_type = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|it| it.to_str().ok());
    let essence = content_type.and_then(|it| it.split(';').next()).map(str::trim);
    if !essence.is_some_and(|it| it.eq_ignore_ascii_case("application/json")) {
        return Err(Box::new(error_response(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            &"the content type of an admission review must be application/json",
        )));
    }
    if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(Box::new(too_large()));
    }
    Ok(())
}

fn too_large() -> HttpResponse {
    let message = format!("an admission review has at most {MAX_BODY_BYTES} bytes");
    error_response(StatusCode::PAYLOAD_TOO_LARGE, &message)
}

fn error_response(code: StatusCode, message: &dyn std::fmt::Display) -> HttpResponse {
    text(code, format!("{message}\n"))
}

/// Closes an HTTP/1 connection: the next request would follow a body that is not read.
fn close_connection(mut response: HttpResponse, http1: bool) -> HttpResponse {
    if http1 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}
