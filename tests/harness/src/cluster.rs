//! The cluster under test, started once per test process.
//!
//! [`Running`] owns the servers. Each test gets a clone of the [`Cluster`], which hides the kind of server.

use std::{
    collections::BTreeMap,
    env, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    api::Api,
    audit::AuditLog,
    endpoint::{self, ClientError},
    fixtures,
    process::Process,
    real::{self, KUBECONFIG, Servers},
    sandbox,
};

/// The address of each Service, by `namespace/name:port`.
pub type Services = BTreeMap<String, SocketAddr>;

/// A cluster with its servers and files. Dropping it stops the servers.
pub struct Running {
    /// The handle of the tests.
    pub cluster: Cluster,
    // Dropped in this order: the servers stop before their directory is removed.
    _servers: Option<Servers>,
    _dir: TempDir,
}

/// A cluster to test.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    api: Api,
    anonymous: Api,
    kubeconfig: PathBuf,
    audit: Option<AuditLog>,
    has_kcm: bool,
    version: (u32, u32),
    git_version: String,
    namespaces: AtomicU64,
}

/// Starts the servers in `KUBEBUILDER_ASSETS`, or the sandbox.
pub async fn start() -> Result<Running, StartError> {
    start_knowing(Services::new()).await
}

/// [`start`] with the addresses of Services, which the sandbox calls for webhooks.
pub async fn start_knowing(services: Services) -> Result<Running, StartError> {
    let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|assets| !assets.is_empty());
    start_with(assets.as_deref().map(Path::new), services, true).await
}

/// Starts the sandbox with the admission plugins of the real tier. Ignores the environment.
pub async fn start_sandbox() -> Result<Running, StartError> {
    start_with(None, Services::new(), false).await
}

/// The real server has no `OwnerReferencesPermissionEnforcement`: its plugin rejects references to the kind of a CRD until half a
/// minute after the creation of the CRD.
async fn start_with(
    assets: Option<&Path>,
    services: Services,
    enforce_owner_references: bool,
) -> Result<Running, StartError> {
    let dir = tempfile::Builder::new().prefix("steersman-tests-").tempdir()?;
    let kubeconfig = dir.path().join(KUBECONFIG);
    let (servers, audit) = if let Some(assets) = assets {
        (Some(real::start(assets, &dir).await?), None)
    } else {
        let audit = AuditLog::default();
        let endpoint = sandbox::start(services, &audit, enforce_owner_references)
            .await
            .map_err(StartError::Sandbox)?;
        endpoint.write_kubeconfig(&kubeconfig)?;
        (None, Some(audit))
    };
    let api = Api::new(endpoint::client(&kubeconfig).await?);
    let anonymous = Api::new(endpoint::anonymous_client(&kubeconfig).await?);
    let version = api.get("/version").await.expect(200);
    let text = |field: &str| version[field].as_str().unwrap_or_default().to_owned();
    // A vendor's minor may read `20+`.
    let number = |field: &str| text(field).trim_end_matches('+').parse::<u32>();
    let (Ok(major), Ok(minor)) = (number("major"), number("minor")) else {
        return Err(StartError::Assets(format!("/version has no version: {version}")));
    };
    let inner = Inner {
        api,
        anonymous,
        kubeconfig,
        audit,
        has_kcm: servers.as_ref().is_none_or(|servers| servers.has_kcm),
        version: (major, minor),
        git_version: text("gitVersion"),
        namespaces: AtomicU64::new(0),
    };
    Ok(Running {
        cluster: Cluster(Arc::new(inner)),
        _servers: servers,
        _dir: dir,
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.cluster.audit().map(AuditLog::write) {
            eprintln!("failed to write the audit log: {error}");
        }
    }
}

impl Cluster {
    /// Plain HTTP, as an administrator.
    pub fn api(&self) -> &Api {
        &self.0.api
    }

    /// Plain HTTP without credentials. A test can add an `authorization` header.
    pub fn anonymous(&self) -> &Api {
        &self.0.anonymous
    }

    /// The same connection as a `kube::Client` that does not retry.
    pub fn client(&self) -> kube::Client {
        self.0.api.client()
    }

    /// Returns a token of a service account.
    pub async fn token(&self, namespace: &str, account: &str) -> String {
        let path = format!("{}/{account}/token", fixtures::core(namespace, "serviceaccounts"));
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let issued = self.api().post(&path, request).await.expect(201);
        issued["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// A file for kubectl, readable by its owner only.
    pub fn kubeconfig(&self) -> &Path {
        &self.0.kubeconfig
    }

    /// The major and minor version of the server.
    pub fn version(&self) -> (u32, u32) {
        self.0.version
    }

    /// Whether the server is the sandbox.
    pub fn is_sandbox(&self) -> bool {
        self.0.audit.is_some()
    }

    /// The requests of the product's service accounts. None on the real server, which does not record them.
    pub fn audit(&self) -> Option<&AuditLog> {
        self.0.audit.as_ref()
    }

    /// Whether a controller deletes the content of namespaces: kube-controller-manager, or the sandbox itself.
    pub fn has_kcm(&self) -> bool {
        self.0.has_kcm
    }

    /// Whether the controllers under test are those of kube-controller-manager, see [`real::KCM`].
    pub fn runs_kcm_instead_of_ours(&self) -> bool {
        !self.is_sandbox() && real::kcm_instead_of_ours()
    }

    /// The tier's name for the last line: `real 1.20.2`, `sandbox 1.36`.
    pub fn tier(&self) -> String {
        if self.is_sandbox() {
            let (major, minor) = self.version();
            format!("sandbox {major}.{minor}")
        } else {
            format!("real {}", self.0.git_version.trim_start_matches('v'))
        }
    }

    /// Creates a namespace for one test and returns its name. It is not deleted, because the cluster ends with the run.
    pub async fn namespace(&self) -> String {
        let name = format!("test-{:05}", self.0.namespaces.fetch_add(1, Ordering::Relaxed));
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api().post("/api/v1/namespaces", body).await.expect(201);
        name
    }
}

/// The cluster did not start. Not retryable.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory in `KUBEBUILDER_ASSETS` lacks something.
    #[error("KUBEBUILDER_ASSETS: {0}")]
    Assets(String),
    /// The sandbox did not start.
    #[error("the sandbox did not start: {0}")]
    Sandbox(String),
    /// A server of the real tier did not start.
    #[error("{name} {what}; the end of its log:\n{log}")]
    Server {
        /// The name of the server.
        name: &'static str,
        /// The failure.
        what: &'static str,
        /// The end of its log.
        log: String,
    },
    /// No certificates.
    #[error("cannot make certificates: {0}")]
    Certs(#[from] rcgen::Error),
    /// No client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Files or processes.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl StartError {
    pub(crate) fn server(process: &Process, what: &'static str) -> Self {
        Self::Server {
            name: process.name(),
            what,
            log: process.log_tail(),
        }
    }
}
