//! The admission webhooks of `AppServices`.
//!
//! Every replica serves them. With a stale or unsynced cache, two `AppServices` may name one Deployment; then the controller
//! leaves it to the first. So the webhooks are optional, and their failure may be ignored.

use std::future::ready;
use std::sync::Arc;

use serde_json::Value;
use steersman_manager::cache::{Caches, Lookup};
use steersman_manager::client::Cause;
use steersman_manager::object::Key;
use steersman_manager::webhook::{AdmissionRequest, Denial, Hooks, Operation};

use crate::api::app_service::validation::{self, FieldError};
use crate::api::app_service::{APP_SERVICES, AppService};
use crate::support::DEPLOYMENTS;
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
        .mutating(&APP_SERVICES, |request| ready(Ok(mutate(&request))))
        .validating(&APP_SERVICES, move |request| {
            let others = apps.list_namespace(&request.namespace);
            let name = validation::deployment_name(&request.object);
            let key = Key::new(request.namespace.clone(), name);
            // An unsynced cache does not prove absence.
            let exists = !deployments.is_synced() || !matches!(deployments.get(&key), Lookup::Absent);
            ready(validate(&request, &others, exists))
        })
}

fn mutate(request: &AdmissionRequest) -> Vec<Value> {
    if changes_spec(request) {
        validation::default_patch(&request.object)
    } else {
        Vec::new()
    }
}

fn validate(
    request: &AdmissionRequest,
    others: &[Arc<AppService>],
    exists: bool,
) -> Result<Vec<String>, Denial> {
    if !changes_spec(request) {
        return Ok(Vec::new());
    }
    let old = (!request.old_object.is_null()).then_some(&request.old_object);
    validation::validate(&request.object, old, others, exists).map_err(|errors| {
        let causes = errors.into_iter().map(cause).collect();
        Denial::invalid("AppService.appcontroller.k8s.io", &request.name, causes)
    })?;
    Ok(Vec::new())
}

/// Returns whether a request can change the spec: a create or update that is not of a subresource.
fn changes_spec(request: &AdmissionRequest) -> bool {
    matches!(request.operation, Operation::Create | Operation::Update) && request.sub_resource.is_empty()
}

fn cause(error: FieldError) -> Cause {
    let FieldError {
        field,
        reason,
        message,
    } = error;
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
        AdmissionRequest {
            operation,
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            object: object.into(),
            ..AdmissionRequest::default()
        }
    }

    fn others() -> Vec<Arc<AppService>> {
        vec![Arc::new(
            serde_json::from_value(app("first", "shop")).expect("an AppService"),
        )]
    }

    #[test]
    fn unset_fields_are_defaulted() {
        let patch = mutate(&request(Operation::Create, app("web", "web")));
        assert_eq!(
            patch,
            [json!({"op": "add", "path": "/spec/deletionPolicy", "value": "Delete"})]
        );
    }

    #[test]
    fn deployment_name_in_use_is_denied() {
        let denial =
            validate(&request(Operation::Create, app("web", "shop")), &others(), false).expect_err("denied");
        assert_eq!((denial.code, denial.reason), (422, "Invalid"));
        assert_eq!(denial.causes.len(), 1);
        assert_eq!(denial.causes[0].field, "spec.deploymentName");
        let start = "AppService.appcontroller.k8s.io \"web\" is invalid: spec.deploymentName: ";
        assert!(denial.message.starts_with(start), "{}", denial.message);
        assert_eq!(
            validate(&request(Operation::Create, app("web", "web")), &others(), false),
            Ok(vec![])
        );
    }

    /// Clients may be unauthenticated, and send reviews for any namespace.
    #[test]
    fn denial_does_not_name_the_other_appservice() {
        let denial =
            validate(&request(Operation::Create, app("web", "shop")), &others(), false).expect_err("denied");
        let text = format!("{denial:?}");
        assert!(
            text.contains("another AppService") && !text.contains("first"),
            "{text}"
        );
    }

    #[test]
    fn missing_image_is_denied_unless_the_deployment_exists() {
        let mut body = app("web", "web");
        body["spec"].as_object_mut().expect("a spec").remove("image");
        let create = request(Operation::Create, body);
        let denial = validate(&create, &others(), false).expect_err("denied");
        assert_eq!(denial.causes[0].field, "spec.image");
        assert_eq!(
            denial.message,
            "AppService.appcontroller.k8s.io \"web\" is invalid: spec.image: Required value: Deployment \"web\" does \
             not exist yet"
        );
        assert_eq!(validate(&create, &others(), true), Ok(vec![]));
    }

    #[test]
    fn unchanged_deployment_name_is_allowed() {
        let mut update = request(Operation::Update, app("web", "shop"));
        update.old_object = app("web", "shop").into();
        assert_eq!(validate(&update, &others(), false), Ok(vec![]));
    }

    #[test]
    fn deletes_and_subresources_are_allowed() {
        let mut status = request(Operation::Update, app("web", "shop"));
        status.sub_resource = "status".to_owned();
        let delete = request(Operation::Delete, Value::Null);
        for request in [status, delete] {
            assert_eq!(mutate(&request), Vec::<Value>::new());
            assert_eq!(validate(&request, &others(), false), Ok(vec![]));
        }
    }
}
