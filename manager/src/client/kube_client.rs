//! Interoperation with `kube::Api`: its requests pass the rate limiter, the credentials, the metrics and the fence of a
//! [`Client`].

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower_service::Service;

use super::request_span::resource_of;
use super::{Client, ClientError, READ_TIMEOUT, UNCONDITIONAL_WRITE_TIMEOUT, WrittenObject, response};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Client {
    /// Returns the same client for `kube::Api`. A write that it sends has the deadline of an
    /// [unconditional write](UNCONDITIONAL_WRITE_TIMEOUT), whatever its preconditions are.
    ///
    /// ```
    /// # use steersman_manager::client::Client;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn read(client: &Client) -> Result<(), kube::Error> {
    /// let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client.kube(), "default");
    /// let map = maps.get_opt("settings").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn kube(&self) -> kube::Client {
        kube::Client::new(Forward(self.clone()), "default")
    }

    async fn forward(self, mut request: Request<Body>) -> Result<Response<Body>, ClientError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default();
        let request_line = format!("{method} {path}");
        let invalid = |error: http::header::InvalidHeaderValue| ClientError::Invalid {
            request_line: request_line.clone(),
            reason: error.to_string(),
        };
        let late = |deadline| ClientError::Timeout {
            request_line: request_line.clone(),
            deadline,
        };
        let clock = &self.transport.clock;
        if method == Method::GET {
            let mut parameters = form_urlencoded::parse(query.as_bytes());
            let is_watch = parameters.any(|(name, value)| name == "watch" && matches!(&*value, "true" | "1"));
            let verb = if is_watch { "WATCH" } else { "GET" };
            // As in client-go, watches are not rate limited.
            if !is_watch {
                self.token(verb, &request_line).await?;
            }
            let read = async {
                let bearer = self.bearer(&request_line).await?;
                self.identify(&mut request, bearer.as_ref()).map_err(invalid)?;
                let response = clock.timeout(READ_TIMEOUT, self.dispatch(request, verb, &request_line));
                response.await.unwrap_or_else(|| Err(late(READ_TIMEOUT)))
            };
            return self.until_term_ends(&request_line, read).await;
        }
        let verb = verb(&method);
        self.token(verb, &request_line).await?;
        let bearer = self.bearer_of_write(&request_line).await?;
        self.identify(&mut request, bearer.as_ref()).map_err(invalid)?;
        let deadline = UNCONDITIONAL_WRITE_TIMEOUT;
        let entry = (self.term.as_ref()).map(|_| self.transport.writes.begin(resource_of(&path), deadline));
        let answered = clock.timeout(deadline, async {
            let (head, body) = self.dispatch(request, verb, &request_line).await?.into_parts();
            let body = self.body(&request_line, response::collect(body, &request_line));
            Ok((head, body.await??))
        });
        let answer = answered.await.unwrap_or_else(|| Err(late(deadline)));
        match (&answer, entry) {
            (Ok((head, body)), Some(entry)) if head.status.is_success() => {
                let stored: WrittenObject = serde_json::from_slice(body).unwrap_or_default();
                entry.executed(stored.metadata.resource_version);
            }
            (Ok((head, _)), Some(entry)) if head.status.is_client_error() => entry.not_executed(),
            (Err(error), Some(entry)) if !error.is_unknown_outcome() => entry.not_executed(),
            // Otherwise, the outcome is unknown.
            _ => {}
        }
        let (head, body) = answer?;
        Ok(Response::from_parts(head, Body::from(body)))
    }
}

/// Sends the requests of kube's client through ours.
#[derive(Clone)]
struct Forward(Client);

impl Service<Request<Body>> for Forward {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move { Ok(client.forward(request).await?) })
    }
}

/// Returns the verb in metrics.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    }
}
