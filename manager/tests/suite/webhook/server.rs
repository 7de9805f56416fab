//! The server over real sockets. Its clock is frozen, so that no timeout depends on the load of the machine.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use steersman_harness::time;
use steersman_manager::client::Cause;
use steersman_manager::env::{Env, Fault, TaskSet};
use steersman_manager::health::Checks;
use steersman_manager::metrics::Registry;
use steersman_manager::object::Resource;
use steersman_manager::webhook::{
    AdmissionRequest, Certificates, Denial, Hooks, Server, Source, WebhookError, mutating_path,
    validating_path,
};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::files::{Folder, folder};
use super::{HOST, connector, metrics};

const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");

pub struct Fixture {
    pub env: Env,
    pub address: SocketAddr,
    pub bundle: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
    tasks: TaskSet,
    _folder: Folder,
}

pub async fn fixture(test: &str, hooks: Hooks) -> Fixture {
    let folder = folder(test);
    let bundle = folder.pair();
    let registry = Registry::new("test");
    let certificates = Certificates::new(
        Source::Folder(folder.0.clone()),
        &metrics(&registry),
        &Checks::new(),
    );
    let local = "127.0.0.1:0".parse().expect("an address");
    let bound = Server::bind(local, certificates.expect("a pair"), &registry).await;
    let bound = bound.expect("a free port");
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::now(), 0, &tasks);
    assert!(env.clock.inject(Fault::Freeze), "no fault injection");
    let address = bound.address();
    let (stop, stopped) = oneshot::channel();
    let served = env.tasks.spawn(bound.serve(env.clone(), hooks, async {
        let _ = stopped.await;
    }));
    Fixture {
        env,
        address,
        bundle,
        stop,
        served,
        tasks,
        _folder: folder,
    }
}

pub enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Fixture {
    pub async fn client(&self, http2: bool) -> Client {
        let socket = TcpStream::connect(self.address).await.expect("a connection");
        let connector = connector(&self.bundle, None).expect("an authority");
        let mut config = (**connector.config()).clone();
        config.alpn_protocols = vec![if http2 {
            b"h2".to_vec()
        } else {
            b"http/1.1".to_vec()
        }];
        let name = ServerName::try_from(HOST).expect("a name");
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config))
            .connect(name, socket)
            .await
            .expect("a handshake");
        let io = TokioIo::new(stream);
        if http2 {
            let (client, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
            self.env.tasks.spawn(connection);
            Client::Http2(client)
        } else {
            let (client, connection) = http1::handshake(io).await.expect("HTTP/1.1");
            self.env.tasks.spawn(connection);
            Client::Http1(client)
        }
    }
}

impl Client {
    pub async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> (StatusCode, Bytes) {
        let request = Request::post(format!("https://{HOST}{path}?timeout=10s"))
            .header("host", HOST)
            .header("content-type", "application/json")
            .body(Full::new(body.into()))
            .expect("a request");
        self.send(request).await
    }

    async fn send(&mut self, mut request: Request<Full<Bytes>>) -> (StatusCode, Bytes) {
        let response = match self {
            Self::Http1(client) => {
                let path = request.uri().path_and_query().expect("a path").to_string();
                *request.uri_mut() = path.parse().expect("a path");
                client.ready().await.expect("an open connection");
                client.send_request(request).await
            }
            Self::Http2(client) => {
                client.ready().await.expect("an open connection");
                client.send_request(request).await
            }
        };
        let (parts, body) = response.expect("a response").into_parts();
        (parts.status, body.collect().await.expect("a body").to_bytes())
    }
}

fn review(object: &Value) -> String {
    let request = json!({
        "uid": "7", "operation": "CREATE", "namespace": "default", "name": "gig", "object": object, "oldObject": null,
        "kind": {"group": "harbour.example", "version": "v1", "kind": "Boat"},
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
}

fn hooks() -> Hooks {
    let mutating = |request: AdmissionRequest| {
        let mut patch = Vec::new();
        let object: Value = request.object.decode().expect("JSON");
        if object["oars"].is_null() {
            patch.push(json!({"op": "add", "path": "/oars", "value": 8}));
        }
        std::future::ready(Ok(patch))
    };
    let validating = |request: AdmissionRequest| {
        let AdmissionRequest {
            object,
            name,
            namespace,
            ..
        } = request;
        assert_eq!((name.as_str(), namespace.as_str()), ("gig", "default"));
        let object: Value = object.decode().expect("JSON");
        let decision = match object["oars"].as_u64() {
            Some(0) => Err(Denial::invalid(
                "Boat",
                &name,
                vec![Cause {
                    reason: "FieldValueInvalid".to_owned(),
                    message: "a boat has oars".to_owned(),
                    field: "oars".to_owned(),
                }],
            )),
            Some(oars) if oars > 8 => Ok(vec!["that is a galley".to_owned()]),
            _ => Ok(vec![]),
        };
        std::future::ready(decision)
    };
    Hooks::new()
        .mutating(&BOATS, mutating)
        .validating(&BOATS, validating)
}

fn response(answer: &(StatusCode, Bytes)) -> Value {
    assert_eq!(answer.0, StatusCode::OK);
    let review: Value = serde_json::from_slice(&answer.1).expect("JSON");
    assert_eq!(review["response"]["uid"], "7");
    review["response"].clone()
}

#[tokio::test]
async fn reviews_are_served_over_http1_and_http2() {
    let fixture = fixture("protocols", hooks()).await;
    let (mutate, validate) = (mutating_path(&BOATS), validating_path(&BOATS));
    for http2 in [false, true] {
        let mut client = fixture.client(http2).await;
        let changed = response(&client.post(&mutate, review(&json!({}))).await);
        assert_eq!(
            (&changed["allowed"], &changed["patchType"]),
            (&json!(true), &json!("JSONPatch"))
        );
        let same = response(&client.post(&mutate, review(&json!({"oars": 4}))).await);
        assert_eq!(same, json!({"uid": "7", "allowed": true}));
        let denied = response(&client.post(&validate, review(&json!({"oars": 0}))).await);
        assert_eq!(denied["allowed"], false);
        assert_eq!(
            denied["status"]["message"],
            "Boat \"gig\" is invalid: oars: a boat has oars"
        );
        let warned = response(&client.post(&validate, review(&json!({"oars": 9}))).await);
        assert_eq!(warned["warnings"], json!(["that is a galley"]));
        let (code, _) = client.post("/validate", review(&json!({}))).await;
        assert_eq!(code, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn too_large_body_is_rejected_and_server_keeps_serving() {
    let fixture = fixture("large", hooks()).await;
    let path = validating_path(&BOATS);
    for http2 in [false, true] {
        let mut client = fixture.client(http2).await;
        let large = review(&json!({"hull": "x".repeat(3 << 20), "oars": 1}));
        response(&client.post(&path, large).await);
        let (code, _) = client.post(&path, "x".repeat(8 << 20)).await;
        assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE);
        let mut client = fixture.client(http2).await;
        response(&client.post(&path, review(&json!({}))).await);
    }
}

#[tokio::test]
async fn shutdown_drains_in_flight_reviews() {
    let (started, mut was_started) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let gone = go.clone();
    let hooks = Hooks::new().validating(&BOATS, move |_| {
        let (started, gone) = (started.clone(), gone.clone());
        async move {
            let _ = started.send(());
            gone.notified().await;
            Ok(vec![])
        }
    });
    let fixture = fixture("end", hooks).await;
    let (mut one, mut two) = (fixture.client(false).await, fixture.client(true).await);
    let path = validating_path(&BOATS);
    let same = path.clone();
    let one = fixture
        .env
        .tasks
        .spawn(async move { one.post(&path, review(&json!({}))).await });
    let two = fixture
        .env
        .tasks
        .spawn(async move { two.post(&same, review(&json!({}))).await });
    was_started.recv().await.expect("a review");
    was_started.recv().await.expect("a review");
    let Fixture {
        address,
        stop,
        served,
        tasks,
        ..
    } = fixture;
    stop.send(()).expect("a running server");
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    time::within(time::ANSWER, refused)
        .await
        .expect("still listening");
    go.notify_waiters();
    for request in [one, two] {
        response(&request.await.expect("no panic"));
    }
    served.await.expect("no panic");
    let left = async {
        while !tasks.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    time::within(time::ANSWER, left).await.expect("tasks left");
}

#[tokio::test]
async fn port_in_use_is_reported() {
    let fixture = fixture("in-use", Hooks::new()).await;
    let folder = folder("in-use-too");
    folder.pair();
    let registry = Registry::new("test");
    let certificates = Certificates::new(
        Source::Folder(folder.0.clone()),
        &metrics(&registry),
        &Checks::new(),
    );
    let error = match Server::bind(fixture.address, certificates.expect("a pair"), &registry).await {
        Err(error @ WebhookError::Bind { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("bound twice"),
    };
    assert!(error.contains("Address already in use"), "{error}");
}
