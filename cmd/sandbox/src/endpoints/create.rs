//! The create handler: POST (`handlers/create.go` and `Store.Create` of the API server).

use std::sync::Arc;

use crate::admission::dispatcher::Dispatcher;
use crate::admission::{priority, webhook};
use crate::endpoints::{Api, Reply, Written, decode};
use crate::json::{self, Value};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::{Guard, Object, StoreError};
use crate::{fieldmanager, meta, registry};

/// Maximum number of names to generate from a `generateName` before the create fails with `AlreadyExists`.
pub(crate) const NAME_ATTEMPTS: usize = 8;
/// Maximum length of a generated name, in bytes.
const MAX_GENERATED_NAME: usize = 63;
const SUFFIX: usize = 5;

impl Api {
    pub(crate) async fn create(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        call.check_options("CreateOptions", false)?;
        let dry_run = call.dry_run("CreateOptions")?;
        let writer = self.writer(call, "CreateOptions", None)?;
        let decode::Decoded { value, warnings } = self.decoded_body(call, "CreateOptions")?;
        let created = self.create_decoded(dispatcher, &writer, value, dry_run).await;
        crate::endpoints::warned(created, warnings)
    }

    /// Runs the checks that apply to client requests, records the field manager and creates the object.
    pub(crate) async fn create_decoded(
        &self,
        dispatcher: &Dispatcher<'_>,
        writer: &fieldmanager::Writer,
        mut value: Value,
        dry_run: bool,
    ) -> Result<Reply> {
        let call = dispatcher.call;
        self.check_escalation(call, &Value::Null, &value)?;
        self.check_owner_references(call, &Value::Null, &value)?;
        // A new object is not terminating: the server clears these fields before it records field ownership.
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            meta::set(&mut value, field, Value::Null);
        }
        fieldmanager::track_create(&call.res, writer, self.created_fields.as_ref(), &mut value);
        let created = dispatcher.create(value, dry_run).await?;
        Ok(Reply::object(201, created))
    }

    /// Creates a decoded object. Generates another name if a generated name already exists.
    pub(crate) fn create_object(
        &self,
        res: &Resource,
        namespace: &str,
        value: Value,
        dry_run: bool,
    ) -> Result<Written> {
        if meta::name(&value).is_empty() && !meta::text(&value, "generateName").is_empty() {
            for _ in 1..NAME_ATTEMPTS {
                let outcome = self.create_once(res, namespace, value.clone(), dry_run);
                if !outcome.as_ref().is_err_and(|e| e.reason == "AlreadyExists") {
                    return outcome;
                }
            }
        }
        self.create_once(res, namespace, value, dry_run)
    }

    fn create_once(&self, res: &Resource, namespace: &str, value: Value, dry_run: bool) -> Result<Written> {
        let _addresses = self.lock_addresses(res);
        let value = self.prepared(res, namespace, value, dry_run)?;
        self.commit_create(res, namespace, value, dry_run)
    }

    /// Runs the first step of a two-step create: defaults, allocation and validation, without the commit.
    pub(crate) fn prepare(
        &self,
        res: &Resource,
        namespace: &str,
        value: Value,
        dry_run: bool,
    ) -> Result<Value> {
        let _addresses = self.lock_addresses(res);
        self.prepared(res, namespace, value, dry_run)
    }

    /// Commits an object from [`Self::prepare`]. Returns `None` if another Service has taken its addresses.
    pub(crate) fn commit_prepared(
        &self,
        res: &Resource,
        namespace: &str,
        value: Value,
        dry_run: bool,
    ) -> Option<Result<Written>> {
        let _addresses = self.lock_addresses(res);
        if res.collection == "services" && !self.addresses_are_free(&Value::Null, &value) {
            return None;
        }
        Some(self.commit_create(res, namespace, value, dry_run))
    }

    /// Returns the object with system fields and allocated values, after validation.
    fn prepared(&self, res: &Resource, namespace: &str, mut value: Value, dry_run: bool) -> Result<Value> {
        check_namespace(res, namespace, &mut value)?;
        let version = meta::text(&value, "resourceVersion").to_owned();
        self.fill_system_fields(res, namespace, &mut value);
        let name = meta::name(&value).to_owned();
        if res.namespaced {
            self.check_namespace_open(res, &name, namespace)?;
        }
        if let Some(refusal) = self.crd_refusal(res, &name) {
            return Err(refusal);
        }
        registry::prepare_create(res, &mut value);
        self.before_create(res, &mut value)?;
        let errors = registry::validate_create(res, &value);
        if !errors.is_empty() {
            return Err(ApiError::invalid(res, &name, &errors));
        }
        if res.collection == "services" {
            self.check_node_ports(&Value::Null, &value)?;
        }
        if dry_run {
            // A dry run stores nothing, so the object keeps the resourceVersion of the request.
            meta::set(&mut value, "resourceVersion", version);
        } else if version.parse::<u64>().is_ok_and(|version| version > 0) {
            // The server ignores zero and malformed resourceVersions.
            return Err(ApiError::unexplained(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        Ok(value)
    }

    fn commit_create(&self, res: &Resource, namespace: &str, value: Value, dry_run: bool) -> Result<Written> {
        priority::check_overhead(res, &value)?;
        let name = meta::name(&value).to_owned();
        let generated = !meta::text(&value, "generateName").is_empty();
        let key = meta::key(namespace, &name);
        let quotas = self.admit_to_quotas(res, namespace, &name)?;
        if dry_run {
            if let Some(existing) = self.store.get(&res.collection, &key) {
                return Err(taken(res, generated, &name, existing.terminating));
            }
            return Ok(Written::Unstored(value));
        }
        // The store checks this again in the commit: the namespace and the CRD must exist and not be terminating.
        let open = |container: Option<&Object>| container.is_some_and(|c| !c.terminating);
        let namespace_open = res.namespaced.then_some(Guard {
            collection: "namespaces",
            key: namespace,
            holds: &open,
        });
        let definition = res.custom.as_ref().map(|custom| custom.crd.as_str());
        let definition_open = definition.map(|crd| Guard {
            collection: crate::apiextensions::establish::COLLECTION,
            key: crd,
            holds: &open,
        });
        let guards: Vec<Guard<'_>> = namespace_open.into_iter().chain(definition_open).collect();
        let stored = self
            .store
            .create(&res.collection, &key, Self::draft(res, value), &guards);
        drop(quotas);
        match stored {
            Ok(object) => {
                self.after_write(res, &object);
                self.after_create(res, namespace, &name);
                Ok(Written::Stored(object))
            }
            Err(StoreError::Exists) => {
                let existing = self.store.get(&res.collection, &key);
                let terminating = existing.is_some_and(|existing| existing.terminating);
                Err(taken(res, generated, &name, terminating))
            }
            Err(StoreError::Refused) => {
                let refusal = self.crd_refusal(res, &name);
                Err(refusal.unwrap_or_else(|| self.namespace_refusal(res, &name, namespace)))
            }
            Err(other) => Err(ApiError::internal(other.to_string())),
        }
    }

    pub(crate) fn fill_system_fields(&self, res: &Resource, namespace: &str, value: &mut Value) {
        if let Some(metadata) = meta::metadata_mut(value) {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "resourceVersion",
            ] {
                metadata.remove(field);
            }
            metadata.insert(json::key("creationTimestamp"), self.env.time().into());
        }
        if meta::name(value).is_empty() {
            let prefix = meta::text(value, "generateName");
            if !prefix.is_empty() {
                let mut end = prefix.len().min(MAX_GENERATED_NAME - SUFFIX);
                while !prefix.is_char_boundary(end) {
                    end -= 1;
                }
                let suffix = self
                    .env
                    .name_suffix(&res.collection, &meta::key(namespace, prefix));
                let name = format!("{}{suffix}", &prefix[..end]);
                meta::set(value, "name", name);
            }
        }
        let key = meta::key(namespace, meta::name(value));
        meta::set(value, "uid", self.env.uid(&res.collection, &key));
    }

    /// Sets the fields that depend on other objects: Service addresses, the pod's service account and priority.
    fn before_create(&self, res: &Resource, value: &mut Value) -> Result<()> {
        match res.collection.as_str() {
            "services" => self.allocate_addresses(value),
            "pods" => {
                let namespace = meta::namespace(value).to_owned();
                self.set_service_account(res, &namespace, value)?;
                self.set_priority(res, value)
            }
            _ => Ok(()),
        }
    }

    /// Updates the state derived from a stored object: quotas, Event TTLs, CRDs, aggregated roles and webhooks.
    pub(crate) fn after_write(&self, res: &Resource, object: &Arc<Object>) {
        self.update_quotas_after(res, object);
        if res.collection == super::expiry::EVENTS {
            self.schedule_expiry(object);
        }
        if res.collection == crate::apiextensions::establish::COLLECTION {
            self.crd_written(object);
        }
        if res.collection == crate::controllers::role_aggregation::COLLECTION {
            self.aggregate_roles();
        }
        if matches!(res.collection.as_str(), webhook::MUTATING | webhook::VALIDATING) {
            self.refresh_webhooks();
        }
    }

    /// Updates quotas, and creates the default objects of a new namespace.
    fn after_create(&self, res: &Resource, namespace: &str, name: &str) {
        self.update_quotas(res, namespace);
        if res.collection == "namespaces" {
            self.create_namespace_defaults(name);
        }
    }
}

fn taken(res: &Resource, generated: bool, name: &str, terminating: bool) -> ApiError {
    if generated {
        ApiError::generate_name_conflict(res, name, terminating)
    } else {
        ApiError::already_exists(res, name, terminating)
    }
}

/// Rejects an object whose namespace differs from the path, and sets the namespace if it is empty.
pub(crate) fn check_namespace(res: &Resource, namespace: &str, value: &mut Value) -> Result<()> {
    let said = meta::namespace(value);
    if !res.namespaced {
        meta::set(value, "namespace", Value::Null);
    } else if said.is_empty() {
        meta::set(value, "namespace", namespace);
    } else if said != namespace {
        return Err(other_namespace());
    }
    Ok(())
}

/// Returns the 400 for an object whose namespace differs from the path.
pub(crate) fn other_namespace() -> ApiError {
    ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}
