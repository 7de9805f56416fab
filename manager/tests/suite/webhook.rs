//! Webhooks: the certificate rotation against a sandbox API under a paused clock, and the server over real sockets.

mod client_certificates;
mod configurations;
mod conversion;
mod corrupted_secret;
mod fault_injector;
mod faults;
mod files;
mod renewal;
mod server;
mod typed;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use prometheus::TextEncoder;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use steersman_manager::client::{Client, Delete, Patch, Transport};
use steersman_manager::election::{self, Elector};
use steersman_manager::env::{Env, Fault, TaskSet};
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::manager::{Manager, ManagerError, Options};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, MetaObject, Resource};
use steersman_manager::serve::{CertificateMetrics, Tls};
use steersman_manager::webhook::{Certificates, ServiceCertificate, ServiceName, Source};
use steersman_sandbox::Sandbox;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use self::fault_injector::PlannedFaults;

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const MUTATING: Resource = Resource::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
);
const VALIDATING: Resource = Resource::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
);
const HOST: &str = "hooks.kube-system.svc";
const SECOND: Duration = Duration::from_secs(1);
const DAY: i64 = 24;

fn metrics(registry: &Registry) -> CertificateMetrics {
    CertificateMetrics::register(registry).expect("registered once")
}

/// A sandbox cluster with a client.
struct Cluster {
    sandbox: Sandbox,
    env: Env,
    client: Client,
    _tasks: TaskSet,
}

struct Replica {
    env: Env,
    registry: Registry,
    checks: Checks,
    certificates: Certificates,
    faults: PlannedFaults,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ManagerError>>,
    _tasks: TaskSet,
}

fn start() -> Timestamp {
    "2026-02-03T04:05:06Z".parse().expect("a time")
}

fn service() -> ServiceName {
    "kube-system/hooks".parse().expect("a service")
}

fn certificate() -> ServiceCertificate {
    ServiceCertificate {
        service: service(),
        secret_name: "hooks-certificate".to_owned(),
        secret_labels: [("app.kubernetes.io/managed-by".to_owned(), "harbour".to_owned())].into(),
        authority_name: "harbour-ca".to_owned(),
    }
}

fn secret() -> Key {
    Key::new("kube-system", "hooks-certificate")
}

fn configuration() -> Key {
    Key::cluster("hooks")
}

/// A cluster without webhook configurations.
fn bare() -> Cluster {
    let sandbox = Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(start(), 1))
        .start()
        .expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(start(), 9, &tasks);
    let transport = Transport::from_service(
        sandbox.service(),
        "sandbox",
        "test",
        &env.clock,
        &Registry::new("test"),
    );
    Cluster {
        client: transport.expect("a transport").unfenced("test", None),
        sandbox,
        env,
        _tasks: tasks,
    }
}

/// A cluster with both webhook configurations.
async fn cluster() -> Cluster {
    let cluster = bare();
    for resource in [MUTATING, VALIDATING] {
        cluster.configure(&resource).await;
    }
    cluster
}

impl Cluster {
    /// Creates a configuration with one webhook for the Service and one for a URL.
    async fn configure(&self, resource: &Resource) {
        let webhook = |name: &str, client: Value| {
            json!({
                "name": name, "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "rules": [{
                    "apiGroups": ["harbour.example"], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["boats"],
                }],
            })
        };
        let ours = json!({"service": {"namespace": "kube-system", "name": "hooks", "path": "/a"}});
        let theirs = json!({"url": "https://example.test/", "caBundle": "dGhlaXJz"});
        let body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": resource.kind,
            "metadata": {"name": "hooks", "annotations": {"kept": "yes"}},
            "webhooks": [webhook("ours.example.test", ours), webhook("theirs.example.test", theirs)],
        });
        let created: Result<MetaObject, _> = self.client.create(resource, "", body.to_string().into()).await;
        created.expect("created");
    }

    async fn get(&self, resource: &Resource, key: &Key) -> Option<Value> {
        match self.client.get(resource, key).await {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found(&key.name) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns a value of the Secret.
    async fn data(&self, key: &str) -> Option<String> {
        let secret = self.get(&SECRETS, &secret()).await?;
        text(&secret["data"][key])
    }

    /// Returns the `caBundle` of the Service's webhook in each existing configuration.
    async fn bundles(&self) -> Vec<String> {
        let mut bundles = Vec::new();
        for resource in [MUTATING, VALIDATING] {
            let configuration = self.get(&resource, &configuration()).await;
            bundles.extend(configuration.map(|it| {
                let client = &it["webhooks"][0]["clientConfig"];
                text(&client["caBundle"]).unwrap_or_default()
            }));
        }
        bundles
    }

    async fn patch(&self, resource: &Resource, key: &Key, patch: &Value) {
        let patched: Result<MetaObject, _> = self.client.patch(resource, key, Patch::strategic(patch)).await;
        patched.expect("patched");
    }

    async fn delete(&self, resource: &Resource, key: &Key) {
        let object: MetaObject = self.client.get(resource, key).await.expect("an object");
        let delete = Delete::of(object.metadata.uid);
        self.client.delete(resource, key, &delete).await.expect("deleted");
    }

    /// Starts a replica without leader election: it leads.
    fn leader(&self) -> Replica {
        self.replica("alone", false)
    }

    /// Starts a replica that does not lead: another identity holds the Lease.
    async fn standby(&self) -> Replica {
        let leases = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "steersman"},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 1_000_000_000},
        });
        let held: Result<MetaObject, _> = self
            .client
            .create(&leases, "kube-system", lease.to_string().into())
            .await;
        held.expect("created");
        self.candidate("standby")
    }

    /// Starts a replica with leader election.
    fn candidate(&self, identity: &str) -> Replica {
        self.replica(identity, true)
    }

    fn replica(&self, identity: &str, elects: bool) -> Replica {
        let tasks = TaskSet::new();
        let env = Env::starting_at(self.env.clock.wall(), identity.len() as u64, &tasks);
        let (registry, checks) = (Registry::new("test"), Checks::new());
        let faults = PlannedFaults::default();
        let api = faults.wrap(self.sandbox.service());
        let transport =
            Transport::from_service(api, "sandbox", "test", &env.clock, &registry).expect("a transport");
        let options = Options {
            shutdown_timeout: Some(10 * SECOND),
            ..Options::new("steersman")
        };
        let mut manager =
            Manager::new(&env, &registry, &checks, transport.clone(), options).expect("a manager");
        let certificates = Certificates::new(Source::Service(certificate()), &metrics(&registry), &checks);
        let certificates = certificates.expect("certificates");
        certificates.host(&mut manager);
        if elects {
            let client = transport.unfenced("leader-election", None);
            let config = election::Config::new("kube-system", "steersman", identity);
            let fence = manager.fence().clone();
            let elector = Elector::new(&env, client, fence, config, &registry);
            manager.elect(elector.expect("an elector"));
        }
        let stop = CancellationToken::new();
        let ended = env.tasks.spawn(manager.run(stop.clone()));
        Replica {
            env,
            registry,
            checks,
            certificates,
            faults,
            stop,
            ended,
            _tasks: tasks,
        }
    }

    /// Returns the served certificate if the bundle of every configuration verifies it.
    async fn verified(&self, replica: &Replica) -> Option<String> {
        let mut shown = None;
        let mut bundles = self.bundles().await;
        assert!(!bundles.is_empty(), "no configurations");
        bundles.dedup();
        for bundle in bundles {
            let certificate = handshake(&replica.certificates.tls(), &bundle, replica.env.clock.wall()).await;
            shown = Some(certificate?);
        }
        shown
    }

    /// Waits until the replica serves a verified certificate other than `old`.
    async fn serves(&self, replica: &Replica, old: Option<&str>) -> String {
        let changed = async {
            // Poll often at first, then less often.
            let mut pause = SECOND / 100;
            loop {
                if let Some(shown) = self.verified(replica).await
                    && Some(shown.as_str()) != old
                {
                    return shown;
                }
                self.env.clock.sleep(pause).await;
                pause = (pause + pause / 10).min(10 * SECOND);
            }
        };
        let changed = self.env.clock.timeout(1200 * SECOND, changed).await;
        changed.expect("no certificate within twenty minutes")
    }

    /// Advances the wall clocks.
    fn later(&self, hours: i64, replicas: &[&Replica]) {
        let skew = Fault::Skew(SignedDuration::from_hours(hours));
        self.env.clock.inject(skew);
        for replica in replicas {
            replica.env.clock.inject(skew);
        }
    }
}

impl Replica {
    async fn stop(self) {
        self.stop.cancel();
        self.ended.await.expect("no panic").expect("an orderly end");
    }

    fn check(&self, name: &str, kind: Probes) -> Health {
        let checks = self.checks.run(kind);
        let check = checks.into_iter().find(|(it, _)| it == name);
        check.expect("a check of that name").1
    }

    fn metric(&self, name: &str) -> f64 {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a metric").trim().parse().expect("a number")
    }
}

fn text(value: &Value) -> Option<String> {
    let bytes: Option<ByteString> = serde_json::from_value(value.clone()).expect("base64");
    bytes.map(|it| String::from_utf8(it.0).expect("text"))
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

/// Returns the certificate that a client with this bundle accepts at this time.
async fn handshake(tls: &Tls, bundle: &str, at: Timestamp) -> Option<String> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let connector = connector(bundle, Some(at))?;
    let name = ServerName::try_from(HOST).expect("a name");
    let (accepted, connected) = tokio::join!(tls.acceptor().accept(theirs), connector.connect(name, ours));
    let (Ok(_), Ok(stream)) = (accepted, connected) else {
        return None;
    };
    let shown = stream.get_ref().1.peer_certificates()?.first()?.clone();
    Some(format!("{:?}", shown.as_ref()))
}

/// A client that trusts `bundle` at this time, or now; none if the bundle is empty.
fn connector(bundle: &str, at: Option<Timestamp>) -> Option<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("an authority");
    }
    if roots.is_empty() {
        return None;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = match at {
        Some(at) => ClientConfig::builder_with_details(provider, Arc::new(Fixed(at))),
        None => ClientConfig::builder_with_provider(provider),
    };
    let config = builder
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Some(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct Fixed(Timestamp);

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = self.0.as_second().try_into().ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}
