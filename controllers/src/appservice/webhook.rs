//! What the API server is told of an `AppService` before it stores it: [`admission`](super::admission), on the cache.
//!
//! Every replica answers. A cache that is behind, or not filled yet, knows of fewer others: then two may claim one Deployment,
//! and the controller leaves it to the first. So the webhooks may be missing, or their failure ignored.

use std::future::ready;
use std::sync::Arc;

use coxswain_manager::cache::{Caches, Lookup};
use coxswain_manager::client::Cause;
use coxswain_manager::object::Key;
use coxswain_manager::webhook::{AdmissionRequest, Denial, Hooks, Operation};
use serde_json::Value;

use super::{APP_SERVICES, AppService, DEPLOYMENTS};
use crate::api::app_service::validation::{self, Problem};
use crate::support::deployment::Deployment;

/// Adds the webhooks of `AppServices` to `hooks`.
///
/// # Panics
/// Outside a tokio runtime.
#[must_use]
pub fn hooks(hooks: Hooks, caches: &Caches) -> Hooks {
    let apps = caches.of::<AppService>(&APP_SERVICES);
    let deployments = caches.of::<Deployment>(&DEPLOYMENTS);
    hooks
        .mutating(&APP_SERVICES, |request| ready(Ok(filled_in(&request))))
        .validating(&APP_SERVICES, move |request| {
            let others = apps.list_namespace(&request.namespace);
            let name = request.object["spec"]["deploymentName"].as_str();
            let key = Key::new(request.namespace.clone(), name.unwrap_or_default());
            // Before the cache is synced nothing is known to be missing.
            let exists = !deployments.is_synced() || !matches!(deployments.get(&key), Lookup::Absent);
            ready(judged(&request, &others, exists))
        })
}

fn filled_in(request: &AdmissionRequest) -> Vec<Value> {
    if is_written(request) {
        validation::default(&request.object)
    } else {
        Vec::new()
    }
}

fn judged(
    request: &AdmissionRequest,
    others: &[Arc<AppService>],
    exists: bool,
) -> Result<Vec<String>, Denial> {
    if !is_written(request) {
        return Ok(Vec::new());
    }
    let old = (!request.old_object.is_null()).then_some(&request.old_object);
    validation::validate(&request.object, old, others, exists).map_err(|problems| {
        let causes = problems.into_iter().map(cause).collect();
        Denial::invalid("AppService.appcontroller.k8s.io", &request.name, causes)
    })?;
    Ok(Vec::new())
}

/// Whether the spec is: status and scale are others' to check.
fn is_written(request: &AdmissionRequest) -> bool {
    matches!(request.operation, Operation::Create | Operation::Update) && request.sub_resource.is_empty()
}

fn cause(problem: Problem) -> Cause {
    let Problem {
        field,
        reason,
        message,
    } = problem;
    Cause {
        reason: reason.to_owned(),
        message,
        field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    fn app(name: &str, deployment: &str) -> Value {
        json!({
            "apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"deploymentName": deployment, "image": "nginx"},
        })
    }

    fn request(operation: Operation, object: Value) -> AdmissionRequest {
        let mut request = AdmissionRequest::default();
        request.operation = operation;
        request.name = "web".to_owned();
        request.namespace = "default".to_owned();
        request.object = object;
        request
    }

    fn others() -> Vec<Arc<AppService>> {
        vec![Arc::new(
            serde_json::from_value(app("first", "shop")).expect("an AppService"),
        )]
    }

    #[test]
    fn what_is_missing_is_filled_in() {
        let patch = filled_in(&request(Operation::Create, app("web", "web")));
        assert_eq!(
            patch,
            [json!({"op": "add", "path": "/spec/deletionPolicy", "value": "Delete"})]
        );
    }

    #[test]
    fn a_deployment_that_another_claims_is_refused_by_its_field() {
        let refusal =
            judged(&request(Operation::Create, app("web", "shop")), &others(), false).expect_err("refused");
        assert_eq!((refusal.code, refusal.reason), (422, "Invalid"));
        assert_eq!(refusal.causes.len(), 1);
        assert_eq!(refusal.causes[0].field, "spec.deploymentName");
        let start = "AppService.appcontroller.k8s.io \"web\" is invalid: spec.deploymentName: ";
        assert!(refusal.message.starts_with(start), "{}", refusal.message);
        assert_eq!(
            judged(&request(Operation::Create, app("web", "web")), &others(), false),
            Ok(vec![])
        );
    }

    /// Clients may be unverified, and ask about any namespace.
    #[test]
    fn refusal_does_not_name_the_other_app_service() {
        let refusal =
            judged(&request(Operation::Create, app("web", "shop")), &others(), false).expect_err("refused");
        let said = format!("{refusal:?}");
        assert!(
            said.contains("another AppService") && !said.contains("first"),
            "{said}"
        );
    }

    #[test]
    fn missing_image_is_refused_unless_the_deployment_exists() {
        let mut body = app("web", "web");
        body["spec"].as_object_mut().expect("a spec").remove("image");
        let create = request(Operation::Create, body);
        let refusal = judged(&create, &others(), false).expect_err("refused");
        assert_eq!(refusal.causes[0].field, "spec.image");
        assert_eq!(
            refusal.message,
            "AppService.appcontroller.k8s.io \"web\" is invalid: spec.image: an image is required, because there is no \
             Deployment \"web\" to take it from"
        );
        assert_eq!(judged(&create, &others(), true), Ok(vec![]));
    }

    #[test]
    fn what_was_so_before_stays() {
        let mut update = request(Operation::Update, app("web", "shop"));
        update.old_object = app("web", "shop");
        assert_eq!(judged(&update, &others(), false), Ok(vec![]));
    }

    #[test]
    fn deletes_and_subresources_are_not_looked_at() {
        let mut status = request(Operation::Update, app("web", "shop"));
        status.sub_resource = "status".to_owned();
        let delete = request(Operation::Delete, Value::Null);
        for request in [status, delete] {
            assert_eq!(filled_in(&request), Vec::<Value>::new());
            assert_eq!(judged(&request, &others(), false), Ok(vec![]));
        }
    }
}
