//! The validated configuration: plain values in groups, with defaults applied.
//!
//! [`crate::parse`] creates it; later code does not validate again. Each part of the manager is given only its group.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::selector::Selector;

/// The action that a command line requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// Run the manager.
    Run(Box<Config>),
    /// Print a text, the help or the version, to standard output.
    Print(String),
    /// Write a text, the configuration, to a file.
    #[expect(missing_docs, reason = "plain data")]
    Write { path: PathBuf, text: String },
    /// Print the `CustomResourceDefinitions`.
    Crds,
    /// Print the objects of an installation.
    Manifests,
    /// Print the version and the build as JSON.
    Version,
    /// Run the tour.
    Tour,
}

/// The configuration of a manager.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub generic: Generic,
    pub client_connection: ClientConnection,
    pub leader_election: LeaderElection,
    pub serving: Serving,
    pub authentication: Authentication,
    pub authorization: Authorization,
    /// None if webhooks are not served.
    pub webhook: Option<Webhook>,
    pub logging: Logging,
    pub tracing: Tracing,
    pub debugging: Debugging,
    /// None if the manager runs on a cluster.
    pub sandbox: Option<Sandbox>,
    /// None if the garbage collector is disabled.
    pub garbage_collector: Option<GarbageCollector>,
    pub hollow_kubelet: HollowKubelet,
    pub app_services: AppServices,
    pub deployments: Deployments,
    pub replicas: Replicas,
    /// The effective value of every flag, by its name without dashes. An empty value is not set.
    pub flags: BTreeMap<String, String>,
    /// The effective configuration as a configuration file.
    pub document: serde_json::Value,
}

/// Settings of all controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generic {
    /// The enabled controllers.
    pub controllers: Selector,
    /// Whether an absent Lease means that kube-controller-manager does not run. Defaults to true with the sandbox.
    pub assume_no_kube_controller_manager: bool,
    /// Each controller starts after a random delay of one to two intervals.
    pub controller_start_interval: Duration,
    /// Time to wait for controllers to stop at shutdown; none waits without limit.
    pub controller_shutdown_timeout: Option<Duration>,
    /// Watched namespaces without duplicates; empty selects all.
    pub namespaces: Vec<String>,
    /// Selects the cached objects; none selects all.
    pub label_selector: Option<String>,
    /// Whether each controller uses the service account of its name.
    pub use_service_account_credentials: bool,
}

/// Connection to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// If neither this nor `master` is set, the service account of the pod is used.
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; overrides the one in the kubeconfig.
    pub master: Option<String>,
    /// None disables the limit.
    pub rate: Option<Rate>,
}

/// Rate limit of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Sustained requests per second; finite and greater than 0.
    pub qps: f64,
    /// At least 1.
    pub burst: u32,
}

/// Leader election. Durations are validated only if `leader_elect` is set.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    pub leader_elect: bool,
    /// Time after which other candidates consider the lease expired. In whole seconds longer than `renew_deadline`.
    pub lease_duration: Duration,
    /// Time that the leader keeps trying to renew; longer than 1.2 times `retry_period`.
    pub renew_deadline: Duration,
    /// Time between attempts.
    pub retry_period: Duration,
    pub resource_name: String,
    pub resource_namespace: String,
}

/// Health and metrics endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// None disables the endpoints.
    pub listen: Option<SocketAddr>,
    /// Whether a free port is used instead of a port that is in use.
    pub fallback: bool,
    /// None generates a self-signed certificate at start.
    pub certificate: Option<CertificateFiles>,
    /// Additional certificates, selected by the server name that the client sends.
    pub sni_certificates: Vec<SniCertificate>,
    /// Lowest version of TLS.
    pub min_tls_version: TlsVersion,
    /// IANA names, not validated; empty selects all suites of the TLS library.
    pub cipher_suites: Vec<String>,
}

/// Version of TLS.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

/// A certificate for a set of server names.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    pub files: CertificateFiles,
    /// Domain names, with a leading `*.` for one level of subdomains, or IP addresses; empty selects those of the
    /// certificate.
    pub names: Vec<String>,
}

/// Authentication of the clients of the endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Connection for `TokenReviews`; none uses the manager's own.
    pub kubeconfig: Option<PathBuf>,
    /// Whether the authentication configuration of the cluster is not read.
    pub skip_lookup: bool,
    /// Time to cache the results of `TokenReviews`.
    pub token_cache_ttl: Duration,
    /// Certificate authorities of the clients; none does not accept client certificates.
    pub client_ca: Option<PathBuf>,
    /// None does not accept authenticating proxies.
    pub request_header: Option<RequestHeader>,
}

/// Authentication by the headers of an authenticating proxy.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Certificate authorities of the proxies.
    pub client_ca: PathBuf,
    /// Common names of the proxies; empty allows all.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_headers_prefixes: Vec<String>,
}

/// Authorization of the clients of the endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// Connection for `SubjectAccessReviews`; none uses the manager's own.
    pub kubeconfig: Option<PathBuf>,
    /// Paths that are served without authorization. A trailing `*` matches any suffix.
    pub always_allow_paths: Vec<String>,
    /// Time to cache that a user is authorized.
    pub authorized_ttl: Duration,
    /// Time to cache that a user is not authorized.
    pub unauthorized_ttl: Duration,
}

/// PEM files of a certificate and its key.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Includes the certificates of the issuers.
    pub certificate: PathBuf,
    pub private_key: PathBuf,
}

/// Admission webhooks.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub listen: SocketAddr,
    pub certificate: WebhookCertificate,
    /// Certificate authorities of the clients; none does not require client certificates.
    pub client_ca: Option<PathBuf>,
}

/// The source of the serving certificate of the webhooks.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCertificate {
    /// Issued for this Service and renewed.
    Service { namespace: String, name: String },
    /// `tls.crt` and `tls.key` in this directory.
    Folder(PathBuf),
}

/// Logging.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    pub format: LogFormat,
    /// As klog's `-v`: higher values log more.
    pub verbosity: u8,
    /// Verbosities by file pattern, as klog's `-vmodule`; the first match wins.
    pub vmodule: Vec<(String, u8)>,
}

/// Export of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// URL of the collector; none disables traces.
    pub endpoint: Option<String>,
    /// From 0 to 1000000.
    pub sampling_rate_per_million: u32,
}

/// Debugging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debugging {
    /// Whether profiles are served.
    pub profiling: bool,
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// klog's text format.
    Text,
    /// One JSON object per line.
    Json,
}

/// The embedded API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// A loopback address; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Path of the kubeconfig to write; none writes a temporary file.
    pub kubeconfig: Option<PathBuf>,
}

/// Garbage collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageCollector {
    /// Number of workers; at least 1.
    pub concurrent_syncs: u32,
    /// Logs deletions instead of sending them.
    pub dry_run: bool,
}

/// hollow-kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HollowKubelet {
    /// Time from the binding of a pod until it is ready.
    pub ready_delay: Duration,
    /// Number of nodes; at least 1.
    pub nodes: u32,
    /// Number of workers; at least 1.
    pub concurrent_syncs: u32,
}

/// `AppService` controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppServices {
    /// Number of workers; at least 1.
    pub concurrent_syncs: u32,
    /// Image of a new Deployment whose `AppService` sets no image; none rejects such an `AppService`.
    pub default_image: Option<String>,
}

/// Deployment controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployments {
    /// Number of workers; at least 1.
    pub concurrent_syncs: u32,
}

/// Numbers of workers, at least 1, of the controllers that create pods.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    pub concurrent_appreplicaset_syncs: u32,
    pub concurrent_replicaset_syncs: u32,
    pub concurrent_rc_syncs: u32,
}

impl Serving {
    /// Returns none for port 0, which disables the server.
    pub(crate) fn listen(address: IpAddr, port: u16) -> Option<SocketAddr> {
        (port != 0).then_some(SocketAddr::new(address, port))
    }
}
