//! The reason why the process failed.

use std::io;
use std::path::PathBuf;

use coxswain_manager::client::ConnectError;
use coxswain_manager::controller::ControllerError;
use coxswain_manager::election::ElectionError;
use coxswain_manager::events::RecorderError;
use coxswain_manager::manager::{BuildError, ManagerError};
use coxswain_manager::serve::{AuthorityError, ServeError, TlsError};
use coxswain_manager::webhook::WebhookError;

use crate::cluster::ClusterError;
use crate::demo::SandboxError;
use crate::traces::TracesError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("cannot use the kubeconfig {path}: {reason}; check {flag}", path = .path.display())]
    ReviewKubeconfig {
        path: PathBuf,
        reason: String,
        flag: &'static str,
    },
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Traces(#[from] TracesError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Election(#[from] ElectionError),
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error(transparent)]
    Events(#[from] RecorderError),
    #[error("cannot register the metrics of the process: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Manager(#[from] ManagerError),
    #[error("the health and metrics endpoints failed: {0}")]
    EndpointsFailed(String),
    #[error("the webhook server failed: {0}")]
    WebhooksFailed(String),
    #[error("stopped immediately by a second signal")]
    SecondSignal,
}

impl ProcessError {
    /// Whether nothing was started yet: the error is then printed like one of the command line.
    pub(crate) fn is_before_start(&self) -> bool {
        !matches!(
            self,
            Self::Manager(_) | Self::EndpointsFailed(_) | Self::WebhooksFailed(_) | Self::SecondSignal
        )
    }
}
