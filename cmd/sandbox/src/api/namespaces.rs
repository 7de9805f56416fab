//! Namespaces: what may be created in them, and how they go away with all that is in them.
//!
//! On a cluster a controller empties a namespace that is marked for deletion. There is none here, so the API does it
//! itself, in the request that marks it; what has finalizers stays, and the namespace goes with the last of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::{DeleteOptions, Outcome, check_container_preconditions, gc_finalizers};
use super::update::Part;
use super::{Api, Call, Reply, decode};
use crate::managed;
use crate::meta;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::store::Object;

const NAMESPACES: &str = "namespaces";
/// The namespaces that exist from the start; the first three cannot be deleted.
const INITIAL: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

impl Api {
    /// What every cluster has before anybody asks.
    pub(super) fn bootstrap(&self) {
        let create = |plural: &str, namespace: &str, object: Value| {
            let Some(res) = self.registry().find("", "v1", plural) else {
                return;
            };
            let decoded = decode::object(&res, object, Vec::new(), decode::FieldValidation::Ignore);
            let made = decoded.and_then(|mut d| {
                managed::track(&res, &self.server(""), None, &mut d.value);
                self.create_object(&res, namespace, d.value, false)
            });
            if let Err(error) = made {
                tracing::error!(
                    resource = plural,
                    error = error.message,
                    "Could not create an initial object"
                );
            }
        };
        for name in INITIAL {
            create(NAMESPACES, "", json!({"metadata": {"name": name}}));
        }
        self.create_system_priorities();
        self.create_bootstrap_roles();
        let labels = json!({"component": "apiserver", "provider": "kubernetes"});
        let ports = json!([{"name": "https", "port": 443, "targetPort": 6443}]);
        let spec = json!({"clusterIP": "10.0.0.1", "ipFamilyPolicy": "SingleStack", "ports": ports});
        create(
            "services",
            "default",
            json!({"metadata": {"name": "kubernetes", "labels": labels}, "spec": spec}),
        );
    }

    /// Nothing is created in a namespace that does not exist or is going away.
    pub(super) fn check_namespace_open(&self, res: &Resource, name: &str, namespace: &str) -> Result<()> {
        match self.store.get(NAMESPACES, namespace) {
            Some(ns) if !ns.terminating => Ok(()),
            _ => Err(self.namespace_refusal(res, name, namespace)),
        }
    }

    pub(super) fn namespace_refusal(&self, res: &Resource, name: &str, namespace: &str) -> ApiError {
        if self.store.get(NAMESPACES, namespace).is_some() {
            ApiError::namespace_terminating(res, name, namespace)
        } else {
            ApiError::namespace_not_found(namespace)
        }
    }

    pub(super) fn delete_namespace(
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
        if INITIAL[..3].contains(&name) {
            return Err(ApiError::forbidden(
                res,
                name,
                "this namespace may not be deleted",
            ));
        }
        if current.terminating {
            return self.delete_again(res, name, &Self::served(res, &current), options);
        }
        let marked = self.mutate(res, "", name, options.dry_run, |object| {
            check(object)?;
            self.mark(object);
            // A namespace does not say for how long it may go on.
            meta::set(object, "deletionGracePeriodSeconds", Value::Null);
            meta::set_path(object, "status.phase", "Terminating".into());
            let finalizers = gc_finalizers(res, object, options);
            meta::set(object, "finalizers", finalizers);
            Ok(())
        })?;
        if options.dry_run {
            return Ok(Outcome::Marked(marked));
        }
        self.empty_namespace(name);
        self.finish_namespace(name);
        self.report_remaining(name);
        Ok(Outcome::Marked(marked))
    }

    /// While its content is being removed, a second request changes nothing; after that it is an object like any other.
    fn delete_again(
        &self,
        res: &Resource,
        name: &str,
        present: &Value,
        options: &DeleteOptions,
    ) -> Result<Outcome> {
        let emptied = present["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if emptied {
            return self.delete_plain(res, "", name, options);
        }
        if !options.dry_run {
            self.empty_namespace(name);
            self.finish_namespace(name);
        }
        Ok(Outcome::Marked(present.clone()))
    }

    /// Deletes what is in a namespace, as far as it can be deleted at once.
    fn empty_namespace(&self, namespace: &str) {
        let prefix = format!("{namespace}/");
        for res in self.registry().stored().iter().filter(|r| r.namespaced) {
            let Ok(snapshot) = self.store.snapshot(&res.collection, &prefix, None, None) else {
                continue;
            };
            for object in snapshot.objects {
                let name = object.key.strip_prefix(&prefix).unwrap_or_default();
                self.delete_for_good(res, namespace, name);
            }
        }
    }

    /// Deletes as far as it can be done now, however many others write the object meanwhile: each of them can do so a
    /// number of times only before it is gone or marked.
    pub(super) fn delete_for_good(&self, res: &Resource, namespace: &str, name: &str) {
        let options = DeleteOptions::background();
        // One that is gone, or waits for its finalizers, is as deleted as it can be.
        while self
            .delete_object(res, namespace, name, &options)
            .is_err_and(|error| error.code == 409)
        {}
    }

    /// Removes a namespace that is marked, empty, and held by nobody.
    fn finish_namespace(&self, name: &str) {
        let Some(current) = self.store.get(NAMESPACES, name) else {
            return;
        };
        if !current.terminating || self.has_content(name) {
            return;
        }
        let Some(res) = self.registry().find("", "v1", NAMESPACES) else {
            return;
        };
        // If somebody else has finished it meanwhile, there is nothing left to do.
        let _ = self.mutate(&res, "", name, false, |object| {
            meta::set_path(object, "spec.finalizers", json!([]));
            Ok(())
        });
    }

    fn has_content(&self, namespace: &str) -> bool {
        let prefix = format!("{namespace}/");
        let registry = self.registry();
        let mut namespaced = registry.stored().iter().filter(|r| r.namespaced);
        namespaced.any(|res| self.store.has_any(&res.collection, &prefix))
    }

    /// Says in the status of a namespace what keeps it.
    fn report_remaining(&self, name: &str) {
        let prefix = format!("{name}/");
        let mut resources = BTreeMap::<String, usize>::new();
        let mut finalizers = BTreeMap::<String, usize>::new();
        for res in self.registry().stored().iter().filter(|r| r.namespaced) {
            let Ok(snapshot) = self.store.snapshot(&res.collection, &prefix, None, None) else {
                continue;
            };
            for object in snapshot.objects {
                *resources
                    .entry(format!("{}.{}", res.plural, res.group))
                    .or_default() += 1;
                for finalizer in meta::finalizers(&object.value()) {
                    *finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        let Some(res) = self.registry().find("", "v1", NAMESPACES) else {
            return;
        };
        let now = self.env.time();
        // If it is gone, there is nobody to tell.
        let _ = self.mutate(&res, "", name, false, |namespace| {
            let conditions = remaining_conditions(&resources, &finalizers, &now);
            meta::set_path(namespace, "status.conditions", conditions);
            Ok(())
        });
    }

    /// What follows from an object's removal: the container that waited for it may go.
    pub(super) fn after_removal(&self, res: &Resource, removed: &Arc<Object>) {
        if let Some((namespace, _)) = removed.key.split_once('/') {
            self.refurnish_namespace(res, namespace, &removed.key);
            self.finish_namespace(namespace);
        }
        if res.collection == super::aggregate::COLLECTION {
            self.aggregate_roles();
        }
        if res.collection == super::crds::COLLECTION {
            self.crd_removed();
        } else if let Some(custom) = &res.custom {
            self.finish_crd(&custom.crd);
        }
    }

    /// PUT of `/finalize`: only the finalizers of the spec are taken.
    pub(super) fn finalize_namespace(&self, call: &Call) -> Result<Reply> {
        let decoded = decode::body(call, "UpdateOptions")?;
        let finalizers = decoded.value["spec"]["finalizers"].clone();
        let dry_run = call.dry_run("UpdateOptions")?;
        let writer = self.writer(call, "UpdateOptions", Some("finalize"))?;
        let updated = self.mutate(&call.res, "", call.name(), dry_run, |object| {
            super::update::check_versions(&call.res, object, &decoded.value)?;
            let wanted = if finalizers.is_null() {
                json!([])
            } else {
                finalizers.clone()
            };
            let before = object.clone();
            meta::set_path(object, "spec.finalizers", wanted);
            managed::track(&call.res, &writer, Some(&before), object);
            Ok(())
        })?;
        Ok(Reply::object(200, updated))
    }

    /// A change that the server itself makes: no client's rules apply, only that the version has not moved.
    pub(super) fn mutate(
        &self,
        res: &Resource,
        namespace: &str,
        name: &str,
        dry_run: bool,
        mut change: impl FnMut(&mut Value) -> Result<()>,
    ) -> Result<Value> {
        self.update(res, namespace, name, Part::Server, dry_run, |current| {
            let mut next = current.clone();
            change(&mut next)?;
            Ok(next)
        })
    }
}

/// The conditions of a namespace that is going away.
fn remaining_conditions(
    resources: &BTreeMap<String, usize>,
    finalizers: &BTreeMap<String, usize>,
    now: &str,
) -> Value {
    let listed = |counts: &BTreeMap<String, usize>, how: &str| {
        let parts: Vec<String> = counts
            .iter()
            .map(|(what, n)| format!("{what} {how} {n} resource instances"))
            .collect();
        parts.join(", ")
    };
    let condition = |kind: &str, status: bool, reason: &str, message: String| {
        let status = if status { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
    };
    let content = if resources.is_empty() {
        condition(
            "NamespaceContentRemaining",
            false,
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        )
    } else {
        let message = format!("Some resources are remaining: {}", listed(resources, "has"));
        condition("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
    };
    let held = if finalizers.is_empty() {
        let message = "All content-preserving finalizers finished".to_owned();
        condition(
            "NamespaceFinalizersRemaining",
            false,
            "ContentHasNoFinalizers",
            message,
        )
    } else {
        let message = format!(
            "Some content in the namespace has finalizers remaining: {}",
            listed(finalizers, "in")
        );
        condition(
            "NamespaceFinalizersRemaining",
            true,
            "SomeFinalizersRemain",
            message,
        )
    };
    json!([content, held])
}
