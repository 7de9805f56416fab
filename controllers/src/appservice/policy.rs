//! What `deletionPolicy` asks for: who refers to the `AppService`, and whether the finalizer is on it.
//!
//! With `Orphan` the finalizer goes on first, then the references go; with `Delete` the references come first, then the
//! finalizer goes. So at no moment is there a reference without the finalizer while the policy is `Orphan`, once it has been
//! seen, and a child is never without both. An `AppService` that is deleted while it is `Orphan` stays until nothing of its
//! own refers to it. One whose policy was changed to `Delete` at the last moment stays until they do, so that they go with
//! it in the way that was asked for; unless that way is to orphan them.

use std::collections::BTreeMap;

use coxswain_manager::finalizer;
use coxswain_manager::object::{Meta, Resource, Uid};
use serde_json::Value;

use super::drift;
use crate::api::app_service::{AppService, Policy};

/// The finalizer that is on an `AppService` while its policy is `Orphan`.
pub const FINALIZER: &str = "appcontroller.k8s.io/orphan-children";
/// The finalizer that the API puts on an object whose dependents are to be orphaned.
const API_ORPHAN: &str = "orphan";

/// What is done for an `AppService` that is being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Farewell {
    /// The patches that make references what they have to be.
    pub references: Vec<(Resource, Meta, Value)>,
    /// Whether the finalizer is on it, which goes when that is done.
    pub held: bool,
}

/// The patch that puts the finalizer on, which has to be there before anything else is done.
#[must_use]
pub fn hold(app: &AppService) -> Option<Value> {
    match app.spec.policy() {
        Policy::Orphan => finalizer::add_patch(&app.metadata, FINALIZER),
        Policy::Delete => None,
    }
}

/// Whether the finalizer is on it without need: it goes when all references are there.
#[must_use]
pub fn is_held_in_vain(app: &AppService) -> bool {
    app.spec.policy() == Policy::Delete && app.metadata.has_finalizer(FINALIZER)
}

/// Whether the dependents of an `AppService` are to be orphaned, as far as can be seen: who does it takes that off again.
#[must_use]
pub fn is_orphaned(app: &AppService) -> bool {
    app.metadata.is_terminating() && app.metadata.has_finalizer(API_ORPHAN)
}

/// What is to be done for an `AppService` that is being deleted, with these children; each may be named twice. Its
/// dependents are `orphaned` if that was ever seen of it.
#[must_use]
pub fn farewell<'a>(
    app: &AppService,
    orphaned: bool,
    children: impl IntoIterator<Item = (&'a Resource, &'a Meta)>,
) -> Farewell {
    let held = app.metadata.has_finalizer(FINALIZER);
    let touched = match app.spec.policy() {
        Policy::Orphan => true,
        // Somebody else sees to it.
        Policy::Delete => held && !orphaned,
    };
    let mut references: BTreeMap<Uid, (Resource, Meta, Value)> = BTreeMap::new();
    for (resource, child) in children {
        if let Some(patch) = drift::reference(app, child).filter(|_| touched) {
            references.insert(child.uid.clone(), (resource.clone(), child.clone(), patch));
        }
    }
    Farewell {
        references: references.into_values().collect(),
        held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::appservice::DEPLOYMENTS;

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

    fn child(owner: Option<&str>) -> Meta {
        let owners: Vec<Value> = owner
            .iter()
            .map(|uid| {
                json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "name": "shop",
                              "uid": uid, "controller": true, "blockOwnerDeletion": true})
            })
            .collect();
        let meta = json!({"name": "web", "namespace": "ns", "uid": "c", "resourceVersion": "2",
                          "ownerReferences": owners});
        serde_json::from_value(meta).expect("metadata")
    }

    #[test]
    fn the_finalizer_is_on_it_while_it_orphans() {
        assert!(hold(&app("Orphan", &[], false)).is_some());
        assert!(hold(&app("Orphan", &[FINALIZER], false)).is_none());
        assert!(hold(&app("Orphan", &[], true)).is_none(), "too late");
        assert!(hold(&app("Delete", &[], false)).is_none());
        assert!(is_held_in_vain(&app("Delete", &[FINALIZER], false)));
        assert!(!is_held_in_vain(&app("Orphan", &[FINALIZER], false)));
        assert!(!is_held_in_vain(&app("Delete", &[], false)));
    }

    #[test]
    fn whatever_still_refers_to_it_is_let_go_and_nothing_else_happens() {
        let ours = child(Some("u"));
        for finalizers in [
            &[][..],
            &[FINALIZER],
            &[FINALIZER, "orphan"],
            &[FINALIZER, "foregroundDeletion"],
        ] {
            let app = app("Orphan", finalizers, true);
            let farewell = farewell(
                &app,
                is_orphaned(&app),
                [(&DEPLOYMENTS, &ours), (&DEPLOYMENTS, &ours)],
            );
            assert_eq!(farewell.references.len(), 1, "once");
            let patch = &farewell.references[0].2;
            assert_eq!(patch["metadata"]["ownerReferences"], json!([]));
            assert_eq!(
                (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
                (&json!("c"), &json!("2"))
            );
            assert_eq!(farewell.held, !finalizers.is_empty());
        }
        let app = app("Orphan", &[FINALIZER], true);
        for other in [child(None), child(Some("other"))] {
            assert_eq!(farewell(&app, false, [(&DEPLOYMENTS, &other)]).references, []);
        }
    }

    #[test]
    fn a_policy_that_was_changed_at_the_last_moment_is_followed() {
        let orphan = child(None);
        let refers = |finalizers: &[&str]| {
            let app = app("Delete", finalizers, true);
            let farewell = farewell(&app, is_orphaned(&app), [(&DEPLOYMENTS, &orphan)]);
            farewell.references.len()
        };
        assert_eq!(refers(&[FINALIZER]), 1, "it goes with it");
        assert_eq!(refers(&[FINALIZER, "foregroundDeletion"]), 1, "before it");
        assert_eq!(refers(&[FINALIZER, "orphan"]), 0, "nobody wants it to go");
        assert_eq!(refers(&[]), 0, "it was never held");
        let after = farewell(
            &app("Delete", &[FINALIZER], true),
            true,
            [(&DEPLOYMENTS, &orphan)],
        );
        assert_eq!(after.references.len(), 0, "that was seen before");
        assert!(!is_orphaned(&app("Delete", &["orphan"], false)));
    }
}
