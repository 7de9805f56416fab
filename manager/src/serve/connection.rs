//! One connection, from its handshake to its end.
//!
//! It holds a slot, and needs a first request soon and then another every now and then to keep it. That covers all ways of
//! being slow, because only a complete head counts as a request, and an answer that is not read keeps the next one away.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::endpoints::HttpResponse;
use crate::env::{Clock, Env, Tasks};

/// From the start of the handshake to the first complete request.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// From the answer to one request to the next complete one. API servers and scrapers keep what they do not use for 90 seconds:
/// it is they who have to end it, because a request that meets the end of its connection is lost.
const NEXT_REQUEST: Duration = Duration::from_mins(2);
/// How long requests under way may go on when the connection is to end.
const DRAIN: Duration = Duration::from_secs(2);
/// The head of a request; a larger one is answered with 431.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// Requests at a time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 100;

/// What is behind a port: from a request to its answer.
pub trait HttpHandler: Send + Sync + 'static {
    /// Answers a client at `peer`. It is dropped when the client goes away, or when the server ends and it takes too long.
    fn answer(&self, peer: IpAddr, request: Request<Incoming>) -> impl Future<Output = HttpResponse> + Send;
}

/// What all connections share.
pub(super) struct Host<S> {
    pub(super) env: Env,
    pub(super) acceptor: TlsAcceptor,
    pub(super) site: S,
}

/// Serves `stream`, whose client is at `peer`, until it ends or the server is `closing`.
pub(super) async fn serve<S, T>(
    host: Arc<Host<S>>,
    stream: T,
    peer: IpAddr,
    activity: Arc<Activity>,
    closing: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    S: HttpHandler,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let clock = &host.env.clock;
    let stream = tokio::select! {
        biased;
        accepted = host.acceptor.accept(stream) => accepted?,
        () = activity.over(&closing) => return Ok(()),
    };
    let service = service_fn(|request| {
        let (host, running) = (host.clone(), activity.begin());
        async move {
            let answer = host.site.answer(peer, request).await;
            drop(running);
            Ok::<_, Infallible>(answer)
        }
    });
    let builder = builder(&host.env);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = activity.over(&closing) => {
            connection.as_mut().graceful_shutdown();
            clock.timeout(DRAIN, connection).await.unwrap_or(Ok(()))
        }
    }
}

fn builder(env: &Env) -> auto::Builder<OnTasks> {
    // hyper has no timer of its own here: `Activity` is the only judge of slowness.
    let mut builder = auto::Builder::new(OnTasks(env.tasks.clone()));
    builder.http1().max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES);
    builder
}

/// The streams of HTTP/2 are tasks.
#[derive(Clone)]
struct OnTasks(Tasks);

impl<F> hyper::rt::Executor<F> for OnTasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// The use that a connection makes of its slot.
pub(super) struct Activity {
    clock: Clock,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy)]
struct State {
    /// Requests in a handler.
    running: usize,
    /// Whether there was a request at all.
    served: bool,
    /// When it is over, unless a request is running then.
    deadline: Instant,
}

/// The phase of a connection; the lower, the sooner a full server closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It has not sent a complete request.
    Silent,
    /// Its last request was answered.
    Idle,
    /// A request is in a handler.
    Busy,
}

/// A request in a handler.
struct Running(Arc<Activity>);

impl Activity {
    pub(super) fn new(clock: &Clock) -> Self {
        let state = watch::Sender::new(State {
            running: 0,
            served: false,
            deadline: clock.after(FIRST_REQUEST),
        });
        let clock = clock.clone();
        Self { clock, state }
    }

    fn begin(self: &Arc<Self>) -> Running {
        self.state.send_modify(|state| {
            state.running += 1;
            state.served = true;
        });
        Running(self.clone())
    }

    pub(super) fn phase(&self) -> Phase {
        let state = self.state.borrow();
        match (state.served, state.running) {
            (false, _) => Phase::Silent,
            (true, 0) => Phase::Idle,
            (true, _) => Phase::Busy,
        }
    }

    #[cfg(test)]
    pub(super) fn set_phase(&self, phase: Phase) {
        self.state.send_modify(|state| {
            state.served = phase != Phase::Silent;
            state.running = usize::from(phase == Phase::Busy);
        });
    }

    /// Waits until the connection has to end.
    async fn over(&self, closing: &CancellationToken) {
        let mut state = self.state.subscribe();
        loop {
            let State {
                running, deadline, ..
            } = *state.borrow_and_update();
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                _ = state.changed() => {}
                () = self.clock.sleep_until(deadline), if running == 0 => return,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let deadline = self.0.clock.after(NEXT_REQUEST);
        self.0.state.send_modify(|state| {
            state.running -= 1;
            state.deadline = deadline;
        });
    }
}
