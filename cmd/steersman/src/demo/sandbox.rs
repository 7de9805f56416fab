//! `steersman --sandbox`: an API server in the same process. The manager reaches it without a socket; `kubectl` connects to
//! a loopback port.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::json;
use steersman_config::Sandbox as Flags;
use steersman_controllers::api::app_service::APP_SERVICES;
use steersman_controllers::{api, appservice, deployment, hollow_kubelet, replicaset};
use steersman_manager::client::{ClientError, ConnectError, Transport};
use steersman_manager::env::{Clock, Env};
use steersman_manager::manager::Process;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{MetaObject, Resource};
use steersman_sandbox::{KubeconfigError, KubeconfigFile, Sandbox, ServeError, Server, StartError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{progress, snapshot};
use crate::log::Output;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    #[error("cannot listen on {address}: {reason}; choose another address with --sandbox-listen")]
    Listen { address: SocketAddr, reason: String },
    #[error("{0}; choose another file with --sandbox-kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
    #[error("cannot start the sandbox: {0}")]
    Start(#[from] StartError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot create the CustomResourceDefinitions in the sandbox: {0}")]
    Crds(#[from] ClientError),
}

const CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// Name of the sample `AppService`.
const SAMPLE: &str = "hello";
/// The sample needs these controllers to become ready.
const SAMPLE_CONTROLLERS: [&str; 4] = [
    appservice::NAME,
    deployment::NAME,
    hollow_kubelet::NAME,
    replicaset::NAME,
];

/// A running sandbox.
pub(crate) struct Embedded {
    transport: Transport,
    url: String,
    kubeconfig: KubeconfigFile,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Embedded {
    pub(crate) async fn start(flags: Flags, env: &Env, registry: &Registry) -> Result<Self, SandboxError> {
        let Flags { listen, kubeconfig } = flags;
        if let Some(path) = &kubeconfig {
            KubeconfigFile::check(path)?;
        }
        let server = Server::bind(listen).await.map_err(|error| SandboxError::Listen {
            address: listen,
            reason: reason(error),
        })?;
        let url = server.url();
        let kubeconfig = KubeconfigFile::write(kubeconfig, &server.credentials().kubeconfig(&url))?;
        let sandbox = Sandbox::builder().start()?;
        let transport =
            Transport::from_service(sandbox.service(), "sandbox", "steersman", &env.clock, registry)?;
        create_crds(&transport).await?;
        let stop = CancellationToken::new();
        let (service, until) = (sandbox.service(), stop.clone());
        let serving = env
            .tasks
            .spawn(async move { server.serve(service, until.cancelled()).await });
        Ok(Self {
            transport,
            url,
            kubeconfig,
            stop,
            serving,
        })
    }

    /// The election needs no connection of its own: requests do not queue on a socket. They run on the runtime of the controllers, as
    /// the sandbox does. A request with the token of a service
    /// account has its identity, any other is an administrator's.
    pub(crate) fn process(&self, env: &Env, control_env: &Env) -> Process {
        let mut process = Process::new(env, self.transport.clone());
        process.control_env = control_env.clone();
        process
    }

    /// Prints the addresses and files that a user needs.
    pub(crate) fn print_summary(&self, endpoints: Option<SocketAddr>, controllers: &[&str]) {
        let file = self.kubeconfig.path().display();
        let (url, controllers) = (&self.url, controllers.join(", "));
        let off = || ["off".to_owned(), "off".to_owned()];
        let [page, endpoints] = endpoints.map_or_else(off, |address| {
            let base = format!("https://{}", reachable(address));
            let endpoints = format!("{base}/healthz?verbose  {base}/metrics  (curl -k)");
            [format!("{base}/"), endpoints]
        });
        // A closed pipe does not stop the sandbox.
        let _ = write!(
            io::stdout(),
            "Kubernetes API sandbox, in memory of this process. Press Ctrl-C to stop it and discard all objects.\n\
             \n\
             API server:   {url}\n\
             Controllers:  {controllers}\n\
             Kubeconfig:   {file}\n\
             Status page:  {page}\n\
             Endpoints:    {endpoints}\n\
             \n"
        );
    }

    /// Creates the sample if its controllers run, prints its progress until it is ready, and suggests commands to try.
    pub(crate) async fn run_sample(&self, controllers: &[&str], clock: &Clock, log: &Output) {
        let file = self.kubeconfig.path().display();
        if !SAMPLE_CONTROLLERS.iter().all(|it| controllers.contains(it)) {
            let _ = write!(
                io::stdout(),
                "Try:\n  \
                 export KUBECONFIG={file}\n  \
                 kubectl run web --image=nginx\n  \
                 kubectl get pods --watch\n  \
                 kubectl delete pod web\n"
            );
            return;
        }
        let client = self.transport.unfenced("sandbox", None);
        let body = json!({
            "apiVersion": "appcontroller.k8s.io/v1alpha1",
            "kind": "AppService",
            "metadata": {"name": SAMPLE},
            "spec": {"deploymentName": SAMPLE, "replicas": 2, "image": "nginx", "ports": [{"port": 80}]},
        });
        let sample: Result<MetaObject, _> = client
            .create(&APP_SERVICES, snapshot::NAMESPACE, body.to_string().into())
            .await;
        match sample {
            Ok(_) => progress::follow(&client, SAMPLE, clock, log).await,
            Err(error) => tracing::warn!(%error, "Failed to create the sample AppService"),
        }
        let _ = write!(
            io::stdout(),
            "\n\
             Try:\n  \
             export KUBECONFIG={file}\n  \
             kubectl get appservices,deployments,replicasets,pods\n  \
             kubectl scale appservice/{SAMPLE} --replicas=5\n  \
             kubectl patch appservice/{SAMPLE} --type=merge -p '{{\"spec\":{{\"image\":\"nginx:404\"}}}}'   # an image that does not exist\n  \
             kubectl explain appservice.spec\n  \
             kubectl delete appservice/{SAMPLE} --cascade=foreground\n"
        );
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // A panic at the end changes nothing.
        let _ = self.serving.await;
    }
}

/// Creates the `CustomResourceDefinitions` of our kinds.
pub(super) async fn create_crds(transport: &Transport) -> Result<(), ClientError> {
    let client = transport.unfenced("sandbox", None);
    for definition in api::crds() {
        let body = definition.to_string().into();
        client.create::<MetaObject>(&CRDS, "", body).await?;
    }
    Ok(())
}

/// The sandbox's own message names its own flag, which this program calls differently.
fn reason(error: ServeError) -> String {
    match error {
        ServeError::Bind { source, .. } => source.to_string(),
        error @ ServeError::Credentials(_) => error.to_string(),
    }
}

/// Replaces an unspecified address by the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
