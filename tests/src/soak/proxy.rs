//! The proxy of one process: records its requests and the events that it receives, and injects faults.
//!
//! A request passes the record, the fault layer of the sandbox, and the [`Upstream`]. The upstream sees every execution, also
//! those whose response is lost.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use steersman_harness::endpoint::Endpoint;
use steersman_harness::proxy::{self, BoxError};
use steersman_manager::env::Tasks;
use steersman_sandbox::faults::{FaultBody, FaultService, Faults, Matcher};
use tower_service::Service;

use super::injector::Injector;
use super::recorder::{Executed, Recorder};
use crate::simulation::record;

/// The header with the number of a request.
pub(super) const NUMBER: &str = "x-request-number";

/// The proxy of one process. Dropping it closes the connections.
pub(super) struct Proxy {
    /// The fault layer.
    pub(super) faults: Faults,
    _server: proxy::Proxy,
}

/// Sends requests to the API server, with the credentials that they have.
#[derive(Clone)]
pub(super) struct Upstream {
    client: kube::Client,
    recorder: Recorder,
    injector: Injector,
    tasks: Tasks,
}

impl Upstream {
    /// Returns the connection to the server of a kubeconfig.
    pub(super) async fn new(
        kubeconfig: &Path,
        recorder: Recorder,
        injector: Injector,
        tasks: Tasks,
    ) -> Result<Self, BoxError> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.auth_info = AuthInfo::default();
        config.read_timeout = None;
        config.default_retry = false;
        Ok(Self {
            client: kube::Client::try_from(config)?,
            recorder,
            injector,
            tasks,
        })
    }

    async fn execute(self, request: Request<Full<Bytes>>) -> Result<Response<FaultBody>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .unwrap_or_else(|never: Infallible| match never {})
            .to_bytes();
        let number = parts.headers.remove(NUMBER);
        let number = number.and_then(|it| it.to_str().ok()?.parse().ok()).unwrap_or(0);
        for header in [HOST, CONTENT_LENGTH, TRANSFER_ENCODING] {
            parts.headers.remove(header);
        }
        let sent = self.recorder.now();
        let verb = record_verb(&parts, &body);
        let response = self
            .client
            .send(Request::from_parts(parts, Body::from(body.to_vec())))
            .await?;
        let (mut parts, body) = response.into_parts();
        for header in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            parts.headers.remove(header);
        }
        if verb == "watch" && parts.status.is_success() {
            let lines = Lines {
                body,
                rest: BytesMut::new(),
                number,
                injector: self.injector,
            };
            return Ok(Response::from_parts(parts, lines.into_body()));
        }
        let body = body.collect().await?.to_bytes();
        self.recorder.executed(&Executed {
            number,
            sent,
            verb,
            code: parts.status.as_u16(),
            body: &body,
        });
        Ok(Response::from_parts(parts, full(body)))
    }
}

fn record_verb(parts: &http::request::Parts, body: &Bytes) -> &'static str {
    let sender = record::Sender::User;
    crate::simulation::network::request(0, sender, std::time::Duration::ZERO, parts, body).verb
}

fn full(bytes: Bytes) -> FaultBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

impl Service<Request<Full<Bytes>>> for Upstream {
    type Response = Response<FaultBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    /// The request is executed to its end, even if the client disconnects.
    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let execution = self.tasks.spawn(self.clone().execute(request));
        Box::pin(async move { execution.await? })
    }
}

impl Proxy {
    /// Starts the proxy of a process, and writes its kubeconfig, with the credentials of `endpoint`.
    pub(super) async fn start(
        process: usize,
        endpoint: &Endpoint,
        upstream: &Upstream,
        kubeconfig: &Path,
    ) -> io::Result<Self> {
        let faults = Faults::new();
        let injector = upstream.injector.clone();
        faults
            .on(Matcher::any())
            .decide(move |request| injector.decide(process, request));
        let service = faults.wrap(upstream.clone());
        let (recorder, layer) = (upstream.recorder.clone(), faults.clone());
        let server = proxy::Proxy::start(move |request| {
            // The layer records all requests, and the record has them.
            layer.forget();
            respond(process, recorder.clone(), service.clone(), request)
        });
        let server = server.await?;
        let endpoint = Endpoint {
            url: format!("http://{}", server.address),
            ..endpoint.clone()
        };
        endpoint.write_kubeconfig(kubeconfig)?;
        Ok(Self {
            faults,
            _server: server,
        })
    }
}

async fn respond(
    process: usize,
    recorder: Recorder,
    mut service: FaultService<Upstream>,
    request: Request<Full<Bytes>>,
) -> Result<Response<FaultBody>, BoxError> {
    let (mut parts, body) = request.into_parts();
    let content = body
        .clone()
        .collect()
        .await
        .unwrap_or_else(|never: Infallible| match never {});
    let request = Arc::new(recorder.sent(process, &parts, &content.to_bytes()));
    parts.headers.insert(NUMBER, HeaderValue::from(request.number));
    let result = service.call(Request::from_parts(parts, body)).await;
    let code = result.as_ref().ok().map(|it| it.status().as_u16());
    recorder.answered(&request, code);
    let response = result?;
    if request.verb != "watch" || code != Some(200) {
        return Ok(response);
    }
    recorder.watch_opened(process, &request);
    let open = OpenWatch { recorder, request };
    Ok(response.map(|body| {
        let body = body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                open.delivered(data);
            }
            frame
        });
        body.boxed_unsync()
    }))
}

/// A watch that a process reads.
struct OpenWatch {
    recorder: Recorder,
    request: Arc<record::Request>,
}

impl OpenWatch {
    fn delivered(&self, data: &Bytes) {
        let mut start = 0;
        for (at, _) in data.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            self.recorder.event(&self.request, &data.slice(start..=at));
            start = at + 1;
        }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.recorder.watch_closed(self.request.number);
    }
}

/// The events of a watch, one or more complete lines at a time.
struct Lines {
    body: Body,
    rest: BytesMut,
    number: usize,
    injector: Injector,
}

impl Lines {
    fn into_body(self) -> FaultBody {
        let frames = stream::unfold(self, |mut lines| async move {
            let line = lines.next().await?;
            Some((line.map(Frame::data), lines))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1).freeze();
                if self.injector.takes_duplicate(self.number) {
                    return Some(Ok([line.clone(), line].concat().into()));
                }
                return Some(Ok(line));
            }
            match self.body.frame().await? {
                Ok(frame) => self
                    .rest
                    .extend_from_slice(frame.data_ref().map_or(&[][..], |it| it)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}
