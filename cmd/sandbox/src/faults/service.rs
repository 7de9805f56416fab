//! The tower service that applies the rules.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_service::Service;

use super::body::{self, FaultBody};
use super::request::ArrivedAt;
use super::{Effect, Faults, RecordedRequest};
use crate::service::{ApiService, BoxError};
use crate::storage::lag::Lag;

/// A service behind a fault layer. See [`Faults::wrap`].
#[derive(Clone)]
pub struct FaultService<S> {
    faults: Faults,
    inner: S,
}

impl<S> FaultService<S> {
    pub(super) fn new(faults: Faults, inner: S) -> Self {
        Self { faults, inner }
    }

    /// Returns the layer.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the service behind the layer.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl FaultService<ApiService> {
    /// Returns the lag of the watch cache of this API server.
    #[must_use]
    pub fn lag(&self) -> &Lag {
        self.inner.lag()
    }
}

impl<S, B, R> Service<Request<B>> for FaultService<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<FaultBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(this.respond(request))
    }
}

impl<S, R> FaultService<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    async fn respond<B>(self, request: Request<B>) -> Result<Response<FaultBody>, BoxError>
    where
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let (mut parts, content) = request.into_parts();
        let mut content = content.collect().await.map_err(Into::into)?.to_bytes();
        let request = self.faults.record(RecordedRequest::new(&parts, content.clone()));
        let effects = self.faults.effects(&request);
        parts.extensions.insert(ArrivedAt(request.at));
        let (mut afters, mut other) = (Vec::new(), None);
        for effect in &effects {
            match effect {
                Effect::Around(around) => afters.push(around(request.clone()).await),
                Effect::SendTo(service) => other = Some(service.clone()),
                Effect::ChangeHeaders(change) => change(&mut parts.headers),
                effect => before_sending(effect, &mut content).await,
            }
        }
        let outcome = effects.iter().find(|effect| effect.is_outcome());
        let Self { faults, inner } = self;
        let response = match other {
            Some(service) => send(service, outcome, parts, content).await?,
            None => send(inner, outcome, parts, content).await?,
        };
        for after in afters {
            after(response.status().as_u16()).await;
        }
        match outcome {
            Some(Effect::LoseAnswer) => return Err(lost("the answer")),
            Some(Effect::HangAnswer) => std::future::pending().await,
            _ => {}
        }
        let mut response = body::with_effects(&faults, &request, response, &effects).await;
        for effect in &effects {
            match effect {
                Effect::DelayAnswer(time) => sleep(*time).await,
                Effect::GateAnswer(gate) => gate.pass().await,
                Effect::SlowBody(time) => response = response.map(|it| body::slow(it, *time)),
                _ => {}
            }
        }
        Ok(response)
    }
}

/// Sends the request as the outcome requires.
async fn send<S, R>(
    service: S,
    outcome: Option<&Effect>,
    parts: Parts,
    content: Bytes,
) -> Result<Response<FaultBody>, BoxError>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    match outcome {
        Some(Effect::LoseRequest) => Err(lost("the request")),
        Some(Effect::Hang) => std::future::pending().await,
        Some(Effect::Refuse(refusal)) => Ok(refusal.response().map(body::full)),
        Some(Effect::Reply(response)) => Ok(response.clone().map(body::full)),
        Some(Effect::DeliverLate(time)) => {
            let time = *time;
            spawn(async move {
                sleep(time).await;
                // The client does not learn the result of a late delivery.
                let _ = execute(service, parts, content).await;
            });
            Err(lost("the request"))
        }
        Some(Effect::Duplicate) => {
            execute(service.clone(), parts.clone(), content.clone()).await?;
            forward(service, parts, content).await
        }
        _ => forward(service, parts, content).await,
    }
}

async fn before_sending(effect: &Effect, content: &mut Bytes) {
    match effect {
        Effect::Delay(time) => sleep(*time).await,
        Effect::Gate(gate) => gate.pass().await,
        Effect::ChangeRequest(change) => {
            if let Ok(mut value) = serde_json::from_slice::<Value>(content) {
                change(&mut value);
                *content = value.to_string().into();
            }
        }
        _ => {}
    }
}

async fn forward<S, R>(mut service: S, parts: Parts, content: Bytes) -> Result<Response<FaultBody>, BoxError>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    poll_fn(|context| service.poll_ready(context))
        .await
        .map_err(Into::into)?;
    let request = Request::from_parts(parts, Full::new(content));
    let response = service.call(request).await.map_err(Into::into)?;
    Ok(response.map(|it| it.map_err(Into::into).boxed_unsync()))
}

/// Executes a request whose answer does not arrive. A watch is opened only.
async fn execute<S, R>(service: S, parts: Parts, content: Bytes) -> Result<(), BoxError>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    forward(service, parts, content).await.map(drop)
}

fn lost(subject: &str) -> BoxError {
    let message = format!("connection reset by a fault before {subject} arrived");
    io::Error::new(io::ErrorKind::ConnectionReset, message).into()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the runtime's clock, which a test may have paused"
)]
pub(super) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "a request that is delivered after its connection broke"
)]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
