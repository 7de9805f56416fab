//! What the server proves itself with: a pair that the leader makes, keeps in one Secret and renews, or files of the user.
//!
//! `pair` makes, reads and verifies; `held` is the Secret, `inject` the configurations of the webhooks; `plan` decides what is
//! written next, and says why at any moment every replica serves what every client can verify; `keeper` does it, on the leader;
//! `follow` has every replica serve what the Secret says, `files` what is in a folder; `served` is what a handshake asks.

mod files;
mod follow;
mod held;
mod inject;
mod keeper;
mod pair;
mod plan;
mod served;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use prometheus::Registry;
use serde::Deserialize;

use self::files::Files;
use self::follow::Follower;
use self::keeper::Keeper;
use self::served::Served;
use super::WebhookError;
use super::metrics::Reads;
use crate::manager::Manager;
use crate::object::{Key, Resource};
use crate::serve::{Checks, Probes, Registration, Tls};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The leader makes it for this Service, keeps it in the Secret of that name, renews it, and tells the webhook
    /// configurations of that name how to verify it.
    Service(ServiceName),
    /// Somebody else does all that: it is in this folder, as `tls.crt` and `tls.key`.
    Folder(PathBuf),
}

/// What a server proves itself with, now and later.
pub struct Certificates {
    source: Source,
    served: Arc<Served>,
    tls: Tls,
    /// The check ends with this.
    _check: Registration,
}

/// The Service by which the API server reaches the webhooks. Its Secret, and the configurations that lead to it, have its
/// name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ServiceName {
    /// Its namespace, in which the Secret is too.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// It is not `NAMESPACE/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a Service is named as NAMESPACE/NAME")]
pub struct InvalidServiceName;

impl Certificates {
    /// From `source`. From now on `webhook` is among the checks: it fails, for readiness too, as long as there is nothing to
    /// serve with.
    pub async fn new(source: Source, registry: &Registry, checks: &Checks) -> Result<Self, WebhookError> {
        let served = Served::new(Reads::register(registry)?);
        if let Source::Folder(folder) = &source {
            let read = Files::new(folder, &served).load().await;
            read.map_err(|reason| WebhookError::Files { reason })?;
        }
        let asked = served.clone();
        Ok(Self {
            tls: Tls::resolving(served.clone(), None)?,
            source,
            served,
            _check: checks.add("webhook", Probes::READYZ | Probes::HEALTHZ, move || {
                asked.health()
            }),
        })
    }

    /// Refuses clients without a certificate of an authority in `client_ca`, a file in PEM form. It is read once. An API server
    /// shows the certificate that the kubeconfig in its `WebhookAdmissionConfiguration` names.
    pub fn verifying_clients(mut self, client_ca: &Path) -> Result<Self, WebhookError> {
        self.tls = Tls::resolving(self.served.clone(), Some(client_ca))?;
        Ok(self)
    }

    /// Has `manager` look after them, as long as it is there: every replica follows the source, and the leader writes it, if it
    /// is the Secret.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn host(&self, manager: &mut Manager) {
        let env = manager.env().clone();
        match &self.source {
            Source::Folder(folder) => {
                let files = Files::new(folder, &self.served);
                env.tasks.spawn(files.run(env.clock.clone()));
            }
            Source::Service(service) => {
                let follower = Follower {
                    env: env.clone(),
                    client: manager.client("webhook"),
                    service: service.clone(),
                    served: self.served.clone(),
                };
                env.tasks.spawn(follower.run());
                let client = manager.client("webhook-certificates");
                manager.add(Keeper::new(env, client, service.clone()));
            }
        }
    }

    /// What to serve with. It changes by itself.
    #[must_use]
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }
}

impl ServiceName {
    /// The name that a certificate is for.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    fn secret(&self) -> Key {
        Key::new(self.namespace.as_str(), self.name.as_str())
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
