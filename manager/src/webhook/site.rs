//! From a request over HTTP to a review that is answered.
//!
//! The body is read before the request takes one of the review slots: a client that sends no body holds no slot. The bytes of
//! bodies are bounded for all requests together.
//!
//! A review that a hook has judged, whichever way, is answered with 200. Any other code means that nobody has judged it, and
//! the API server does what the failure policy of the webhook says.

use std::net::IpAddr;
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
use super::metrics::Requests;
use super::review;
use crate::env::Clock;
use crate::panics;
use crate::serve::{HttpHandler, HttpResponse, answer, text};

/// The largest review. The API server takes objects of up to 3 MiB, and the review of an update has two of them.
pub(super) const MAX_BODY: usize = 7 * 1024 * 1024;
/// How long a review may take, from its head to its answer: what the API server waits unless a webhook says otherwise.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// Reviews that are decided at a time; others wait within their deadline.
const MAX_REVIEWS: usize = 64;
/// Bytes of bodies in memory, of all reviews together. A review that does not fit is refused with 503.
pub(super) const MAX_BUFFERED: usize = 16 * MAX_BODY;

/// The answer to what nobody has judged.
type Refused = Box<HttpResponse>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The hooks behind a port.
pub(super) struct Reviews {
    hooks: Hooks,
    metrics: Requests,
    clock: Clock,
    slots: Semaphore,
    /// One permit per byte of a body.
    buffer: Semaphore,
}

impl Reviews {
    pub(super) fn new(hooks: Hooks, metrics: Requests, clock: Clock) -> Self {
        hooks.0.keys().for_each(|path| metrics.show(path));
        Self {
            hooks,
            metrics,
            clock,
            slots: Semaphore::new(MAX_REVIEWS),
            buffer: Semaphore::new(MAX_BUFFERED),
        }
    }

    pub(super) async fn answer_any<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let path = request.uri().path().to_owned();
        let http1 = request.version() < Version::HTTP_2;
        let Some(hook) = self.hooks.0.get(&path) else {
            return closing(text(StatusCode::NOT_FOUND, "404 page not found\n"), http1);
        };
        let _in_flight = self.metrics.begin(&path);
        let start = self.clock.now();
        let judged = self
            .clock
            .timeout(DEADLINE, self.review(&path, hook, request))
            .await;
        let answer = match judged {
            Some(Ok(review)) => answer(StatusCode::OK, "application/json", review),
            // The rest of the body may not have been read.
            Some(Err(refused)) => closing(*refused, http1),
            None => {
                tracing::warn!(path, "A webhook took too long");
                let body = format!("no answer within {} s\n", DEADLINE.as_secs());
                closing(text(StatusCode::GATEWAY_TIMEOUT, body), http1)
            }
        };
        self.metrics
            .answered(&path, answer.status(), self.clock.now() - start);
        answer
    }

    async fn review<B>(&self, path: &str, hook: &Hook, request: Request<B>) -> Result<Bytes, Refused>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        check_head(&request)?;
        let (body, _buffered) = self.read(request.into_body()).await?;
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        let request =
            review::decode(&body).map_err(|error| Box::new(bad(StatusCode::BAD_REQUEST, &error)))?;
        drop(body);
        let uid = request.uid.clone();
        // Also the call itself may panic, not only the future that it returns.
        let verdict = AssertUnwindSafe(async { hook(request).await })
            .catch_unwind()
            .await;
        let verdict = verdict.map_err(|panic| {
            tracing::error!(path, panic = panics::message(&*panic), "A webhook panicked");
            Box::new(text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "500 internal server error\n",
            ))
        })?;
        Ok(review::encode(&uid, verdict))
    }

    /// Reads a body, and the permits for its bytes.
    async fn read<B>(&self, body: B) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), Refused>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let mut body = Box::pin(Limited::new(body, MAX_BODY));
        let (mut read, mut held) = (Vec::new(), None::<SemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Box::new(if error.is::<LengthLimitError>() {
                    too_large()
                } else {
                    bad(StatusCode::BAD_REQUEST, &"the body is cut off")
                })
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let Ok(permits) = self.buffer.try_acquire_many(count) else {
                tracing::warn!("Too many bytes of admission reviews in memory, refused one");
                let words = "too many reviews are being read, try again";
                return Err(Box::new(bad(StatusCode::SERVICE_UNAVAILABLE, &words)));
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

impl HttpHandler for Reviews {
    async fn answer(&self, _: IpAddr, request: Request<Incoming>) -> HttpResponse {
        self.answer_any(request).await
    }
}

/// What can be refused before the body is read.
fn check_head<B: Body>(request: &Request<B>) -> Result<(), Refused> {
    if request.method() != Method::POST {
        let mut answer = bad(
            StatusCode::METHOD_NOT_ALLOWED,
            &"a review is sent by POST, by the API server",
        );
        answer
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(Box::new(answer));
    }
    let content_type = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|it| it.to_str().ok());
    let essence = content_type.and_then(|it| it.split(';').next()).map(str::trim);
    if !essence.is_some_and(|it| it.eq_ignore_ascii_case("application/json")) {
        return Err(Box::new(bad(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            &"a review is of the content type application/json",
        )));
    }
    if request.body().size_hint().lower() > MAX_BODY as u64 {
        return Err(Box::new(too_large()));
    }
    Ok(())
}

fn too_large() -> HttpResponse {
    let words = format!("a review has at most {MAX_BODY} bytes");
    bad(StatusCode::PAYLOAD_TOO_LARGE, &words)
}

fn bad(code: StatusCode, words: &dyn std::fmt::Display) -> HttpResponse {
    text(code, format!("{words}\n"))
}

/// The next request of an HTTP/1 connection begins behind a body that nobody reads.
fn closing(mut answer: HttpResponse, http1: bool) -> HttpResponse {
    if http1 {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
    }
    answer
}
