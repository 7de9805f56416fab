//! The handlers of the verbs, for every resource (`endpoints/handlers` and the generic registry store of the API server).
//!
//! A request that got here has been routed (`service`): its resource is known. Each verb lives in its own file and ends
//! in one [`Reply`] or one [`ApiError`]. Writes read the present version, compute the next one without a lock, and
//! commit it only if the version has not changed meanwhile; if it has, they start over.

pub(crate) mod apply;
pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod expiry;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod negotiate;
pub(crate) mod partial;
pub(crate) mod render;
pub(crate) mod request;
pub(crate) mod scale;
pub(crate) mod snapshot;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod writer;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch as watch_channel;

use crate::admission::webhook::{ConfigurationCache, Services, Webhooks};
use crate::authn::{Authorization, Signer, User};
use crate::authz::Audit;
use crate::endpoints::negotiate::View;
use crate::endpoints::request::Query;
use crate::env::Env;
use crate::field::FieldError;
use crate::registry::served::ServedResources;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::lag::Lag;
use crate::storage::{Draft, Object, Store};
use crate::{InternalController, Options, registry};

pub use crate::admission::dispatcher::Warnings;
pub use render::{Body, Form};
pub use watch::WatchStream;

/// What all API services share.
pub struct Api {
    pub(crate) store: Store,
    pub(crate) env: Env,
    pub(crate) authorization: Authorization,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) enforce_owner_references: bool,
    pub(crate) service_account_admission: bool,
    /// What `kube-root-ca.crt` holds, the `ConfigMap` of each namespace; none if there is no such object.
    pub(crate) root_ca: Option<String>,
    /// Signs the tokens of service accounts; made with the first of them.
    pub(crate) signer: Arc<OnceLock<Option<Signer>>>,
    registry: RwLock<ServedResources>,
    /// The webhooks that are asked about writes; none if there are none.
    pub(crate) webhooks: RwLock<Option<Arc<Webhooks>>>,
    /// What the webhooks were compiled from; held while they are made anew.
    pub(crate) compiled: Mutex<ConfigurationCache>,
    /// Where the services of webhooks are.
    pub(crate) services: Services,
    /// Held from the choice of a Service's addresses until it is stored, so that no two choose the same.
    addresses: Mutex<()>,
    /// Held while a definition is judged and what it defines is put into the registry.
    pub(crate) definitions: Mutex<()>,
    /// Held while quotas are checked until the new object is stored, and while their status is written.
    pub(crate) quotas: Mutex<()>,
    /// The namespaces that are being emptied.
    pub(crate) emptying: Mutex<BTreeSet<String>>,
    expiries: expiry::Expiries,
    /// The internal controllers that run in steps only.
    pub(crate) delayed: BTreeSet<InternalController>,
    /// True once every watch is to end.
    closing: watch_channel::Sender<bool>,
    /// Told when something else is served than before.
    served: watch_channel::Sender<()>,
}

/// One routed request.
pub struct Call {
    /// What it is about.
    pub res: Arc<Resource>,
    /// Namespace of the path, empty if it has none.
    pub namespace: String,
    /// Name of the path.
    pub name: Option<String>,
    /// Options.
    pub query: Query,
    /// Body, empty if there is none.
    pub body: Bytes,
    /// Media type of the body.
    pub content_type: String,
    /// `User-Agent`, empty if there is none.
    pub user_agent: String,
    /// The form in which the answer is wanted.
    pub view: View,
    /// Whether it is a watch.
    pub watch: bool,
    /// How far the watch cache of the API service is behind.
    pub lag: Arc<Lag>,
    /// Who asks.
    pub user: User,
    /// The token that the API service takes as the administrator's.
    pub admin_token: Option<Arc<str>>,
}

/// The answer to a request, before it is rendered.
pub struct Reply {
    /// HTTP status code.
    pub code: u16,
    /// What to send.
    pub body: Body,
    /// `Warning` headers.
    pub warnings: Vec<String>,
}

/// An object that a write has stored, or would have stored without `dryRun`.
pub(crate) enum Written {
    Stored(Arc<Object>),
    Unstored(Value),
}

impl Written {
    fn into_body(self) -> Body {
        match self {
            Self::Stored(object) => Body::Stored(object),
            Self::Unstored(value) => Body::Object(value),
        }
    }

    /// The object in the version that `res` serves.
    pub(crate) fn served(&self, res: &Resource) -> Cow<'_, Value> {
        match self {
            Self::Stored(object) => Api::served(res, object),
            Self::Unstored(value) => Cow::Borrowed(value),
        }
    }
}

impl Deref for Written {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Self::Stored(object) => object.value(),
            Self::Unstored(value) => value,
        }
    }
}

impl Reply {
    pub(crate) fn object(code: u16, written: Written) -> Self {
        Self {
            code,
            body: written.into_body(),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn warn(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

/// The outcome of a write with what the client is warned of, whether it was done or refused.
fn warned(outcome: Result<Reply>, warnings: Vec<String>) -> Result<Reply> {
    match outcome {
        Ok(reply) => Ok(reply.warn(warnings)),
        Err(error) => Err(error.warn(warnings)),
    }
}

impl Api {
    /// An API with the namespaces and the service that every cluster has.
    #[must_use]
    pub(crate) fn new(options: Options) -> Self {
        let Options {
            env,
            history,
            authorization,
            audit,
            enforce_owner_references,
            service_account_admission,
            root_ca,
            services,
            delayed,
        } = options;
        let api = Self {
            store: Store::new(history),
            env,
            authorization,
            audit: audit.map(Arc::new),
            enforce_owner_references,
            service_account_admission,
            root_ca,
            signer: Arc::default(),
            registry: RwLock::new(ServedResources::new()),
            webhooks: RwLock::new(None),
            compiled: Mutex::default(),
            services,
            addresses: Mutex::new(()),
            definitions: Mutex::new(()),
            quotas: Mutex::new(()),
            emptying: Mutex::default(),
            expiries: expiry::Expiries::default(),
            delayed,
            closing: watch_channel::Sender::new(false),
            served: watch_channel::Sender::new(()),
        };
        api.bootstrap();
        api
    }

    /// An independent API with the same objects, history, revision and definitions. Open watches stay with this one.
    #[must_use]
    pub fn fork(&self) -> Self {
        let fork = Self {
            store: self.store.fork(),
            env: self.env.fork(),
            authorization: self.authorization,
            audit: self.audit.clone(),
            enforce_owner_references: self.enforce_owner_references,
            service_account_admission: self.service_account_admission,
            root_ca: self.root_ca.clone(),
            signer: self.signer.clone(),
            registry: RwLock::new(self.registry()),
            webhooks: RwLock::new(None),
            compiled: Mutex::default(),
            services: self.services.clone(),
            addresses: Mutex::new(()),
            definitions: Mutex::new(()),
            quotas: Mutex::new(()),
            emptying: Mutex::default(),
            expiries: self.expiries.fork(),
            delayed: self.delayed.clone(),
            closing: watch_channel::Sender::new(false),
            served: watch_channel::Sender::new(()),
        };
        fork.refresh_webhooks();
        fork
    }

    /// The resources that are served now.
    #[must_use]
    pub fn registry(&self) -> ServedResources {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Ends every watch.
    #[cfg(feature = "serve")]
    pub(crate) fn close_watches(&self) {
        self.closing.send_replace(true);
    }

    /// The right to choose addresses, for the one kind that has any.
    fn lock_addresses(&self, res: &Resource) -> Option<MutexGuard<'_, ()>> {
        (res.collection == "services").then(|| self.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_registry(&self, registry: ServedResources) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = registry;
        self.served.send_replace(());
    }

    /// Carries out a request.
    pub async fn handle(
        self: &Arc<Self>,
        method: &http::Method,
        subresource: Option<&str>,
        call: Call,
        warnings: &Warnings,
    ) -> Result<Reply> {
        use http::Method;
        self.expire_events();
        let named = call.name.is_some();
        if call.res.is_read_only() && (call.watch || method != Method::GET) {
            return Err(ApiError::method_not_allowed());
        }
        if call.watch && (subresource, method) == (None, &Method::GET) && !call.res.is_review() {
            return self.watch(call).await;
        }
        let dispatcher = self.dispatcher(&call, subresource, warnings);
        if call.res.is_review() {
            return match (subresource, method, named) {
                (None, &Method::POST, false) if call.namespaced_as_its_kind() => {
                    self.review(&dispatcher).await
                }
                _ => Err(ApiError::method_not_allowed()),
            };
        }
        match (subresource, method, named) {
            (None | Some("status" | "ephemeralcontainers"), &Method::GET, true) => self.get(&call).await,
            (None, &Method::GET, false) => self.list(&call).await,
            (None, &Method::POST, false) if call.namespaced_as_its_kind() => self.create(&dispatcher).await,
            (None | Some("status" | "ephemeralcontainers"), &Method::PUT, true) => {
                self.put(&dispatcher, subresource).await
            }
            (None | Some("status" | "ephemeralcontainers"), &Method::PATCH, true) => {
                self.patch(&dispatcher, subresource).await
            }
            (None, &Method::DELETE, true) => self.delete(&dispatcher).await,
            (None, &Method::DELETE, false)
                if call.namespaced_as_its_kind() && call.res.collection != "namespaces" =>
            {
                self.delete_collection(&dispatcher).await
            }
            (Some("scale"), _, true) => self.scale(method, &dispatcher).await,
            (Some("binding"), &Method::POST, true) => self.bind(&dispatcher).await,
            (Some("eviction"), &Method::POST, true) => self.evict(&dispatcher).await,
            (Some("finalize"), &Method::PUT, true) => self.finalize_namespace(&dispatcher).await,
            (Some(connect @ ("log" | "exec" | "attach" | "portforward" | "proxy")), _, true) => {
                self.connect(method, connect, &call)
            }
            (Some("token"), &Method::POST, true) => self.request_token(&dispatcher).await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// What field selectors and the stored version need to know of an object in its served version.
    pub(crate) fn draft(res: &Resource, mut value: Value) -> Draft {
        let mut shape = 0;
        if let Some(custom) = &res.custom {
            if custom.schema.id() == custom.stored.id() {
                shape = custom.schema.id();
            } else {
                custom.stored.prune(&mut value);
            }
        }
        registry::to_stored(res, &mut value);
        let fields = registry::selectable_fields(res, &value);
        Draft { value, shape, fields }
    }

    /// A stored object in the version that `res` serves; a copy only if that is not the stored one.
    pub(crate) fn served<'o>(res: &Resource, object: &'o Object) -> Cow<'o, Value> {
        let stored = object.value();
        let same_type = stored["kind"] == res.kind.as_str() && stored["apiVersion"] == res.api_version();
        if same_type && res.serves_as_stored(object.shape) {
            return Cow::Borrowed(stored);
        }
        let mut value = stored.clone();
        if let Some(map) = value.as_object_mut() {
            map.insert("kind".to_owned(), res.kind.clone().into());
        }
        registry::from_stored(res, &mut value);
        if let Some(custom) = &res.custom {
            if object.shape != custom.stored.id() {
                custom.stored.settle(&mut value);
            }
            if custom.schema.id() != custom.stored.id() {
                custom.schema.prune(&mut value);
            }
        }
        Cow::Owned(value)
    }
}

impl Call {
    /// A namespaced kind is written below its namespace, a cluster-scoped one is not.
    fn namespaced_as_its_kind(&self) -> bool {
        self.res.namespaced != self.namespace.is_empty()
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn key(&self) -> String {
        crate::meta::key(&self.namespace, self.name())
    }
}

fn dry_run_error(values: &[String]) -> Option<FieldError> {
    let wrong = values.iter().any(|value| value != "All");
    wrong.then(|| FieldError::not_supported("dryRun", Value::from(values.to_vec()), &["All"]))
}

pub(crate) fn invalid_dry_run(kind: &str, values: &[String]) -> ApiError {
    let wrong: Vec<FieldError> = dry_run_error(values).into_iter().collect();
    ApiError::invalid_kind("meta.k8s.io", kind, "", &wrong)
}
