//! A Kubernetes API in one process, without a cluster and containers, exact where a controller can tell the difference.
//!
//! A [`Sandbox`] is a store and the API in front of it. A [`ApiService`] is a `tower` service that serves it in the process,
//! without a socket and under a paused clock; a [`Server`] serves it over HTTPS. The sandbox runs no controllers: pods do
//! not start, and garbage is not collected.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, PostParams};
//!
//! let sandbox = coxswain_sandbox::Sandbox::new(coxswain_sandbox::Options::default());
//! let client = kube::Client::new(sandbox.service(), "default");
//! let maps: Api<ConfigMap> = Api::default_namespaced(client);
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".to_owned());
//! let created = maps.create(&PostParams::default(), &map).await?;
//! assert!(created.metadata.uid.is_some());
//! # Ok::<_, kube::Error>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The walk of a request: `service` (authenticate and authorize with `auth`, route, bound the body) → `api` (one file per verb: decode with `schema`,
//! `patch`, apply the rules of `kinds`, ask the webhooks of `admission`) → `store` (commit, history) → `service` (render, `table`, `partial`).

mod admission;
mod apiextensions;
mod authn;
mod authz;
mod cel;
pub mod cli;
mod controllers;
mod discovery;
mod endpoints;
mod env;
mod field;
mod fieldmanager;
mod meta;
mod openapi;
mod patch;
mod printers;
mod protobuf;
mod quantity;
mod registry;
mod resource;
mod schema;
mod selector;
mod serve;
mod service;
mod status;
mod storage;
mod yaml;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

pub use crate::authn::Authorization;
pub use crate::authz::{Audit, AuditRecord};
pub use crate::endpoints::snapshot::SnapshotError;
pub use crate::service::{ApiService, BoxError, ResponseBody};
pub use env::Env;

pub use crate::storage::Limits;
pub use crate::storage::lag::Lag;
pub use serve::kubeconfig::{KubeconfigError, KubeconfigFile};
pub use serve::{CONTEXT, Credentials, CredentialsError, ServeError, Server};

/// How a sandbox is made.
pub struct Options {
    /// Time and chance. Default: the machine's.
    pub env: Env,
    /// How much of the past is kept for watches and paged lists, per resource. Default: 20,000 changes or 32 MiB.
    pub history: Limits,
    /// Who may do what. Default: whoever shows a good token may do anything.
    pub authorization: Authorization,
    /// Receives the authorization decisions on requests. Default: none.
    pub audit: Option<Audit>,
    /// Whether the admission plugin `OwnerReferencesPermissionEnforcement` is enabled. Default: false.
    pub enforce_owner_references: bool,
    /// Whether the admission plugin `ServiceAccount` is enabled: new pods get a service account and mount its token.
    /// Default: false.
    pub service_account_admission: bool,
    /// The certificate authority (PEM) that every namespace gets as the `ConfigMap` `kube-root-ca.crt`. Default: none,
    /// and no such object.
    pub root_ca: Option<String>,
    /// Where the services are through which webhooks are reached: the address of each `namespace/name:port`. Default:
    /// none, and webhooks are reached by their URLs only.
    pub services: BTreeMap<String, SocketAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            env: Env::system(),
            history: Limits::default(),
            authorization: Authorization::default(),
            audit: None,
            enforce_owner_references: false,
            service_account_admission: false,
            root_ca: None,
            services: BTreeMap::new(),
        }
    }
}

/// A store and the API in front of it. Clones share the store.
#[derive(Clone)]
pub struct Sandbox {
    api: Arc<crate::endpoints::Api>,
}

impl Sandbox {
    /// An API with nothing in it but what every cluster has.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            api: Arc::new(crate::endpoints::Api::new(options)),
        }
    }

    /// A new API service, with a watch cache of its own.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.api.clone())
    }

    /// The revision of the last write: the newest resourceVersion.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.api.store.revision()
    }

    /// Forgets the past up to `revision`: older watches and lists get 410.
    pub fn compact(&self, revision: u64) {
        self.api.store.compact(revision);
    }

    /// How many objects there are, and how many bytes they take as JSON.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        self.api.store.size()
    }
}
