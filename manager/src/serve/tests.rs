//! Timeouts and slots of connections, under a paused clock and over in-memory pipes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::Registry;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

use super::connection::{self, Activity, Phase, ServerContext};
use super::slots::{MAX_CONNECTIONS, Slots};
use super::{ALWAYS_ALLOW_PATHS, Access, Endpoints, Tls};
use crate::env::{Env, TaskSet};
use crate::health::Checks;

const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    env: Env,
    context: Arc<ServerContext<Endpoints>>,
    closing: CancellationToken,
    connector: TlsConnector,
    /// Releases `/slow`.
    go: Arc<Notify>,
    _tasks: TaskSet,
}

type Served = JoinHandle<()>;
type Http2Client = http2::SendRequest<Empty<Bytes>>;

fn fixture() -> Fixture {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der()));
    let provider = rustls::crypto::ring::default_provider();
    let pair = CertifiedKey::from_der(vec![issued.cert.der().clone()], key, &provider).expect("a pair");
    let server = Tls::resolving(Arc::new(SingleCertAndKey::from(pair)), None).expect("a configuration");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(issued.cert.der().clone()).expect("a root");
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
    let access = Access::new(ALWAYS_ALLOW_PATHS)
        .expect("valid paths")
        .allow_loopback();
    let endpoints = Endpoints::new(&Checks::new(), Registry::new("test"), access, &env.clock)
        .expect("metrics")
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
    let context = Arc::new(ServerContext {
        env: env.clone(),
        acceptor: TlsAcceptor::from(server.0),
        handler: endpoints,
    });
    Fixture {
        env,
        context,
        closing: CancellationToken::new(),
        connector: TlsConnector::from(Arc::new(client)),
        go,
        _tasks: tasks,
    }
}

impl Fixture {
    fn raw(&self, peer: IpAddr) -> (DuplexStream, Served) {
        let (client, pipe) = tokio::io::duplex(64 * 1024);
        let (served, _) = self.serve(pipe, peer);
        (client, served)
    }

    fn serve(&self, pipe: DuplexStream, peer: IpAddr) -> (Served, Arc<Activity>) {
        let activity = Arc::new(Activity::new(&self.env.clock));
        let (context, of_connection, closing) =
            (self.context.clone(), activity.clone(), self.closing.clone());
        let served = self.env.tasks.spawn(async move {
            // The tests assert when a connection ends, not how.
            let _ = connection::serve(context, pipe, peer, of_connection, closing).await;
        });
        (served, activity)
    }

    async fn connect(&self, peer: IpAddr) -> (TlsStream<DuplexStream>, Served) {
        let (client, served) = self.raw(peer);
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = self.connector.connect(name, client).await;
        (stream.expect("a handshake"), served)
    }

    /// Connects with HTTP/2.
    async fn http2(&self, builder: &http2::Builder<TokioExecutor>) -> (Http2Client, Served) {
        let (client, served) = self.connect(LOCAL).await;
        let handshake = builder.handshake(TokioIo::new(client)).await;
        let (sender, connection) = handshake.expect("a handshake");
        self.env.tasks.spawn(connection);
        (sender, served)
    }

    /// Returns the time until the server closes the connection.
    async fn ends_after(&self, served: Served) -> Duration {
        let before = self.env.clock.now();
        served.await.expect("no panic");
        self.env.clock.now() - before
    }
}

async fn get(stream: &mut TlsStream<DuplexStream>, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("an open connection");
    stream.flush().await.expect("an open connection");
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    let uri = format!("https://localhost{path}");
    Request::get(uri).body(Empty::new()).expect("a request")
}

/// Reads until the text ends with `end`.
async fn read_to(stream: &mut TlsStream<DuplexStream>, end: &str) -> String {
    let mut read = String::new();
    while !read.ends_with(end) {
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer).await.expect("an open connection");
        assert!(count > 0, "closed after {read:?}");
        read.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    read
}

#[tokio::test(start_paused = true)]
async fn client_without_handshake_is_closed_after_ten_seconds() {
    let fixture = fixture();
    let (_client, served) = fixture.raw(REMOTE);
    assert_eq!(fixture.ends_after(served).await, 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn client_without_request_is_closed_after_ten_seconds() {
    let fixture = fixture();
    let (_client, served) = fixture.connect(REMOTE).await;
    assert_eq!(fixture.ends_after(served).await, 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn http2_preface_is_not_a_request() {
    let fixture = fixture();
    let (mut client, served) = fixture.connect(REMOTE).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    client.write_all(preface).await.expect("an open connection");
    client.flush().await.expect("an open connection");
    let took = fixture.ends_after(served).await;
    // GOAWAY is sent, and the client has two seconds to close.
    assert!(took >= 10 * SECOND && took <= 12 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn client_with_slow_headers_is_closed() {
    let fixture = fixture();
    let (mut client, served) = fixture.connect(REMOTE).await;
    let clock = fixture.env.clock.clone();
    let drip = fixture.env.tasks.spawn(async move {
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
    // hyper treats half a head as a request in flight, which is drained for two seconds.
    assert_eq!(fixture.ends_after(served).await, 12 * SECOND);
    assert!(drip.await.expect("no panic").is_err(), "the client notices");
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed_two_minutes_after_the_last_response() {
    let fixture = fixture();
    let (mut client, served) = fixture.connect(REMOTE).await;
    for _ in 0..3 {
        get(&mut client, "/healthz").await;
        read_to(&mut client, "\r\n\r\nok").await;
        fixture.env.clock.sleep(119 * SECOND).await;
    }
    get(&mut client, "/healthz").await;
    read_to(&mut client, "\r\n\r\nok").await;
    // An incomplete head is not a request.
    client
        .write_all(b"GET /healthz HTTP/1.1\r\nX: x")
        .await
        .expect("an open connection");
    client.flush().await.expect("an open connection");
    assert_eq!(fixture.ends_after(served).await, 120 * SECOND);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("a proper end");
    assert!(rest.is_empty());
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_its_response_is_closed() {
    let fixture = fixture();
    let (mut client, served) = fixture.connect(LOCAL).await;
    get(&mut client, "/large").await;
    assert_eq!(fixture.ends_after(served).await, 122 * SECOND);
}

/// Other requests do not delay the end.
#[tokio::test(start_paused = true)]
async fn http2_client_that_does_not_read_its_response_is_closed() {
    let fixture = fixture();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let (mut sender, served) = fixture.http2(builder.initial_stream_window_size(0)).await;
    let unread = sender.send_request(request("/large")).await;
    assert_eq!(unread.as_ref().expect("a response").status(), 200);
    let clock = fixture.env.clock.clone();
    let others = fixture.env.tasks.spawn(async move {
        let mut responses = Vec::new();
        while let Ok(response) = sender.send_request(request("/healthz")).await {
            responses.push(response);
            clock.sleep(7 * SECOND).await;
        }
        responses.len()
    });
    assert_eq!(fixture.ends_after(served).await, 32 * SECOND);
    assert_eq!(others.await.expect("no panic"), 5);
}

#[tokio::test(start_paused = true)]
async fn http2_connection_has_32_requests_at_the_same_time() {
    let fixture = fixture();
    let builder = http2::Builder::new(TokioExecutor::new());
    let (mut sender, _served) = fixture.http2(&builder).await;
    // Before the first response the client does not know the limit.
    let first = sender.send_request(request("/healthz")).await;
    assert_eq!(first.expect("a response").status(), 200);
    let sent: Vec<_> = (0..40)
        .map(|_| fixture.env.tasks.spawn(sender.send_request(request("/slow"))))
        .collect();
    for expected in [32, 40] {
        // The paused clock advances when no task can run.
        fixture.env.clock.sleep(SECOND).await;
        fixture.go.notify_waiters();
        fixture.env.clock.sleep(SECOND).await;
        let ended = sent.iter().filter(|it| it.is_finished()).count();
        assert_eq!(ended, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_handler_does_not_time_out() {
    let fixture = fixture();
    let (mut client, served) = fixture.connect(LOCAL).await;
    get(&mut client, "/slow").await;
    fixture.env.clock.sleep(600 * SECOND).await;
    fixture.go.notify_one();
    read_to(&mut client, "at last").await;
    assert_eq!(fixture.ends_after(served).await, 120 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn phase_of_a_connection_follows_its_requests() {
    let fixture = fixture();
    let (client, pipe) = tokio::io::duplex(64 * 1024);
    let (_served, activity) = fixture.serve(pipe, LOCAL);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = fixture
        .connector
        .connect(name, client)
        .await
        .expect("a handshake");
    client
        .write_all(b"GET /slow HTTP/1.1\r\nX: x")
        .await
        .expect("an open connection");
    client.flush().await.expect("an open connection");
    fixture.env.clock.sleep(SECOND).await;
    assert_eq!(activity.phase(), Phase::Silent, "half a head is not a request");
    client.write_all(b"\r\n\r\n").await.expect("an open connection");
    client.flush().await.expect("an open connection");
    fixture.env.clock.sleep(SECOND).await;
    assert_eq!(activity.phase(), Phase::Busy);
    fixture.go.notify_one();
    read_to(&mut client, "at last").await;
    assert_eq!(activity.phase(), Phase::Idle);
}

/// Connections without a client, each in a given phase.
struct Connections {
    env: Env,
    slots: Slots,
    tasks: Vec<(IpAddr, Served)>,
    _tasks: TaskSet,
}

impl Connections {
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
    let mut connections = Connections::new();
    for phase in [Phase::Busy, Phase::Idle, Phase::Silent, Phase::Silent] {
        connections.add(LOCAL, phase);
    }
    for _ in 4..MAX_CONNECTIONS {
        connections.add(LOCAL, Phase::Busy);
    }
    assert_eq!(connections.closed().await, [0; 0]);
    for expected in [&[2][..], &[2, 3], &[1, 2, 3], &[0, 1, 2, 3]] {
        connections.add(LOCAL, Phase::Busy);
        assert_eq!(connections.closed().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn full_server_closes_connections_of_the_peer_with_the_most() {
    let mut connections = Connections::new();
    connections.add(peer(1), Phase::Silent);
    connections.add(peer(2), Phase::Silent);
    connections.add(peer(2), Phase::Idle);
    for _ in 3..MAX_CONNECTIONS {
        connections.add(peer(3), Phase::Busy);
    }
    for _ in 0..1000 {
        connections.add(peer(3), Phase::Busy);
    }
    connections.add(peer(4), Phase::Silent);
    let closed = connections.closed().await;
    assert_eq!(closed.len(), 1001);
    assert!(closed.iter().all(|it| connections.tasks[*it].0 == peer(3)));
}

#[tokio::test(start_paused = true)]
async fn full_server_of_single_connections_closes_the_oldest_silent_one() {
    let mut connections = Connections::new();
    for last in 0..=255 {
        connections.add(
            peer(last),
            if last == 7 || last == 9 {
                Phase::Silent
            } else {
                Phase::Busy
            },
        );
    }
    connections.add(LOCAL, Phase::Silent);
    assert_eq!(connections.closed().await, [7]);
}

#[tokio::test(start_paused = true)]
async fn ended_connections_give_their_slots_back() {
    let mut connections = Connections::new();
    for _ in 0..MAX_CONNECTIONS {
        connections.add(LOCAL, Phase::Busy);
    }
    connections.tasks[5].1.abort();
    assert_eq!(connections.closed().await, [5]);
    connections.add(LOCAL, Phase::Silent);
    assert_eq!(connections.closed().await, [5], "no other is closed");
}

#[tokio::test(start_paused = true)]
async fn closing_server_drains_in_flight_requests_only() {
    let fixture = fixture();
    let (mut busy, busy_served) = fixture.connect(LOCAL).await;
    get(&mut busy, "/slow").await;
    let (_silent, silent_served) = fixture.connect(LOCAL).await;
    let (_raw, raw_served) = fixture.raw(LOCAL);
    fixture.env.clock.sleep(SECOND).await;

    fixture.closing.cancel();
    assert_eq!(fixture.ends_after(silent_served).await, Duration::ZERO);
    assert_eq!(fixture.ends_after(raw_served).await, Duration::ZERO);
    fixture.env.clock.sleep(SECOND).await;
    fixture.go.notify_one();
    read_to(&mut busy, "at last").await;
    assert_eq!(fixture.ends_after(busy_served).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn closing_server_drains_for_at_most_two_seconds() {
    let fixture = fixture();
    let (mut busy, served) = fixture.connect(LOCAL).await;
    get(&mut busy, "/slow").await;
    fixture.env.clock.sleep(SECOND).await;
    fixture.closing.cancel();
    assert_eq!(fixture.ends_after(served).await, 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn remote_client_may_access_health_only() {
    let fixture = fixture();
    let (mut client, _served) = fixture.connect(REMOTE).await;
    for path in ["/metrics", "/healthz/ping", "/nowhere", "//healthz", "/%68ealthz"] {
        get(&mut client, path).await;
        let response = read_to(&mut client, "}").await;
        assert!(response.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{response}");
        let (head, body) = response.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
        let status: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["reason"], "Forbidden");
        assert_eq!(status["code"], 403);
        let message = format!("forbidden: User \"system:anonymous\" cannot get path {path:?}");
        assert_eq!(status["message"], message);
    }
    get(&mut client, "/healthz?verbose").await;
    let response = read_to(&mut client, "healthz check passed\n").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
}
