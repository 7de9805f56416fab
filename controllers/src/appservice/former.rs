//! Deployments that an `AppService` had under another `deploymentName`.
//!
//! They are found by what they are, not by what is remembered: whatever is controlled by the `AppService`, or carries its
//! uid. So nothing is lost if the process ends between the making of the new one and the removal of the old one. What is
//! removed must both be its own and say itself that it was made for it, under the name that it has: a copy that somebody
//! has made of it is nobody's to remove. The policy does not matter: `Orphan` is about what is left when the `AppService`
//! goes, and this one stays.

use std::sync::Arc;

use super::standing::{Standing, is_marked, standing};
use crate::api::app_service::AppService;
use crate::support::deployment::Deployment;

/// The former Deployments of `app`, among those that may be: its own, by another name, made for it.
pub fn all<'a>(
    app: &'a AppService,
    candidates: &'a [Arc<Deployment>],
) -> impl Iterator<Item = &'a Arc<Deployment>> {
    candidates.iter().filter(|it| {
        let meta = &it.metadata;
        meta.name != app.spec.deployment_name
            && standing(&app.metadata, meta, &it.annotations) == Standing::Ours
            && is_marked(&app.metadata, meta, &it.annotations)
    })
}

/// Whether `deployment` does what its `AppService` asks for, so that a former one can go.
#[must_use]
pub fn is_available(app: &AppService, deployment: &Deployment) -> bool {
    let (status, present) = (&deployment.status, deployment.replicas());
    let desired = app.spec.replicas().unwrap_or(present);
    status.observed_generation >= deployment.metadata.generation
        && present == desired
        && status.updated_replicas >= desired
        && status.available_replicas >= desired
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    use crate::appservice::children;

    fn app(name: &str) -> AppService {
        let metadata = json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1"});
        let spec = json!({"deploymentName": name, "image": "nginx", "replicas": 2});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an AppService")
    }

    fn made(name: &str, change: impl FnOnce(&mut Value)) -> Arc<Deployment> {
        let mut made = children::deployment(&app(name));
        made["metadata"]["namespace"] = json!("ns");
        change(&mut made);
        Arc::new(serde_json::from_value(made).expect("a Deployment"))
    }

    #[test]
    fn only_what_was_made_for_it_by_another_name_is_a_former_one() {
        let app = app("new");
        let found = |one: Arc<Deployment>| all(&app, &[one]).count() == 1;
        assert!(found(made("old", |_| {})));
        assert!(!found(made("new", |_| {})), "the present one");
        assert!(
            found(made("old", |it| it["metadata"]["ownerReferences"] = json!([]))),
            "an orphan"
        );
        assert!(
            !found(made("old", |it| it["metadata"]["name"] = json!("copy"))),
            "a copy"
        );
        assert!(!found(made("old", |it| it["metadata"]["annotations"] = json!({}))));
        assert!(!found(made("old", |it| it["metadata"]["labels"] = json!({}))));
        let uid = |it: &mut Value| it["metadata"]["ownerReferences"][0]["uid"] = json!("other");
        assert!(!found(made("old", uid)), "another one's");
        let going = |it: &mut Value| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!found(made("old", going)), "it goes already");
    }

    #[test]
    fn it_is_available_when_all_that_is_asked_for_serves() {
        let status = |updated: i64, available: i64, observed: i64| {
            made("new", |it| {
                it["metadata"]["generation"] = json!(2);
                it["status"] = json!({"observedGeneration": observed, "updatedReplicas": updated,
                                      "availableReplicas": available});
            })
        };
        let app = app("new");
        assert!(is_available(&app, &status(2, 2, 2)));
        assert!(!is_available(&app, &status(2, 1, 2)) && !is_available(&app, &status(1, 2, 2)));
        assert!(!is_available(&app, &status(2, 2, 1)), "that is from before");
        let smaller = made("new", |it| {
            it["spec"]["replicas"] = json!(1);
            it["status"] = json!({"updatedReplicas": 2, "availableReplicas": 2});
        });
        assert!(!is_available(&app, &smaller), "it is about to change");
    }

    #[test]
    fn unset_replicas_are_those_of_the_deployment() {
        let unset: AppService = serde_json::from_value(json!({
            "metadata": {"name": "shop", "namespace": "ns", "uid": "u"}, "spec": {"deploymentName": "new"}}))
        .expect("an AppService");
        let scaled = |available: i64| {
            made("new", |it| {
                it["spec"]["replicas"] = json!(5);
                it["status"] = json!({"updatedReplicas": 5, "availableReplicas": available});
            })
        };
        assert!(is_available(&unset, &scaled(5)) && !is_available(&unset, &scaled(4)));
    }
}
