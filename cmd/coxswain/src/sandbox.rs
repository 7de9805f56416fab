//! `coxswain --sandbox`: an API server in the same process. The manager reaches it without a socket; the socket is for
//! `kubectl`, and listens on loopback only.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use coxswain_config::Sandbox as Flags;
use coxswain_controllers::{api, appservice, deployment, hollow_kubelet, replicaset};
use coxswain_manager::client::{ClientError, ConnectError, Transport};
use coxswain_manager::env::{Clock, Env};
use coxswain_manager::object::{MetaObject, Resource};
use coxswain_sandbox::{KubeconfigError, KubeconfigFile, Options, Sandbox, ServeError, Server};
use prometheus::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::log::Output;
use crate::show;
use crate::ways::Ways;

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    #[error("cannot listen for kubectl on {address}: {reason}; choose another address with --sandbox-listen")]
    Listen { address: SocketAddr, reason: String },
    #[error("{0}; --sandbox-kubeconfig says where it is written")]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the sandbox does not take the definitions of the custom kinds: {0}")]
    Definitions(#[from] ClientError),
}

const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// The controllers without which the sample does not come alive.
const SAMPLED: [&str; 4] = [
    appservice::NAME,
    deployment::NAME,
    hollow_kubelet::NAME,
    replicaset::NAME,
];

/// A running sandbox.
pub(crate) struct Embedded {
    ways: (Transport, Transport),
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
        let sandbox = Sandbox::new(Options::default());
        let transport = Transport::over(sandbox.door(), "sandbox", "coxswain", &env.clock, registry)?;
        define(&transport).await?;
        let stop = CancellationToken::new();
        let (door, until) = (sandbox.door(), stop.clone());
        let serving = env
            .tasks
            .spawn(async move { server.serve(door, until.cancelled()).await });
        Ok(Self {
            ways: (transport.clone(), transport),
            url,
            kubeconfig,
            stop,
            serving,
        })
    }

    /// Two ways to the same door: there are no connections that one could hold up for the other.
    pub(crate) fn ways(&self) -> Ways {
        Ways {
            controllers: self.ways.0.clone(),
            election: self.ways.1.clone(),
        }
    }

    /// Tells the user what there is.
    pub(crate) fn greet(&self, endpoints: Option<SocketAddr>, controllers: &[&str]) {
        let file = self.kubeconfig.path().display();
        let (url, controllers) = (&self.url, controllers.join(", "));
        let endpoints = endpoints.map_or_else(
            || "off".to_owned(),
            |address| {
                let base = format!("https://{}", reachable(address));
                format!("{base}/healthz?verbose  {base}/metrics  (curl -k)")
            },
        );
        // Nobody reads it (a closed pipe): it serves all the same.
        let _ = write!(
            io::stdout(),
            "A Kubernetes API for trying out, with nothing behind it but this process. Ctrl-C ends it, and everything in \
             it is gone.\n\
             \n\
             API server:   {url}\n\
             Controllers:  {controllers}\n\
             Kubeconfig:   {file}\n\
             Endpoints:    {endpoints}\n\
             \n"
        );
    }

    /// Applies the sample if there is who makes something of it, shows it until it is there, and tells the user what there is
    /// to try.
    pub(crate) async fn show(&self, controllers: &[&str], clock: &Clock, log: &Output) {
        let file = self.kubeconfig.path().display();
        if !SAMPLED.iter().all(|it| controllers.contains(it)) {
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
        let client = self.ways.0.unfenced("sandbox", None);
        let body = show::sample().to_string().into();
        let sample: Result<MetaObject, _> = client.create(&show::APP_SERVICES, show::NAMESPACE, body).await;
        match sample {
            Ok(_) => show::follow(&client, show::NAMESPACE, show::NAME, clock, log).await,
            Err(error) => tracing::warn!(%error, "The sample application was not taken"),
        }
        let name = show::NAME;
        let _ = write!(
            io::stdout(),
            "\n\
             Try:\n  \
             export KUBECONFIG={file}\n  \
             kubectl get appservices,deployments,replicasets,pods\n  \
             kubectl scale appservice/{name} --replicas=5\n  \
             kubectl patch appservice/{name} --type=merge -p '{{\"spec\":{{\"image\":\"nginx:404\"}}}}'   # an image that is not there\n  \
             kubectl explain appservice.spec\n  \
             kubectl delete appservice/{name} --cascade=foreground\n"
        );
    }

    /// Ends it: the last of all.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        // It has nothing to say any more.
        let _ = self.serving.await;
    }
}

/// Installs the custom kinds, before anybody looks for them.
pub(crate) async fn define(transport: &Transport) -> Result<(), ClientError> {
    let client = transport.unfenced("sandbox", None);
    for definition in api::crds() {
        let body = definition.to_string().into();
        client.create::<MetaObject>(&DEFINITIONS, "", body).await?;
    }
    Ok(())
}

/// The sandbox speaks of its own flag, which has another name here.
fn reason(error: ServeError) -> String {
    match error {
        ServeError::Bind { source, .. } => source.to_string(),
        error @ ServeError::Credentials(_) => error.to_string(),
    }
}

/// An address that this machine reaches, where it listens on all.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
