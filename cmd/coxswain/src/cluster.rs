//! The way to the cluster: from `--kubeconfig` and `--master`, or from what a pod is given.

use std::path::{Path, PathBuf};

use coxswain_config::ClientConnection;
use kube::client::{ConfigExt as _, RustlsTlsError};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use secrecy::ExposeSecret;

use crate::no_proxy;

/// Stands for no proxy in a kubeconfig.
const NO_PROXY_URL: &str = "http://no-proxy.invalid/";

/// Why it is not known where the cluster is.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The file cannot be used.
    #[error("cannot use the kubeconfig {path}: {reason}; check --kubeconfig")]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The address is none.
    #[error(
        "--master {address:?} is not the address of an API server, such as https://10.0.0.1:6443: {reason}"
    )]
    Master {
        /// What was given.
        address: String,
        /// Why.
        reason: String,
    },
    /// The environment asks for a proxy, and there is no support for one.
    #[error(
        "proxies are not supported, and HTTPS_PROXY is set: unset it, or add the API server {server} to NO_PROXY"
    )]
    Proxy {
        /// Host and port of the server.
        server: String,
    },
    /// No flag says where it is, and this is no pod.
    #[error(
        "no cluster to work on: {reason}; outside of a pod say where it is with --kubeconfig, or try --sandbox"
    )]
    NotInCluster {
        /// What a pod would have.
        reason: String,
    },
}

impl ClusterError {
    /// For what is found out only when the connection is made.
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

/// Where the cluster is, and what to show there.
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
    if config.accept_invalid_certs {
        tracing::warn!(server = %config.cluster_url, "API server is not verified, the kubeconfig has insecure-skip-tls-verify");
    }
    if kubeconfig.is_some() && config.proxy_url.is_none() {
        refuse_proxy(&config)?;
    }
    match fault(&config) {
        Some(reason) => Err(ClusterError::unusable(connection, reason)),
        None => Ok(config),
    }
}

fn not_in_cluster(error: InClusterError) -> ClusterError {
    let reason = match error {
        InClusterError::ReadEnvironmentVariable(_) => {
            "this is no pod, where KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set".to_owned()
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
    // kube would take the proxy of the environment for one of the file, and ignores NO_PROXY.
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

/// Fails if the environment names a proxy for the API server.
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

/// What is wrong, by the names that the file has for things. Never the error of the YAML parser: it can quote the file,
/// which has keys in it.
fn reason(error: &KubeconfigError) -> String {
    use KubeconfigError as E;
    match error {
        E::ReadConfig(source, _) => source.to_string(),
        E::Parse(_) => "it is not a kubeconfig in YAML".to_owned(),
        E::CurrentContextNotSet => "it has no current-context".to_owned(),
        E::LoadContext(name) => format!("its current-context {name:?} is not among its contexts"),
        E::LoadClusterOfContext(name) => {
            format!("the cluster {name:?} of its current-context is not among its clusters")
        }
        E::MissingClusterUrl => "its cluster has no server".to_owned(),
        E::ParseClusterUrl(source) => format!("the server of its cluster is not a URL: {source}"),
        E::ParseProxyUrl(source) => format!("the proxy-url of its cluster is not a URL: {source}"),
        E::LoadCertificateAuthority(source) => load("certificate-authority", source),
        E::LoadClientCertificate(source) => load("client-certificate", source),
        E::LoadClientKey(source) => load("client-key", source),
        E::ParseCertificates(_) => "its certificate-authority is not in PEM form".to_owned(),
        other => other.to_string(),
    }
}

fn load(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("its {field}-data is not base64"),
        LoadDataError::ReadFile(source, path) => {
            format!("cannot read its {field} {}: {source}", path.display())
        }
        LoadDataError::NoBase64DataOrFile => format!("it has no {field}"),
    }
}

/// What the client would stumble over, or panic at, when it is used.
fn fault(config: &kube::Config) -> Option<String> {
    let url = &config.cluster_url;
    if !matches!(url.scheme_str(), Some("https" | "http")) || url.host().is_none() {
        return Some(format!(
            "the server {url} is not a URL that starts with https:// or http://"
        ));
    }
    if config.proxy_url.is_some() {
        // Not its value: there may be a password in it.
        return Some("proxies are not supported, remove its proxy-url".to_owned());
    }
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Some("its certificate-authority holds no certificate in PEM form".to_owned());
    }
    let token = config.auth_info.token.as_ref().map(ExposeSecret::expose_secret);
    if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Some("its token has characters that no token has".to_owned());
    }
    // To ask would run it, and it is run when the connection is made.
    if config.auth_info.exec.is_some() {
        return None;
    }
    match config.rustls_client_config() {
        Ok(_) => None,
        Err(kube::Error::InferKubeconfig(error)) => Some(reason(&error)),
        Err(kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(source))) => {
            Some(format!("its certificate-authority cannot be used: {source}"))
        }
        Err(kube::Error::RustlsTls(error)) => Some(format!(
            "its client-certificate and client-key cannot be used: {error}"
        )),
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
