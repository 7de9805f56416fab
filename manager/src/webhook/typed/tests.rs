//! Typed handlers through the hooks of a server.

use super::*;

use kube::CustomResource;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Cause;
use crate::webhook::hooks::{Hooks, mutating_path, validating_path};
use crate::webhook::request::GroupVersionKind;
use crate::webhook::review::Decision;

/// A type that does not know all fields of its objects.
#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize)]
#[kube(group = "harbour.example", version = "v1", kind = "Boat", namespaced)]
#[kube(schema = "disabled")]
#[serde(default)]
struct BoatSpec {
    oars: u32,
    seats: Vec<Seat>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Seat {
    name: String,
    side: Option<String>,
}

/// Fills unset fields, except in a dry run and in subresources.
struct Boats;

impl Defaulter<Boat> for Boats {
    async fn default(&self, boat: &mut Boat, request: &AdmissionRequest) -> Result<(), Denial> {
        assert_ne!(boat.spec.oars, 666, "for the test");
        if request.dry_run || !request.sub_resource.is_empty() {
            return Ok(());
        }
        if boat.spec.oars == 0 {
            boat.spec.oars = 8;
        }
        for seat in &mut boat.spec.seats {
            seat.side.get_or_insert_with(|| "port".to_owned());
        }
        Ok(())
    }
}

/// Allows only the owner, and reports the method that was called.
impl Validator<Boat> for Boats {
    async fn validate_create(&self, boat: &Boat, _: &AdmissionRequest) -> Result<Vec<String>, Denial> {
        Ok(vec![format!("create {}", boat.spec.oars)])
    }

    async fn validate_update(
        &self,
        old: &Boat,
        new: &Boat,
        request: &AdmissionRequest,
    ) -> Result<Vec<String>, Denial> {
        let path = &request.sub_resource;
        Ok(vec![format!("update {} {} {path}", old.spec.oars, new.spec.oars)])
    }

    async fn validate_delete(&self, boat: &Boat, request: &AdmissionRequest) -> Result<Vec<String>, Denial> {
        if request.user_info.name != "owner" {
            return Err(Denial::forbidden("not the owner"));
        }
        Ok(vec![format!("delete {} {}", boat.spec.oars, request.dry_run)])
    }
}

fn boat(oars: u32) -> Value {
    json!({"apiVersion": "harbour.example/v1", "kind": "Boat", "metadata": {"name": "gig"}, "spec": {"oars": oars}})
}

fn request(operation: Operation, object: Value, old_object: Value) -> AdmissionRequest {
    AdmissionRequest {
        operation,
        object: object.into(),
        old_object: old_object.into(),
        kind: GroupVersionKind {
            group: "harbour.example".to_owned(),
            version: "v1".to_owned(),
            kind: "Boat".to_owned(),
        },
        ..AdmissionRequest::default()
    }
}

fn create(object: Value) -> AdmissionRequest {
    request(Operation::Create, object, Value::Null)
}

fn defaulted(request: AdmissionRequest) -> Result<Value, Denial> {
    let path = mutating_path(&Resource::of::<Boat>());
    match Hooks::new().with_defaulter::<Boat>(Boats).decide(&path, request) {
        Decision::Patch(operations) => Ok(json!(operations)),
        Decision::Deny(denial) => Err(denial),
        Decision::Allow(_) => panic!("not of a defaulter"),
    }
}

fn validated(request: AdmissionRequest) -> Result<Vec<String>, Denial> {
    let path = validating_path(&Resource::of::<Boat>());
    match Hooks::new().with_validator::<Boat>(Boats).decide(&path, request) {
        Decision::Allow(warnings) => Ok(warnings),
        Decision::Deny(denial) => Err(denial),
        Decision::Patch(_) => panic!("not of a validator"),
    }
}

#[test]
fn defaulter_changes_only_unset_fields() {
    assert_eq!(defaulted(create(boat(2))), Ok(json!([])));
    let replaced = json!([{"op": "replace", "path": "/spec/oars", "value": 8}]);
    assert_eq!(defaulted(create(boat(0))), Ok(replaced));
    let added = json!([{"op": "add", "path": "/spec/oars", "value": 8}]);
    assert_eq!(defaulted(create(json!({"metadata": {}, "spec": {}}))), Ok(added));
}

#[test]
fn defaulter_keeps_fields_that_the_type_does_not_know() {
    let object = json!({
        "metadata": {"name": "gig", "future": 1}, "extra": {"a": 1},
        "spec": {"hull": "oak", "seats": [{"name": "bow", "x": 1}, {"name": "stern", "x": 2, "side": "none"}]},
    });
    assert_eq!(
        defaulted(create(object)),
        Ok(json!([
            {"op": "add", "path": "/spec/oars", "value": 8},
            {"op": "add", "path": "/spec/seats/0/side", "value": "port"},
        ]))
    );
}

#[test]
fn defaulter_is_not_called_for_deletes() {
    assert_eq!(
        defaulted(request(Operation::Delete, Value::Null, json!(7))),
        Ok(json!([]))
    );
}

#[test]
fn defaulter_gets_dry_run_and_subresource() {
    let mut dry_run = create(boat(0));
    dry_run.dry_run = true;
    let mut status = request(Operation::Update, boat(0), boat(0));
    status.sub_resource = "status".to_owned();
    for request in [dry_run, status] {
        assert_eq!(defaulted(request), Ok(json!([])));
    }
}

#[test]
#[should_panic(expected = "for the test")]
fn panic_of_a_defaulter_reaches_the_server() {
    let _ = defaulted(create(boat(666)));
}

#[test]
fn validator_method_is_that_of_the_operation() {
    let warning = |text: &str| Ok(vec![text.to_owned()]);
    assert_eq!(validated(create(boat(1))), warning("create 1"));
    let mut update = request(Operation::Update, boat(2), boat(1));
    assert_eq!(validated(update.clone()), warning("update 1 2 "));
    update.sub_resource = "status".to_owned();
    assert_eq!(validated(update), warning("update 1 2 status"));
    let mut delete = request(Operation::Delete, Value::Null, boat(3));
    assert_eq!(validated(delete.clone()), Err(Denial::forbidden("not the owner")));
    delete.user_info.name = "owner".to_owned();
    delete.dry_run = true;
    assert_eq!(validated(delete), warning("delete 3 true"));
}

#[test]
fn undecodable_object_is_denied_without_quoting_it() {
    let invalid = json!({"metadata": {}, "spec": {"seats": [{"name": "a"}, {"name": {"hunter2": 1}}]}});
    let message = |field: &str, position: &str| {
        format!(
            "the {field} is not a valid Boat of harbour.example/v1: invalid value or missing field{position}"
        )
    };
    let object = message("object", " at spec.seats[1].name");
    let old = message("old object", " at spec.seats[1].name");
    let update = |old: &Value, new: &Value| request(Operation::Update, new.clone(), old.clone());
    for (denied, message) in [
        (defaulted(create(invalid.clone())).expect_err("denied"), &object),
        (validated(create(invalid.clone())).expect_err("denied"), &object),
        (
            validated(update(&boat(1), &invalid)).expect_err("denied"),
            &object,
        ),
        (validated(update(&invalid, &boat(1))).expect_err("denied"), &old),
        (
            validated(request(Operation::Delete, Value::Null, invalid.clone())).expect_err("denied"),
            &old,
        ),
        (
            validated(request(Operation::Delete, Value::Null, Value::Null)).expect_err("denied"),
            &message("old object", ""),
        ),
        (
            validated(create(json!({}))).expect_err("denied"),
            &message("object", ""),
        ),
    ] {
        assert_eq!(denied, Denial::bad_request(message));
        assert_eq!((denied.code, denied.reason), (400, "BadRequest"));
    }
}

#[test]
fn other_kind_or_operation_is_denied() {
    let mut scale = request(Operation::Update, boat(1), boat(1));
    scale.sub_resource = "scale".to_owned();
    scale.kind = GroupVersionKind {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
    };
    let mut version = create(boat(1));
    version.kind.version = "v2".to_owned();
    for request in [scale, version] {
        for denial in [
            defaulted(request.clone()).expect_err("denied"),
            validated(request).expect_err("denied"),
        ] {
            assert_eq!(denial.code, 400);
            let start = "the webhook handles Boat of harbour.example/v1;";
            assert!(denial.message.starts_with(start), "{}", denial.message);
        }
    }
    for operation in [Operation::Connect, Operation::Unknown] {
        let denial = validated(request(operation, boat(1), Value::Null)).expect_err("denied");
        assert_eq!(denial.code, 400, "{operation:?}");
    }
}

#[test]
fn closures_are_handlers() {
    let cause = Cause {
        field: "spec.oars".to_owned(),
        message: "odd".to_owned(),
        ..Cause::default()
    };
    let denial = Denial::invalid("Boat", "gig", vec![cause]);
    let denied = denial.clone();
    let hooks = Hooks::new()
        .with_defaulter(|boat: &mut Boat, request: &AdmissionRequest| {
            boat.metadata
                .labels
                .get_or_insert_default()
                .insert("operation".to_owned(), format!("{:?}", request.operation));
            Ok(())
        })
        .with_validator(move |boat: &Boat, _: &AdmissionRequest| {
            if boat.spec.oars % 2 == 1 {
                return Err(denied.clone());
            }
            Ok(vec![])
        });
    let resource = Resource::of::<Boat>();
    let (mutate, validate) = (mutating_path(&resource), validating_path(&resource));
    let Decision::Patch(operations) = hooks.decide(&mutate, create(boat(1))) else {
        panic!("not a patch");
    };
    let added = json!([{"op": "add", "path": "/metadata/labels", "value": {"operation": "Create"}}]);
    assert_eq!(json!(operations), added);
    let is_denied = |request| match hooks.decide(&validate, request) {
        Decision::Deny(it) => it == denial,
        _ => false,
    };
    assert!(is_denied(create(boat(1))) && !is_denied(create(boat(2))));
    assert!(is_denied(request(Operation::Update, boat(3), boat(2))));
    assert!(!is_denied(request(Operation::Update, boat(2), boat(3))));
    assert!(!is_denied(request(Operation::Delete, Value::Null, boat(3))));
}
