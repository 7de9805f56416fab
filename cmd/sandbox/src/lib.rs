//! A Kubernetes API in one process, without a cluster and containers, exact where a controller can tell the difference.
//!
//! A [`Sandbox`] is a store and the API in front of it. An [`ApiService`] is a `tower` service that serves it in the
//! process, without a socket and under a paused clock; with the feature `serve`, a `Server` serves it over HTTPS. The
//! sandbox runs no workload controllers: pods do not start, and garbage is not collected.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use steersman_sandbox::Sandbox;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, PostParams};
//!
//! let sandbox = Sandbox::builder().seed(7).start()?;
//! let client = kube::Client::new(sandbox.service(), "default");
//! let maps: Api<ConfigMap> = Api::default_namespaced(client);
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".to_owned());
//! let created = maps.create(&PostParams::default(), &map).await?;
//! assert!(created.metadata.uid.is_some());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The path of a request mirrors the handler chain of kube-apiserver: `service` (`authn`, `authz`, routing, body limit)
//! → `endpoints` (one file per verb: decoding, `patch`, `fieldmanager`, the strategies of `registry`, `admission`)
//! → `storage` (commit, history) → `service` (`printers`, encoding). [`faults`] injects faults in front of it.

mod admission;
mod apiextensions;
mod authn;
mod authz;
mod builder;
mod cel;
#[cfg(feature = "cli")]
pub mod cli;
mod controllers;
mod discovery;
mod endpoints;
mod env;
pub mod faults;
mod field;
mod fieldmanager;
mod generated;
mod json;
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
#[cfg(feature = "serve")]
mod serve;
mod service;
mod status;
mod storage;
mod yaml;

use std::sync::Arc;

pub use crate::authn::Authorization;
pub use crate::authz::{Audit, AuditRecord};
pub use crate::builder::{Builder, Input, Reason, StartError};
pub use crate::controllers::InternalController;
pub use crate::endpoints::snapshot::SnapshotError;
pub use crate::env::Env;
#[cfg(feature = "serve")]
pub use crate::serve::kubeconfig::{KubeconfigError, KubeconfigFile};
#[cfg(feature = "serve")]
pub use crate::serve::{CONTEXT, Credentials, CredentialsError, ServeError, Server};
pub use crate::service::{ApiService, BoxError, ResponseBody};
pub use crate::storage::Limits;
pub use crate::storage::journal::Commit;
pub use crate::storage::lag::Lag;

pub(crate) use crate::builder::Options;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// A store and the API in front of it. Clones share the store.
#[derive(Clone)]
pub struct Sandbox {
    api: Arc<crate::endpoints::Api>,
}

impl Sandbox {
    /// Returns a builder with the defaults of [`Builder`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a new API service: one API server of the cluster, with a watch cache of its own.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.api.clone())
    }

    /// Returns a client of a new API service, as the administrator, with the default namespace `default`.
    #[cfg(feature = "kube")]
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// Runs one round of an internal controller. Returns whether the round wrote anything.
    ///
    /// A controller that is not [delayed](Builder::delayed) has nothing to do: it runs within the request that changes
    /// its objects.
    #[must_use = "a loop of steps ends when a round wrote nothing"]
    pub fn step(&self, controller: InternalController) -> bool {
        self.api.run_round(controller)
    }

    /// The revision of the last write: the newest resourceVersion.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.api.store.revision()
    }

    /// Returns the commits since the last call in the order of their revisions, those of internal controllers included, and
    /// empties the journal. Empty unless [`Builder::journal`] is enabled. An [import](Self::import) is not a commit.
    #[must_use = "the journal does not keep the returned commits"]
    pub fn take_commits(&self) -> Vec<Commit> {
        self.api.store.take_commits()
    }

    /// Discards the history up to `revision`: older watches and lists get 410.
    pub fn compact(&self, revision: u64) {
        self.api.store.compact(revision);
    }

    /// Returns the number of objects, and their size as JSON in bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        self.api.store.size()
    }
}
