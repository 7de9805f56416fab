//! One connection, from the TLS handshake to its end.
//!
//! It occupies a slot, and is closed unless requests arrive regularly and responses are read. This covers all kinds of slow
//! clients: only a request with a complete head counts. On HTTP/1 a response that the client does not read blocks its next
//! request; on HTTP/2 each response has a deadline, and the number of requests at the same time is limited.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::auth::VerifiedSubjects;
use crate::env::{Clock, Env, Tasks};
use crate::sync::watch;

/// From the start of the handshake to the first complete request head.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// From a response to the next complete request head. API servers and scrapers close idle connections after 90 seconds. The
/// client must close first: a request on a connection that the server is closing is lost.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// From the end of a handler to the end of its response. A response that the client does not read occupies memory.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for in-flight requests when a connection is closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// A larger request head is rejected with 431.
const MAX_HEADER_BYTES: u32 = 32 * 1024;
/// Concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 32;

/// The response of a handler.
pub type HttpResponse = Response<Full<Bytes>>;

/// A handler of HTTP requests.
pub trait HttpHandler: Send + Sync + 'static {
    /// Handles a request of `peer`. The future is dropped when the client disconnects or the drain times out.
    fn handle(&self, peer: &Peer, request: Request<Incoming>) -> impl Future<Output = HttpResponse> + Send;
}

/// The client of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The address, IPv4 if it is an IPv4-mapped one.
    pub address: IpAddr,
    /// The certificate chain of the client, leaf first; empty without one. The handshake proves that the client has the
    /// private key. The chain itself is not verified.
    pub certificates: Vec<CertificateDer<'static>>,
    pub(super) verified: VerifiedSubjects,
}

impl Peer {
    /// Returns a client without a certificate.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self {
            address,
            certificates: Vec::new(),
            verified: VerifiedSubjects::default(),
        }
    }
}

/// Shared by all connections.
pub(super) struct ServerContext<S> {
    pub(super) env: Env,
    pub(super) acceptor: TlsAcceptor,
    pub(super) handler: S,
}

/// Serves `stream` of a client at `address` until it ends or `closing` is cancelled.
pub(super) async fn serve<S, T>(
    context: Arc<ServerContext<S>>,
    stream: T,
    address: IpAddr,
    activity: Arc<Activity>,
    closing: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    S: HttpHandler,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let clock = &context.env.clock;
    let stream = tokio::select! {
        biased;
        accepted = context.acceptor.accept(stream) => accepted?,
        () = activity.expired(&closing) => return Ok(()),
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Arc::new(Peer {
        address,
        certificates: certificates.iter().map(|it| it.clone().into_owned()).collect(),
        verified: VerifiedSubjects::default(),
    });
    let service = service_fn(|request| {
        let (context, in_flight, peer) = (context.clone(), activity.begin(), peer.clone());
        async move {
            let response = context.handler.handle(&peer, request).await;
            let unsent = in_flight.end();
            Ok::<_, Infallible>(response.map(|body| TrackedBody { body, unsent }))
        }
    });
    let builder = builder(&context.env);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = activity.expired(&closing) => {
            connection.as_mut().graceful_shutdown();
            clock.timeout(DRAIN_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    }
}

fn builder(env: &Env) -> auto::Builder<TaskExecutor> {
    // hyper gets no timer: `Activity` enforces all timeouts.
    let mut builder = auto::Builder::new(TaskExecutor(env.tasks.clone()));
    builder.http1().max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES);
    builder
}

/// Runs HTTP/2 streams on the task set.
#[derive(Clone)]
struct TaskExecutor(Tasks);

impl<F> hyper::rt::Executor<F> for TaskExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// The use of a connection.
pub(super) struct Activity {
    clock: Clock,
    state: watch::Sender<State>,
}

struct State {
    /// The number of requests in a handler.
    in_flight: usize,
    /// Whether there was a request.
    served: bool,
    /// The connection is closed at this time unless a request is in flight.
    deadline: Instant,
    /// The number of responses.
    responses: u64,
    /// The deadlines of responses that are not sent yet, in the order of the responses.
    unsent: BTreeMap<u64, Instant>,
}

impl State {
    /// Returns the time at which the connection is closed, as of now.
    fn closes_at(&self) -> Option<Instant> {
        let idle = (self.in_flight == 0).then_some(self.deadline);
        let unsent = self.unsent.values().next().copied();
        idle.into_iter().chain(unsent).min()
    }
}

/// The phase of a connection. A full server closes the lowest phase first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// No complete request yet.
    Silent,
    /// Between two requests.
    Idle,
    /// A request is in flight.
    Busy,
}

/// Counts a request as in flight until dropped.
struct InFlight(Arc<Activity>);

/// Counts a response as unsent until dropped.
struct UnsentResponse {
    activity: Arc<Activity>,
    number: u64,
}

/// The body of a response. hyper drops it when it has sent everything that fits into the client's window.
struct TrackedBody {
    body: Full<Bytes>,
    #[expect(dead_code, reason = "it is dropped with the body")]
    unsent: UnsentResponse,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Activity {
    pub(super) fn new(clock: &Clock) -> Self {
        let state = watch::Sender::new(State {
            in_flight: 0,
            served: false,
            deadline: clock.after(FIRST_REQUEST_TIMEOUT),
            responses: 0,
            unsent: BTreeMap::new(),
        });
        let clock = clock.clone();
        Self { clock, state }
    }

    fn begin(self: &Arc<Self>) -> InFlight {
        self.state.send_modify(|state| {
            state.in_flight += 1;
            state.served = true;
        });
        InFlight(self.clone())
    }

    pub(super) fn phase(&self) -> Phase {
        let state = self.state.borrow();
        match (state.served, state.in_flight) {
            (false, _) => Phase::Silent,
            (true, 0) => Phase::Idle,
            (true, _) => Phase::Busy,
        }
    }

    #[cfg(test)]
    pub(super) fn set_phase(&self, phase: Phase) {
        self.state.send_modify(|state| {
            state.served = phase != Phase::Silent;
            state.in_flight = usize::from(phase == Phase::Busy);
        });
    }

    /// Waits until the connection must be closed.
    async fn expired(&self, closing: &CancellationToken) {
        let mut state = self.state.subscribe();
        loop {
            let closes_at = state.borrow_and_update().closes_at();
            let closes = async {
                match closes_at {
                    Some(time) => self.clock.sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                _ = state.changed() => {}
                () = closes => return,
            }
        }
    }
}

impl InFlight {
    /// The handler has returned a response.
    fn end(self) -> UnsentResponse {
        let activity = self.0.clone();
        let deadline = activity.clock.after(RESPONSE_TIMEOUT);
        let mut number = 0;
        activity.state.send_modify(|state| {
            number = state.responses;
            state.responses += 1;
            state.unsent.insert(number, deadline);
        });
        UnsentResponse { activity, number }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let deadline = self.0.clock.after(IDLE_TIMEOUT);
        self.0.state.send_modify(|state| {
            state.in_flight -= 1;
            state.deadline = deadline;
        });
    }
}

impl Drop for UnsentResponse {
    fn drop(&mut self) {
        self.activity.state.send_modify(|state| {
            state.unsent.remove(&self.number);
        });
    }
}
