//! Admission reviews under a paused clock, without a socket.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::metrics::Registry;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{Method, Request, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, StreamBody};
use jiff::Timestamp;
use prometheus::TextEncoder;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::denial::Denial;
use super::handler::{LARGE_BYTES, MAX_BUFFERED_BYTES, ReviewHandler};
use super::hooks::{Hooks, validating_path};
use super::metrics::RequestMetrics;
use crate::env::{Env, TaskSet};
use crate::object::Resource;
use crate::serve::HttpResponse;

const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");
const PATH: &str = "/validate-harbour-example-v1-boat";
const MAX_BODY_BYTES: usize = 7 * 1024 * 1024;
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    env: Env,
    registry: Registry,
    handler: Arc<ReviewHandler>,
    /// Releases handlers that wait.
    go: Arc<Semaphore>,
    _tasks: TaskSet,
}

/// A server whose handler behaves as the object says.
fn fixture() -> Fixture {
    assert_eq!(validating_path(&BOATS), PATH);
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
    let registry = Registry::new("test");
    let go = Arc::new(Semaphore::new(0));
    let gate = go.clone();
    let hooks = Hooks::new().validating(&BOATS, move |request| {
        let gate = gate.clone();
        let object: Value = request.object.decode().expect("JSON");
        let does = object["does"].as_str().unwrap_or_default().to_owned();
        assert!(does != "panics at once", "for the test");
        async move {
            match does.as_str() {
                "panics" => panic!("for the test"),
                "hangs" => std::future::pending().await,
                "waits" => gate.acquire().await.expect("open").forget(),
                "denies" => return Err(Denial::forbidden("no")),
                _ => {}
            }
            Ok(vec![])
        }
    });
    let metrics = RequestMetrics::register(&registry).expect("fresh metrics");
    Fixture {
        handler: Arc::new(ReviewHandler::new(hooks, metrics, env.clock.clone())),
        env,
        registry,
        go,
        _tasks: tasks,
    }
}

fn review(does: &str) -> Bytes {
    sized_review(does, 0)
}

/// A review whose object has this number of bytes more.
fn sized_review(does: &str, bytes: usize) -> Bytes {
    let object = json!({"does": does, "filler": "x".repeat(bytes)});
    let request = json!({"uid": "7", "operation": "CREATE", "object": object});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into()
}

fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(PATH).header(CONTENT_TYPE, "application/json");
    request.body(Full::new(body.into())).expect("a request")
}

async fn body(response: HttpResponse) -> String {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

impl Fixture {
    async fn ask(&self, request: Request<Full<Bytes>>) -> (u16, String) {
        let response = self.handler.handle_any(CLIENT, request).await;
        (response.status().as_u16(), body(response).await)
    }

    async fn does(&self, does: &str) -> (u16, String) {
        self.ask(post(review(does))).await
    }

    fn metric(&self, line: &str) -> String {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("text");
        let found = text.lines().find_map(|it| it.strip_prefix(line));
        found
            .unwrap_or_else(|| panic!("no {line} in {text}"))
            .trim()
            .to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn allowed_and_denied_reviews_return_200() {
    let fixture = fixture();
    let (code, response) = fixture.does("nothing").await;
    let response: Value = serde_json::from_str(&response).expect("JSON");
    assert_eq!((code, &response["response"]["allowed"]), (200, &json!(true)));
    let (code, response) = fixture.does("denies").await;
    let response: Value = serde_json::from_str(&response).expect("JSON");
    assert_eq!((code, &response["response"]["allowed"]), (200, &json!(false)));
    assert_eq!(response["response"]["uid"], "7");
}

#[tokio::test(start_paused = true)]
async fn invalid_review_returns_400() {
    let fixture = fixture();
    let beta = String::from_utf8(review("nothing").to_vec()).expect("text");
    let beta = beta.replace("k8s.io/v1", "k8s.io/v1beta1");
    for (sent, message) in [
        ("hunter2".to_owned(), "request body is not valid JSON"),
        (String::new(), "request body is empty"),
        (
            "{}".to_owned(),
            "kind of the request body is not AdmissionReview of admission.k8s.io/v1",
        ),
        (
            beta,
            "kind of the request body is not AdmissionReview of admission.k8s.io/v1",
        ),
    ] {
        let (code, text) = fixture.ask(post(sent.clone())).await;
        assert_eq!(code, 400, "{sent}");
        assert!(text.starts_with(message) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_with_invalid_head_is_rejected_and_connection_closed() {
    let fixture = fixture();
    let with = |change: fn(&mut Request<Full<Bytes>>)| {
        let mut request = post(review("panics"));
        change(&mut request);
        request
    };
    for (request, code) in [
        (with(|it| *it.method_mut() = Method::GET), 405),
        (with(|it| *it.method_mut() = Method::PUT), 405),
        (with(|it| drop(it.headers_mut().remove(CONTENT_TYPE))), 415),
        (
            with(|it| {
                it.headers_mut()
                    .insert(CONTENT_TYPE, "application/yaml".parse().expect("a type"));
            }),
            415,
        ),
        (
            with(|it| *it.uri_mut() = "/validate".parse().expect("a path")),
            404,
        ),
        (post(vec![b'x'; MAX_BODY_BYTES + 1]), 413),
        (post(vec![b'x'; MAX_BODY_BYTES]), 400),
    ] {
        let response = fixture.handler.handle_any(CLIENT, request).await;
        assert_eq!(response.status().as_u16(), code);
        assert_eq!(response.headers().get(CONNECTION).expect("a header"), "close");
        if code == 405 {
            assert_eq!(response.headers()[ALLOW], "POST");
        }
    }
    let mut odd = post(review("nothing"));
    let json = "Application/JSON; charset=utf-8".parse().expect("a type");
    odd.headers_mut().insert(CONTENT_TYPE, json);
    *odd.version_mut() = Version::HTTP_2;
    let response = fixture.handler.handle_any(CLIENT, odd).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers().get(CONNECTION).is_none());
}

/// A body of known size that panics when it is read.
struct Unread(u64);

impl Body for Unread {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body is read");
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

fn post_any<B>(body: B) -> Request<B> {
    let request = Request::post(PATH).header(CONTENT_TYPE, "application/json");
    request.body(body).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn body_with_too_large_content_length_is_not_read() {
    let fixture = fixture();
    let response = fixture
        .handler
        .handle_any(CLIENT, post_any(Unread(MAX_BODY_BYTES as u64 + 1)))
        .await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn body_without_content_length_is_read_up_to_the_limit() {
    let fixture = fixture();
    let (mut read, chunk) = (0, Bytes::from(vec![b' '; 64 * 1024]));
    let endless = stream::repeat_with(|| {
        read += chunk.len();
        Ok::<_, Infallible>(Frame::data(chunk.clone()))
    });
    let response = fixture
        .handler
        .handle_any(CLIENT, post_any(StreamBody::new(endless)))
        .await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(read <= MAX_BODY_BYTES + chunk.len(), "{read}");
}

#[tokio::test(start_paused = true)]
async fn handler_panic_fails_only_its_review() {
    let fixture = fixture();
    for does in ["panics", "panics at once"] {
        let response = fixture.does(does).await;
        assert_eq!(response, (500, "500 internal server error\n".to_owned()));
    }
    assert_eq!(fixture.does("nothing").await.0, 200);
    let total =
        |code| format!("controller_runtime_webhook_requests_total{{code=\"{code}\",webhook=\"{PATH}\"}}");
    assert_eq!(fixture.metric(&total(500)), "2");
    assert_eq!(fixture.metric(&total(200)), "1");
    let latency = format!("controller_runtime_webhook_latency_seconds_count{{webhook=\"{PATH}\"}}");
    assert_eq!(fixture.metric(&latency), "3");
}

#[tokio::test(start_paused = true)]
async fn hanging_handler_or_body_times_out() {
    let fixture = fixture();
    let start = fixture.env.clock.now();
    let (code, text) = fixture.does("hangs").await;
    assert_eq!((code, text.as_str()), (504, "no decision within 10 s\n"));
    assert_eq!(fixture.env.clock.now() - start, REVIEW_TIMEOUT);
    let silent = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let response = fixture
        .handler
        .handle_any(CLIENT, post_any(StreamBody::new(silent)))
        .await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(fixture.env.clock.now() - start, 2 * REVIEW_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_is_not_in_flight_and_counts_as_a_timeout() {
    let fixture = fixture();
    let in_flight = format!("controller_runtime_webhook_requests_in_flight{{webhook=\"{PATH}\"}}");
    assert_eq!(fixture.metric(&in_flight), "0", "from the start");
    let gone = fixture.env.clock.timeout(SECOND, fixture.does("hangs")).await;
    assert_eq!(gone, None);
    assert_eq!(fixture.metric(&in_flight), "0");
    let timeouts = format!("controller_runtime_webhook_requests_total{{code=\"504\",webhook=\"{PATH}\"}}");
    assert_eq!(fixture.metric(&timeouts), "1");
    let latency = format!("controller_runtime_webhook_latency_seconds_sum{{webhook=\"{PATH}\"}}");
    assert_eq!(fixture.metric(&latency), "1");
    let mut hangs = std::pin::pin!(fixture.does("hangs"));
    assert_eq!(fixture.env.clock.timeout(SECOND, &mut hangs).await, None);
    assert_eq!(fixture.metric(&in_flight), "1");
}

#[tokio::test(start_paused = true)]
async fn review_waits_for_a_free_slot() {
    let fixture = fixture();
    let ask = |does: &'static str| {
        let handler = fixture.handler.clone();
        let request = async move { handler.handle_any(CLIENT, post(review(does))).await.status() };
        fixture.env.tasks.spawn(request)
    };
    let waiting: Vec<_> = (0..64).map(|_| ask("waits")).collect();
    fixture.env.clock.sleep(SECOND).await;
    let one_more = ask("nothing");
    fixture.env.clock.sleep(SECOND).await;
    assert!(!one_more.is_finished(), "all slots are in use");
    fixture.go.add_permits(1);
    assert_eq!(one_more.await.expect("no panic"), StatusCode::OK);
    fixture.go.add_permits(63);
    for it in waiting {
        assert_eq!(it.await.expect("no panic"), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn large_reviews_run_one_at_a_time_and_small_ones_beside_them() {
    let fixture = fixture();
    let ask = |does: &'static str| {
        let handler = fixture.handler.clone();
        let request = post(sized_review(does, LARGE_BYTES));
        let request = async move { handler.handle_any(CLIENT, request).await.status() };
        fixture.env.tasks.spawn(request)
    };
    let runs = fixture.handler.large.acquire().await.expect("open");
    let large = ask("nothing");
    fixture.env.clock.sleep(SECOND).await;
    assert!(!large.is_finished(), "another large review runs");
    assert_eq!(fixture.does("nothing").await.0, 200);
    drop(runs);
    assert_eq!(large.await.expect("no panic"), StatusCode::OK);
    // One that waits for something else does not run.
    let waits = ask("waits");
    fixture.env.clock.sleep(SECOND).await;
    assert_eq!(ask("nothing").await.expect("no panic"), StatusCode::OK);
    fixture.go.add_permits(1);
    assert_eq!(waits.await.expect("no panic"), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn body_in_frames_of_any_size_is_read_as_a_whole() {
    let fixture = fixture();
    for (bytes, frame) in [(100, 1), (200_000, 7), (1_000_000, 30_000), (1_000_000, 500_000)] {
        let review = sized_review("denies", bytes);
        let frames: Vec<_> = { review.chunks(frame) }
            .map(|it| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(it))))
            .collect();
        let request = post_any(StreamBody::new(stream::iter(frames)));
        let response = fixture.handler.handle_any(CLIENT, request).await;
        assert_eq!(response.status(), StatusCode::OK, "{bytes} bytes by {frame}");
        let response = body(response).await;
        assert!(response.contains("Forbidden"), "{response}");
    }
}

/// A body that stalls after `sent` bytes.
fn stalled(sent: usize) -> StreamBody<impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>>> {
    let first = Ok(Frame::data(Bytes::from(vec![b' '; sent])));
    StreamBody::new(stream::iter([first]).chain(stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_arrive_hold_no_review_slot() {
    let fixture = fixture();
    let pending: Vec<_> = (0..1000)
        .map(|number| {
            let handler = fixture.handler.clone();
            let request = async move {
                handler
                    .handle_any(CLIENT, post_any(stalled(number % 2)))
                    .await
                    .status()
            };
            fixture.env.tasks.spawn(request)
        })
        .collect();
    fixture.env.clock.sleep(SECOND).await;
    let start = fixture.env.clock.now();
    assert_eq!(fixture.does("nothing").await.0, 200);
    assert_eq!(fixture.env.clock.now(), start, "answered at once");
    for it in pending {
        assert_eq!(it.await.expect("no panic"), StatusCode::GATEWAY_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_of_bodies_are_bounded_for_all_reviews_together() {
    let fixture = fixture();
    let pending: Vec<_> = (0..MAX_BUFFERED_BYTES / MAX_BODY_BYTES)
        .map(|_| {
            let handler = fixture.handler.clone();
            let request = async move {
                handler
                    .handle_any(CLIENT, post_any(stalled(MAX_BODY_BYTES)))
                    .await
                    .status()
            };
            fixture.env.tasks.spawn(request)
        })
        .collect();
    fixture.env.clock.sleep(SECOND).await;
    assert_eq!(
        fixture.does("nothing").await,
        (503, "too many reviews in flight, try again\n".to_owned())
    );
    for it in pending {
        assert_eq!(it.await.expect("no panic"), StatusCode::GATEWAY_TIMEOUT);
    }
    assert_eq!(fixture.does("nothing").await.0, 200, "the bytes are released");
}

#[tokio::test(start_paused = true)]
async fn stalled_bodies_of_one_address_do_not_reject_those_of_others() {
    let fixture = fixture();
    let ask = |address: IpAddr, bytes: usize| {
        let handler = fixture.handler.clone();
        let request = post_any(stalled(bytes));
        fixture
            .env
            .tasks
            .spawn(async move { handler.handle_any(address, request).await.status() })
    };
    // Two addresses share the buffer, and the second one has less.
    let other = IpAddr::from([10, 0, 0, 2]);
    let bodies = MAX_BUFFERED_BYTES / MAX_BODY_BYTES;
    let few: Vec<_> = (0..bodies / 4).map(|_| ask(other, MAX_BODY_BYTES)).collect();
    let many: Vec<_> = (bodies / 4..bodies)
        .map(|_| ask(CLIENT, MAX_BODY_BYTES))
        .collect();
    fixture.env.clock.sleep(SECOND).await;
    let api_server = IpAddr::from([10, 0, 0, 3]);
    let large = Bytes::from(vec![b' '; MAX_BODY_BYTES]);
    for body in [review("nothing"), large.clone(), large] {
        let response = fixture.handler.handle_any(api_server, post(body)).await;
        assert_ne!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let served = fixture
            .handler
            .handle_any(api_server, post(review("nothing")))
            .await;
        assert_eq!(served.status(), StatusCode::OK);
    }
    fixture.env.clock.sleep(REVIEW_TIMEOUT).await;
    let mut codes = Vec::new();
    for it in many {
        codes.push(it.await.expect("no panic"));
    }
    assert_eq!(codes[0], StatusCode::SERVICE_UNAVAILABLE, "the oldest pays");
    let others = codes[1..].iter();
    assert!(
        { others }.all(|code| *code == StatusCode::GATEWAY_TIMEOUT),
        "{codes:?}"
    );
    for it in few {
        assert_eq!(it.await.expect("no panic"), StatusCode::GATEWAY_TIMEOUT);
    }
}
