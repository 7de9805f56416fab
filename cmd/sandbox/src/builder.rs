//! Starts a sandbox: its options, and the objects that it contains from the start.

mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

pub use load::{Input, Reason, StartError};

use crate::Sandbox;
use crate::authn::Authorization;
use crate::authz::Audit;
use crate::controllers::InternalController;
use crate::endpoints::Api;
use crate::env::Env;
use crate::storage::Limits;

/// The options of an API. See the methods of [`Builder`].
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct Options {
    pub(crate) env: Env,
    pub(crate) history: Limits,
    pub(crate) authorization: Authorization,
    pub(crate) audit: Option<Audit>,
    pub(crate) enforce_owner_references: bool,
    pub(crate) service_account_admission: bool,
    pub(crate) root_ca: Option<String>,
    pub(crate) services: BTreeMap<String, SocketAddr>,
    pub(crate) delayed: BTreeSet<InternalController>,
    pub(crate) journal: bool,
    pub(crate) managed_fields: bool,
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
            delayed: BTreeSet::new(),
            journal: false,
            managed_fields: true,
        }
    }
}

/// A sandbox that has not started.
///
/// ```
/// use steersman_sandbox::Sandbox;
///
/// let sandbox = Sandbox::builder()
///     .seed(7)
///     .objects("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}")
///     .start()?;
/// # Ok::<_, steersman_sandbox::StartError>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until `start`"]
pub struct Builder {
    options: Options,
    inputs: Vec<(Input, String)>,
    serves: Option<Box<ServesResource>>,
}

/// Reports whether a built-in resource, by its group and plural name, is served.
type ServesResource = dyn Fn(&str, &str) -> bool + Send + Sync;

impl Builder {
    /// Creates the CRDs of a YAML stream, before all [objects](Self::objects). May be called more than once.
    pub fn crds(mut self, yaml: impl Into<String>) -> Self {
        self.inputs.push((Input::Crds, yaml.into()));
        self
    }

    /// Creates the objects of a YAML stream in their order, as the administrator. Lists are expanded. May be called more
    /// than once.
    ///
    /// Namespaced objects without a namespace go to `default`. A status is written too, through the status subresource.
    /// Unknown and duplicate fields are errors. Webhook configurations must be
    /// the last objects: webhooks cannot be called before the start.
    pub fn objects(mut self, yaml: impl Into<String>) -> Self {
        self.inputs.push((Input::Objects, yaml.into()));
        self
    }

    /// Derives uids and generated names from `seed`. Replaces the clock and seed of [`env`](Self::env). Default: a seed
    /// from the machine's entropy.
    pub fn seed(self, seed: u64) -> Self {
        self.env(Env::seeded(seed))
    }

    /// Sets clock and random number generator. Default: [`Env::system`].
    pub fn env(mut self, env: Env) -> Self {
        self.options.env = env;
        self
    }

    /// Bounds the history for watches and paged lists, per resource. Default: 20,000 changes or 32 MiB.
    pub fn history(mut self, limits: Limits) -> Self {
        self.options.history = limits;
        self
    }

    /// Sets the authorization mode. Default: [`Authorization::AlwaysAllow`].
    pub fn authorization(mut self, mode: Authorization) -> Self {
        self.options.authorization = mode;
        self
    }

    /// Calls `audit` with every authorization decision. Default: none.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.options.audit = Some(audit);
        self
    }

    /// Enables the admission plugin `OwnerReferencesPermissionEnforcement`. Default: false.
    pub fn enforce_owner_references(mut self, enabled: bool) -> Self {
        self.options.enforce_owner_references = enabled;
        self
    }

    /// Enables the admission plugin `ServiceAccount`: new pods get a service account and mount its token. Default: false.
    pub fn service_account_admission(mut self, enabled: bool) -> Self {
        self.options.service_account_admission = enabled;
        self
    }

    /// Publishes a certificate authority (PEM) as the `ConfigMap` `kube-root-ca.crt` of every namespace. Default: none,
    /// and no such object.
    pub fn root_ca(mut self, pem: impl Into<String>) -> Self {
        self.options.root_ca = Some(pem.into());
        self
    }

    /// Sets the addresses of services of webhooks, each by `namespace/name:port`. Default: none, and webhooks are reached
    /// by their URLs only.
    pub fn services(mut self, services: impl IntoIterator<Item = (String, SocketAddr)>) -> Self {
        self.options.services.extend(services);
        self
    }

    /// Runs an internal controller in steps only: see [`Sandbox::step`]. Its work for the initial objects of the cluster
    /// is delayed too. Default: every controller runs within the request that changes its objects.
    pub fn delayed(mut self, controller: InternalController) -> Self {
        self.options.delayed.insert(controller);
        self
    }

    /// Records every commit for [`Sandbox::take_commits`], from the first object of the cluster on. Default: false.
    pub fn journal(mut self, enabled: bool) -> Self {
        self.options.journal = enabled;
        self
    }

    /// Records field managers in `metadata.managedFields`. Default: true.
    ///
    /// If false, a create records no field managers, as if it had reset `managedFields`; updates and patches of such an
    /// object record none either, as on a cluster. Server-side apply works: it records its field managers, and from then on
    /// all writes of that object do.
    pub fn managed_fields(mut self, enabled: bool) -> Self {
        self.options.managed_fields = enabled;
        self
    }

    /// Serves only the built-in resources for which `serves` returns true; its arguments are the group, empty for core, and
    /// the plural name. The others are absent from routes, discovery and `OpenAPI`, as if their API were disabled; the sandbox
    /// itself still uses their objects. [CRDs](Self::crds) and [objects](Self::objects) are created before, so they may be
    /// of any kind, and custom resources are always served. Default: all resources.
    ///
    /// ```
    /// use steersman_sandbox::Sandbox;
    ///
    /// let sandbox = Sandbox::builder()
    ///     .serve_only(|group, resource| matches!((group, resource), ("", "pods") | ("apps", _)))
    ///     .start()?;
    /// # Ok::<_, steersman_sandbox::StartError>(())
    /// ```
    pub fn serve_only(mut self, serves: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.serves = Some(Box::new(serves));
        self
    }

    /// Starts the sandbox: the objects of every cluster, then the CRDs, then the objects.
    pub fn start(self) -> Result<Sandbox, StartError> {
        let Self {
            options,
            mut inputs,
            serves,
        } = self;
        let api = Arc::new(Api::new(options));
        // Stable: CRDs first.
        inputs.sort_by_key(|(input, _)| *input);
        for (input, yaml) in &inputs {
            load::load(&api, *input, yaml)?;
        }
        if let Some(serves) = serves {
            api.set_registry(api.registry().with_built_in(&*serves));
        }
        Ok(Sandbox { api })
    }
}
