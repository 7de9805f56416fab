//! The admission plugin `NamespaceLifecycle`, and the deletion of namespaces.
//!
//! On a cluster the namespace controller deletes the content of a terminating namespace. Here the request that marks the
//! namespace does it (see `emptying`).

use std::sync::Arc;

use crate::admission::dispatcher::{Dispatcher, Plain};
use crate::admission::webhook;
use crate::endpoints::delete::{DeleteOptions, Outcome, check_container_preconditions, gc_finalizers};
use crate::endpoints::update::Part;
use crate::endpoints::{Api, Reply, Written, decode};
use crate::json::Value;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::{Object, StoreError};
use crate::{fieldmanager, meta};

pub(crate) const NAMESPACES: &str = "namespaces";
/// Attempts of a deletion that races with writes.
const ATTEMPTS: usize = 16;
/// Namespaces that cannot be deleted.
const UNDELETABLE: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Api {
    /// Rejects a create in a namespace that does not exist or is terminating.
    pub(crate) fn check_namespace_open(&self, res: &Resource, name: &str, namespace: &str) -> Result<()> {
        match self.store.get(NAMESPACES, namespace) {
            Some(ns) if !ns.terminating => Ok(()),
            _ => Err(self.namespace_refusal(res, name, namespace)),
        }
    }

    pub(crate) fn namespace_refusal(&self, res: &Resource, name: &str, namespace: &str) -> ApiError {
        if self.store.get(NAMESPACES, namespace).is_some() {
            ApiError::namespace_terminating(res, name, namespace)
        } else {
            ApiError::namespace_not_found(namespace)
        }
    }

    pub(crate) fn delete_namespace(
        &self,
        res: &Resource,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Outcome> {
        let check = |object: &Value| check_container_preconditions(res, object, options);
        let current = self
            .store
            .get(NAMESPACES, name)
            .ok_or_else(|| ApiError::not_found(res, name))?;
        check(&Self::served(res, &current))?;
        check_deletable(res, name)?;
        if current.terminating {
            return self.delete_again(res, name, &Self::served(res, &current), options);
        }
        self.mark_namespace(res, name, options)
    }

    /// The first request only marks the namespace, even without finalizers.
    fn mark_namespace(&self, res: &Resource, name: &str, options: &DeleteOptions) -> Result<Outcome> {
        for _ in 0..ATTEMPTS {
            let current = self
                .store
                .get(NAMESPACES, name)
                .ok_or_else(|| ApiError::not_found(res, name))?;
            let mut next = Self::served(res, &current).into_owned();
            check_container_preconditions(res, &next, options)?;
            self.mark(&mut next);
            // Namespaces have no grace period.
            meta::set(&mut next, "deletionGracePeriodSeconds", Value::Null);
            meta::set_path(&mut next, "status.phase", "Terminating".into());
            let finalizers = gc_finalizers(res, &next, options);
            meta::set(&mut next, "finalizers", finalizers);
            if options.dry_run {
                return Ok(Outcome::Marked(Written::Unstored(next)));
            }
            let draft = Self::draft(res, next);
            match self.store.replace(NAMESPACES, name, current.revision, draft) {
                Ok(marked) => {
                    self.empty_namespace(name);
                    return Ok(Outcome::Marked(Written::Stored(marked)));
                }
                Err(StoreError::Changed) => {}
                Err(StoreError::Missing) => return Err(ApiError::not_found(res, name)),
                Err(other) => return Err(ApiError::internal(other.to_string())),
            }
        }
        Err(ApiError::modified(res, name))
    }

    /// While the content is being deleted, a second request changes nothing; after that a namespace is deleted like any object.
    fn delete_again(
        &self,
        res: &Resource,
        name: &str,
        present: &Value,
        options: &DeleteOptions,
    ) -> Result<Outcome> {
        let emptied = present["spec"]["finalizers"]
            .as_array()
            .is_none_or(<[_]>::is_empty);
        if emptied {
            return self.delete_plain(res, "", name, options);
        }
        if !options.dry_run {
            self.empty_namespace(name);
        }
        Ok(Outcome::Marked(Written::Unstored(present.clone())))
    }

    /// Deletes an object as far as possible, and retries when it races with writes.
    pub(crate) fn delete_for_good(&self, res: &Resource, namespace: &str, name: &str) {
        let options = DeleteOptions::background();
        // An object that is gone or waits for its finalizers needs no further deletion.
        while self
            .delete_object(res, namespace, name, &options)
            .is_err_and(|error| error.code == 409)
        {}
    }

    /// Completes the deletion of the namespace or CRD that waited for a removed object.
    pub(crate) fn after_removal(&self, res: &Resource, removed: &Arc<Object>) {
        if let Some((namespace, _)) = removed.key.split_once('/') {
            self.recreate_namespace_defaults(res, namespace, &removed.key);
            self.empty_namespace(namespace);
            if !self.is_emptying(namespace) {
                self.update_quotas(res, namespace);
            }
        }
        if res.collection == crate::controllers::role_aggregation::COLLECTION {
            self.aggregate_roles();
        }
        if matches!(res.collection.as_str(), webhook::MUTATING | webhook::VALIDATING) {
            self.refresh_webhooks();
        }
        if res.collection == crate::apiextensions::establish::COLLECTION {
            self.crd_removed();
        } else if let Some(custom) = &res.custom {
            self.finish_crd(&custom.crd);
        }
    }

    /// PUT of `/finalize`: an update that may remove the finalizers of the spec.
    pub(crate) async fn finalize_namespace(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let dry_run = call.dry_run("UpdateOptions")?;
        let writer = self.writer(call, "UpdateOptions", Some("finalize"))?;
        let decode::Decoded { value, warnings } = self.decoded_body(call, "UpdateOptions")?;
        crate::endpoints::update::check_name(meta::name(&value), call.name())?;
        let produce = |old: &Value| {
            crate::endpoints::update::check_uid(&call.res, old, &value)?;
            let mut value = value.clone();
            fieldmanager::track_update(&call.res, &writer, old, &mut value);
            Ok(value)
        };
        let updated = dispatcher.update(Part::Finalize, dry_run, Plain(produce)).await?;
        Ok(Reply::object(200, updated).warn(warnings))
    }

    /// Changes an object on behalf of the server: no validation applies, only the precondition on the version.
    pub(crate) fn mutate(
        &self,
        res: &Resource,
        namespace: &str,
        name: &str,
        dry_run: bool,
        mut change: impl FnMut(&mut Value) -> Result<()>,
    ) -> Result<Written> {
        self.update(res, namespace, name, Part::Server, dry_run, |current| {
            let mut next = current.clone();
            change(&mut next)?;
            Ok(next)
        })
    }
}

/// Whether a namespace cannot be deleted.
pub(crate) fn check_deletable(res: &Resource, name: &str) -> Result<()> {
    if UNDELETABLE.contains(&name) {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden(res, name, why));
    }
    Ok(())
}
