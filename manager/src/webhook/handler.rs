//! The HTTP handler for reviews.
//!
//! A request acquires a review slot only after its body is read, so that slow clients do not occupy slots. The buffered
//! bytes of all bodies together are bounded, and shared fairly between client addresses ([`Buffer`]). Large reviews take
//! the CPU time of one thread at most, so that another one is free for small reviews.
//!
//! A review that a hook has decided is answered with 200, whether allowed or denied. Any other status means that there is
//! no decision, and the `failurePolicy` of the webhook applies.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

use super::buffer::{Buffer, Buffered};
use super::hooks::{Hook, Hooks};
use super::metrics::RequestMetrics;
use crate::env::Clock;
use crate::panics;
use crate::serve::{HttpHandler, HttpResponse, Peer, response, text};

/// Concurrent reviews. Others wait until they time out.
const MAX_REVIEWS: usize = 64;
/// Buffered bytes of all bodies together. A body over the limit is rejected with 503.
pub(super) const MAX_BUFFERED_BYTES: usize = 112 * 1024 * 1024;
/// A review with a larger body is large: decoding it takes milliseconds.
pub(super) const LARGE_BYTES: usize = 256 * 1024;
/// The maximum size of a block of a body in progress, unless one frame is larger.
const BLOCK_BYTES: usize = 64 * 1024;

type ErrorResponse = Box<HttpResponse>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct ReviewHandler {
    hooks: Hooks,
    metrics: RequestMetrics,
    clock: Clock,
    slots: Semaphore,
    /// Held while a large review runs, but not while it waits.
    pub(super) large: Arc<Semaphore>,
    buffer: Buffer,
}

impl ReviewHandler {
    pub(super) fn new(hooks: Hooks, metrics: RequestMetrics, clock: Clock) -> Self {
        hooks.0.keys().for_each(|path| metrics.init(path));
        Self {
            hooks,
            metrics,
            clock,
            slots: Semaphore::new(MAX_REVIEWS),
            large: Arc::new(Semaphore::new(1)),
            buffer: Buffer::new(MAX_BUFFERED_BYTES),
        }
    }

    pub(super) async fn handle_any<B>(&self, address: IpAddr, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let path = request.uri().path().to_owned();
        let http1 = request.version() < Version::HTTP_2;
        let Some(hook) = self.hooks.0.get(&path) else {
            return close_connection(text(StatusCode::NOT_FOUND, "404 page not found\n"), http1);
        };
        let timeout = hook.limits().timeout;
        let in_flight = self.metrics.begin(&path, &self.clock);
        let reviewed = self
            .clock
            .timeout(timeout, self.review(&path, hook, address, request))
            .await;
        let response = match reviewed {
            Some(Ok(review)) => response(StatusCode::OK, "application/json", review),
            // The rest of the body may not have been read.
            Some(Err(error)) => close_connection(*error, http1),
            None => {
                tracing::warn!(path, "Review timed out");
                let body = format!("no decision within {} s\n", timeout.as_secs());
                close_connection(text(StatusCode::GATEWAY_TIMEOUT, body), http1)
            }
        };
        in_flight.end(response.status());
        response
    }

    async fn review<B>(
        &self,
        path: &str,
        hook: &Hook,
        address: IpAddr,
        request: Request<B>,
    ) -> Result<Bytes, ErrorResponse>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let max_bytes = hook.limits().body_bytes;
        check_head(&request, max_bytes)?;
        let buffered = self.buffer.add(address);
        let reviewed = async {
            let body = read(request.into_body(), max_bytes, &buffered)
                .await
                .map_err(|it| it.unwrap_or_else(|| too_many(address)))?;
            let is_large = body.len() > LARGE_BYTES;
            let review = async {
                // The semaphore is never closed.
                let _slot = self.slots.acquire().await;
                AssertUnwindSafe(hook.review(body)).catch_unwind().await
            };
            let reviewed = if is_large {
                poll_with_permit(&self.large, review).await
            } else {
                review.await
            };
            let reviewed = reviewed.map_err(|panic| {
                tracing::error!(path, panic = panics::message(&*panic), "Webhook handler panicked");
                Box::new(text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "500 internal server error\n",
                ))
            })?;
            reviewed.map_err(|error| Box::new(error_response(StatusCode::BAD_REQUEST, &error)))
        };
        tokio::select! {
            biased;
            () = buffered.rejected() => Err(too_many(address)),
            reviewed = reviewed => reviewed,
        }
    }
}

/// Reads a body. Fails without a response if there are too many bytes in flight.
async fn read<B>(body: B, max_bytes: usize, buffered: &Buffered<'_>) -> Result<Vec<u8>, Option<ErrorResponse>>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
{
    let mut body = Box::pin(Limited::new(body, max_bytes));
    // A buffer that grows would need three bytes for each byte while it is copied.
    let (mut blocks, mut length) = (Vec::<Vec<u8>>::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Box::new(if error.is::<LengthLimitError>() {
                too_large(max_bytes)
            } else {
                error_response(StatusCode::BAD_REQUEST, &"request body is truncated")
            })
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if !buffered.grow(data.len()) {
            return Err(None);
        }
        let mut rest = &*data;
        if let Some(last) = blocks.last_mut() {
            let spare = last.capacity() - last.len();
            let (fitting, next) = rest.split_at(spare.min(rest.len()));
            last.extend_from_slice(fitting);
            rest = next;
        }
        if !rest.is_empty() {
            let mut block = Vec::with_capacity(rest.len().max(length.min(BLOCK_BYTES)));
            block.extend_from_slice(rest);
            blocks.push(block);
        }
        length += data.len();
    }
    if blocks.len() == 1 {
        return Ok(blocks.swap_remove(0));
    }
    let mut whole = Vec::with_capacity(length);
    for block in blocks {
        whole.extend_from_slice(&block);
    }
    Ok(whole)
}

/// Polls `future` with a permit each time, so that it holds none while it waits.
async fn poll_with_permit<F: Future>(permits: &Arc<Semaphore>, future: F) -> F::Output {
    let mut permits = PollSemaphore::new(Arc::clone(permits));
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        let _permit = ready!(permits.poll_acquire(context));
        future.as_mut().poll(context)
    })
    .await
}

impl HttpHandler for ReviewHandler {
    async fn handle(&self, peer: &Peer, request: Request<Incoming>) -> HttpResponse {
        self.handle_any(peer.address, request).await
    }
}

/// Rejects a request by its method and headers.
fn check_head<B: Body>(request: &Request<B>, max_bytes: usize) -> Result<(), ErrorResponse> {
    if request.method() != Method::POST {
        let mut response = error_response(StatusCode::METHOD_NOT_ALLOWED, &"a review must be sent by POST");
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
            &"the content type of a review must be application/json",
        )));
    }
    if request.body().size_hint().lower() > max_bytes as u64 {
        return Err(Box::new(too_large(max_bytes)));
    }
    Ok(())
}

fn too_many(client: IpAddr) -> ErrorResponse {
    tracing::warn!(%client, "Rejected review, too many bytes in flight");
    let message = "too many reviews in flight, try again";
    Box::new(error_response(StatusCode::SERVICE_UNAVAILABLE, &message))
}

fn too_large(max_bytes: usize) -> HttpResponse {
    let message = format!("the review has more than {max_bytes} bytes");
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
