//! The API service: the handler chain of one API server. Several API services may share one store.
//!
//! It authenticates and authorizes a request, routes it to its resource, limits the body, and renders the answer. As a
//! `tower::Service` it needs no socket; a panic of a handler becomes a 500.

mod admit;
mod body;
mod documents;
mod route;
mod warnings;

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

pub use body::ResponseBody;

use crate::authn::User;
use crate::endpoints::Api;
#[cfg(feature = "serve")]
use crate::env::Env;
use crate::status::ApiError;
use crate::storage::lag::Lag;

/// One API server as a `tower` service. Clones share one watch cache.
#[derive(Clone)]
pub struct ApiService {
    api: Arc<Api>,
    lag: Arc<Lag>,
    admin: Arc<User>,
    /// The administrator's token. Without one, requests without credentials are the administrator's, as is right within one
    /// process.
    token: Option<Arc<str>>,
}

impl ApiService {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        Self {
            lag: Lag::starting_at(api.store.revision()).into(),
            api,
            admin: User::admin().into(),
            token: None,
        }
    }

    /// Returns the same API service that requires this bearer token of the administrator.
    #[must_use]
    pub fn with_admin_token(&self, token: &str) -> Self {
        Self {
            token: Some(token.into()),
            ..self.clone()
        }
    }

    /// Returns the lag of this API service's watch cache.
    #[must_use]
    pub fn lag(&self) -> &Lag {
        &self.lag
    }

    /// Ends every watch of all API services of the store: the process is about to end.
    #[cfg(feature = "serve")]
    pub(crate) fn close_watches(&self) {
        self.api.close_watches();
    }

    #[cfg(feature = "serve")]
    pub(crate) fn env(&self) -> Env {
        self.api.env.clone()
    }

    async fn respond<B>(self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        match AssertUnwindSafe(self.route(request)).catch_unwind().await {
            Ok(response) => response,
            Err(panic) => {
                let message = panic_message(&*panic);
                tracing::error!(message, "A request handler panicked");
                body::error(&ApiError::internal("this request caused the server to panic"))
            }
        }
    }
}

/// Any error of a request's body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> tower_service::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// The number of bytes that are read beyond the limit: a client that is still sending when the connection ends does not see
/// the answer.
const READ_ON: usize = 16 * 1024 * 1024;

/// Reads a body up to `limit` bytes.
async fn collect<B>(body: B, limit: usize) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let mut body = pin!(body);
    match Limited::new(body.as_mut(), limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let mut rest = Limited::new(body, READ_ON);
            while let Some(Ok(_)) = rest.frame().await {}
            Err(ApiError::too_large(format!(
                "Request entity too large: limit is {limit}"
            )))
        }
        Err(error) => Err(ApiError::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}
