//! The address and the credentials of a server, its kubeconfig and its clients.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::json;

/// The address and administrator credentials of a cluster.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Such as `https://127.0.0.1:6443`.
    pub url: String,
    /// The authority that signed the server's certificate.
    pub ca_pem: String,
    /// A bearer token of a member of `system:masters`.
    pub token: String,
}

impl Endpoint {
    /// Writes a kubeconfig that only its owner can read. (JSON is YAML; no YAML writer is needed.)
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url,
                "certificate-authority-data": BASE64_STANDARD.encode(&self.ca_pem),
            }}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": "default"}}],
        });
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.to_string().as_bytes())
    }
}

/// Returns a client for a kubeconfig. It does not retry, so that a test sees the first answer.
pub async fn client(path: &Path) -> Result<kube::Client, ClientError> {
    client_as(path, true).await
}

/// [`client`] without credentials.
pub async fn anonymous_client(path: &Path) -> Result<kube::Client, ClientError> {
    client_as(path, false).await
}

async fn client_as(path: &Path, admin: bool) -> Result<kube::Client, ClientError> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    if !admin {
        config.auth_info = AuthInfo::default();
    }
    Ok(kube::Client::try_from(config)?)
}

/// The client could not be created. Not retryable.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig could not be used.
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The client refused its configuration.
    #[error("cannot build a client: {0}")]
    Client(#[from] kube::Error),
}
