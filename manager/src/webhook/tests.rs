//! Reviews under the paused clock, without a socket: what is refused, what panics, what hangs.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{Method, Request, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, StreamBody};
use jiff::Timestamp;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::hooks::{Denial, Hooks, validating_path};
use super::metrics::Requests;
use super::site::{DEADLINE, MAX_BODY, MAX_BUFFERED, Reviews};
use crate::env::{Env, TaskSet};
use crate::object::Resource;
use crate::serve::HttpResponse;

const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");
const PATH: &str = "/validate-harbour-example-v1-boat";
const SECOND: Duration = Duration::from_secs(1);

struct Bed {
    env: Env,
    registry: Registry,
    reviews: Arc<Reviews>,
    /// Lets those go who wait.
    go: Arc<Semaphore>,
    _tasks: TaskSet,
}

/// A server whose hook does as the object says.
fn bed() -> Bed {
    assert_eq!(validating_path(&BOATS), PATH);
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
    let registry = Registry::new();
    let go = Arc::new(Semaphore::new(0));
    let gate = go.clone();
    let hooks = Hooks::new().validating(&BOATS, move |request| {
        let gate = gate.clone();
        let does = request.object["does"].as_str().unwrap_or_default().to_owned();
        assert!(does != "panics at once", "for the test");
        async move {
            match does.as_str() {
                "panics" => panic!("for the test"),
                "hangs" => std::future::pending().await,
                "waits" => gate.acquire().await.expect("open").forget(),
                "refuses" => return Err(Denial::forbidden("no")),
                _ => {}
            }
            Ok(vec![])
        }
    });
    let metrics = Requests::register(&registry).expect("fresh metrics");
    Bed {
        reviews: Arc::new(Reviews::new(hooks, metrics, env.clock.clone())),
        env,
        registry,
        go,
        _tasks: tasks,
    }
}

fn review(does: &str) -> Bytes {
    let request = json!({"uid": "7", "operation": "CREATE", "object": {"does": does}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into()
}

fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(PATH).header(CONTENT_TYPE, "application/json");
    request.body(Full::new(body.into())).expect("a request")
}

async fn body(answer: HttpResponse) -> String {
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

impl Bed {
    async fn ask(&self, request: Request<Full<Bytes>>) -> (u16, String) {
        let answer = self.reviews.answer_any(request).await;
        (answer.status().as_u16(), body(answer).await)
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
async fn a_verdict_is_200_whichever_it_is() {
    let bed = bed();
    let (code, answer) = bed.does("nothing").await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
    let (code, answer) = bed.does("refuses").await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(false)));
    assert_eq!(answer["response"]["uid"], "7");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_review_is_refused_in_words() {
    let bed = bed();
    let beta = String::from_utf8(review("nothing").to_vec()).expect("text");
    let beta = beta.replace("k8s.io/v1", "k8s.io/v1beta1");
    for (sent, words) in [
        ("hunter2".to_owned(), "the body is not JSON"),
        (String::new(), "the body is empty"),
        (
            "{}".to_owned(),
            "the body is not an AdmissionReview of admission.k8s.io/v1",
        ),
        (beta, "the body is not an AdmissionReview of admission.k8s.io/v1"),
    ] {
        let (code, text) = bed.ask(post(sent.clone())).await;
        assert_eq!(code, 400, "{sent}");
        assert!(text.starts_with(words) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_sent_as_a_review_is_refused_unread() {
    let bed = bed();
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
        (post(vec![b'x'; MAX_BODY + 1]), 413),
        (post(vec![b'x'; MAX_BODY]), 400),
    ] {
        let answer = bed.reviews.answer_any(request).await;
        assert_eq!(answer.status().as_u16(), code);
        assert_eq!(answer.headers().get(CONNECTION).expect("a header"), "close");
        if code == 405 {
            assert_eq!(answer.headers()[ALLOW], "POST");
        }
    }
    let mut odd = post(review("nothing"));
    let json = "Application/JSON; charset=utf-8".parse().expect("a type");
    odd.headers_mut().insert(CONTENT_TYPE, json);
    *odd.version_mut() = Version::HTTP_2;
    let answer = bed.reviews.answer_any(odd).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(answer.headers().get(CONNECTION).is_none());
}

/// A body that nobody reads, of a size that is known.
struct Unread(u64);

impl Body for Unread {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("it is read");
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
async fn a_body_that_says_that_it_is_too_large_is_not_read() {
    let bed = bed();
    let answer = bed
        .reviews
        .answer_any(post_any(Unread(MAX_BODY as u64 + 1)))
        .await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_say_its_size_is_not_read_for_ever() {
    let bed = bed();
    let (mut read, chunk) = (0, Bytes::from(vec![b' '; 64 * 1024]));
    let endless = stream::repeat_with(|| {
        read += chunk.len();
        Ok::<_, Infallible>(Frame::data(chunk.clone()))
    });
    let answer = bed.reviews.answer_any(post_any(StreamBody::new(endless))).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(read <= MAX_BODY + chunk.len(), "{read}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_review_and_no_other() {
    let bed = bed();
    for does in ["panics", "panics at once"] {
        let answer = bed.does(does).await;
        assert_eq!(answer, (500, "500 internal server error\n".to_owned()));
    }
    assert_eq!(bed.does("nothing").await.0, 200);
    let total =
        |code| format!("controller_runtime_webhook_requests_total{{code=\"{code}\",webhook=\"{PATH}\"}}");
    assert_eq!(bed.metric(&total(500)), "2");
    assert_eq!(bed.metric(&total(200)), "1");
    let latency = format!("controller_runtime_webhook_latency_seconds_count{{webhook=\"{PATH}\"}}");
    assert_eq!(bed.metric(&latency), "3");
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_given_up() {
    let bed = bed();
    let start = bed.env.clock.now();
    let (code, text) = bed.does("hangs").await;
    assert_eq!((code, text.as_str()), (504, "no answer within 10 s\n"));
    assert_eq!(bed.env.clock.now() - start, DEADLINE);
    let silent = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let answer = bed.reviews.answer_any(post_any(StreamBody::new(silent))).await;
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(bed.env.clock.now() - start, 2 * DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_is_no_longer_in_flight() {
    let bed = bed();
    let in_flight = format!("controller_runtime_webhook_requests_in_flight{{webhook=\"{PATH}\"}}");
    assert_eq!(bed.metric(&in_flight), "0", "from the start");
    let gone = bed.env.clock.timeout(SECOND, bed.does("hangs")).await;
    assert_eq!(gone, None);
    assert_eq!(bed.metric(&in_flight), "0");
    let mut hangs = std::pin::pin!(bed.does("hangs"));
    assert_eq!(bed.env.clock.timeout(SECOND, &mut hangs).await, None);
    assert_eq!(bed.metric(&in_flight), "1");
}

#[tokio::test(start_paused = true)]
async fn those_who_find_no_place_wait_for_one() {
    let bed = bed();
    let ask = |does: &'static str| {
        let reviews = bed.reviews.clone();
        let asked = async move { reviews.answer_any(post(review(does))).await.status() };
        bed.env.tasks.spawn(asked)
    };
    let waiting: Vec<_> = (0..64).map(|_| ask("waits")).collect();
    bed.env.clock.sleep(SECOND).await;
    let one_more = ask("nothing");
    bed.env.clock.sleep(SECOND).await;
    assert!(!one_more.is_finished(), "every place is taken");
    bed.go.add_permits(1);
    assert_eq!(one_more.await.expect("no panic"), StatusCode::OK);
    bed.go.add_permits(63);
    for it in waiting {
        assert_eq!(it.await.expect("no panic"), StatusCode::OK);
    }
}

/// A body of which `sent` bytes arrive, and no more.
fn stalled(sent: usize) -> StreamBody<impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>>> {
    let first = Ok(Frame::data(Bytes::from(vec![b' '; sent])));
    StreamBody::new(stream::iter([first]).chain(stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_arrive_hold_no_review_slot() {
    let bed = bed();
    let pending: Vec<_> = (0..1000)
        .map(|number| {
            let reviews = bed.reviews.clone();
            let asked = async move { reviews.answer_any(post_any(stalled(number % 2))).await.status() };
            bed.env.tasks.spawn(asked)
        })
        .collect();
    bed.env.clock.sleep(SECOND).await;
    let start = bed.env.clock.now();
    assert_eq!(bed.does("nothing").await.0, 200);
    assert_eq!(bed.env.clock.now(), start, "answered at once");
    for it in pending {
        assert_eq!(it.await.expect("no panic"), StatusCode::GATEWAY_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_of_bodies_are_bounded_for_all_reviews_together() {
    let bed = bed();
    let pending: Vec<_> = (0..MAX_BUFFERED / MAX_BODY)
        .map(|_| {
            let reviews = bed.reviews.clone();
            let asked = async move { reviews.answer_any(post_any(stalled(MAX_BODY))).await.status() };
            bed.env.tasks.spawn(asked)
        })
        .collect();
    bed.env.clock.sleep(SECOND).await;
    assert_eq!(
        bed.does("nothing").await,
        (503, "too many reviews are being read, try again\n".to_owned())
    );
    for it in pending {
        assert_eq!(it.await.expect("no panic"), StatusCode::GATEWAY_TIMEOUT);
    }
    assert_eq!(bed.does("nothing").await.0, 200, "the bytes are given back");
}
