//! What the manager is told to do: plain values in groups, checked, with defaults filled in.
//!
//! A value of these types is valid: [`crate::parse`] makes them, and nothing after it has to check again. They know nothing
//! of the command line, and each part of the manager is given its group only.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::selector::Selector;

/// The whole configuration of a manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What concerns all controllers.
    pub generic: Generic,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// Who of several replicas works.
    pub leader_election: LeaderElection,
    /// The port with health and metrics.
    pub serving: Serving,
    /// The port with admission webhooks; none if there are none.
    pub webhook: Option<Webhook>,
    /// What is logged, and how.
    pub logging: Logging,
    /// The embedded API server; none if the manager works on a cluster.
    pub sandbox: Option<Sandbox>,
    /// The controller that deletes what nobody owns; none if it is switched off.
    pub garbage_collector: Option<GarbageCollector>,
    /// The controller that plays the nodes.
    pub hollow_kubelet: HollowKubelet,
    /// The controller that keeps applications.
    pub app_services: AppServices,
    /// The controller that rolls out templates.
    pub deployments: Deployments,
    /// The controllers that keep pods.
    pub replicas: Replicas,
}

/// What concerns all controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generic {
    /// Which controllers run.
    pub controllers: Selector,
    /// An absent Lease means that kube-controller-manager does not run. True for the sandbox by default.
    pub assume_no_kube_controller_manager: bool,
    /// Each controller starts after a random time between this and twice this.
    pub controller_start_interval: Duration,
    /// How long to wait for the controllers at the end; none is for ever.
    pub controller_shutdown_timeout: Option<Duration>,
    /// The namespaces that are watched, each once; empty is all of them.
    pub namespaces: Vec<String>,
    /// Only objects that match are cached; none is all.
    pub label_selector: Option<String>,
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// None, with no `master` either: the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The address of the API server; overrides that of the kubeconfig.
    pub master: Option<String>,
    /// None is no limit.
    pub rate: Option<Rate>,
}

/// A limit on the requests of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests per second in the long run; finite and above zero.
    pub qps: f64,
    /// Requests that may be sent at once; at least one.
    pub burst: u32,
}

/// Who of several replicas works. The times are checked only if `leader_elect` is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether to elect at all.
    pub leader_elect: bool,
    /// How long others respect a lease that is not renewed. Its whole seconds are longer than `renew_deadline`.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up; longer than 1.2 times `retry_period`.
    pub renew_deadline: Duration,
    /// The time between two tries.
    pub retry_period: Duration,
    /// The name of the Lease.
    pub resource_name: String,
    /// The namespace of the Lease.
    pub resource_namespace: String,
}

/// The port with health and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Where to listen; none is nowhere.
    pub listen: Option<SocketAddr>,
    /// None is a certificate made at start.
    pub certificate: Option<CertificateFiles>,
    /// Paths that are answered without asking who it is. A `*` at the end stands for any rest.
    pub always_allow_paths: Vec<String>,
}

/// A certificate and its key, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// The private key.
    pub private_key: PathBuf,
}

/// The port with admission webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Where to listen.
    pub listen: SocketAddr,
    /// What to serve with.
    pub certificate: WebhookCertificate,
    /// The certificate authorities of its clients; none if clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// What webhooks are served with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCertificate {
    /// A certificate that is made for this Service, and renewed.
    Service {
        /// The Service's namespace.
        namespace: String,
        /// The Service's name.
        name: String,
    },
    /// What is in this folder.
    Folder(PathBuf),
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The shape of a line.
    pub format: LogFormat,
    /// The higher, the more is logged.
    pub verbosity: u8,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The lines of Kubernetes components.
    Text,
    /// One JSON object per line.
    Json,
}

/// The embedded API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Where it listens: always a loopback address, port 0 for any free one.
    pub listen: SocketAddr,
    /// Where to write a kubeconfig for it; none is a temporary file.
    pub kubeconfig: Option<PathBuf>,
}

/// The controller that deletes what nobody owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageCollector {
    /// How many objects are looked at at once; at least one.
    pub concurrent_syncs: u32,
    /// Nothing is written.
    pub dry_run: bool,
}

/// The controller that plays the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HollowKubelet {
    /// How long a pod takes from being bound to being ready.
    pub ready_delay: Duration,
    /// How many nodes there are; at least one.
    pub nodes: u32,
    /// How many pods are worked on at once; at least one.
    pub concurrent_syncs: u32,
}

/// The controller that keeps applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppServices {
    /// How many `AppServices` are worked on at once; at least one.
    pub concurrent_syncs: u32,
}

/// The controller that rolls out templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployments {
    /// How many `Deployments` are worked on at once; at least one.
    pub concurrent_syncs: u32,
}

/// The controllers that keep pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// How many `AppReplicaSets` are worked on at once; at least one.
    pub concurrent_appreplicaset_syncs: u32,
    /// How many `ReplicaSets` are worked on at once; at least one.
    pub concurrent_replicaset_syncs: u32,
    /// How many `ReplicationControllers` are worked on at once; at least one.
    pub concurrent_rc_syncs: u32,
}

impl Serving {
    /// Where to listen, if at all: port 0 switches the server off.
    pub(crate) fn listen(address: IpAddr, port: u16) -> Option<SocketAddr> {
        (port != 0).then_some(SocketAddr::new(address, port))
    }
}
