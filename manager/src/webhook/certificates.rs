//! The serving certificate of the webhook server.
//!
//! - `key_pair` issues, parses and verifies a certificate with its private key.
//! - `secret` and `configuration` are the API objects: the Secret, and the webhook configurations with their `caBundle`.
//! - `plan` decides the next write and explains why every client can verify every replica at any time.
//! - `rotator` carries out the plan on the leader.
//! - `secret_watcher` and `file_watcher` load the certificate on every replica; `serving` hands it to TLS handshakes.

mod configuration;
mod file_watcher;
mod key_pair;
mod plan;
mod rotator;
mod secret;
mod secret_watcher;
mod serving;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;

use self::file_watcher::FileWatcher;
use self::rotator::Rotator;
use self::secret_watcher::SecretWatcher;
use self::serving::ServingCertificate;
use super::WebhookError;
use crate::manager::Manager;
use crate::object::{Key, LoggedObject, Resource};
use crate::serve::{CertificateMetrics, Checks, Probes, Registration, Tls};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

/// The source of the serving certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The leader issues and renews a certificate for this Service. It stores the certificate in the Secret of the same
    /// name and injects the CA bundle into the webhook configurations of the same name.
    Service(ServiceName),
    /// A directory with `tls.crt` and `tls.key`, managed by the user.
    Folder(PathBuf),
}

/// The serving certificate, reloaded when its source changes.
pub struct Certificates {
    source: Source,
    serving: Arc<ServingCertificate>,
    tls: Tls,
    /// Removes the health check on drop.
    _check: Registration,
}

/// The Service that the API server sends admission reviews to. Its Secret and its webhook configurations have the same
/// name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "plain data")]
pub struct ServiceName {
    pub namespace: String,
    pub name: String,
}

/// The text does not have the form `NAMESPACE/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid Service name, expected NAMESPACE/NAME")]
pub struct InvalidServiceName;

impl Certificates {
    /// Loads the certificate, if `source` is a directory, and registers the health check `webhook`. The check fails for
    /// `/readyz` and `/healthz` until a certificate is loaded.
    pub async fn new(
        source: Source,
        metrics: &CertificateMetrics,
        checks: &Checks,
    ) -> Result<Self, WebhookError> {
        let serving = ServingCertificate::new(metrics.clone());
        if let Source::Folder(folder) = &source {
            let read = FileWatcher::new(folder, &serving).load().await;
            read.map_err(|reason| WebhookError::Files { reason })?;
        }
        let asked = serving.clone();
        Ok(Self {
            tls: Tls::resolving(serving.clone(), None)?,
            source,
            serving,
            _check: checks.add("webhook", Probes::READYZ | Probes::HEALTHZ, move || {
                asked.health()
            }),
        })
    }

    /// Requires clients to present a certificate that a CA in `client_ca`, a PEM file, has signed. The file is read once.
    /// The API server uses the client certificate of the kubeconfig in its `WebhookAdmissionConfiguration`.
    pub fn verifying_clients(mut self, client_ca: &Path) -> Result<Self, WebhookError> {
        self.tls = Tls::resolving(self.serving.clone(), Some(client_ca))?;
        Ok(self)
    }

    /// Starts reloading the certificate in this replica. If the source is a Service, also adds the controller that
    /// issues and renews it on the leader.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn host(&self, manager: &mut Manager) {
        let env = manager.env().clone();
        match &self.source {
            Source::Folder(folder) => {
                let files = FileWatcher::new(folder, &self.serving);
                env.tasks.spawn(files.run(env.clock.clone()));
            }
            Source::Service(service) => {
                let watcher = SecretWatcher {
                    env: env.clone(),
                    client: manager.reader("webhook"),
                    service: service.clone(),
                    serving: self.serving.clone(),
                };
                env.tasks.spawn(watcher.run());
                let client = manager.reader("webhook-certificates");
                manager.add(Rotator::new(env, client, service.clone()));
            }
        }
    }

    /// Returns the TLS configuration. It always serves the current certificate.
    #[must_use]
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }
}

impl ServiceName {
    /// Returns the DNS name that the certificate is issued for.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    fn secret(&self) -> Key {
        Key::new(self.namespace.as_str(), self.name.as_str())
    }

    fn logged_secret(&self) -> LoggedObject<'_> {
        LoggedObject::new("Secret", &self.namespace, &self.name)
    }

    fn configuration(&self) -> Key {
        Key::cluster(self.name.as_str())
    }
}

impl FromStr for ServiceName {
    type Err = InvalidServiceName;

    fn from_str(text: &str) -> Result<Self, InvalidServiceName> {
        let (namespace, name) = text.split_once('/').ok_or(InvalidServiceName)?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(InvalidServiceName);
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
