//! Client configuration from `--kubeconfig` and `--master`, or from the environment of a pod.

use std::path::{Path, PathBuf};

use kube::client::{ConfigExt as _, RustlsTlsError};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use secrecy::ExposeSecret;
use steersman_config::ClientConnection;

use crate::no_proxy;

/// Placeholder for "no proxy", see [`from_file`].
const NO_PROXY_URL: &str = "http://no-proxy.invalid/";

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot use the kubeconfig {path}: {reason}; check --kubeconfig")]
    Kubeconfig { path: PathBuf, reason: String },
    #[error("--master {address:?} is not a valid API server URL, such as https://10.0.0.1:6443: {reason}")]
    Master { address: String, reason: String },
    #[error(
        "proxies are not supported, and HTTPS_PROXY is set: unset it, or add the API server {server} to NO_PROXY"
    )]
    Proxy {
        /// Host and port.
        server: String,
    },
    #[error("no cluster is configured: {reason}; use --kubeconfig outside of a pod, or try --sandbox")]
    NotInCluster { reason: String },
}

impl ClusterError {
    /// An error in the configuration that the flags refer to.
    pub(crate) fn unusable(connection: &ClientConnection, reason: String) -> Self {
        match connection {
            ClientConnection {
                kubeconfig: Some(path),
                ..
            } => Self::Kubeconfig {
                path: path.clone(),
                reason,
            },
            ClientConnection {
                master: Some(address),
                ..
            } => Self::Master {
                address: address.clone(),
                reason,
            },
            ClientConnection { .. } => Self::NotInCluster { reason },
        }
    }
}

/// Returns the address of the API server and the credentials.
pub(crate) async fn config(connection: &ClientConnection) -> Result<kube::Config, ClusterError> {
    let ClientConnection {
        kubeconfig,
        master,
        rate: _,
    } = connection;
    let mut config = match (kubeconfig, master) {
        (Some(path), _) => from_file(path).await?,
        (None, Some(_)) => kube::Config::new(http_uri("https://localhost")?),
        (None, None) => kube::Config::incluster().map_err(not_in_cluster)?,
    };
    if let Some(master) = master {
        config.cluster_url = http_uri(master)?;
    }
    if kubeconfig.is_some() && config.proxy_url.is_none() {
        refuse_proxy(&config)?;
    }
    if let Some(reason) = problem(&config) {
        return Err(ClusterError::unusable(connection, reason));
    }
    if config.accept_invalid_certs {
        tracing::warn!(server = %config.cluster_url, "Certificate of the API server is not verified, the kubeconfig sets insecure-skip-tls-verify");
    }
    Ok(config)
}

fn not_in_cluster(error: InClusterError) -> ClusterError {
    let reason = match error {
        InClusterError::ReadEnvironmentVariable(_) => {
            "not running in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set)"
                .to_owned()
        }
        other => other.to_string(),
    };
    ClusterError::NotInCluster { reason }
}

async fn from_file(path: &Path) -> Result<kube::Config, ClusterError> {
    let failed = |error: KubeconfigError| ClusterError::Kubeconfig {
        path: path.to_owned(),
        reason: reason(&error),
    };
    let mut kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    // Without a proxy-url, kube would use HTTPS_PROXY and ignore NO_PROXY.
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|it| it.cluster.as_mut())
    {
        let proxy = cluster.proxy_url.take().filter(|url| !url.is_empty());
        cluster.proxy_url = Some(proxy.unwrap_or_else(|| NO_PROXY_URL.to_owned()));
    }
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)?;
    config.proxy_url.take_if(|url| *url == NO_PROXY_URL);
    Ok(config)
}

/// Fails if the environment sets a proxy for the API server.
fn refuse_proxy(config: &kube::Config) -> Result<(), ClusterError> {
    let variable = |names: [&str; 2]| {
        let values = names.into_iter().filter_map(|name| std::env::var(name).ok());
        values.into_iter().find(|value| !value.is_empty())
    };
    let url = &config.cluster_url;
    if url.scheme_str() != Some("https") || variable(["HTTPS_PROXY", "https_proxy"]).is_none() {
        return Ok(());
    }
    let no_proxy = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let (host, port) = (url.host().unwrap_or_default(), url.port_u16().unwrap_or(443));
    if no_proxy::bypasses(&no_proxy, host, port) {
        return Ok(());
    }
    Err(ClusterError::Proxy {
        server: format!("{host}:{port}"),
    })
}

/// Describes an error by field names of the kubeconfig. The YAML parser's error is left out: it can quote the file, which
/// contains credentials.
fn reason(error: &KubeconfigError) -> String {
    use KubeconfigError as E;
    match error {
        E::ReadConfig(source, _) => source.to_string(),
        E::Parse(_) => "it is not a valid kubeconfig".to_owned(),
        E::CurrentContextNotSet => "it has no current-context".to_owned(),
        E::LoadContext(name) => format!("current-context {name:?} is not in contexts"),
        E::LoadClusterOfContext(name) => {
            format!("cluster {name:?} of the current-context is not in clusters")
        }
        E::MissingClusterUrl => "the cluster has no server".to_owned(),
        E::ParseClusterUrl(source) => format!("server is not a valid URL: {source}"),
        E::ParseProxyUrl(source) => format!("proxy-url is not a valid URL: {source}"),
        E::LoadCertificateAuthority(source) => load("certificate-authority", source),
        E::LoadClientCertificate(source) => load("client-certificate", source),
        E::LoadClientKey(source) => load("client-key", source),
        E::ParseCertificates(_) => "certificate-authority is not PEM-encoded".to_owned(),
        other => other.to_string(),
    }
}

fn load(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("{field}-data is not valid base64"),
        LoadDataError::ReadFile(source, path) => {
            format!("cannot read {field} {}: {source}", path.display())
        }
        LoadDataError::NoBase64DataOrFile => format!("it has no {field}"),
    }
}

/// Returns an error of the configuration that would fail, or panic, only when the client is used.
fn problem(config: &kube::Config) -> Option<String> {
    let url = &config.cluster_url;
    if url.authority().is_some_and(|it| it.as_str().contains('@')) {
        // The value can contain a password.
        return Some("server contains credentials, set them in users".to_owned());
    }
    if !matches!(url.scheme_str(), Some("https" | "http")) || url.host().is_none() {
        return Some(format!("server {url} does not start with https:// or http://"));
    }
    if config.proxy_url.is_some() {
        // The value can contain a password.
        return Some("proxies are not supported, remove proxy-url".to_owned());
    }
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Some("certificate-authority contains no PEM-encoded certificate".to_owned());
    }
    let token = config.auth_info.token.as_ref().map(ExposeSecret::expose_secret);
    if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Some("token contains invalid characters".to_owned());
    }
    // Checking would run the plugin; it runs when the client connects.
    if config.auth_info.exec.is_some() {
        return None;
    }
    match config.rustls_client_config() {
        Ok(_) => None,
        Err(kube::Error::InferKubeconfig(error)) => Some(reason(&error)),
        Err(kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(source))) => {
            Some(format!("certificate-authority is invalid: {source}"))
        }
        Err(kube::Error::RustlsTls(error)) => {
            Some(format!("client-certificate and client-key are invalid: {error}"))
        }
        Err(error) => Some(error.to_string()),
    }
}

fn http_uri<T>(address: &str) -> Result<T, ClusterError>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    address.parse().map_err(|error: T::Err| ClusterError::Master {
        address: address.to_owned(),
        reason: error.to_string(),
    })
}
