//! Admission reviews of the largest size, from a client that needs no credentials.
//!
//! The client uses HTTP/2, as API servers do. The server runs each request of such a connection as a task, whose polls are
//! measured.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use steersman_controllers::appservice;
use steersman_harness::{certs, time};
use steersman_manager::env::{Env, Fault, TaskSet, Tasks};
use steersman_manager::health::Checks;
use steersman_manager::metrics::Registry;
use steersman_manager::serve::CertificateMetrics;
use steersman_manager::webhook::{Certificates, Hooks, Server, Source};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::Load;
use super::super::memory::{Outside, outside, product};
use super::super::polls::Polls;

/// The largest body.
const BODY_BYTES: usize = 7 << 20;
/// Bound on the heap bytes: four for each byte of the body, with the body itself, and four mebibytes for the connection. Two are
/// held at once; the figure also counts the bytes that a poll has freed.
const BYTES: u64 = 32 << 20;

/// A field, and the list in it: the text before its entries, an entry, and the text after them.
type List = [&'static str; 4];

/// Lists of the smallest entries in each field that a hook reads, and in fields that it does not know.
const LISTS: [List; 10] = [
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
    // A decoder reads a list as the fields of a struct, in their order.
    [
        "ports of a spec that is a list",
        r#""object":{"spec":["a",1,"i",["#,
        "[]",
        "]]}",
    ],
    [
        "ports of an object that is a list",
        r#""object":[{},{"ports":["#,
        "[]",
        "]}]",
    ],
    [
        "ports of the first of two specs",
        r#""object":{"spec":{"ports":["#,
        "[]",
        r#"]},"spec":0}"#,
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
        let client = Client(runner.handle());
        let sent = Outside::new(|| exchange(address, connector, client, verb, body));
        let code = time::within(time::ANSWER, sent).await.expect("an answer");
        assert!([200, 400].contains(&code), "{code}");
        let peak = u64::try_from(polls.ceiling() - before).unwrap_or_default();
        assert!(peak > body.len() as u64, "the handler is not measured: {peak}");
        peak
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
    let mut config = config
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    (address, TlsConnector::from(Arc::new(config)))
}

/// Sends a review, and returns the code of the answer.
async fn exchange(
    address: SocketAddr,
    connector: TlsConnector,
    client: Client,
    verb: &str,
    body: &[u8],
) -> u16 {
    let uri = format!("https://localhost/{verb}-appcontroller-k8s-io-v1alpha1-appservice");
    let request = Request::post(uri)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body)))
        .expect("a request");
    let name = ServerName::try_from("localhost").expect("a name");
    let socket = TcpStream::connect(address).await.expect("a connection");
    let stream = connector.connect(name, socket).await.expect("TLS");
    let opened = http2::handshake(client, TokioIo::new(stream)).await;
    let (mut sender, connection) = opened.expect("an HTTP/2 connection");
    let answer = tokio::select! {
        answer = sender.send_request(request) => answer,
        ended = connection => unreachable!("the connection ended: {ended:?}"),
    };
    answer.expect("an answer").status().as_u16()
}

/// Runs the tasks of the client.
#[derive(Clone)]
struct Client(Tasks);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Client {
    fn execute(&self, task: F) {
        outside(|| drop(self.0.spawn(Outside::new(|| task))));
    }
}
