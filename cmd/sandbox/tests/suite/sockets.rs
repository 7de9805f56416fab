//! Connections: silent and idle clients, and a server without free connection slots.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use steersman_sandbox::{Sandbox, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The limit for closing a connection, which takes ten seconds. It is below the idle timeout.
const CLOSE_MAX: Duration = Duration::from_mins(2);
/// Number of connection slots of the server.
const SLOTS: usize = 1024;

/// A running server and its TLS client.
struct Fixture {
    address: String,
    tls: TlsConnector,
    token: String,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server belongs to the test's runtime, which ends it"
)]
async fn start() -> Fixture {
    let server = Server::bind("127.0.0.1:0".parse().expect("an address"))
        .await
        .expect("a port");
    let address = server.url().trim_start_matches("https://").to_owned();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(server.credentials().ca_pem.as_bytes()).expect("a certificate"))
        .expect("it fits");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let token = server.credentials().token.clone();
    let (stop, stopped) = oneshot::channel();
    let service = Sandbox::builder().start().expect("a sandbox").service();
    let task = tokio::task::spawn(server.serve(service, async {
        let _ = stopped.await;
    }));
    let tls = TlsConnector::from(Arc::new(config));
    Fixture {
        address,
        tls,
        token,
        stop,
        task,
    }
}

impl Fixture {
    async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_with(&self.tls).await
    }

    async fn connect_with(&self, tls: &TlsConnector) -> TlsStream<TcpStream> {
        let socket = TcpStream::connect(&self.address).await.expect("a connection");
        let name = ServerName::try_from("localhost").expect("a name");
        tls.connect(name, socket).await.expect("a handshake")
    }
}

#[expect(clippy::disallowed_methods, reason = "a real socket has no paused clock")]
async fn within(limit: Duration, future: impl Future) -> bool {
    tokio::time::timeout(limit, future).await.is_ok()
}

/// A connection without a request occupies a connection slot.
#[tokio::test]
async fn silent_connection_is_closed() {
    let fixture = start().await;
    let mut stream = fixture.connect().await;
    let ended = within(CLOSE_MAX, stream.read_to_end(&mut Vec::new())).await;
    assert!(ended, "the connection is open");
}

/// The connections are idle after a request. A server that waits for a free slot would not stop in time.
#[tokio::test]
async fn server_stops_while_every_slot_is_taken() {
    let fixture = start().await;
    let mut held = Vec::new();
    for _ in 0..SLOTS {
        let mut stream = fixture.connect().await;
        get_version(&mut stream, &fixture.token).await;
        held.push(stream);
    }
    let waiting = TcpStream::connect(&fixture.address).await.expect("a connection");
    fixture.stop.send(()).expect("it serves");
    assert!(within(CLOSE_MAX, fixture.task).await, "the server does not stop");
    drop((held, waiting));
}

/// Sends a request, and reads the response up to its end.
async fn get_version(stream: &mut TlsStream<TcpStream>, token: &str) {
    let request =
        format!("GET /version HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") && !answer.ends_with(b"}\n") {
        let read = stream.read_buf(&mut answer).await.expect("an answer");
        assert_ne!(read, 0, "the response ended early");
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

#[tokio::test]
async fn connection_with_incomplete_request_is_closed() {
    let fixture = start().await;
    for protocol in ["http/1.1", "h2"] {
        let mut config = (**fixture.tls.config()).clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let mut stream = fixture.connect_with(&TlsConnector::from(Arc::new(config))).await;
        stream.write_all(b"P").await.expect("it listens");
        stream.flush().await.expect("it listens");
        // The server may send an error first.
        let ended = within(CLOSE_MAX, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended, "{protocol}: the connection is open");
    }
}

/// A client that sends the whole body before it reads receives the error.
#[tokio::test]
async fn oversized_body_is_drained_and_rejected() {
    const SIZE: usize = 16 * 1024 * 1024;
    let fixture = start().await;
    let mut stream = fixture.connect().await;
    let token = &fixture.token;
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {SIZE}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
        .write_all(&vec![b'x'; SIZE])
        .await
        .expect("all of it is taken");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

/// A closed idle connection would leave the client with a request of unknown outcome.
#[tokio::test]
async fn idle_connection_is_reused() {
    let fixture = start().await;
    let mut stream = fixture.connect().await;
    for _ in 0..2 {
        get_version(&mut stream, &fixture.token).await;
        // Longer than the limit of the first request.
        let ended = within(Duration::from_secs(12), stream.read_u8()).await;
        assert!(!ended, "the connection was closed");
    }
}
