//! Credentials of exec plugins, over real sockets. A plugin is a script that prints a file.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use kube::config::AuthInfo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use steersman_harness::{certs, time};
use steersman_manager::client::{ClientError, Transport};
use steersman_manager::env::{Env, Fault, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_manager::serve::{HttpHandler, HttpResponse, Peer, Server, ServingCertificates, TlsOptions};
use tempfile::TempDir;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const VERSION: &str = "client.authentication.k8s.io/v1";

/// The certificate and the token of each request, and the token that is rejected.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Default)]
struct Recorded {
    requests: Vec<(Option<Vec<u8>>, String)>,
    rejected: String,
}

impl HttpHandler for Recorder {
    async fn handle(&self, peer: &Peer, request: Request<Incoming>) -> HttpResponse {
        let token = request.headers().get("authorization");
        let token = token.map_or("", |it| it.to_str().expect("text")).to_owned();
        let mut recorded = self.0.lock().expect("no panic");
        let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
        if token == recorded.rejected && !token.is_empty() {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        let certificate = peer.certificates.first().map(|it| it.to_vec());
        recorded.requests.push((certificate, token));
        response
    }
}

struct Fixture {
    env: Env,
    folder: TempDir,
    recorder: Recorder,
    transport: Transport,
    _tasks: TaskSet,
}

/// Returns a configuration whose plugin is `script` in `folder`.
fn config(server: SocketAddr, folder: &TempDir, script: &str) -> kube::Config {
    let path = folder.path().join("plugin");
    fs::write(
        &path,
        format!("#!/bin/sh\ncd {}\n{script}\n", folder.path().display()),
    )
    .expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("permissions");
    let mut config = kube::Config::new(format!("https://{server}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    config.auth_info = serde_json::from_value(json!({"exec": {
        "apiVersion": VERSION, "command": path, "env": [{"name": "GREETING", "value": "hello"}],
    }}))
    .expect("an exec plugin");
    config
}

/// A server that asks for a client certificate, and a client whose plugin prints the file `credential`.
async fn fixture() -> Fixture {
    fixture_with(|_| {}).await
}

/// [`fixture`] with other credentials than those of the plugin.
async fn fixture_with(change: impl FnOnce(&mut AuthInfo)) -> Fixture {
    let (tasks, folder, recorder) = (
        TaskSet::new(),
        TempDir::new().expect("a directory"),
        Recorder::default(),
    );
    let env = Env::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"), 0, &tasks);
    let options = TlsOptions {
        request_client_certificates: true,
        ..TlsOptions::default()
    };
    let tls = ServingCertificates::self_signed([]).and_then(|it| it.tls(&options));
    let server = Server::bind(
        "127.0.0.1:0".parse().expect("an address"),
        tls.expect("a certificate"),
    );
    let server = server.await.expect("a free port");
    let mut config = config(
        server.address(),
        &folder,
        r#"echo "$KUBERNETES_EXEC_INFO $GREETING" >> runs; cat credential"#,
    );
    change(&mut config.auth_info);
    env.tasks
        .spawn(server.serve(env.clone(), recorder.clone(), std::future::pending()));
    let transport = Transport::connect(&config, "test", &env.clock, &Registry::new("test"));
    Fixture {
        transport: transport.expect("a transport"),
        env,
        folder,
        recorder,
        _tasks: tasks,
    }
}

impl Fixture {
    /// Sets the output of the plugin.
    fn issue(&self, status: &Value) {
        let credential = json!({"apiVersion": VERSION, "kind": "ExecCredential", "status": status});
        fs::write(self.folder.path().join("credential"), credential.to_string()).expect("a file");
    }

    fn runs(&self) -> Vec<String> {
        let runs = fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        runs.lines().map(str::to_owned).collect()
    }

    fn expires_in(&self, minutes: i64) -> Timestamp {
        self.env.clock.wall() + SignedDuration::from_mins(minutes)
    }

    /// Sets the wall clock forward.
    fn advance(&self, by: SignedDuration) {
        assert!(self.env.clock.inject(Fault::Skew(by)), "no fault injection");
    }

    async fn request(&self) -> Result<Value, ClientError> {
        let client = self.transport.reader("a", None);
        client.get(&NAMESPACES, &Key::cluster("default")).await
    }

    /// Returns certificate and token of the last request.
    fn last(&self) -> (Option<Vec<u8>>, String) {
        let recorded = self.recorder.0.lock().expect("no panic");
        recorded.requests.last().expect("a request").clone()
    }
}

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .expect("PEM")
        .to_vec()
}

#[tokio::test]
async fn certificate_of_a_plugin_is_renewed_before_it_expires() {
    let f = fixture().await;
    let [first, second, third] = [(); 3].map(|()| certs::client().expect("certificates"));
    let issue = |client: &certs::Client, minutes| {
        f.issue(&json!({
            "clientCertificateData": client.cert, "clientKeyData": client.key,
            "expirationTimestamp": f.expires_in(minutes).to_string(),
        }));
    };
    issue(&first, 60);
    for _ in 0..3 {
        f.request().await.expect("an answer");
        assert_eq!(f.last(), (Some(der(&first.cert)), String::new()));
    }
    let info =
        format!(r#"{{"apiVersion":"{VERSION}","kind":"ExecCredential","spec":{{"interactive":false}}}}"#);
    assert_eq!(f.runs(), [format!("{info} hello")]);

    // Requests do not wait for the renewal.
    f.advance(SignedDuration::from_mins(59));
    issue(&second, 60);
    let renewed = time::eventually(time::ANSWER, async || {
        f.request().await.expect("an answer");
        (f.last().0 == Some(der(&second.cert))).then_some(())
    });
    renewed.await.expect("the new certificate is used");

    // They do after the expiry.
    f.advance(SignedDuration::from_mins(180));
    issue(&third, 60);
    f.request().await.expect("an answer");
    assert_eq!(f.last().0, Some(der(&third.cert)));
    assert_eq!(f.runs().len(), 3);
}

#[tokio::test]
async fn token_of_a_plugin_is_sent_with_the_certificate_of_the_kubeconfig() {
    let [inline, issued] = [(); 2].map(|()| certs::client().expect("certificates"));
    let f = fixture_with(|auth| {
        auth.client_certificate_data = Some(STANDARD.encode(&inline.cert));
        auth.client_key_data = Some(STANDARD.encode(&inline.key).into());
    });
    let f = f.await;
    f.issue(&json!({"token": "a"}));
    f.request().await.expect("an answer");
    assert_eq!(f.last(), (Some(der(&inline.cert)), "Bearer a".to_owned()));
    // A certificate of the plugin replaces it.
    f.issue(&json!({"clientCertificateData": issued.cert, "clientKeyData": issued.key}));
    f.recorder.0.lock().expect("no panic").rejected = "Bearer a".to_owned();
    f.request().await.expect_err("rejected");
    f.advance(SignedDuration::from_secs(11));
    f.request().await.expect("an answer");
    assert_eq!(f.last(), (Some(der(&issued.cert)), String::new()));
}

#[tokio::test]
async fn rejected_token_of_a_plugin_is_renewed() {
    let f = fixture().await;
    f.issue(&json!({"token": "a"}));
    f.request().await.expect("an answer");
    f.recorder.0.lock().expect("no panic").rejected = "Bearer a".to_owned();
    f.issue(&json!({"token": "b"}));
    for _ in 0..3 {
        assert_eq!(f.request().await.expect_err("rejected").code(), Some(401));
    }
    assert_eq!(f.runs().len(), 1, "the plugin does not run for each request");
    f.advance(SignedDuration::from_secs(11));
    f.request().await.expect("an answer");
    assert_eq!(f.last(), (None, "Bearer b".to_owned()));
    assert_eq!(f.runs().len(), 2);
}

#[tokio::test]
async fn failed_renewal_keeps_credentials_until_they_expire() {
    let f = fixture().await;
    f.issue(&json!({"token": "a", "expirationTimestamp": f.expires_in(60).to_string()}));
    f.request().await.expect("an answer");
    f.issue(&json!({"clientKeyData": "hunter2"}));
    f.advance(SignedDuration::from_mins(59));
    let failed = time::eventually(time::ANSWER, async || {
        f.request().await.expect("an answer");
        (f.runs().len() == 2).then_some(())
    });
    failed.await.expect("the plugin runs");
    assert_eq!(f.last().1, "Bearer a");
    f.advance(SignedDuration::from_mins(61));
    let error = f.request().await.expect_err("expired");
    let reason = "the exec credential plugin returned only one of clientCertificateData and clientKeyData";
    assert!(error.to_string().ends_with(reason), "{error}");
    assert!(!error.is_unknown_outcome(), "the request was not sent");
}

#[tokio::test]
async fn failure_of_a_plugin_is_reported_before_the_first_request() {
    let f = fixture().await;
    let address = "127.0.0.1:1".parse().expect("an address");
    for (script, reason) in [
        ("exit 3", "failed: exit status: 3"),
        ("echo hunter2", "did not print a valid credential"),
        (
            "echo '{\"status\": {}}'",
            "returned neither a token nor a certificate",
        ),
        ("exec sleep 1000000", "did not end within 30 s"),
    ] {
        if script.contains("sleep") {
            // The timeout passes in a fraction of a second.
            assert!(f.env.clock.inject(Fault::Rate(100_000)), "no fault injection");
        }
        let config = config(address, &f.folder, script);
        let transport = Transport::connect(&config, "test", &f.env.clock, &Registry::new("test"));
        let failed = transport.expect("a transport").authenticate().await;
        let expected = format!("cannot connect to 127.0.0.1:1: the exec credential plugin {reason}");
        assert_eq!(failed.expect_err(script).to_string(), expected);
    }
}
