//! A webhook to test with: an HTTPS server on a free loopback port that answers as it is told and remembers what it was
//! asked.
//!
//! What it says is the function that it is started with: the `request` of each `AdmissionReview` in, a [`Said`] out. Real
//! servers learn of a configuration with a delay, so [`Webhook::install`] adds a webhook of its own to each, whose call
//! tells that the configuration has come to be known.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::{body::Frame, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{Cluster, fixtures, time};

/// The path of the webhook that tells that a configuration is known.
const KNOWN: &str = "/known";

/// What a webhook says to one request.
pub enum Said {
    /// The `response` of a review; the uid is added if it is not there.
    Response(Value),
    /// The same after a while.
    Late(Duration, Value),
    /// A status and a body, whatever they are.
    Raw(u16, String),
    /// Nothing, ever.
    Nothing,
    /// An answer that does not end.
    Endless,
    /// The connection is closed.
    Close,
}

/// A request to a webhook, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Path and query.
    pub path: String,
    /// The `User-Agent` and the `Content-Type`.
    pub headers: [String; 2],
    /// The whole review.
    pub review: Value,
}

impl Asked {
    /// The request in the review.
    #[must_use]
    pub fn request(&self) -> &Value {
        &self.review["request"]
    }

    /// Whether it is about the same write as the one before.
    fn is_again(&self, before: &Self) -> bool {
        let subject = |asked: &Self| {
            let request = asked.request();
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

/// See the module's contract. Dropping it ends the server.
pub struct Webhook {
    /// Where it listens.
    pub address: SocketAddr,
    /// The authority that signed its certificate, PEM.
    pub ca: String,
    memory: Arc<Mutex<Memory>>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Memory {
    asked: Vec<Asked>,
    /// The configurations by which it was probed.
    known: BTreeSet<String>,
}

type Speak = Arc<dyn Fn(&str, &Value) -> Said + Send + Sync>;

impl Webhook {
    /// Starts one that says to a path and a request what `speak` says, with a certificate for the loopback address.
    pub async fn start(speak: impl Fn(&str, &Value) -> Said + Send + Sync + 'static) -> Self {
        Self::start_as(&["127.0.0.1"], speak).await
    }

    /// The same with a certificate for other names.
    ///
    /// # Panics
    /// When there is no certificate or no port to be had.
    pub async fn start_as(
        names: &[&str],
        speak: impl Fn(&str, &Value) -> Said + Send + Sync + 'static,
    ) -> Self {
        Self::serve(certificate(names).expect("a certificate"), speak).await
    }

    /// The same with a certificate that is its own authority.
    ///
    /// # Panics
    /// As [`Webhook::start_as`].
    pub async fn start_self_signed(speak: impl Fn(&str, &Value) -> Said + Send + Sync + 'static) -> Self {
        Self::serve(self_signed().expect("a certificate"), speak).await
    }

    async fn serve(
        (ca, tls): (String, ServerConfig),
        speak: impl Fn(&str, &Value) -> Said + Send + Sync + 'static,
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
            Arc::new(speak),
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

    /// What it was asked so far, in the order in which it came. A question that was put again, because the object had
    /// changed meanwhile, counts once: a server that answers from a cache may do so at any time.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        let mut asked = self.memory().asked.clone();
        asked.dedup_by(|next, last| {
            let is_again = next.is_again(last);
            if is_again {
                std::mem::swap(next, last);
            }
            is_again
        });
        asked
    }

    /// The requests of [`Webhook::asked`], which are then forgotten.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let asked = self.asked();
        self.memory().asked.clear();
        asked
            .into_iter()
            .map(|asked| asked.review["request"].clone())
            .collect()
    }

    /// A `clientConfig` that leads to a path of it.
    #[must_use]
    pub fn client(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": BASE64_STANDARD.encode(&self.ca)})
    }

    /// A webhook of a configuration: it is asked about all that is done to `resources` in namespaces and to what is in none.
    #[must_use]
    pub fn hook(&self, name: &str, path: &str, resources: &[&str]) -> Value {
        json!({
            "name": name,
            "clientConfig": self.client(path),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}],
        })
    }

    /// Creates a configuration of `kind` (`Mutating` or `Validating`) whose webhooks are asked about what is in a namespace
    /// only, and waits until the server knows it.
    ///
    /// # Panics
    /// When it is refused, or not known in time.
    pub async fn install(&self, c: &Cluster, ns: &str, kind: &str, name: &str, hooks: Vec<Value>) {
        let label = json!({"metadata": {"labels": {"hooks": ns}}});
        let namespace = format!("/api/v1/namespaces/{ns}");
        c.api()
            .patch(&namespace, fixtures::MERGE, label)
            .await
            .expect(200);
        let mut known = self.hook("known.example.com", KNOWN, &["configmaps"]);
        known["objectSelector"] = json!({"matchLabels": {"known": name}});
        known["failurePolicy"] = "Ignore".into();
        known["namespaceSelector"] = json!({"matchLabels": {"hooks": ns}});
        let mut hooks = hooks;
        for hook in &mut hooks {
            // Only that one is asked about the probes.
            let others = json!({"key": "known", "operator": "DoesNotExist"});
            match hook["objectSelector"]["matchExpressions"].as_array_mut() {
                Some(expressions) => expressions.push(others),
                None => hook["objectSelector"]["matchExpressions"] = json!([others]),
            }
            if hook["namespaceSelector"].is_null() {
                hook["namespaceSelector"] = json!({"matchLabels": {"hooks": ns}});
            }
        }
        hooks.push(known);
        let configuration = configuration(kind, name, &hooks);
        c.api()
            .post(&configurations(kind), configuration)
            .await
            .expect(201);
        self.known(c, ns, name).await;
    }

    /// Waits until the server knows a configuration.
    async fn known(&self, c: &Cluster, ns: &str, name: &str) {
        let mut probe = fixtures::config_map("known");
        probe["metadata"]["labels"] = json!({"known": name});
        let path = format!("{}?dryRun=All", fixtures::core(ns, "configmaps"));
        let known = time::eventually(Duration::from_mins(1), async || {
            c.api().post(&path, &probe).await;
            self.memory().known.contains(name).then_some(())
        });
        assert!(known.await.is_some(), "{name} is not known in time");
    }
}

/// Where configurations of a kind are.
#[must_use]
pub fn configurations(kind: &str) -> String {
    let kind = kind.to_lowercase();
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations")
}

/// A configuration of a kind.
#[must_use]
pub fn configuration(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name},
        "webhooks": hooks,
    })
}

/// The response that lets a request pass.
#[must_use]
pub fn allow() -> Said {
    Said::Response(json!({"allowed": true}))
}

/// The response that refuses it with a `Status`.
#[must_use]
pub fn deny(status: &Value) -> Said {
    Said::Response(json!({"allowed": false, "status": status}))
}

/// The response that changes the object by a JSON patch.
#[must_use]
pub fn change(patch: &Value) -> Said {
    let patch = BASE64_STANDARD.encode(patch.to_string());
    Said::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

fn certificate(names: &[&str]) -> Result<(String, ServerConfig), Box<dyn std::error::Error>> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority
        .distinguished_name
        .push(DnType::CommonName, "webhook-ca");
    let ca_key = KeyPair::generate()?;
    let ca = authority.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(authority, ca_key);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut server = CertificateParams::new(names)?;
    server.distinguished_name.push(DnType::CommonName, "webhook");
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &issuer)?;
    Ok((ca, tls(certificate.der().clone(), &key)?))
}

fn self_signed() -> Result<(String, ServerConfig), Box<dyn std::error::Error>> {
    let mut own = CertificateParams::new(["127.0.0.1".to_owned()])?;
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    own.distinguished_name.push(DnType::CommonName, "webhook");
    let key = KeyPair::generate()?;
    let certificate = own.self_signed(&key)?;
    Ok((certificate.pem(), tls(certificate.der().clone(), &key)?))
}

fn tls(certificate: CertificateDer<'static>, key: &KeyPair) -> Result<ServerConfig, rustls::Error> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, speak: Speak, memory: Arc<Mutex<Memory>>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((socket, _)) = listener.accept().await else {
            continue;
        };
        let (acceptor, speak, memory) = (acceptor.clone(), Arc::clone(&speak), Arc::clone(&memory));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let service = service_fn(move |request| answer(request, Arc::clone(&speak), Arc::clone(&memory)));
            let builder = hyper::server::conn::http1::Builder::new();
            // Who was asked may close the connection, which is an error here.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Frames = futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>;
type Body = Either<Full<Bytes>, StreamBody<Frames>>;

async fn answer(
    request: Request<Incoming>,
    speak: Speak,
    memory: Arc<Mutex<Memory>>,
) -> Result<Response<Body>, std::io::Error> {
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
    let said = if path.starts_with(KNOWN) {
        let probe = review["request"]["object"]["metadata"]["labels"]["known"].as_str();
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.known.extend(probe.map(str::to_owned));
        allow()
    } else {
        let said = speak(&path, &review["request"]);
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.asked.push(Asked {
            path,
            headers,
            review,
        });
        said
    };
    let whole = |status: u16, media_type: &'static str, text: String| {
        let mut response = Response::new(Either::Left(Full::new(Bytes::from(text))));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
        let media_type = http::HeaderValue::from_static(media_type);
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, media_type);
        response
    };
    let said = match said {
        Said::Late(wait, response) => {
            time::pause(wait).await;
            Said::Response(response)
        }
        said => said,
    };
    match said {
        Said::Response(mut response) | Said::Late(_, mut response) => {
            if response["uid"].is_null() {
                response["uid"] = uid;
            }
            let review = json!({"kind": "AdmissionReview", "apiVersion": version, "response": response});
            Ok(whole(200, "application/json", review.to_string()))
        }
        Said::Raw(status, text) => Ok(whole(status, "text/plain", text)),
        Said::Nothing => std::future::pending().await,
        Said::Close => Err(std::io::Error::other("closed")),
        Said::Endless => {
            let chunk = || Ok(Frame::data(Bytes::from_static(&[b' '; 16 * 1024])));
            let frames: Frames = Box::pin(futures_util::stream::repeat_with(chunk));
            Ok(Response::new(Either::Right(StreamBody::new(frames))))
        }
    }
}
