//! An API server with large `ReplicaSets` and a few small `ConfigMaps`. Pages are generated while they are read, so that the
//! server itself holds nothing.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::iter;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use steersman_manager::env::Clock;
use tower_service::Service;

/// The number of `<` in a chunk. Go escapes each of them to six bytes.
const CHUNK: usize = 10_000;
const BOOKMARK: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"100000\"}}}\n";
/// The number of small objects.
pub const SMALL: usize = 3;

/// A server. Clones share it.
#[derive(Clone)]
pub struct LargeObjects {
    clock: Clock,
    state: Arc<Mutex<State>>,
    filler: Bytes,
}

/// The objects of a server, and its faults.
pub struct State {
    /// The number of large objects.
    pub count: usize,
    /// The number of chunks of 60 kB of a large object. The first ones are smaller.
    pub chunks: usize,
    /// The number of objects at the start of the list that are small.
    pub small: usize,
    /// The time that a chunk of a large object takes.
    pub delay: Duration,
    /// Refuses the next request with this continue token as expired.
    pub expired: Option<usize>,
    /// The continue token and limit of each list of large objects.
    pub lists: Vec<(usize, usize)>,
}

impl LargeObjects {
    pub fn new(clock: &Clock, count: usize, chunks: usize) -> Self {
        let state = State {
            count,
            chunks,
            small: 0,
            delay: Duration::ZERO,
            expired: None,
            lists: Vec::new(),
        };
        Self {
            clock: clock.clone(),
            state: Arc::new(Mutex::new(state)),
            filler: Bytes::from(r"\u003c".repeat(CHUNK)),
        }
    }

    pub fn change<R>(&self, with: impl FnOnce(&mut State) -> R) -> R {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A page of large objects.
    fn page(&self, first: usize, limit: usize) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let (count, chunks, small, delay, is_expired) = self.change(|it| {
            it.lists.push((first, limit));
            let is_expired = it.expired.take_if(|expired| *expired == first).is_some();
            (it.count, it.chunks, it.small, it.delay, is_expired)
        });
        if is_expired {
            let gone =
                r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
            return response(410, Full::from(gone).boxed_unsync());
        }
        let end = count.min(first + limit);
        let filler = self.filler.clone();
        let objects = (first..end).flat_map(move |n| {
            let comma = if n > first { "," } else { "" };
            let start = format!(
                r#"{comma}{{"metadata":{{"name":"set-{n:04}","namespace":"default","uid":"{n}","resourceVersion":"{}"}},"spec":{{"template":{{"spec":{{"containers":[{{"args":[""#,
                n + 1
            );
            let chunks = if n < small { 0 } else { chunks };
            iter::once(Bytes::from(start))
                .chain(iter::repeat_n(filler.clone(), chunks))
                .chain(iter::once(Bytes::from_static(br#""]}]}}}}"#)))
        });
        let body = iter::once(Bytes::from(head("ReplicaSetList", end, count)))
            .chain(objects)
            .chain(iter::once(Bytes::from_static(b"]}")));
        let clock = self.clock.clone();
        let delayed = stream::iter(body).then(move |data| {
            let (clock, delay) = (
                clock.clone(),
                if data.len() < CHUNK { Duration::ZERO } else { delay },
            );
            async move {
                if !delay.is_zero() {
                    clock.sleep(delay).await;
                }
                Ok(Frame::data(data))
            }
        });
        response(200, StreamBody::new(delayed).boxed_unsync())
    }
}

fn head(kind: &str, end: usize, count: usize) -> String {
    let rest = if end < count {
        end.to_string()
    } else {
        String::new()
    };
    format!(
        r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"resourceVersion":"100000","continue":"{rest}"}},"items":["#
    )
}

fn response(code: u16, body: UnsyncBoxBody<Bytes, Infallible>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    response.body(body).expect("a response")
}

impl Service<Request<Body>> for LargeObjects {
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(it, _)| *it == name).map(|(_, value)| value)
        };
        let number = |name: &str| parameter(name).and_then(|it| it.parse().ok()).unwrap_or(0);
        let answer = if parameter("watch").is_some() {
            let clock = self.clock.clone();
            let bookmarks = stream::repeat(BOOKMARK).then(move |line| {
                let clock = clock.clone();
                async move {
                    clock.sleep(Duration::from_mins(1)).await;
                    Ok(Frame::data(Bytes::from_static(line.as_bytes())))
                }
            });
            response(200, StreamBody::new(bookmarks).boxed_unsync())
        } else if request.uri().path().ends_with("replicasets") {
            self.page(number("continue"), number("limit"))
        } else {
            let small = (0..SMALL).map(|n| {
                format!(r#"{{"metadata":{{"name":"map-{n}","namespace":"default","uid":"m{n}","resourceVersion":"1"}}}}"#)
            });
            let small: Vec<String> = small.collect();
            let list = head("ConfigMapList", SMALL, SMALL) + &small.join(",") + "]}";
            response(200, Full::from(list).boxed_unsync())
        };
        ready(Ok(answer))
    }
}
