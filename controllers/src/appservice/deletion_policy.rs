//! `deletionPolicy`: the ownerReferences of the children and the finalizer of the `AppService`.
//!
//! With `Orphan` the finalizer is added first, then the ownerReferences are removed. With `Delete` the ownerReferences are
//! added first, then the finalizer is removed. So every child has an ownerReference, or its `AppService` the finalizer.
//!
//! An `AppService` that is deleted under `Orphan` keeps the finalizer until no child has an ownerReference to it. If the
//! policy changes to `Delete` during the deletion, it keeps the finalizer until every child has one, and the garbage
//! collector deletes the children; unless the deletion itself orphans dependents.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_manager::finalizer;
use steersman_manager::object::{Meta, Resource, Uid};
use steersman_manager::owner::{adopt_patch, release_patch};

use crate::api::app_service::{APP_SERVICES, AppService, DeletionPolicy};

/// Finalizer of an `AppService` with `deletionPolicy: Orphan`.
pub const FINALIZER: &str = "appcontroller.k8s.io/orphan-children";
/// Finalizer that the API server adds for `propagationPolicy: Orphan`.
const ORPHAN_FINALIZER: &str = "orphan";

/// The actions for an `AppService` that is being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletionPlan {
    /// Merge patches of the ownerReferences of children.
    pub(super) owner_patches: Vec<(Resource, Meta, Value)>,
    /// Whether to remove the finalizer after these patches.
    pub(super) remove_finalizer: bool,
}

/// Returns the patch that adds the finalizer, if it is needed and missing.
pub(super) fn finalizer_patch(app: &AppService) -> Option<Value> {
    match app.spec.deletion_policy() {
        DeletionPolicy::Orphan => finalizer::add_patch(&app.metadata, FINALIZER),
        DeletionPolicy::Delete => None,
    }
}

/// Returns whether the finalizer is to be removed once all children have an ownerReference.
pub(super) fn is_finalizer_obsolete(app: &AppService) -> bool {
    app.spec.deletion_policy() == DeletionPolicy::Delete && app.metadata.has_finalizer(FINALIZER)
}

/// Returns whether the deletion of `app` orphans its dependents. The garbage collector removes this finalizer when it has
/// orphaned them, so a `false` is not final.
pub(super) fn is_orphaning(app: &AppService) -> bool {
    app.metadata.is_terminating() && app.metadata.has_finalizer(ORPHAN_FINALIZER)
}

/// Returns the merge patch that makes the ownerReference of `child` follow the policy of `app`, if it does not.
pub(super) fn owner_patch(app: &AppService, child: &Meta) -> Option<Value> {
    match app.spec.deletion_policy() {
        DeletionPolicy::Orphan => release_patch(&app.metadata, child),
        DeletionPolicy::Delete => {
            (!has_controller_reference(app, child)).then(|| adopt_patch(&APP_SERVICES, &app.metadata, child))
        }
    }
}

/// Returns whether `child` has exactly the desired controller reference to `app`.
pub(super) fn has_controller_reference(app: &AppService, child: &Meta) -> bool {
    child.owner_references.iter().any(|it| {
        it.uid == app.metadata.uid
            && it.controller
            && it.block_owner_deletion
            && it.name == app.metadata.name
            && it.kind == *APP_SERVICES.kind
            && it.api_version == *APP_SERVICES.api_version()
    })
}

/// Plans the deletion of `app`, which has these children; a child may occur twice. `orphaned` says that [`is_orphaning`]
/// was true at any time.
pub(super) fn plan_deletion<'a>(
    app: &AppService,
    orphaned: bool,
    children: impl IntoIterator<Item = (&'a Resource, &'a Meta)>,
) -> DeletionPlan {
    let has_finalizer = app.metadata.has_finalizer(FINALIZER);
    let patches_owners = match app.spec.deletion_policy() {
        DeletionPolicy::Orphan => true,
        DeletionPolicy::Delete => has_finalizer && !orphaned,
    };
    let mut patches: BTreeMap<Uid, (Resource, Meta, Value)> = BTreeMap::new();
    for (resource, child) in children {
        if let Some(patch) = owner_patch(app, child).filter(|_| patches_owners) {
            patches.insert(child.uid.clone(), (resource.clone(), child.clone(), patch));
        }
    }
    DeletionPlan {
        owner_patches: patches.into_values().collect(),
        remove_finalizer: has_finalizer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::appservice::desired;
    use crate::support::DEPLOYMENTS;

    fn app(policy: &str, finalizers: &[&str], deleting: bool) -> AppService {
        let mut app = json!({
            "metadata": {"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1",
                         "finalizers": finalizers},
            "spec": {"deploymentName": "web", "deletionPolicy": policy},
        });
        if deleting {
            app["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(app).expect("an AppService")
    }

    fn child(references: &Value) -> Meta {
        let meta = json!({"name": "web", "namespace": "ns", "uid": "c", "resourceVersion": "2",
                          "ownerReferences": references});
        serde_json::from_value(meta).expect("metadata")
    }

    fn reference(uid: &str) -> Value {
        json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "name": "shop", "uid": uid,
               "controller": true, "blockOwnerDeletion": true})
    }

    /// Returns the ownerReferences of a patch, which carries uid and resourceVersion of the child.
    fn patched(patch: &Value) -> Value {
        assert_eq!(
            (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
            (&json!("c"), &json!("2"))
        );
        patch["metadata"]["ownerReferences"].clone()
    }

    #[test]
    fn finalizer_is_needed_under_orphan_only() {
        assert!(finalizer_patch(&app("Orphan", &[], false)).is_some());
        assert!(finalizer_patch(&app("Orphan", &[FINALIZER], false)).is_none());
        assert!(finalizer_patch(&app("Orphan", &[], true)).is_none(), "deleting");
        assert!(finalizer_patch(&app("Delete", &[], false)).is_none());
        assert!(is_finalizer_obsolete(&app("Delete", &[FINALIZER], false)));
        assert!(!is_finalizer_obsolete(&app("Orphan", &[FINALIZER], false)));
        assert!(!is_finalizer_obsolete(&app("Delete", &[], false)));
    }

    #[test]
    fn owner_reference_follows_the_policy() {
        let (delete, orphan) = (app("Delete", &[], false), app("Orphan", &[], false));
        let patched = |app: &AppService, references: &Value| {
            owner_patch(app, &child(references)).map(|it| patched(&it))
        };
        let ours = desired::deployment(&delete)["metadata"]["ownerReferences"][0].clone();
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
        assert_eq!(patched(&delete, &json!([theirs, ours])), None);
        assert_eq!(patched(&orphan, &json!([theirs, ours])), Some(json!([theirs])));
        assert_eq!(patched(&orphan, &json!([theirs])), None);
        assert_eq!(patched(&delete, &json!([theirs])), Some(json!([theirs, ours])));
        // A reference with a wrong field is corrected in place.
        for (field, value) in [
            ("controller", None),
            ("blockOwnerDeletion", None),
            ("apiVersion", Some("appcontroller.k8s.io/v1")),
            ("name", Some("x")),
        ] {
            let mut wrong = ours.clone();
            let fields = wrong.as_object_mut().expect("an object");
            fields.remove(field);
            fields.extend(value.map(|it| (field.to_owned(), json!(it))));
            assert_eq!(patched(&delete, &json!([wrong])), Some(json!([ours])), "{field}");
        }
    }

    #[test]
    fn deletion_under_orphan_releases_every_child_once() {
        let ours = child(&json!([reference("u")]));
        for finalizers in [
            &[][..],
            &[FINALIZER],
            &[FINALIZER, "orphan"],
            &[FINALIZER, "foregroundDeletion"],
        ] {
            let app = app("Orphan", finalizers, true);
            let twice = [(&DEPLOYMENTS, &ours), (&DEPLOYMENTS, &ours)];
            let plan = plan_deletion(&app, is_orphaning(&app), twice);
            assert_eq!(plan.owner_patches.len(), 1);
            assert_eq!(patched(&plan.owner_patches[0].2), json!([]));
            assert_eq!(plan.remove_finalizer, !finalizers.is_empty());
        }
        let app = app("Orphan", &[FINALIZER], true);
        for other in [child(&json!([])), child(&json!([reference("other")]))] {
            assert_eq!(
                plan_deletion(&app, false, [(&DEPLOYMENTS, &other)]).owner_patches,
                []
            );
        }
    }

    #[test]
    fn deletion_under_delete_adopts_unless_dependents_are_orphaned() {
        let orphan = child(&json!([]));
        let patches = |finalizers: &[&str], orphaned: bool| {
            let app = app("Delete", finalizers, true);
            let plan = plan_deletion(&app, orphaned || is_orphaning(&app), [(&DEPLOYMENTS, &orphan)]);
            plan.owner_patches.len()
        };
        assert_eq!(patches(&[FINALIZER], false), 1, "background");
        assert_eq!(
            patches(&[FINALIZER, "foregroundDeletion"], false),
            1,
            "foreground"
        );
        assert_eq!(patches(&[FINALIZER, "orphan"], false), 0, "orphan");
        assert_eq!(patches(&[], false), 0, "the policy was never Orphan");
        assert_eq!(patches(&[FINALIZER], true), 0, "orphaned in an earlier sync");
        assert!(!is_orphaning(&app("Delete", &["orphan"], false)));
    }
}
