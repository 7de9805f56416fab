//! The way to the cluster: from `--kubeconfig` and `--master`, or from what a pod is given.

use std::path::{Path, PathBuf};

use coxswain_config::ClientConnection;
use kube::config::{KubeConfigOptions, Kubeconfig};

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
    /// No flag says where it is, and this is no pod.
    #[error(
        "no cluster to work on: {reason}; outside of a pod say where it is with --kubeconfig, or try --sandbox"
    )]
    NotInCluster {
        /// What a pod would have.
        reason: String,
    },
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
        (None, None) => kube::Config::incluster().map_err(|error| ClusterError::NotInCluster {
            reason: error.to_string(),
        })?,
    };
    if let Some(master) = master {
        config.cluster_url = http_uri(master)?;
    }
    Ok(config)
}

async fn from_file(path: &Path) -> Result<kube::Config, ClusterError> {
    let failed = |error: kube::config::KubeconfigError| ClusterError::Kubeconfig {
        path: path.to_owned(),
        reason: reason(&error),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}

/// The error and what is behind it. Not the error of the YAML parser: it can quote the file, which has keys in it.
fn reason(error: &kube::config::KubeconfigError) -> String {
    use kube::config::KubeconfigError as E;
    match error {
        E::ReadConfig(source, _) => source.to_string(),
        E::Parse(_) => "it is not a kubeconfig in YAML".to_owned(),
        other => other.to_string(),
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
