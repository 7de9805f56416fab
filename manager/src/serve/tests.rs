//! Connections under the paused clock, over a pipe in memory: who is cut, and when.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use jiff::Timestamp;
use prometheus::Registry;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

use super::connection::{self, Activity, Host, Phase};
use super::slots::{MAX_CONNECTIONS, Slots};
use super::{ALWAYS_ALLOW_PATHS, Checks, Endpoints, tls};
use crate::env::{Env, TaskSet};

const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECOND: Duration = Duration::from_secs(1);

struct Bed {
    env: Env,
    host: Arc<Host<Endpoints>>,
    closing: CancellationToken,
    connector: TlsConnector,
    /// Lets `/slow` answer.
    go: Arc<Notify>,
    _tasks: TaskSet,
}

type Served = JoinHandle<()>;

fn bed() -> Bed {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let server = tls::config(vec![made.cert.der().clone()], key).expect("a pair");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("it fits");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();

    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
    let go = Arc::new(Notify::new());
    let gone = go.clone();
    let endpoints = Endpoints::new(&Checks::new(), Registry::new(), ALWAYS_ALLOW_PATHS)
        .expect("good paths")
        .mount("/slow", move |_| {
            let gone = gone.clone();
            async move {
                gone.notified().await;
                Response::new(Full::from("at last"))
            }
        })
        .mount("/large", |_| {
            std::future::ready(Response::new(Full::new(Bytes::from(vec![b'x'; 8 << 20]))))
        });
    let host = Arc::new(Host {
        env: env.clone(),
        acceptor: TlsAcceptor::from(server.0),
        site: endpoints,
    });
    Bed {
        env,
        host,
        closing: CancellationToken::new(),
        connector: TlsConnector::from(Arc::new(client)),
        go,
        _tasks: tasks,
    }
}

impl Bed {
    fn raw(&self, peer: IpAddr) -> (DuplexStream, Served) {
        let (client, pipe) = tokio::io::duplex(64 * 1024);
        let (served, _) = self.serve(pipe, peer);
        (client, served)
    }

    fn serve(&self, pipe: DuplexStream, peer: IpAddr) -> (Served, Arc<Activity>) {
        let activity = Arc::new(Activity::new(&self.env.clock));
        let (host, of_connection, closing) = (self.host.clone(), activity.clone(), self.closing.clone());
        let served = self.env.tasks.spawn(async move {
            // How a connection ends is the client's business here; when, is the test's.
            let _ = connection::serve(host, pipe, peer, of_connection, closing).await;
        });
        (served, activity)
    }

    async fn connect(&self, peer: IpAddr) -> (TlsStream<DuplexStream>, Served) {
        let (client, served) = self.raw(peer);
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = self.connector.connect(name, client).await;
        (stream.expect("a handshake"), served)
    }

    /// How long it takes until the server has let go.
    async fn ends_after(&self, served: Served) -> Duration {
        let before = self.env.clock.now();
        served.await.expect("no panic");
        self.env.clock.now() - before
    }
}

async fn ask(stream: &mut TlsStream<DuplexStream>, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is open");
    stream.flush().await.expect("it is open");
}

/// What there is to read until `end` has come.
async fn read_to(stream: &mut TlsStream<DuplexStream>, end: &str) -> String {
    let mut read = String::new();
    while !read.ends_with(end) {
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer).await.expect("it is open");
        assert!(count > 0, "closed after {read:?}");
        read.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    read
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_handshake_is_cut_after_ten_seconds() {
    let bed = bed();
    let (_client, served) = bed.raw(STRANGER);
    assert_eq!(bed.ends_after(served).await, 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_request_is_cut_after_ten_seconds() {
    let bed = bed();
    let (_client, served) = bed.connect(STRANGER).await;
    assert_eq!(bed.ends_after(served).await, 10 * SECOND);
}

/// Also by HTTP/2, where the connection lives without a request.
#[tokio::test(start_paused = true)]
async fn a_preface_is_no_request() {
    let bed = bed();
    let (mut client, served) = bed.connect(STRANGER).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    client.write_all(preface).await.expect("it is open");
    client.flush().await.expect("it is open");
    let took = bed.ends_after(served).await;
    // It is told to go, and given the time to.
    assert!(took >= 10 * SECOND && took <= 12 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_its_headers_slowly_is_cut() {
    let bed = bed();
    let (mut client, served) = bed.connect(STRANGER).await;
    let clock = bed.env.clock.clone();
    let drip = bed.env.tasks.spawn(async move {
        let bytes = "GET /healthz HTTP/1.1\r\nX: "
            .bytes()
            .chain(std::iter::repeat(b'x'));
        for byte in bytes {
            client.write_u8(byte).await?;
            client.flush().await?;
            clock.sleep(SECOND / 10).await;
        }
        Ok::<_, std::io::Error>(())
    });
    // hyper takes half a head for a request under way, which has two seconds more.
    assert_eq!(bed.ends_after(served).await, 12 * SECOND);
    assert!(drip.await.expect("no panic").is_err(), "it is told");
}

#[tokio::test(start_paused = true)]
async fn a_served_client_is_kept_for_two_minutes_after_each_answer() {
    let bed = bed();
    let (mut client, served) = bed.connect(STRANGER).await;
    for _ in 0..3 {
        ask(&mut client, "/healthz").await;
        read_to(&mut client, "\r\n\r\nok").await;
        bed.env.clock.sleep(119 * SECOND).await;
    }
    ask(&mut client, "/healthz").await;
    read_to(&mut client, "\r\n\r\nok").await;
    // The beginning of a request is none.
    client
        .write_all(b"GET /healthz HTTP/1.1\r\nX: x")
        .await
        .expect("it is open");
    client.flush().await.expect("it is open");
    assert_eq!(bed.ends_after(served).await, 120 * SECOND);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("a proper end");
    assert!(rest.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let bed = bed();
    let (mut client, served) = bed.connect(HERE).await;
    ask(&mut client, "/large").await;
    assert_eq!(bed.ends_after(served).await, 122 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_take_its_time() {
    let bed = bed();
    let (mut client, served) = bed.connect(HERE).await;
    ask(&mut client, "/slow").await;
    bed.env.clock.sleep(600 * SECOND).await;
    bed.go.notify_one();
    read_to(&mut client, "at last").await;
    assert_eq!(bed.ends_after(served).await, 120 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn phase_of_a_connection_follows_its_requests() {
    let bed = bed();
    let (client, pipe) = tokio::io::duplex(64 * 1024);
    let (_served, activity) = bed.serve(pipe, HERE);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = bed.connector.connect(name, client).await.expect("a handshake");
    client
        .write_all(b"GET /slow HTTP/1.1\r\nX: x")
        .await
        .expect("it is open");
    client.flush().await.expect("it is open");
    bed.env.clock.sleep(SECOND).await;
    assert_eq!(activity.phase(), Phase::Silent, "half a head is not a request");
    client.write_all(b"\r\n\r\n").await.expect("it is open");
    client.flush().await.expect("it is open");
    bed.env.clock.sleep(SECOND).await;
    assert_eq!(activity.phase(), Phase::Busy);
    bed.go.notify_one();
    read_to(&mut client, "at last").await;
    assert_eq!(activity.phase(), Phase::Idle);
}

/// Connections that only have a phase.
struct Held {
    env: Env,
    slots: Slots,
    tasks: Vec<(IpAddr, Served)>,
    _tasks: TaskSet,
}

impl Held {
    fn new() -> Self {
        let tasks = TaskSet::new();
        Self {
            env: Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks),
            slots: Slots::default(),
            tasks: Vec::new(),
            _tasks: tasks,
        }
    }

    fn add(&mut self, peer: IpAddr, phase: Phase) {
        let activity = Arc::new(Activity::new(&self.env.clock));
        activity.set_phase(phase);
        let task = self.env.tasks.spawn(std::future::pending());
        self.slots.add(peer, activity, task.abort_handle());
        self.tasks.push((peer, task));
    }

    /// The connections that were closed, by their order of arrival.
    async fn closed(&self) -> Vec<usize> {
        self.env.clock.sleep(SECOND).await;
        let closed = self.tasks.iter().enumerate().filter(|(_, it)| it.1.is_finished());
        closed.map(|(index, _)| index).collect()
    }
}

fn peer(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

#[tokio::test(start_paused = true)]
async fn full_server_closes_silent_before_idle_before_busy_connections() {
    let mut held = Held::new();
    for phase in [Phase::Busy, Phase::Idle, Phase::Silent, Phase::Silent] {
        held.add(HERE, phase);
    }
    for _ in 4..MAX_CONNECTIONS {
        held.add(HERE, Phase::Busy);
    }
    assert_eq!(held.closed().await, [0; 0]);
    for expected in [&[2][..], &[2, 3], &[1, 2, 3], &[0, 1, 2, 3]] {
        held.add(HERE, Phase::Busy);
        assert_eq!(held.closed().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn full_server_closes_connections_of_the_peer_with_the_most() {
    let mut held = Held::new();
    held.add(peer(1), Phase::Silent);
    held.add(peer(2), Phase::Silent);
    held.add(peer(2), Phase::Idle);
    for _ in 3..MAX_CONNECTIONS {
        held.add(peer(3), Phase::Busy);
    }
    for _ in 0..1000 {
        held.add(peer(3), Phase::Busy);
    }
    held.add(peer(4), Phase::Silent);
    let closed = held.closed().await;
    assert_eq!(closed.len(), 1001);
    assert!(closed.iter().all(|it| held.tasks[*it].0 == peer(3)));
}

#[tokio::test(start_paused = true)]
async fn full_server_of_single_connections_closes_the_oldest_silent_one() {
    let mut held = Held::new();
    for last in 0..=255 {
        held.add(
            peer(last),
            if last == 7 || last == 9 {
                Phase::Silent
            } else {
                Phase::Busy
            },
        );
    }
    held.add(HERE, Phase::Silent);
    assert_eq!(held.closed().await, [7]);
}

#[tokio::test(start_paused = true)]
async fn ended_connections_give_their_slots_back() {
    let mut held = Held::new();
    for _ in 0..MAX_CONNECTIONS {
        held.add(HERE, Phase::Busy);
    }
    held.tasks[5].1.abort();
    assert_eq!(held.closed().await, [5]);
    held.add(HERE, Phase::Silent);
    assert_eq!(held.closed().await, [5], "none was closed");
}

#[tokio::test(start_paused = true)]
async fn a_house_that_closes_waits_for_requests_and_for_nothing_else() {
    let bed = bed();
    let (mut busy, busy_served) = bed.connect(HERE).await;
    ask(&mut busy, "/slow").await;
    let (_silent, silent_served) = bed.connect(HERE).await;
    let (_raw, raw_served) = bed.raw(HERE);
    bed.env.clock.sleep(SECOND).await;

    bed.closing.cancel();
    assert_eq!(bed.ends_after(silent_served).await, Duration::ZERO);
    assert_eq!(bed.ends_after(raw_served).await, Duration::ZERO);
    bed.env.clock.sleep(SECOND).await;
    bed.go.notify_one();
    read_to(&mut busy, "at last").await;
    assert_eq!(bed.ends_after(busy_served).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_house_that_closes_does_not_wait_for_ever() {
    let bed = bed();
    let (mut busy, served) = bed.connect(HERE).await;
    ask(&mut busy, "/slow").await;
    bed.env.clock.sleep(SECOND).await;
    bed.closing.cancel();
    assert_eq!(bed.ends_after(served).await, 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_gets_health_and_is_refused_the_rest() {
    let bed = bed();
    let (mut client, _served) = bed.connect(STRANGER).await;
    for path in ["/metrics", "/healthz/ping", "/nowhere", "//healthz", "/%68ealthz"] {
        ask(&mut client, path).await;
        let answer = read_to(&mut client, "}").await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
        let status: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["reason"], "Forbidden");
        assert_eq!(status["code"], 403);
        let message = format!("forbidden: User \"system:anonymous\" cannot get path {path:?}");
        assert_eq!(status["message"], message);
    }
    ask(&mut client, "/healthz?verbose").await;
    let answer = read_to(&mut client, "healthz check passed\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}
