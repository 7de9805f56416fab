//! The manager on an API server whose answers are changed, until it is healed.

pub mod answers;
pub mod caches;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_harness::draw::Draw;
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_sandbox::ResponseBody;
use tower_service::Service;

use crate::mutate;

/// An answer: a status code, a Retry-After header, a body, and the lengths of its chunks.
#[derive(Clone)]
struct Answer {
    code: u16,
    retry_after: Vec<u8>,
    body: Bytes,
    chunks: Vec<u8>,
}

/// An API server that answers all watches with one answer and all other requests with another one.
#[derive(Clone)]
struct Server(Arc<Mutex<State>>);

struct State {
    list: Answer,
    watch: Answer,
    /// The list of a healed server, which keeps watches open.
    healed: Option<Answer>,
    requests: usize,
}

/// A server and the environment of a manager.
struct Fixture {
    env: Env,
    registry: Registry,
    server: Server,
    transport: Transport,
    _tasks: TaskSet,
}

/// Returns a server with the answers of an input, four parts for lists and four for watches.
fn fixture(input: &[Vec<u8>]) -> Fixture {
    let answer = |parts: &[Vec<u8>]| Answer {
        code: std::str::from_utf8(&parts[0])
            .ok()
            .and_then(|code| code.parse().ok())
            .unwrap_or(200),
        retry_after: parts[1].clone(),
        body: parts[2].clone().into(),
        chunks: parts[3].clone(),
    };
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
    let registry = Registry::new("fuzz");
    let server = Server(Arc::new(Mutex::new(State {
        list: answer(&input[..4]),
        watch: answer(&input[4..8]),
        healed: None,
        requests: 0,
    })));
    let transport = Transport::from_service(server.clone(), "fuzz", "fuzz", &env.clock, &registry);
    Fixture {
        transport: transport.expect("a transport"),
        env,
        registry,
        server,
        _tasks: tasks,
    }
}

/// Draws the parts of a list and of a watch. One of them is valid in most inputs, so that the other one is reached.
fn draw(draw: &mut Draw, list: &Value, events: &[Value]) -> Vec<Vec<u8>> {
    let lines = |draw: &mut Draw| {
        let mut lines = Vec::new();
        for event in events {
            lines.extend(if draw.once_in(3) {
                mutate::json::json(draw, event)
            } else {
                event.to_string().into()
            });
            lines.push(b'\n');
        }
        if draw.once_in(4) {
            mutate::bytes(draw, &lines)
        } else {
            lines
        }
    };
    let list = if draw.once_in(2) {
        mutate::json::json(draw, list)
    } else {
        list.to_string().into()
    };
    let list = answer(draw, list);
    let watch = lines(draw);
    [list, answer(draw, watch)].concat()
}

fn answer(draw: &mut Draw, body: Vec<u8>) -> Vec<Vec<u8>> {
    let codes = [
        (12, "200"),
        (1, "410"),
        (1, "429"),
        (1, "403"),
        (1, "500"),
        (1, "404"),
        (1, "299"),
        (1, "302"),
    ];
    let code = draw.weighed(&codes).as_bytes().to_vec();
    let retry_after = if draw.once_in(4) {
        mutate::tokens::text(draw).into_bytes()
    } else {
        Vec::new()
    };
    let chunks = (0..draw.below(6)).map(|_| u8::try_from(draw.below(256)).unwrap_or_default());
    vec![code, retry_after, body, chunks.collect()]
}

/// A `Status` with details.
fn status() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "reason": "Expired",
        "code": 410, "details": {"name": "a", "kind": "pods", "retryAfterSeconds": 1, "causes": [{"reason": "x", "field": "y"}]},
    })
}

impl Server {
    fn heal(&self, list: Answer) {
        self.state().healed = Some(list);
    }

    fn requests(&self) -> usize {
        self.state().requests
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    fn response(&self) -> Response<ResponseBody> {
        let mut frames = Vec::new();
        let mut rest = self.body.clone();
        for length in &self.chunks {
            frames.push(Ok(Frame::data(
                rest.split_to(rest.len().min(usize::from(*length))),
            )));
        }
        frames.push(Ok::<_, Infallible>(Frame::data(rest)));
        let mut response = Response::builder().status(self.code);
        if let Ok(seconds) = http::HeaderValue::from_bytes(&self.retry_after) {
            response = response.header("retry-after", seconds);
        }
        let body = StreamBody::new(stream::iter(frames)).boxed_unsync();
        response.body(body).expect("a response")
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut state = self.state();
        state.requests += 1;
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let response = match &state.healed {
            Some(_) if is_watch => {
                let pending = stream::pending::<Result<Frame<Bytes>, Infallible>>();
                Response::new(StreamBody::new(pending).boxed_unsync())
            }
            Some(list) => list.response(),
            None if is_watch => state.watch.response(),
            None => state.list.response(),
        };
        Box::pin(async { Ok(response) })
    }
}
