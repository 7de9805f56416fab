//! Ownership: whether an object belongs to an `AppService`.
//!
//! An `AppService` owns the objects that it controls, by uid. With `deletionPolicy: Orphan` its children have no
//! ownerReference; then it owns the objects that carry its uid in a label, have no controller, and were created under their
//! present name. The annotation with the name tells a child from a copy of it under another name.
//!
//! An object without a controller is adopted by the `AppService` that its annotation [`ADOPT_BY_ANNOTATION`] names, such as
//! the orphaned children of an `AppService` that was deleted and created again. The annotation is on the object, not on the
//! `AppService`: adoption requires permission to change the object.

use steersman_manager::object::{Meta, StringMap, Uid};

use crate::api::app_service::APP_SERVICES;

/// Label of a child: the uid of its `AppService`.
pub(super) const UID_LABEL: &str = "appcontroller.k8s.io/appservice-uid";
/// Annotation of a child: the name under which it was created.
pub(super) const MADE_AS_ANNOTATION: &str = "appcontroller.k8s.io/made-as";
/// Annotation of any object: the name of the `AppService` that may adopt it.
pub(super) const ADOPT_BY_ANNOTATION: &str = "appcontroller.k8s.io/adopt-by";

/// The relation of an object to an `AppService`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    Owned,
    /// Names the `AppService` in its annotation. Not deleted before it is adopted.
    Adoptable,
    /// Has a deletionTimestamp, or belongs to a deleted `AppService` of the same name and will be garbage collected.
    Terminating,
    Foreign,
}

/// Returns the relation of `object`, which has these annotations, to `app`.
pub(super) fn ownership(app: &Meta, object: &Meta, annotations: &StringMap) -> Ownership {
    if object.is_terminating() {
        return Ownership::Terminating;
    }
    match object.controller() {
        Some(controller) => {
            let same = controller.kind == *APP_SERVICES.kind && controller.name == app.name;
            let group = controller.api_version.split_once('/').map(|(group, _)| group);
            if controller.uid != app.uid && same && group == Some(&*APP_SERVICES.group) {
                return Ownership::Terminating;
            }
            if controller.uid == app.uid {
                return Ownership::Owned;
            }
        }
        None if was_created_for(app, object, annotations) => return Ownership::Owned,
        None if annotations.get(ADOPT_BY_ANNOTATION) == Some(&app.name) => return Ownership::Adoptable,
        None => {}
    }
    Ownership::Foreign
}

/// Returns whether label and annotation of `object` say that it was created for `app` under its present name.
pub(super) fn was_created_for(app: &Meta, object: &Meta, annotations: &StringMap) -> bool {
    let uid = object.labels.get(UID_LABEL);
    uid.is_some_and(|it| !it.is_empty() && Uid::from(&**it) == app.uid)
        && annotations.get(MADE_AS_ANNOTATION) == Some(&object.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    fn meta(more: &Value) -> Meta {
        let mut meta = json!({"namespace": "ns", "name": "web", "uid": "c", "resourceVersion": "3"});
        let more = more.as_object().cloned().unwrap_or_default();
        meta.as_object_mut().expect("an object").extend(more);
        serde_json::from_value(meta).expect("metadata")
    }

    fn pairs(map: &Value) -> StringMap {
        serde_json::from_value(map.clone()).expect("annotations")
    }

    #[test]
    fn ownership_follows_controller_reference_label_and_annotation() {
        let app = meta(&json!({"name": "app", "uid": "own"}));
        let controlled = |uid: &str, name: &str, kind: &str| {
            json!([{"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": kind, "name": name, "uid": uid,
                    "controller": true}])
        };
        let marked = json!({UID_LABEL: "own"});
        let deleted = json!("2026-01-01T00:00:00Z");
        #[rustfmt::skip]
        let table = [
            (json!({}), None, Ownership::Foreign),
            (json!({"deletionTimestamp": deleted}), None, Ownership::Terminating),
            (json!({"ownerReferences": controlled("own", "app", "AppService")}), None, Ownership::Owned),
            (json!({"ownerReferences": controlled("own", "app", "AppService"), "deletionTimestamp": deleted}), None, Ownership::Terminating),
            (json!({"ownerReferences": controlled("before", "app", "AppService")}), None, Ownership::Terminating),
            (json!({"ownerReferences": controlled("other", "other", "AppService")}), None, Ownership::Foreign),
            (json!({"ownerReferences": controlled("other", "app", "Other")}), None, Ownership::Foreign),
            // The controller reference takes precedence over the label.
            (json!({"labels": marked, "ownerReferences": controlled("other", "other", "AppService")}), Some("web"), Ownership::Foreign),
            (json!({"labels": marked}), Some("web"), Ownership::Owned),
            (json!({"labels": marked}), Some("copied"), Ownership::Foreign),
            (json!({"labels": marked}), None, Ownership::Foreign),
            (json!({"labels": {UID_LABEL: "other"}}), Some("web"), Ownership::Foreign),
        ];
        for (object, made_as, expected) in table {
            let annotations = pairs(&made_as.map_or(json!({}), |it| json!({MADE_AS_ANNOTATION: it})));
            assert_eq!(
                ownership(&app, &meta(&object), &annotations),
                expected,
                "{object} {made_as:?}"
            );
        }
    }

    #[test]
    fn object_without_a_controller_is_adoptable_by_the_appservice_it_names() {
        let app = meta(&json!({"name": "app", "uid": "own"}));
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let controlled = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o",
                                                     "controller": true}]});
        let orphan = json!({"labels": {UID_LABEL: "before"}});
        for (object, by, expected) in [
            (json!({}), "app", Ownership::Adoptable),
            (orphan, "app", Ownership::Adoptable),
            (json!({}), "other", Ownership::Foreign),
            (json!({}), "", Ownership::Foreign),
            (deleted, "app", Ownership::Terminating),
            (controlled, "app", Ownership::Foreign),
        ] {
            let annotations = pairs(&json!({ADOPT_BY_ANNOTATION: by, MADE_AS_ANNOTATION: "web"}));
            assert_eq!(
                ownership(&app, &meta(&object), &annotations),
                expected,
                "{object} {by}"
            );
        }
    }

    #[test]
    fn appservice_without_a_uid_owns_nothing() {
        let app = meta(&json!({"name": "app", "uid": ""}));
        let object = meta(&json!({"labels": {UID_LABEL: ""}}));
        let annotations = pairs(&json!({MADE_AS_ANNOTATION: "web"}));
        assert_eq!(ownership(&app, &object, &annotations), Ownership::Foreign);
    }
}
