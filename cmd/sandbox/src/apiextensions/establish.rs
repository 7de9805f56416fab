//! The controllers of CRDs: naming, establishing and finalizing.
//!
//! On a cluster they run in the background. Here the request that writes a CRD does their work: its resources are served
//! from the next request on.

use std::sync::{Arc, PoisonError};

use crate::apiextensions::structural::{Schema, fingerprint};
use crate::controllers::{InternalController, set_condition};
use crate::endpoints::Api;
use crate::endpoints::delete::{DeleteOptions, Outcome, check_container_preconditions};
use crate::json::{Value, json};
use crate::registry::json::{list, text};
use crate::registry::served::ServedResources;
use crate::resource::{Custom, PrinterColumn, Resource, Scale};
use crate::status::{ApiError, Result};
use crate::storage::Object;
use crate::{fieldmanager, meta, registry};

/// The collection of CRDs.
pub(crate) const COLLECTION: &str = "customresourcedefinitions.apiextensions.k8s.io";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Api {
    /// Accepts the names of a written CRD, and serves its resources.
    pub(crate) fn crd_written(&self, object: &Arc<Object>) {
        let _one_at_a_time = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_delayed(InternalController::CrdEstablishing) {
            self.refresh_custom_resources();
        } else {
            self.establish(object);
        }
    }

    /// Accepts the names of every definition, and serves all that are established.
    pub(crate) fn establish_all(&self) {
        let _one_at_a_time = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        for object in &self.objects(COLLECTION, "") {
            self.establish(object);
        }
    }

    /// Accepts names and serves resources. The caller holds the lock: the first CRD gets a contested name.
    fn establish(&self, object: &Arc<Object>) {
        let Some(res) = definitions() else { return };
        let served = self.registry();
        let name = object.key.clone();
        let now = self.env.time();
        // A CRD that was deleted meanwhile is not established.
        let _ = self.mutate(res, "", &name, false, |crd| {
            let before = crd.clone();
            establish(crd, accept_names(&served, &name, crd), &now);
            fieldmanager::track_update(res, &self.server("status"), &before, crd);
            Ok(())
        });
        self.refresh_custom_resources();
    }

    /// Accepts names that a removed CRD has freed.
    pub(crate) fn crd_removed(&self) {
        let _one_at_a_time = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh_custom_resources();
        if self.is_delayed(InternalController::CrdEstablishing) {
            return;
        }
        let objects = self.objects(COLLECTION, "");
        let waiting = |o: &&Arc<Object>| condition(o.value(), "NamesAccepted") == Some("False");
        for object in objects.iter().filter(waiting) {
            self.establish(object);
        }
    }

    /// Rebuilds the served resources from the stored CRDs.
    fn refresh_custom_resources(&self) {
        let objects = self.objects(COLLECTION, "");
        let definitions: Vec<Value> = objects
            .iter()
            .map(|o| o.value().clone())
            .filter(is_established)
            .collect();
        let present = self.registry();
        let served = definitions
            .iter()
            .flat_map(|crd| resources(crd, "served", &present))
            .collect();
        let stored = definitions
            .iter()
            .flat_map(|crd| resources(crd, "storage", &present))
            .collect();
        self.set_registry(present.with_custom(served, stored));
    }

    pub(crate) fn delete_crd(&self, res: &Resource, name: &str, options: &DeleteOptions) -> Result<Outcome> {
        let current = self
            .store
            .get(COLLECTION, name)
            .ok_or_else(|| ApiError::not_found(res, name))?;
        if current.terminating {
            return self.delete_plain(res, "", name, options);
        }
        let now = self.env.time();
        let marked = self.mutate(res, "", name, options.dry_run, |crd| {
            check_container_preconditions(res, crd, options)?;
            meta::set(crd, "deletionTimestamp", now.clone());
            let mut finalizers: Vec<String> = meta::finalizers(crd).into_iter().map(str::to_owned).collect();
            if !finalizers.iter().any(|f| f == FINALIZER) {
                finalizers.push(FINALIZER.to_owned());
            }
            meta::set(crd, "finalizers", finalizers);
            let message =
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
            set_condition(
                crd,
                &now,
                ["Terminating", "True", "InstanceDeletionPending", message],
            );
            Ok(())
        })?;
        if !options.dry_run {
            {
                let _one_at_a_time = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
                self.refresh_custom_resources();
            }
            self.delete_instances(name);
            self.finish_crd(name);
            // A CRD that is gone already needs no condition.
            let _ = self.mutate(res, "", name, false, |crd| {
                let message = "CustomResource deletion is in progress";
                let reason = "InstanceDeletionInProgress";
                set_condition(crd, &now, ["Terminating", "True", reason, message]);
                Ok(())
            });
        }
        Ok(Outcome::Marked(marked))
    }

    /// Rejects a create of a resource whose CRD is terminating or gone.
    pub(crate) fn crd_refusal(&self, res: &Resource, name: &str) -> Option<ApiError> {
        let custom = res.custom.as_ref()?;
        let Some(crd) = self.store.get(COLLECTION, &custom.crd) else {
            return Some(ApiError::no_such_resource());
        };
        let why = "create not allowed while custom resource definition is terminating";
        crd.terminating.then(|| ApiError::forbidden(res, name, why))
    }

    fn delete_instances(&self, crd: &str) {
        let registry = self.registry();
        let stored = registry.stored();
        let Some(res) = stored
            .iter()
            .find(|r| r.custom.as_ref().is_some_and(|c| c.crd == crd))
        else {
            return;
        };
        for object in self.objects(&res.collection, "") {
            let (namespace, name) = object.key.split_once('/').unwrap_or(("", &object.key));
            self.delete_for_good(res, namespace, name);
        }
    }

    /// Removes the finalizer of a terminating CRD without instances.
    pub(crate) fn finish_crd(&self, name: &str) {
        let Some(current) = self.store.get(COLLECTION, name) else {
            return;
        };
        if !current.terminating {
            return;
        }
        // Objects under the name of a CRD that was never established belong to another resource.
        if is_established(current.value()) && self.store.has_any(name, "") {
            return;
        }
        let Some(res) = definitions() else { return };
        let _ = self.mutate(res, "", name, false, |crd| {
            let rest: Vec<String> = meta::finalizers(crd)
                .into_iter()
                .filter(|f| *f != FINALIZER)
                .map(str::to_owned)
                .collect();
            meta::set(crd, "finalizers", rest);
            Ok(())
        });
    }
}

/// The accepted names of a CRD.
struct Names {
    accepted: Value,
    /// Reason and message of the last conflict.
    conflict: Option<(&'static str, String)>,
}

/// The resource of CRDs.
fn definitions() -> Option<&'static Resource> {
    registry::built_in("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Accepts each name that no other resource of the group has, not even a built-in one that is not served.
fn accept_names(served: &ServedResources, crd_name: &str, crd: &Value) -> Names {
    let group = text(&crd["spec"]["group"]);
    let wanted = &crd["spec"]["names"];
    let custom = served.all().iter().filter(|r| r.custom.is_some());
    let others: Vec<&Resource> = registry::all()
        .iter()
        .chain(custom.map(AsRef::as_ref))
        .filter(|r| r.group == group && r.custom.as_ref().is_none_or(|c| c.crd != crd_name))
        .collect();
    let resource_used = |name: &str| {
        others
            .iter()
            .any(|r| r.plural == name || r.singular == name || r.short_names.iter().any(|s| s == name))
    };
    let kind_used = |kind: &str| others.iter().any(|r| r.kind == kind || r.list_kind == kind);
    let mut names = Names {
        accepted: json!({"plural": "", "kind": ""}),
        conflict: None,
    };
    let mut accept = |field: &str, reason: &'static str, used: &dyn Fn(&str) -> bool| {
        let name = text(&wanted[field]);
        if name.is_empty() {
            return;
        }
        if used(name) {
            names.conflict = Some((reason, format!("{name:?} is already in use")));
        } else {
            names.accepted[field] = name.into();
        }
    };
    accept("plural", "PluralConflict", &resource_used);
    accept("singular", "SingularConflict", &resource_used);
    accept("kind", "KindConflict", &kind_used);
    accept("listKind", "ListKindConflict", &kind_used);
    let short_names = list(&wanted["shortNames"]);
    match short_names.iter().map(text).find(|name| resource_used(name)) {
        // A conflict of kinds takes precedence.
        Some(taken) if names.conflict.is_none() => {
            names.conflict = Some(("ShortNamesConflict", format!("{taken:?} is already in use")));
        }
        None if !short_names.is_empty() => names.accepted["shortNames"] = short_names.into(),
        _ => {}
    }
    if !wanted["categories"].is_null() {
        names.accepted["categories"] = wanted["categories"].clone();
    }
    names
}

fn establish(crd: &mut Value, names: Names, now: &str) {
    if let Some((reason, message)) = names.conflict {
        set_condition(crd, now, ["NamesAccepted", "False", reason, &message]);
        // Accepted names stay accepted.
        if condition(crd, "Established") != Some("True") {
            let why = "not all names are accepted";
            set_condition(crd, now, ["Established", "False", "NotAccepted", why]);
            meta::set_path(crd, "status.acceptedNames", names.accepted);
        }
        return;
    }
    meta::set_path(crd, "status.acceptedNames", names.accepted);
    let why = "no conflicts found";
    set_condition(crd, now, ["NamesAccepted", "True", "NoConflicts", why]);
    let why = "the initial names have been accepted";
    set_condition(crd, now, ["Established", "True", "InitialNamesAccepted", why]);
}

fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == kind)?["status"].as_str()
}

fn is_established(crd: &Value) -> bool {
    condition(crd, "Established") == Some("True")
}

/// Returns the resources of a CRD, one per version with `flag` (`served` or `storage`).
fn resources(crd: &Value, flag: &str, present: &ServedResources) -> Vec<Resource> {
    let versions = list(&crd["spec"]["versions"]);
    let stored = versions
        .iter()
        .find(|v| v["storage"] == true)
        .unwrap_or(&Value::Null);
    versions
        .iter()
        .filter(|v| v[flag] == true)
        .map(|version| resource(crd, version, stored, present))
        .collect()
}

fn resource(crd: &Value, version: &Value, stored: &Value, present: &ServedResources) -> Resource {
    let group = text(&crd["spec"]["group"]);
    let names = &crd["status"]["acceptedNames"];
    let strings = |v: &Value| list(v).iter().map(|one| text(one).to_owned()).collect();
    let path = |v: &Value| text(v).trim_start_matches('.').to_owned();
    let scale = version["subresources"]["scale"].as_object().map(|scale| Scale {
        spec_replicas: path(&scale.get("specReplicasPath").cloned().unwrap_or_default()),
        status_replicas: path(&scale.get("statusReplicasPath").cloned().unwrap_or_default()),
        selector: scale.get("labelSelectorPath").map(path),
    });
    let custom = Custom {
        crd: meta::name(crd).to_owned(),
        uid: meta::text(crd, "uid").to_owned(),
        openapi: version["schema"]["openAPIV3Schema"]
            .is_object()
            .then(|| version["schema"]["openAPIV3Schema"].clone()),
        schema: schema(meta::name(crd), version, present),
        stored: schema(meta::name(crd), stored, present),
        columns: list(&version["additionalPrinterColumns"])
            .iter()
            .map(column)
            .collect(),
        selectable: list(&version["selectableFields"])
            .iter()
            .map(|field| path(&field["jsonPath"]))
            .collect(),
        revision: fingerprint(&format!("{}{names}", crd["spec"])),
        terminating: condition(crd, "Terminating") == Some("True"),
    };
    Resource {
        group: group.to_owned(),
        version: text(&version["name"]).to_owned(),
        kind: text(&names["kind"]).to_owned(),
        list_kind: text(&names["listKind"]).to_owned(),
        plural: text(&names["plural"]).to_owned(),
        singular: text(&names["singular"]).to_owned(),
        short_names: strings(&names["shortNames"]),
        categories: strings(&names["categories"]),
        namespaced: crd["spec"]["scope"] == "Namespaced",
        status: version["subresources"]["status"].is_object(),
        scale,
        collection: meta::name(crd).to_owned(),
        stored_as: format!("{group}/{}", text(&stored["name"])),
        schema: None,
        custom: Some(Arc::new(custom)),
    }
}

/// Returns the schema of a version; an unchanged one is not compiled again.
fn schema(crd: &str, version: &Value, present: &ServedResources) -> Arc<Schema> {
    let source = &version["schema"]["openAPIV3Schema"];
    let schemas = present.all().iter().chain(present.stored());
    let mut schemas = schemas
        .filter_map(|r| r.custom.as_ref())
        .filter(|custom| custom.crd == crd)
        .flat_map(|custom| [&custom.schema, &custom.stored]);
    let same = schemas.find(|schema| schema.is_of(source)).cloned();
    same.unwrap_or_else(|| Arc::new(Schema::compile(source)))
}

fn column(column: &Value) -> PrinterColumn {
    let owned = |v: &Value| text(v).to_owned();
    PrinterColumn {
        name: owned(&column["name"]),
        kind: owned(&column["type"]),
        format: owned(&column["format"]),
        description: owned(&column["description"]),
        priority: column["priority"].as_i64().unwrap_or(0),
        json_path: owned(&column["jsonPath"]),
    }
}
