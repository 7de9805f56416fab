//! HTTPS servers of the manager, on a loopback port, and a client that sends any bytes.

pub mod endpoints;
pub mod review_memory;
pub mod reviews;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use steersman_harness::{certs, time};
use steersman_manager::env::{Env, Fault, TaskSet};
use steersman_manager::metrics::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

/// A server on the runtime of this thread. Its clock is frozen, so that no timeout depends on the load of the machine.
struct Server {
    runtime: Runtime,
    address: SocketAddr,
    connector: TlsConnector,
    _tasks: TaskSet,
}

/// The response to the first request.
struct Response {
    code: u16,
    body: Vec<u8>,
}

impl Server {
    /// Starts a server. `serve` gets a directory with `tls.crt` and `tls.key`, and spawns the server.
    fn start(serve: impl AsyncFnOnce(&Env, &Registry, PathBuf) -> SocketAddr) -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("a runtime");
        let certs = certs::generate().expect("certificates");
        let number = std::thread::current().id();
        let folder = format!("fuzz-{}-{number:?}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
        std::fs::create_dir_all(&folder).expect("a directory");
        std::fs::write(folder.join("tls.crt"), &certs.cert).expect("a certificate");
        std::fs::write(folder.join("tls.key"), &certs.key).expect("a key");
        let guard = runtime.enter();
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::now(), 0, &tasks);
        assert!(env.clock.inject(Fault::Freeze), "no fault injection");
        drop(guard);
        let address = runtime.block_on(serve(&env, &Registry::new("fuzz"), folder.clone()));
        let _ = std::fs::remove_dir_all(folder);
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(certs.ca.as_bytes()).expect("PEM");
        roots.add(ca).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config
            .expect("TLS versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            runtime,
            address,
            connector: TlsConnector::from(Arc::new(config)),
            _tasks: tasks,
        }
    }

    /// Sends bytes on a new connection. Returns the bytes that the server sends until it closes the connection.
    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.send(bytes, usize::MAX)
    }

    /// Sends bytes on a new connection. Closes it when the server has sent nothing for this number of turns of the runtime,
    /// which also runs the server.
    fn send(&self, bytes: &[u8], turns: usize) -> Result<Vec<u8>, String> {
        let exchange = async {
            let name = ServerName::try_from("localhost").expect("a name");
            let socket = TcpStream::connect(self.address)
                .await
                .map_err(|error| error.to_string())?;
            let mut stream = self
                .connector
                .connect(name, socket)
                .await
                .map_err(|error| error.to_string())?;
            let (mut answer, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
            // The server may close the connection before it has read all.
            let _ = stream.write_all(bytes).await;
            loop {
                let read = tokio::select! {
                    biased;
                    read = stream.read(&mut buffer) => read.unwrap_or_default(),
                    () = idle(turns) => 0,
                };
                if read == 0 {
                    break;
                }
                answer.extend(&buffer[..read]);
            }
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut answer).await;
            Ok(answer)
        };
        let answer = self.runtime.block_on(time::within(time::ANSWER, exchange));
        answer.unwrap_or_else(|| Err("connection stays open: the server does not close it".to_owned()))
    }
}

async fn idle(turns: usize) {
    if turns == usize::MAX {
        std::future::pending::<()>().await;
    }
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Parses the response to the first request. Returns none without one, and an error for 500 or bytes that are not HTTP/1.
fn response(answer: &[u8]) -> Result<Option<Response>, String> {
    if answer.is_empty() {
        return Ok(None);
    }
    let malformed = || format!("malformed response: {}", answer.escape_ascii());
    let end = answer
        .windows(4)
        .position(|it| it == b"\r\n\r\n")
        .ok_or_else(malformed)?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| malformed())?;
    let code = head
        .strip_prefix("HTTP/1.")
        .and_then(|it| it.get(2..5))
        .and_then(|it| it.parse().ok());
    let code = code.ok_or_else(malformed)?;
    if code == 500 {
        return Err(format!("internal error: {}", answer.escape_ascii()));
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let body = answer[end + 4..]
        .iter()
        .copied()
        .take(length.unwrap_or(usize::MAX))
        .collect();
    Ok(Some(Response { code, body }))
}
