//! The REST handlers of the API server, one file per verb (upstream: `endpoints/handlers` and the generic registry).
//!
//! The `service` module routes a request and resolves its resource. Each handler returns one [`Reply`] or one
//! [`ApiError`]. Writes use optimistic concurrency: they read the current version, compute the next one without a lock,
//! commit it only if the resourceVersion is unchanged, and retry on conflict.

pub(crate) mod apply;
pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod decoded_bodies;
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
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use bytes::Bytes;

use crate::admission::webhook::{ConfigurationCache, Services, Webhooks};
use crate::authn::{Authorization, Signer, User};
use crate::authz::Audit;
use crate::endpoints::decoded_bodies::DecodedBodies;
use crate::endpoints::negotiate::View;
use crate::endpoints::request::Query;
use crate::env::Env;
use crate::field::FieldError;
use crate::fieldmanager::CreatedFields;
use crate::json::Value;
use crate::registry::served::ServedResources;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::changes::Changes;
use crate::storage::lag::Lag;
use crate::storage::{Draft, Object, Store};
use crate::{InternalController, Options, registry};

pub use crate::admission::dispatcher::Warnings;
pub use render::{Body, Form};
pub use watch::WatchStream;

/// The state shared by all API services of a sandbox.
pub struct Api {
    pub(crate) store: Store,
    pub(crate) env: Env,
    pub(crate) authorization: Authorization,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) enforce_owner_references: bool,
    pub(crate) service_account_admission: bool,
    /// CA bundle of the `kube-root-ca.crt` `ConfigMap` in each namespace; `None` creates no such `ConfigMap`.
    pub(crate) root_ca: Option<String>,
    /// Signer of service account tokens, created with the first token.
    pub(crate) signer: Arc<OnceLock<Option<Signer>>>,
    registry: RwLock<ServedResources>,
    /// Admission webhooks; `None` if no webhook is configured.
    pub(crate) webhooks: RwLock<Option<Arc<Webhooks>>>,
    /// Webhook configurations that `webhooks` was compiled from. Locked during compilation.
    pub(crate) compiled: Mutex<ConfigurationCache>,
    /// Addresses of the Services that webhooks call.
    pub(crate) services: Services,
    /// Locked from the allocation of a Service's addresses until the commit, so that no address is allocated twice.
    addresses: Mutex<()>,
    /// Locked while a CRD is evaluated and its resources are added to the registry.
    pub(crate) definitions: Mutex<()>,
    /// Locked from the quota check until the commit of the new object, and during updates of quota status.
    pub(crate) quotas: Mutex<()>,
    /// Terminating namespaces whose content is being deleted.
    pub(crate) emptying: Mutex<BTreeSet<String>>,
    expiries: expiry::Expiries,
    /// Field sets that new objects share; `None` if new objects have no field managers.
    pub(crate) created_fields: Option<CreatedFields>,
    /// Forks share it.
    pub(crate) decoded_bodies: DecodedBodies,
    /// Internal controllers that only run when the test steps them.
    pub(crate) delayed: BTreeSet<InternalController>,
    /// Ends every watch.
    closing: AtomicBool,
    /// Signals a change of `closing` or of the served resources, such as a deleted CRD.
    may_end: Changes,
}

/// One routed request.
pub struct Call {
    /// The requested resource.
    pub res: Arc<Resource>,
    /// Namespace of the path; empty for cluster-scoped resources and for requests across all namespaces.
    pub namespace: String,
    /// Object name of the path; `None` for a collection.
    pub name: Option<String>,
    /// Query parameters.
    pub query: Query,
    /// Request body; may be empty.
    pub body: Bytes,
    /// The `Content-Type` header.
    pub content_type: String,
    /// The `User-Agent` header; empty if missing.
    pub user_agent: String,
    /// The negotiated representation of the response.
    pub view: View,
    /// Whether the request is a watch.
    pub watch: bool,
    /// The staleness of the API service's watch cache.
    pub lag: Arc<Lag>,
    /// The authenticated user.
    pub user: Arc<User>,
    /// The bearer token of the administrator.
    pub admin_token: Option<Arc<str>>,
}

/// The response to a request, before encoding.
pub struct Reply {
    /// HTTP status code.
    pub code: u16,
    /// The content to encode.
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

    /// Returns the object in the version that `res` serves.
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

/// The work of one handler.
type Handler<'a> = Pin<Box<dyn Future<Output = Result<Reply>> + Send + 'a>>;

/// Adds `Warning` headers to the reply or to the error of a write.
fn warned(outcome: Result<Reply>, warnings: Vec<String>) -> Result<Reply> {
    match outcome {
        Ok(reply) => Ok(reply.warn(warnings)),
        Err(error) => Err(error.warn(warnings)),
    }
}

impl Api {
    /// Returns an API with the default namespaces and the `kubernetes` Service.
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
            journal,
            managed_fields,
        } = options;
        let store = Store::new(history);
        let api = Self {
            store: if journal { store.with_journal() } else { store },
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
            created_fields: managed_fields.then(CreatedFields::default),
            decoded_bodies: DecodedBodies::default(),
            delayed,
            closing: AtomicBool::new(false),
            may_end: Changes::default(),
        };
        api.bootstrap();
        api
    }

    /// Returns an independent API with the same objects, history, revision and CRDs. Open watches stay connected to the
    /// original.
    #[must_use]
    pub fn fork(&self, env: Env) -> Self {
        let fork = Self {
            store: self.store.fork(),
            env,
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
            created_fields: self.created_fields.clone(),
            decoded_bodies: self.decoded_bodies.clone(),
            delayed: self.delayed.clone(),
            closing: AtomicBool::new(false),
            may_end: Changes::default(),
        };
        fork.refresh_webhooks();
        fork
    }

    /// Returns the currently served resources.
    #[must_use]
    pub fn registry(&self) -> ServedResources {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    #[cfg(feature = "serve")]
    pub(crate) fn close_watches(&self) {
        self.closing.store(true, std::sync::atomic::Ordering::Release);
        self.may_end.bump();
    }

    /// Locks address allocation if the resource is `services`; other resources have no addresses.
    fn lock_addresses(&self, res: &Resource) -> Option<MutexGuard<'_, ()>> {
        (res.collection == "services").then(|| self.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_registry(&self, registry: ServedResources) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = registry;
        self.may_end.bump();
    }

    /// Dispatches a request to the handler of its verb and subresource.
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
            return Box::pin(self.watch(call)).await;
        }
        let dispatcher = self.dispatcher(&call, subresource, warnings);
        if call.res.is_review() {
            return match (subresource, method, named) {
                (None, &Method::POST, false) if call.namespaced_as_its_kind() => {
                    Box::pin(self.review(&dispatcher)).await
                }
                _ => Err(ApiError::method_not_allowed()),
            };
        }
        // Each handler has a future of its own size: one for all would be as large as the largest.
        let handler: Handler<'_> = match (subresource, method, named) {
            (None | Some("approval" | "status" | "ephemeralcontainers"), &Method::GET, true) => {
                Box::pin(self.get(&call))
            }
            (None, &Method::GET, false) => Box::pin(self.list(&call)),
            (None, &Method::POST, false) if call.namespaced_as_its_kind() => {
                Box::pin(self.create(&dispatcher))
            }
            (None | Some("approval" | "status" | "ephemeralcontainers"), &Method::PUT, true) => {
                Box::pin(self.put(&dispatcher, subresource))
            }
            (None | Some("approval" | "status" | "ephemeralcontainers"), &Method::PATCH, true) => {
                Box::pin(self.patch(&dispatcher, subresource))
            }
            (None, &Method::DELETE, true) => Box::pin(self.delete(&dispatcher)),
            (None, &Method::DELETE, false)
                if call.namespaced_as_its_kind() && call.res.collection != "namespaces" =>
            {
                Box::pin(self.delete_collection(&dispatcher))
            }
            (Some("scale"), _, true) => Box::pin(self.scale(method, &dispatcher)),
            (Some("binding"), &Method::POST, true) => Box::pin(self.bind(&dispatcher)),
            (Some("eviction"), &Method::POST, true) => Box::pin(self.evict(&dispatcher)),
            (Some("finalize"), &Method::PUT, true) => Box::pin(self.finalize_namespace(&dispatcher)),
            (Some(connect @ ("log" | "exec" | "attach" | "portforward" | "proxy")), _, true) => {
                return self.connect(method, connect, &call);
            }
            (Some("token"), &Method::POST, true) => Box::pin(self.request_token(&dispatcher)),
            _ => return Err(ApiError::method_not_allowed()),
        };
        handler.await
    }

    /// Converts an object from its served version to a draft in the storage version.
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
        Draft { value, shape }
    }

    /// Converts a stored object to the version that `res` serves. Borrows it if the two versions are identical.
    pub(crate) fn served<'o>(res: &Resource, object: &'o Object) -> Cow<'o, Value> {
        let stored = object.value();
        if res.serves_as_stored(object) {
            return Cow::Borrowed(stored);
        }
        let mut value = stored.clone();
        if let Some(map) = value.as_object_mut() {
            map.insert("kind", res.kind.clone().into());
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
    /// Returns whether the scope of the path matches the scope of the resource.
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
