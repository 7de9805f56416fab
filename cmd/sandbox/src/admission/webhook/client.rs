//! The webhook client: one HTTPS request per connection, with a deadline.
//!
//! A webhook may hang, send garbage or send without end: each case ends in an error before the deadline, and closes the
//! connection. The messages resemble those of the kube-apiserver.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::admission::webhook::configuration::Webhook;
use crate::admission::webhook::{Services, tls};
use crate::env::Env;
use crate::json::Value;

/// The maximum length of a response.
const MAX_RESPONSE: usize = 8 * 1024 * 1024;
const MAX_HEADERS: usize = 64 * 1024;
/// The number of bytes of an error response that a message quotes.
const MAX_SHOWN: usize = 2048;

/// The address of a webhook and its trusted certificates.
#[derive(Debug)]
pub struct Target {
    /// The name in its certificate.
    host: String,
    port: u16,
    /// `namespace/name:port` of a service, whose address is looked up.
    service: Option<String>,
    /// `host:port` of the URL.
    authority: String,
    path: String,
    /// The trusted certificates, or the error of an invalid bundle.
    tls: Result<Arc<ClientConfig>, String>,
}

impl Target {
    pub(crate) fn of(client: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tls = tls::client_config(&text(&client["caBundle"]));
        let service = &client["service"];
        if service.is_object() {
            let (namespace, name) = (text(&service["namespace"]), text(&service["name"]));
            let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok());
            let port = port.unwrap_or(443);
            let host = format!("{name}.{namespace}.svc");
            return Self {
                authority: format!("{host}:{port}"),
                host,
                port,
                service: Some(format!("{namespace}/{name}:{port}")),
                path: absolute(&text(&service["path"])),
                tls,
            };
        }
        let url = text(&client["url"]).parse::<Uri>().unwrap_or_default();
        let host = url.host().unwrap_or_default();
        Self {
            authority: url.authority().map(ToString::to_string).unwrap_or_default(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port_u16().unwrap_or(443),
            service: None,
            path: absolute(url.path()),
            tls,
        }
    }

    async fn address(&self, services: &Services) -> Result<SocketAddr, String> {
        if let Some(service) = &self.service {
            return services.get(service).copied().ok_or_else(|| {
                format!(
                    "dial tcp: lookup {}: no address is known for this service; name one with --service {service}=ADDRESS",
                    self.host
                )
            });
        }
        let unknown = |why: String| format!("dial tcp: lookup {}: {why}", self.host);
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let mut found = found.map_err(|error| unknown(error.to_string()))?;
        found.next().ok_or_else(|| unknown("no such host".to_owned()))
    }
}

fn absolute(path: &str) -> String {
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{slash}{path}")
}

/// Sends a review, and returns the body of the response.
pub async fn send(
    webhook: &Webhook,
    services: &Services,
    env: &Env,
    until: Instant,
    body: Vec<u8>,
) -> Result<Bytes, String> {
    let target = &webhook.target;
    let now = env.instant();
    let deadline = until.min(now + webhook.timeout);
    let path = format!(
        "{}?timeout={}s",
        target.path,
        seconds(deadline.duration_since(now))
    );
    let url = format!("https://{}{path}", target.authority);
    let outcome = tokio::select! {
        biased;
        // On the heap: every write contains this future several times, and few writes call a webhook.
        outcome = Box::pin(exchange(target, services, &path, body)) => outcome,
        () = env.sleep_until(deadline) => Err(Failure::Transport("context deadline exceeded".to_owned())),
    };
    outcome.map_err(|failure| match failure {
        Failure::Client(why) => format!("could not get REST client: {why}"),
        Failure::Transport(why) => format!("failed to call webhook: Post {url:?}: {why}"),
        Failure::ReviewResponse(why) => format!("failed to call webhook: {why}"),
    })
}

/// Returns whole seconds, rounded up.
fn seconds(left: Duration) -> u64 {
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

enum Failure {
    /// The client configuration is invalid.
    Client(String),
    /// The connection failed.
    Transport(String),
    /// The response is unusable.
    ReviewResponse(String),
}

async fn exchange(target: &Target, services: &Services, path: &str, body: Vec<u8>) -> Result<Bytes, Failure> {
    let transport = |error: &dyn std::error::Error| Failure::Transport(error.to_string());
    let tls = target.tls.clone().map_err(Failure::Client)?;
    let name = ServerName::try_from(target.host.clone()).map_err(|error| transport(&error))?;
    let address = target.address(services).await.map_err(Failure::Transport)?;
    let dial = |error: io::Error| Failure::Transport(format!("dial tcp {address}: {}", dial_error(&error)));
    let socket = TcpStream::connect(address).await.map_err(dial)?;
    socket.set_nodelay(true).map_err(dial)?;
    let stream = TlsConnector::from(tls).connect(name, socket).await;
    let stream = stream.map_err(|error| Failure::Transport(handshake_error(&error)))?;
    let mut builder = http1::Builder::new();
    let handshake = builder.max_buf_size(MAX_HEADERS).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| transport(&error))?;
    let request = Request::post(path)
        .header(HOST, &target.authority)
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| transport(&error))?;
    let answer = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| Failure::Transport(connection_error(&error)))?;
        let status = response.status();
        let media_type = response.headers().get(CONTENT_TYPE);
        let is_text = media_type.is_none_or(|media_type| media_type.as_bytes().starts_with(b"text/"));
        let body = match Limited::new(response.into_body(), MAX_RESPONSE).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(Failure::ReviewResponse(format!(
                    "the answer is longer than {MAX_RESPONSE} bytes"
                )));
            }
            Err(_) => return Err(Failure::ReviewResponse("unexpected EOF".to_owned())),
        };
        if (200..=206).contains(&status.as_u16()) {
            Ok(body)
        } else {
            Err(Failure::ReviewResponse(status_error(status, is_text, &body)))
        }
    };
    // The connection is polled together with the response, so that it is closed with the call.
    let (mut answer, mut connection) = (pin!(answer), pin!(connection));
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

fn dial_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the message of a failed TLS handshake.
fn handshake_error(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => why,
        Some(other) => return format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
        None => return error.to_string(),
    };
    let why = match why {
        // A bad signature is that of another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

fn connection_error(error: &hyper::Error) -> String {
    let broken = std::error::Error::source(error).and_then(|inner| inner.downcast_ref::<io::Error>());
    let broken = broken.is_some_and(|inner| inner.kind() == io::ErrorKind::UnexpectedEof);
    if broken || error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        "EOF".to_owned()
    } else {
        error.to_string()
    }
}

/// Returns the message of an HTTP error.
fn status_error(status: StatusCode, is_text: bool, body: &[u8]) -> String {
    match status.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        code if code >= 500 => {
            let said = String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN)]);
            let said = if is_text { said.trim() } else { "unknown" };
            format!("an error on the server ({said:?}) has prevented the request from succeeding")
        }
        code => {
            format!("the server responded with the status code {code} but did not return more information")
        }
    }
}
