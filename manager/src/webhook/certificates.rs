//! The serving certificate of the webhook server.
//!
//! - `key_pair` issues, parses and verifies a certificate with its private key.
//! - `secret` and `configuration` are the API objects: the Secret, and the webhook configurations with their `caBundle`.
//! - `plan` decides the next write and explains why every client can verify every replica at any time.
//! - `rotator` carries out the plan on the leader.
//! - `secret_watcher` loads the certificate on every replica; `serving` hands it to TLS handshakes.
//!
//! A certificate in a directory has a [`CertificateWatcher`] instead.

mod configuration;
mod key_pair;
mod plan;
mod rotator;
mod secret;
mod secret_watcher;
mod serving;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use self::key_pair::{IssueError, Issued};
use self::rotator::Rotator;
use self::secret_watcher::SecretWatcher;
use self::serving::ServingCertificate;
use super::WebhookError;
use crate::health::{Checks, Health, Probes, Registration};
use crate::manager::Manager;
use crate::object::{Key, LoggedObject, Resource};
use crate::serve::certificate_metrics::Usage;
use crate::serve::{CertificateFiles, CertificateMetrics, CertificateWatcher, Tls};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

/// The source of the serving certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The leader issues and renews the certificate.
    Service(ServiceCertificate),
    /// A directory with `tls.crt` and `tls.key`, managed by the user.
    Folder(PathBuf),
}

/// A certificate that the leader issues and renews. It stores the certificate in a Secret, and injects the CA bundle into
/// the webhook configurations with the name of the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCertificate {
    /// The Service that the certificate is issued for.
    pub service: ServiceName,
    /// The name of the Secret, in the namespace of the Service. Defaults to the name of the Service.
    pub secret_name: String,
    /// The labels of a new Secret, such as `app.kubernetes.io/managed-by`. Defaults to none.
    pub secret_labels: BTreeMap<String, String>,
    /// The beginning of the common name of the CA, followed by `@` and the time of issue. Defaults to `webhook-ca`.
    pub authority_name: String,
}

/// The serving certificate, reloaded when its source changes.
pub struct Certificates {
    loader: Loader,
    metrics: CertificateMetrics,
    tls: Tls,
    /// Removes the health check on drop.
    _check: Registration,
}

#[derive(Clone)]
enum Loader {
    Files(Arc<CertificateWatcher>),
    Secret(ServiceCertificate, Arc<ServingCertificate>),
}

/// The Service that the API server sends admission reviews to. Its webhook configurations have the same name.
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
    pub fn new(source: Source, metrics: &CertificateMetrics, checks: &Checks) -> Result<Self, WebhookError> {
        let loader = match source {
            Source::Folder(folder) => {
                let watcher = CertificateWatcher::new(CertificateFiles {
                    certificate: folder.join("tls.crt"),
                    private_key: folder.join("tls.key"),
                })?;
                metrics.observe(Usage::Webhook, &watcher.current().cert);
                Loader::Files(Arc::new(watcher))
            }
            Source::Service(certificate) => {
                Loader::Secret(certificate, ServingCertificate::new(metrics.clone()))
            }
        };
        let checked = loader.clone();
        Ok(Self {
            tls: loader.tls(None)?,
            loader,
            metrics: metrics.clone(),
            _check: checks.add("webhook", Probes::READYZ | Probes::HEALTHZ, move || {
                checked.health()
            }),
        })
    }

    /// Requires clients to present a certificate that a CA in `client_ca`, a PEM file, has signed. The file is read once.
    /// The API server uses the client certificate of the kubeconfig in its `WebhookAdmissionConfiguration`.
    pub fn verifying_clients(mut self, client_ca: &Path) -> Result<Self, WebhookError> {
        self.tls = self.loader.tls(Some(client_ca))?;
        Ok(self)
    }

    /// Starts reloading the certificate in this replica. If the source is a Service, also adds the controller that
    /// issues and renews it on the leader.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn host(&self, manager: &mut Manager) {
        let env = manager.env().clone();
        match &self.loader {
            Loader::Files(watcher) => {
                let metrics = self.metrics.clone();
                watcher.watch(&env, &self.metrics, move |pair| {
                    metrics.observe(Usage::Webhook, &pair.cert);
                });
            }
            Loader::Secret(certificate, serving) => {
                let watcher = SecretWatcher {
                    env: env.clone(),
                    client: manager.reader("webhook"),
                    certificate: certificate.clone(),
                    serving: serving.clone(),
                };
                env.tasks.spawn(watcher.run());
                let client = manager.reader("webhook-certificates");
                manager.add(Rotator::new(env, client, certificate.clone()));
            }
        }
    }

    /// Returns the TLS configuration. It always serves the current certificate.
    #[must_use]
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }
}

impl Loader {
    fn tls(&self, client_ca: Option<&Path>) -> Result<Tls, WebhookError> {
        Ok(match self {
            Self::Files(watcher) => Tls::resolving(watcher.clone(), client_ca)?,
            Self::Secret(_, serving) => Tls::resolving(serving.clone(), client_ca)?,
        })
    }

    fn health(&self) -> Health {
        match self {
            Self::Files(watcher) => watcher.problem().map_or(Health::Ok, |problem| {
                Health::Note(format!("serving the previous certificate: {problem}"))
            }),
            Self::Secret(_, serving) => serving.health(),
        }
    }
}

impl ServiceCertificate {
    /// Returns a certificate for a Service, with the default names.
    #[must_use]
    pub fn new(service: ServiceName) -> Self {
        Self {
            secret_name: service.name.clone(),
            secret_labels: BTreeMap::new(),
            authority_name: "webhook-ca".to_owned(),
            service,
        }
    }

    fn secret(&self) -> Key {
        Key::new(self.service.namespace.as_str(), self.secret_name.as_str())
    }

    fn logged_secret(&self) -> LoggedObject<'_> {
        LoggedObject::new("Secret", &self.service.namespace, &self.secret_name)
    }

    fn issue(&self, now: Timestamp) -> Result<Issued, IssueError> {
        key_pair::issue(&self.authority_name, &self.service.host(), now)
    }
}

impl ServiceName {
    /// Returns the DNS name that the certificate is issued for.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
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
