//! The admission webhooks of `AppServices`.
//!
//! Every replica serves them. An answer depends on the request only: clients may be unauthenticated, and must not learn of
//! other objects. So the controller, not a webhook, reports a Deployment that another `AppService` has. The webhooks are
//! optional, and their failure may be ignored.

use std::future::ready;

use serde_json::Value;
use steersman_manager::client::Cause;
use steersman_manager::webhook::{AdmissionRequest, Denial, Hooks, Operation};

use crate::api::app_service::APP_SERVICES;
use crate::api::app_service::validation::{self, FieldError};

/// Adds the webhooks of `AppServices` to `hooks`. Without a default image, a new `AppService` needs one.
#[must_use]
pub fn hooks(hooks: Hooks, has_default_image: bool) -> Hooks {
    hooks
        .mutating(&APP_SERVICES, |request| ready(Ok(mutate(&request))))
        .validating(&APP_SERVICES, move |request| {
            ready(validate(&request, has_default_image))
        })
}

fn mutate(request: &AdmissionRequest) -> Vec<Value> {
    if changes_spec(request) {
        validation::default_patch(&request.object)
    } else {
        Vec::new()
    }
}

fn validate(request: &AdmissionRequest, has_default_image: bool) -> Result<Vec<String>, Denial> {
    if !changes_spec(request) {
        return Ok(Vec::new());
    }
    let old = (!request.old_object.is_null()).then_some(&request.old_object);
    validation::validate(&request.object, old, has_default_image).map_err(|errors| {
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

    #[test]
    fn unset_fields_are_defaulted() {
        let patch = mutate(&request(Operation::Create, app("web", "web")));
        assert_eq!(
            patch,
            [json!({"op": "add", "path": "/spec/deletionPolicy", "value": "Delete"})]
        );
    }

    #[test]
    fn invalid_spec_is_denied() {
        let mut body = app("web", "web");
        body["spec"]["replicas"] = json!(-1);
        let denial = validate(&request(Operation::Create, body), true).expect_err("denied");
        assert_eq!((denial.code, denial.reason), (422, "Invalid"));
        assert_eq!(denial.causes.len(), 1);
        assert_eq!(denial.causes[0].field, "spec.replicas");
        let start = "AppService.appcontroller.k8s.io \"web\" is invalid: spec.replicas: ";
        assert!(denial.message.starts_with(start), "{}", denial.message);
    }

    #[test]
    fn missing_image_is_denied_without_a_default() {
        let bare = |deployment: &str| {
            let mut body = app("web", deployment);
            body["spec"].as_object_mut().expect("a spec").remove("image");
            body
        };
        let create = request(Operation::Create, bare("web"));
        let denial = validate(&create, false).expect_err("denied");
        assert_eq!(denial.causes[0].field, "spec.image");
        assert_eq!(
            denial.message,
            "AppService.appcontroller.k8s.io \"web\" is invalid: spec.image: Required value: Deployment \"web\" does \
             not exist yet"
        );
        assert_eq!(validate(&create, true), Ok(vec![]));
        let mut update = request(Operation::Update, bare("web"));
        update.old_object = app("web", "other").into();
        assert_eq!(validate(&update, false), Ok(vec![]), "the controller decides");
    }

    #[test]
    fn deletes_and_subresources_are_allowed() {
        let mut status = request(Operation::Update, app("web", "shop"));
        status.sub_resource = "status".to_owned();
        let delete = request(Operation::Delete, Value::Null);
        for request in [status, delete] {
            assert_eq!(mutate(&request), Vec::<Value>::new());
            assert_eq!(validate(&request, false), Ok(vec![]));
        }
    }
}
