//! The health and metrics server over real sockets, by HTTP/1.1 and HTTP/2. Its clock is frozen, so that no timeout depends
//! on the load of the machine; timeouts are tested under a paused clock, without sockets.

mod limits;
mod pages;
mod responses;
mod shutdown;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use steersman_harness::time;
use steersman_manager::env::{Env, Fault, TaskSet};
use steersman_manager::health::Checks;
use steersman_manager::metrics::Registry;
use steersman_manager::serve::{ALWAYS_ALLOW_PATHS, Access, Endpoints, Server, Tls};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A running server on a free port.
struct Fixture {
    env: Env,
    tasks: TaskSet,
    address: SocketAddr,
    checks: Checks,
    registry: Registry,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

async fn fixture() -> Fixture {
    fixture_with(|endpoints| endpoints).await
}

async fn fixture_with(mount: impl FnOnce(Endpoints) -> Endpoints) -> Fixture {
    start(Tls::self_signed([]).expect("a certificate"), mount).await
}

async fn start(tls: Tls, mount: impl FnOnce(Endpoints) -> Endpoints) -> Fixture {
    let (checks, registry) = (Checks::new(), Registry::new("test"));
    let local = "127.0.0.1:0".parse().expect("an address");
    let bound = Server::bind(local, tls).await.expect("a free port");
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::now(), 0, &tasks);
    assert!(env.clock.inject(Fault::Freeze), "no fault injection");
    let access = Access::new(ALWAYS_ALLOW_PATHS)
        .expect("valid paths")
        .allow_loopback();
    let endpoints = Endpoints::new(&checks, registry.clone(), access, &env.clock).expect("metrics");
    let (stop, stopped) = oneshot::channel();
    let address = bound.address();
    let served = env.tasks.spawn(bound.serve(env.clone(), mount(endpoints), async {
        let _ = stopped.await;
    }));
    Fixture {
        env,
        tasks,
        address,
        checks,
        registry,
        stop,
        served,
    }
}

impl Fixture {
    /// Opens a connection that offers these protocols.
    async fn stream(&self, alpn: &[&str]) -> TlsStream<TcpStream> {
        let socket = TcpStream::connect(self.address).await.expect("a connection");
        self.handshake(alpn, socket).await
    }

    /// Opens a connection from another address of this machine.
    async fn socket_from(&self, address: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        let address = SocketAddr::new(address.parse().expect("an address"), 0);
        socket.bind(address).expect("an address of this machine");
        socket.connect(self.address).await.expect("a connection")
    }

    async fn handshake(&self, alpn: &[&str], socket: TcpStream) -> TlsStream<TcpStream> {
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = connector(alpn).connect(name, socket).await;
        stream.expect("a handshake")
    }

    async fn http1(&self) -> Client {
        self.http1_over(self.stream(&["http/1.1"]).await).await
    }

    async fn http1_from(&self, address: &str) -> Client {
        let socket = self.socket_from(address).await;
        self.http1_over(self.handshake(&["http/1.1"], socket).await).await
    }

    async fn http1_over(&self, stream: TlsStream<TcpStream>) -> Client {
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let (client, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
        self.env.tasks.spawn(connection);
        Client::Http1(client)
    }

    async fn http2(&self) -> Client {
        let stream = self.stream(&["h2", "http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
        self.env.tasks.spawn(connection);
        Client::Http2(client)
    }

    /// Returns one client per protocol.
    async fn clients(&self) -> [Client; 2] {
        [self.http1().await, self.http2().await]
    }
}

/// Awaits `future` with a timeout.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    let output = time::within(time::ANSWER, future).await;
    output.expect("timed out")
}

enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Client {
    async fn get(&mut self, path: &str) -> Reply {
        self.request(Method::GET, path, "").await
    }

    async fn request(&mut self, method: Method, path: &str, body: &'static str) -> Reply {
        self.send(method, path, body).await.expect("a response")
    }

    async fn send(&mut self, method: Method, path: &str, body: &'static str) -> hyper::Result<Reply> {
        let request = Request::builder().method(method).header("host", "localhost");
        let response = match self {
            Self::Http1(client) => {
                client.ready().await?;
                let request = request.uri(path).body(Full::from(body)).expect("a request");
                client.send_request(request).await?
            }
            Self::Http2(client) => {
                client.ready().await?;
                let request = request.uri(format!("https://localhost{path}"));
                client
                    .send_request(request.body(Full::from(body)).expect("a request"))
                    .await?
            }
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// Waits until the server has closed the connection.
    async fn closed(&self) {
        while !match self {
            Self::Http1(client) => client.is_closed(),
            Self::Http2(client) => client.is_closed(),
        } {
            tokio::task::yield_now().await;
        }
    }
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str());
        value.and_then(Result::ok).unwrap_or_default()
    }
}

/// Accepts any server certificate, because the server's is self-signed.
fn connector(alpn: &[&str]) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustAny(provider)))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

#[derive(Debug)]
struct TrustAny(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
