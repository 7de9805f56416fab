//! Admission reviews of the largest size, from a client that needs no credentials.

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use steersman_controllers::appservice;
use steersman_harness::{certs, time};
use steersman_manager::env::{Env, Fault, TaskSet};
use steersman_manager::health::Checks;
use steersman_manager::metrics::Registry;
use steersman_manager::serve::CertificateMetrics;
use steersman_manager::webhook::{Certificates, Hooks, Server, Source};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::Load;
use super::super::memory::{Outside, outside, product};
use super::super::polls::Polls;

/// The largest body.
const BODY_BYTES: usize = 7 << 20;
/// Bound on the heap bytes: two for each byte of the body, with the body itself, and a mebibyte for the connection.
const BYTES: u64 = 15 << 20;

/// A field, and the list in it: the text before its entries, an entry, and the text after them.
type List = [&'static str; 4];

/// Lists of the smallest entries in each field that a hook reads, and in fields that it does not know.
const LISTS: [List; 7] = [
    ["object", r#""object":["#, r#"{"":0}"#, "]"],
    ["oldObject", r#""oldObject":["#, r#"{"":0}"#, "]"],
    ["unknown", r#""object":{"spec":{"unknown":["#, "[]", "]}}"],
    [
        "env",
        r#""object":{"metadata":{"name":"a"},"spec":{"deploymentName":"a","env":["#,
        r#"{"name":"a"}"#,
        "]}}",
    ],
    [
        "ports",
        r#""object":{"metadata":{"name":"a"},"spec":{"deploymentName":"a","ports":["#,
        r#"{"port":1}"#,
        "]}}",
    ],
    ["groups", r#""userInfo":{"groups":["#, r#""""#, "]}"],
    ["options", r#""options":{"a":["#, "{}", "]}"],
];

pub(super) async fn run(load: &mut Load) {
    load.prepare_hostile().await;
    load.start_hostile();
    for verb in ["validate", "mutate"] {
        for list in LISTS {
            // The server needs sockets and the true time, and the figures are those of one thread.
            let measure = || std::thread::spawn(move || peak(verb, &outside(|| review(list)))).join();
            let peak = outside(measure).expect("figures");
            load.bound(
                format!("peak bytes of {verb} with a list in {}", list[0]),
                peak,
                BYTES,
            );
        }
    }
}

/// Returns a review of the largest size with a list of equal entries.
fn review([_, before, entry, after]: List) -> Vec<u8> {
    let head = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"UPDATE","name":"a","namespace":"default",{before}{entry}"#
    );
    let end = format!("{after}}}}}");
    let mut body = head.into_bytes();
    while body.len() + entry.len() + 1 + end.len() < BODY_BYTES {
        body.push(b',');
        body.extend_from_slice(entry.as_bytes());
    }
    body.extend_from_slice(end.as_bytes());
    body
}

/// Returns a bound on the heap bytes of a webhook server that gets a review.
fn peak(verb: &str, body: &[u8]) -> u64 {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = outside(|| builder.enable_all().build().expect("a runtime"));
    runtime.block_on(async {
        let (polls, runner) = (Polls::default(), TaskSet::new());
        let tasks = TaskSet::ordered(Arc::new(polls.clone()));
        drop(runner.handle().spawn(polls.clone().run()));
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
        assert!(env.clock.inject(Fault::Freeze), "no fault injection");
        let (address, connector) = start(&env).await;
        let before = product();
        let sent = Outside::new(|| exchange(address, connector, verb, body));
        let answer = time::within(time::ANSWER, sent).await.expect("an answer");
        let line = outside(|| {
            let line = String::from_utf8_lossy(&answer[..answer.len().min(12)]).into_owned();
            drop(answer);
            line
        });
        assert!(line.starts_with("HTTP/1.1 "), "{line}");
        u64::try_from(polls.ceiling() - before).unwrap_or_default()
    })
}

/// Starts the server, and returns its address and a client that trusts it.
async fn start(env: &Env) -> (SocketAddr, TlsConnector) {
    let registry = Registry::new("test");
    let certs = certs::generate().expect("certificates");
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("tls.crt"), &certs.cert).expect("a certificate");
    std::fs::write(folder.path().join("tls.key"), &certs.key).expect("a key");
    let metrics = CertificateMetrics::register(&registry).expect("metrics");
    let source = Source::Folder(folder.path().to_owned());
    let certificates = Certificates::new(source, &metrics, &Checks::new()).expect("a certificate");
    let local = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(local, certificates, &registry)
        .await
        .expect("a free port");
    let address = server.address();
    let hooks = appservice::hooks(Hooks::new(), true);
    env.tasks
        .spawn(server.serve(env.clone(), hooks, std::future::pending()));
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(certs.ca.as_bytes()).expect("PEM"))
        .expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (address, TlsConnector::from(Arc::new(config)))
}

/// Sends a review, and returns the answer.
async fn exchange(address: SocketAddr, connector: TlsConnector, verb: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /{verb}-appcontroller-k8s-io-v1alpha1-appservice HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let name = ServerName::try_from("localhost").expect("a name");
    let socket = TcpStream::connect(address).await.expect("a connection");
    let mut stream = connector.connect(name, socket).await.expect("TLS");
    let mut answer = Vec::new();
    // The server may answer before it has read all.
    if stream.write_all(head.as_bytes()).await.is_ok() {
        let _ = stream.write_all(body).await;
    }
    let _ = stream.read_to_end(&mut answer).await;
    answer
}
