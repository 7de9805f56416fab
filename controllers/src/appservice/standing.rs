//! What an object is to an `AppService`: its own, somebody else's, or on its way out.
//!
//! Its own is what it controls, by uid. With `deletionPolicy: Orphan` nothing refers to anybody; then it is what carries
//! the uid of the `AppService` in a label, is controlled by nobody, and says itself under which name it was made: a copy
//! under another name is not taken for it.
//!
//! An object without a controller is adopted by the `AppService` that its annotation [`ADOPT_BY`] names, such as the
//! orphaned children of an `AppService` that was deleted and created again. The annotation is on the object, not on the
//! `AppService`: adoption needs the permission to change the object.

use coxswain_manager::object::{Meta, StringMap, Uid};

use super::APP_SERVICES;

/// The label that has the uid of the `AppService`.
pub const UID: &str = "appcontroller.k8s.io/appservice-uid";
/// The annotation that has the name under which an object was made.
pub const MADE_AS: &str = "appcontroller.k8s.io/made-as";
/// The annotation that has the name of the `AppService` which may adopt the object.
pub const ADOPT_BY: &str = "appcontroller.k8s.io/adopt-by";

/// What an object is to an `AppService`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its own.
    Ours,
    /// To be adopted. Never deleted before it is.
    Adoptable,
    /// On its way out: its place will be free. That is so for what is being deleted, and for what belonged to an
    /// `AppService` of that name before this one: the garbage collector takes it.
    Leaving,
    /// None of its business.
    Foreign,
}

/// What `object`, with these annotations, is to `app`.
#[must_use]
pub fn standing(app: &Meta, object: &Meta, annotations: &StringMap) -> Standing {
    if object.is_terminating() {
        return Standing::Leaving;
    }
    match object.controller() {
        Some(controller) => {
            let same = controller.kind == *APP_SERVICES.kind && controller.name == app.name;
            let group = controller.api_version.split_once('/').map(|(group, _)| group);
            if controller.uid != app.uid && same && group == Some(&*APP_SERVICES.group) {
                return Standing::Leaving;
            }
            if controller.uid == app.uid {
                return Standing::Ours;
            }
        }
        None if is_marked(app, object, annotations) => return Standing::Ours,
        None if annotations.get(ADOPT_BY) == Some(&app.name) => return Standing::Adoptable,
        None => {}
    }
    Standing::Foreign
}

/// Whether it says of itself that it was made for `app`, under the name that it has.
#[must_use]
pub fn is_marked(app: &Meta, object: &Meta, annotations: &StringMap) -> bool {
    let uid = object.labels.get(UID);
    uid.is_some_and(|it| !it.is_empty() && Uid::from(&**it) == app.uid)
        && annotations.get(MADE_AS) == Some(&object.name)
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
    fn by_the_table() {
        let app = meta(&json!({"name": "app", "uid": "own"}));
        let controlled = |uid: &str, name: &str, kind: &str| {
            json!([{"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": kind, "name": name, "uid": uid,
                    "controller": true}])
        };
        let marked = json!({UID: "own"});
        let gone = json!("2026-01-01T00:00:00Z");
        #[rustfmt::skip]
        let table = [
            (json!({}), None, Standing::Foreign),
            (json!({"deletionTimestamp": gone}), None, Standing::Leaving),
            (json!({"ownerReferences": controlled("own", "app", "AppService")}), None, Standing::Ours),
            (json!({"ownerReferences": controlled("own", "app", "AppService"), "deletionTimestamp": gone}), None, Standing::Leaving),
            (json!({"ownerReferences": controlled("before", "app", "AppService")}), None, Standing::Leaving),
            (json!({"ownerReferences": controlled("other", "other", "AppService")}), None, Standing::Foreign),
            (json!({"ownerReferences": controlled("other", "app", "Other")}), None, Standing::Foreign),
            // Who says that it is ours, and is another one's, is another one's.
            (json!({"labels": marked, "ownerReferences": controlled("other", "other", "AppService")}), Some("web"), Standing::Foreign),
            (json!({"labels": marked}), Some("web"), Standing::Ours),
            (json!({"labels": marked}), Some("copied"), Standing::Foreign),
            (json!({"labels": marked}), None, Standing::Foreign),
            (json!({"labels": {UID: "other"}}), Some("web"), Standing::Foreign),
        ];
        for (object, made_as, expected) in table {
            let annotations = pairs(&made_as.map_or(json!({}), |it| json!({MADE_AS: it})));
            assert_eq!(
                standing(&app, &meta(&object), &annotations),
                expected,
                "{object} {made_as:?}"
            );
        }
    }

    #[test]
    fn object_without_a_controller_is_adopted_by_the_appservice_it_names() {
        let app = meta(&json!({"name": "app", "uid": "own"}));
        let gone = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let controlled = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o",
                                                     "controller": true}]});
        let orphan = json!({"labels": {UID: "before"}});
        for (object, by, expected) in [
            (json!({}), "app", Standing::Adoptable),
            (orphan, "app", Standing::Adoptable),
            (json!({}), "other", Standing::Foreign),
            (json!({}), "", Standing::Foreign),
            (gone, "app", Standing::Leaving),
            (controlled, "app", Standing::Foreign),
        ] {
            let annotations = pairs(&json!({ADOPT_BY: by, MADE_AS: "web"}));
            assert_eq!(
                standing(&app, &meta(&object), &annotations),
                expected,
                "{object} {by}"
            );
        }
    }

    #[test]
    fn an_owner_without_a_uid_owns_nothing() {
        let app = meta(&json!({"name": "app", "uid": ""}));
        let object = meta(&json!({"labels": {UID: ""}}));
        let annotations = pairs(&json!({MADE_AS: "web"}));
        assert_eq!(standing(&app, &object, &annotations), Standing::Foreign);
    }
}
