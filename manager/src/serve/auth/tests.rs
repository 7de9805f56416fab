//! Access of requests under a paused clock, with a stub of the API server that counts reviews.

mod certificates;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::metrics::Registry;
use futures_util::future::join_all;
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Effect, Faults, Matcher, RecordedRequest};

use super::decision_cache::DECISIONS_MAX;
use super::review_slots::{REVIEWS_MAX, REVIEWS_PER_PEER_MAX};
use super::*;
use crate::client::{RateLimit, Transport};
use crate::env::{Env, TaskSet};
use crate::serve::{ALWAYS_ALLOW_PATHS, Access, Authorized, Peer};

const TTL: Duration = Duration::from_secs(10);
const LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 40 };

#[derive(Default)]
struct State {
    /// The users of valid tokens.
    tokens: BTreeMap<String, &'static str>,
    /// The names of users that may access `/metrics`.
    authorized: BTreeSet<&'static str>,
    token_reviews: usize,
    access_reviews: Vec<Value>,
    unreachable: bool,
    hangs: bool,
}

struct Fixture {
    env: Env,
    state: Arc<Mutex<State>>,
    access: Access,
    _tasks: TaskSet,
}

fn fixture(configure: impl FnOnce(&mut AuthenticationOptions)) -> Fixture {
    let tasks = TaskSet::new();
    let now: Timestamp = "2026-02-03T04:05:06Z".parse().expect("a time");
    let env = Env::starting_at(now, 7, &tasks);
    let state: Arc<Mutex<State>> = Arc::default();
    let (faults, reviews) = (Faults::new(), state.clone());
    let answer = move |it: &RecordedRequest| reviews.lock().expect("a lock").answer(it);
    faults.on(Matcher::any()).decide(answer);
    let sandbox = Sandbox::builder().start().expect("a sandbox");
    let stub = faults.wrap(sandbox.service());
    let transport = Transport::from_service(stub, "stub", "test", &env.clock, &Registry::new("test"));
    let client = transport
        .expect("a transport")
        .unfenced("authentication", Some(LIMIT));
    let mut options = AuthenticationOptions {
        token_ttl: TTL,
        client_ca: None,
        request_header: None,
        lookup: false,
    };
    configure(&mut options);
    let authenticator = Authenticator::start(&env, client.clone(), options).expect("valid CAs");
    let options = AuthorizationOptions {
        authorized_ttl: TTL,
        unauthorized_ttl: TTL,
    };
    let authorizer = Authorizer::new(&env, client, options);
    Fixture {
        access: Access::new(ALWAYS_ALLOW_PATHS)
            .expect("valid paths")
            .delegated(authenticator, authorizer),
        env,
        state,
        _tasks: tasks,
    }
}

impl Fixture {
    /// Returns the status code, and the user if the request is authorized.
    async fn send(&self, peer: &Peer, headers: &[(&str, &str)], path: &str) -> (u16, Option<User>) {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).expect("a request").into_parts();
        match self.access.authorize(peer, &mut parts).await {
            Ok(()) => {
                assert!(!parts.headers.contains_key("authorization"));
                let authorized = parts.extensions.get::<Authorized>();
                let user = parts.extensions.get::<User>().expect("a user");
                (200, authorized.map(|_| user.clone()))
            }
            Err(response) => {
                let code = response.status().as_u16();
                let wait = response.headers().get("retry-after").is_some();
                assert_eq!(wait, code == 429 || code == 503);
                (code, None)
            }
        }
    }

    async fn get(&self, token: &str, path: &str) -> u16 {
        self.get_from(1, token, path).await
    }

    async fn get_from(&self, peer: u8, token: &str, path: &str) -> u16 {
        let peer = Peer::at(IpAddr::V4(Ipv4Addr::new(10, 0, 0, peer)));
        let authorization = format!("Bearer {token}");
        self.send(&peer, &[("authorization", &authorization)], path)
            .await
            .0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a lock")
    }

    /// Accepts `token`, and authorizes its user if the name is not `guest`.
    fn accept(&self, token: &str, user: &'static str) {
        let mut state = self.state();
        state.tokens.insert(token.to_owned(), user);
        if user != "guest" {
            state.authorized.insert(user);
        }
    }

    fn reviews(&self) -> (usize, usize) {
        let state = self.state();
        (state.token_reviews, state.access_reviews.len())
    }
}

impl State {
    /// Returns the fault of a review, or its answer.
    fn answer(&mut self, request: &RecordedRequest) -> Effect {
        if self.hangs {
            return Effect::Hang;
        }
        if self.unreachable {
            return Effect::LoseRequest;
        }
        let review = request.json();
        let status = self.review(&request.resource, &review["spec"]);
        let body = json!({"kind": review["kind"], "status": status});
        Effect::reply(201, body.to_string())
    }

    fn review(&mut self, resource: &str, spec: &Value) -> Value {
        if resource == "tokenreviews" {
            self.token_reviews += 1;
            let user = self.tokens.get(spec["token"].as_str().expect("a token"));
            return match user {
                Some(user) => {
                    json!({"authenticated": true, "user": {"username": user, "groups": ["scrapers"]}})
                }
                None => json!({"error": "invalid token"}),
            };
        }
        self.access_reviews.push(spec.clone());
        let allowed = { self.authorized.iter() }.any(|it| spec["user"] == *it);
        json!({"allowed": allowed && spec["nonResourceAttributes"]["path"] == "/metrics"})
    }
}

#[tokio::test(start_paused = true)]
async fn token_is_reviewed_again_after_its_ttl() {
    let fixture = fixture(|_| {});
    fixture.accept("good", "prometheus");
    for _ in 0..3 {
        assert_eq!(fixture.get("good", "/metrics").await, 200);
        assert_eq!(fixture.get("bad", "/metrics").await, 401);
    }
    assert_eq!(fixture.reviews(), (2, 1));
    fixture.state().tokens.clear();
    fixture.env.clock.sleep(TTL / 2).await;
    assert_eq!(fixture.get("good", "/metrics").await, 200, "cached");
    assert_eq!(fixture.reviews(), (2, 1));
    fixture.env.clock.sleep(TTL / 2).await;
    assert_eq!(fixture.get("good", "/metrics").await, 401, "revoked");
    assert_eq!(fixture.reviews(), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn user_without_the_right_is_forbidden() {
    let fixture = fixture(|_| {});
    fixture.accept("known", "guest");
    assert_eq!(fixture.get("known", "/metrics").await, 403);
    let peer = Peer::at(Ipv4Addr::LOCALHOST.into());
    assert_eq!(
        fixture.send(&peer, &[], "/metrics").await,
        (403, None),
        "anonymous"
    );
    let users: Vec<Value> = fixture.state().access_reviews.clone();
    let path = json!({"path": "/metrics", "verb": "get"});
    assert_eq!(users[0]["nonResourceAttributes"], path);
    assert_eq!(users[0]["groups"], json!(["scrapers", "system:authenticated"]));
    assert_eq!(users[1]["user"], "system:anonymous");
    assert_eq!(users[1]["groups"], json!(["system:unauthenticated"]));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_one_review() {
    let fixture = fixture(|_| {});
    fixture.accept("good", "prometheus");
    let codes = join_all((0..200).map(|_| fixture.get("good", "/metrics"))).await;
    assert_eq!(codes, [200; 200]);
    assert_eq!(fixture.reviews(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn flood_of_random_tokens_is_bounded_and_leaves_room_for_others() {
    let fixture = fixture(|_| {});
    fixture.accept("cached", "prometheus");
    fixture.accept("new", "operator");
    assert_eq!(fixture.get("cached", "/metrics").await, 200);
    let start = fixture.env.clock.now();
    let tokens: Vec<String> = (0..3 * DECISIONS_MAX).map(|it| format!("random-{it}")).collect();
    let random = join_all(tokens.iter().map(|token| fixture.get_from(2, token, "/metrics")));
    let others = async {
        // After the flood has started.
        tokio::task::yield_now().await;
        let cached = fixture.get_from(3, "cached", "/metrics").await;
        (cached, fixture.get_from(3, "new", "/metrics").await)
    };
    let (codes, others) = tokio::join!(random, others);
    assert_eq!(others, (200, 200));
    let count = |code| codes.iter().filter(|it| **it == code).count();
    assert_eq!(count(401), REVIEWS_PER_PEER_MAX);
    assert_eq!(count(429), codes.len() - REVIEWS_PER_PEER_MAX);
    assert_eq!(fixture.reviews().0, REVIEWS_PER_PEER_MAX + 2);

    // The rate limit bounds a client that sends one token after the other.
    for token in 0..200 {
        assert_eq!(
            fixture.get_from(2, &format!("slow-{token}"), "/metrics").await,
            401
        );
    }
    let took = (fixture.env.clock.now() - start).as_secs_f64();
    assert!(took >= (200.0 - f64::from(LIMIT.burst)) / LIMIT.qps, "{took}");
    assert_eq!(fixture.get("cached", "/metrics").await, 200);
}

#[tokio::test(start_paused = true)]
async fn reviews_in_flight_are_bounded_for_all_clients_together() {
    let fixture = fixture(|_| {});
    fixture.state().hangs = true;
    let tokens: Vec<String> = (0..1000).map(|it| format!("random-{it}")).collect();
    let requests = tokens.iter().zip((0..=255).cycle());
    let codes = join_all(requests.map(|(token, peer)| fixture.get_from(peer, token, "/metrics"))).await;
    let count = |code| codes.iter().filter(|it| **it == code).count();
    assert_eq!((count(503), count(429)), (REVIEWS_MAX, 1000 - REVIEWS_MAX));
}

#[tokio::test(start_paused = true)]
async fn rejected_decisions_are_bounded_and_evict_no_accepted_one() {
    use super::decision_cache::{DecisionCache, TimesToLive};
    use super::review_slots::ReviewSlots;

    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 7, &tasks);
    let ttl = TimesToLive {
        positive: TTL,
        negative: TTL,
    };
    let cache = DecisionCache::<u8>::new(&env, ttl, Arc::new(ReviewSlots::default()));
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let decide = async |key: u64, answer| {
        let key = key.to_le_bytes();
        cache.decide(&key, peer, || async move { answer }).await
    };
    assert_eq!(decide(0, Ok(Some(7))).await, Ok(Some(7)));
    for key in 1..3 * DECISIONS_MAX as u64 {
        assert_eq!(decide(key, Ok(None)).await, Ok(None));
    }
    assert_eq!(cache.len(), DECISIONS_MAX + 1);
    assert_eq!(decide(0, Ok(None)).await, Ok(Some(7)), "kept");
    assert_eq!(decide(1, Ok(Some(8))).await, Ok(Some(8)), "evicted");
    assert_eq!(
        decide(9 << 32, Err(NoDecision::Unavailable)).await,
        Err(NoDecision::Unavailable)
    );
    assert_eq!(decide(9 << 32, Ok(None)).await, Ok(None), "a failure is not kept");
    env.clock.sleep(TTL).await;
    assert_eq!(decide(0, Ok(None)).await, Ok(None), "expired");
    assert_eq!(cache.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_fails_requests_after_the_ttl_and_no_probe() {
    let fixture = fixture(|_| {});
    fixture.accept("good", "prometheus");
    assert_eq!(fixture.get("good", "/metrics").await, 200);
    fixture.state().unreachable = true;
    assert_eq!(fixture.get("good", "/metrics").await, 200, "cached");
    fixture.env.clock.sleep(TTL).await;
    assert_eq!(fixture.get("good", "/metrics").await, 503);
    for path in ["/healthz", "/livez", "/readyz", "/readyz?verbose"] {
        assert_eq!(fixture.get("good", path).await, 200, "{path}");
    }
    fixture.state().unreachable = false;
    assert_eq!(
        fixture.get("good", "/metrics").await,
        200,
        "a failure is not cached"
    );
}

#[tokio::test(start_paused = true)]
async fn allowed_path_is_never_reviewed_unless_notes_are_requested() {
    let fixture = fixture(|_| {});
    fixture.state().hangs = true;
    let start = fixture.env.clock.now();
    assert_eq!(fixture.get("any", "/readyz").await, 200);
    assert_eq!(fixture.env.clock.now(), start);
    assert_eq!(fixture.get("any", "/readyz?verbose").await, 200);
    assert_eq!(fixture.env.clock.now() - start, Duration::from_millis(500));

    fixture.state().hangs = false;
    fixture.accept("root", "admin");
    let send = async |token: &str| {
        let peer = Peer::at(Ipv4Addr::LOCALHOST.into());
        let headers = [("authorization", token)];
        fixture.send(&peer, &headers, "/healthz?verbose").await
    };
    assert_eq!(
        send("Bearer root").await,
        (200, None),
        "not authorized for /healthz"
    );
    assert_eq!(send("Bearer none").await, (200, None));
    assert_eq!(fixture.state().access_reviews.len(), 1);
}
