//! An admission webhook for tests: an HTTPS server on a free loopback port that records its calls.
//!
//! A function computes the [`Response`] to the `request` of each `AdmissionReview`. A real API server loads a configuration with
//! a delay: [`Webhook::install`] adds a webhook to each configuration, and waits until the server calls it.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::{body::Frame, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{Cluster, certs, fixtures, time};

/// The path of the webhook whose call shows that the API server has loaded a configuration.
const LOADED: &str = "/loaded";

/// The answer of a webhook to one request.
pub enum Response {
    /// The `response` of a review. A missing uid is added.
    Review(Value),
    /// The same after a delay.
    Late(Duration, Value),
    /// An HTTP status and a body.
    Raw(u16, String),
    /// No answer.
    Never,
    /// An answer that does not end.
    Endless,
    /// Closes the connection.
    Close,
}

/// A call of a webhook.
#[derive(Clone, Debug)]
pub struct Call {
    /// Path and query.
    pub path: String,
    /// The `User-Agent` and the `Content-Type`.
    pub headers: [String; 2],
    /// The whole review.
    pub review: Value,
}

impl Call {
    /// The request in the review.
    pub fn request(&self) -> &Value {
        &self.review["request"]
    }

    /// Whether the call repeats the previous one for the same write.
    fn repeats(&self, before: &Self) -> bool {
        let subject = |call: &Self| {
            let request = call.request();
            let old = &request["oldObject"]["metadata"];
            [
                request["operation"].clone(),
                request["subResource"].clone(),
                old["name"].clone(),
                old["deletionTimestamp"].clone(),
                request["object"]["spec"].clone(),
                request["object"]["data"].clone(),
                request["object"]["metadata"]["labels"].clone(),
            ]
        };
        self.path == before.path
            && self.request()["operation"] != "CREATE"
            && subject(self) == subject(before)
    }
}

/// A running webhook server. Dropping it stops the server.
pub struct Webhook {
    /// The address of the server.
    pub address: SocketAddr,
    /// The authority of the certificate, in PEM.
    pub ca: String,
    memory: Arc<Mutex<Memory>>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Memory {
    calls: Vec<Call>,
    /// The configurations that the API server has loaded.
    loaded: BTreeSet<String>,
}

type Respond = Arc<dyn Fn(&str, &Value) -> Response + Send + Sync>;

impl Webhook {
    /// Starts a webhook that answers by path and request, with a certificate for the loopback address.
    pub async fn start(respond: impl Fn(&str, &Value) -> Response + Send + Sync + 'static) -> Self {
        Self::start_as(&["127.0.0.1"], respond).await
    }

    /// [`Webhook::start`] with a certificate for other names.
    pub async fn start_as(
        names: &[&str],
        respond: impl Fn(&str, &Value) -> Response + Send + Sync + 'static,
    ) -> Self {
        Self::serve(certificate(names).expect("a certificate"), respond).await
    }

    /// [`Webhook::start`] with a self-signed certificate.
    pub async fn start_self_signed(
        respond: impl Fn(&str, &Value) -> Response + Send + Sync + 'static,
    ) -> Self {
        Self::serve(self_signed().expect("a certificate"), respond).await
    }

    async fn serve(
        (ca, tls): (String, ServerConfig),
        respond: impl Fn(&str, &Value) -> Response + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let memory = Arc::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(tls)),
            Arc::new(respond),
            Arc::clone(&memory),
        ));
        Self {
            address,
            ca,
            memory,
            _serving: serving,
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the calls in their order. The API server repeats a call if the object has changed in between, or its cache was
    /// stale: repeated calls count once.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = self.memory().calls.clone();
        calls.dedup_by(|next, last| {
            let repeats = next.repeats(last);
            if repeats {
                std::mem::swap(next, last);
            }
            repeats
        });
        calls
    }

    /// Returns [`Webhook::calls`] and clears them.
    pub fn take_calls(&self) -> Vec<Call> {
        let calls = self.calls();
        self.memory().calls.clear();
        calls
    }

    /// Returns the requests of [`Webhook::calls`] and clears them.
    pub fn requests(&self) -> Vec<Value> {
        let mut calls = self.take_calls();
        calls
            .iter_mut()
            .map(|call| call.review["request"].take())
            .collect()
    }

    /// The URL without a path.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The authority of the certificate, as configurations hold it.
    pub fn ca_bundle(&self) -> String {
        BASE64_STANDARD.encode(&self.ca)
    }

    /// Returns a `clientConfig` for a path.
    pub fn client(&self, path: &str) -> Value {
        json!({"url": format!("{}{path}", self.url()), "caBundle": self.ca_bundle()})
    }

    /// Returns the entry of a configuration that matches all operations on `resources`.
    pub fn hook(&self, name: &str, path: &str, resources: &[&str]) -> Value {
        json!({
            "name": name,
            "clientConfig": self.client(path),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}],
        })
    }

    /// Creates a configuration of `kind` (`Mutating` or `Validating`) that selects one namespace, and waits until the API server
    /// has loaded it.
    pub async fn install(&self, c: &Cluster, ns: &str, kind: &str, name: &str, hooks: Vec<Value>) {
        let label = json!({"metadata": {"labels": {"hooks": ns}}});
        let namespace = format!("/api/v1/namespaces/{ns}");
        c.merge(&namespace, label).await;
        let mut loaded = self.hook("loaded.example.com", LOADED, &["configmaps"]);
        loaded["objectSelector"] = json!({"matchLabels": {"loaded": name}});
        loaded["failurePolicy"] = "Ignore".into();
        loaded["namespaceSelector"] = json!({"matchLabels": {"hooks": ns}});
        let mut hooks = hooks;
        for hook in &mut hooks {
            // The probes match no other webhook.
            let others = json!({"key": "loaded", "operator": "DoesNotExist"});
            match hook["objectSelector"]["matchExpressions"].as_array_mut() {
                Some(expressions) => expressions.push(others),
                None => hook["objectSelector"]["matchExpressions"] = json!([others]),
            }
            if hook["namespaceSelector"].is_null() {
                hook["namespaceSelector"] = json!({"matchLabels": {"hooks": ns}});
            }
        }
        hooks.push(loaded);
        let configuration = configuration(kind, name, &hooks);
        c.create(&configurations(kind), configuration).await;
        self.loaded(c, ns, name).await;
    }

    /// Waits until the API server has loaded a configuration.
    async fn loaded(&self, c: &Cluster, ns: &str, name: &str) {
        let mut probe = fixtures::config_map("loaded");
        probe["metadata"]["labels"] = json!({"loaded": name});
        let path = format!("{}?dryRun=All", fixtures::core(ns, "configmaps"));
        let loaded = time::eventually(Duration::from_mins(1), async || {
            c.api().post(&path, &probe).await;
            self.memory().loaded.contains(name).then_some(())
        });
        assert!(loaded.await.is_some(), "{name} is not loaded in time");
    }
}

/// Returns the path of the configurations of a kind.
pub fn configurations(kind: &str) -> String {
    let kind = kind.to_lowercase();
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations")
}

/// Returns a configuration of a kind.
pub fn configuration(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name},
        "webhooks": hooks,
    })
}

/// Returns the response that allows a request.
pub fn allow() -> Response {
    Response::Review(json!({"allowed": true}))
}

/// Returns the response that denies a request with a `Status`.
pub fn deny(status: &Value) -> Response {
    Response::Review(json!({"allowed": false, "status": status}))
}

/// Returns the response that patches the object by a JSON patch.
pub fn change(patch: &Value) -> Response {
    let patch = BASE64_STANDARD.encode(patch.to_string());
    Response::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

fn certificate(names: &[&str]) -> Result<(String, ServerConfig), Box<dyn std::error::Error>> {
    let certs = certs::generate_for(names)?;
    Ok((certs.ca, tls(&certs.cert, &certs.key)?))
}

fn self_signed() -> Result<(String, ServerConfig), Box<dyn std::error::Error>> {
    let mut own = CertificateParams::new(["127.0.0.1".to_owned()])?;
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    own.distinguished_name.push(DnType::CommonName, "webhook");
    let key = KeyPair::generate()?;
    let certificate = own.self_signed(&key)?.pem();
    let tls = tls(&certificate, &key.serialize_pem())?;
    Ok((certificate, tls))
}

fn tls(certificate: &str, key: &str) -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, respond: Respond, memory: Arc<Mutex<Memory>>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((socket, _)) = listener.accept().await else {
            continue;
        };
        let (acceptor, respond, memory) = (acceptor.clone(), Arc::clone(&respond), Arc::clone(&memory));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let service =
                service_fn(move |request| answer(request, Arc::clone(&respond), Arc::clone(&memory)));
            let builder = hyper::server::conn::http1::Builder::new();
            // Closing the connection is an error here.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Frames = futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>;
type Body = Either<Full<Bytes>, StreamBody<Frames>>;

async fn answer(
    request: Request<Incoming>,
    respond: Respond,
    memory: Arc<Mutex<Memory>>,
) -> Result<http::Response<Body>, std::io::Error> {
    let header = |name: http::HeaderName| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let headers = [
        header(http::header::USER_AGENT),
        header(http::header::CONTENT_TYPE),
    ];
    let path = request.uri().to_string();
    let body = request
        .into_body()
        .collect()
        .await
        .map_err(std::io::Error::other)?;
    let review: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let (version, uid) = (review["apiVersion"].clone(), review["request"]["uid"].clone());
    let response = if path.starts_with(LOADED) {
        let probe = review["request"]["object"]["metadata"]["labels"]["loaded"].as_str();
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.loaded.extend(probe.map(str::to_owned));
        allow()
    } else {
        let response = respond(&path, &review["request"]);
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.calls.push(Call {
            path,
            headers,
            review,
        });
        response
    };
    let whole = |status: u16, media_type: &'static str, text: String| {
        let mut response = http::Response::new(Either::Left(Full::new(Bytes::from(text))));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
        let media_type = http::HeaderValue::from_static(media_type);
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, media_type);
        response
    };
    let response = match response {
        Response::Late(wait, response) => {
            time::pause(wait).await;
            Response::Review(response)
        }
        response => response,
    };
    match response {
        Response::Review(mut response) | Response::Late(_, mut response) => {
            if response["uid"].is_null() {
                response["uid"] = uid;
            }
            let review = json!({"kind": "AdmissionReview", "apiVersion": version, "response": response});
            Ok(whole(200, "application/json", review.to_string()))
        }
        Response::Raw(status, text) => Ok(whole(status, "text/plain", text)),
        Response::Never => std::future::pending().await,
        Response::Close => Err(std::io::Error::other("closed")),
        Response::Endless => {
            let chunk = || Ok(Frame::data(Bytes::from_static(&[b' '; 16 * 1024])));
            let frames: Frames = Box::pin(futures_util::stream::repeat_with(chunk));
            Ok(http::Response::new(Either::Right(StreamBody::new(frames))))
        }
    }
}
