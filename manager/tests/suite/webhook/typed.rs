//! Typed handlers that an API server calls.

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_manager::client::{Cause, Client, ClientError, Delete, Patch, Transport};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, MetaObject, Resource};
use steersman_manager::webhook::{
    AdmissionRequest, Defaulter, Denial, Hooks, Validator, mutating_path, validating_path,
};
use steersman_sandbox::Sandbox;

use super::server::{Fixture, fixture};
use super::{MUTATING, VALIDATING, bytes};

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbour.example}
spec:
  group: harbour.example
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

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
}

struct Boats;

impl Defaulter<Boat> for Boats {
    async fn default(&self, boat: &mut Boat, request: &AdmissionRequest) -> Result<(), Denial> {
        if boat.spec.oars == 0 {
            boat.spec.oars = 8;
        }
        let bow = Seat {
            name: "bow".to_owned(),
        };
        if !boat.spec.seats.iter().any(|it| it.name == bow.name) {
            boat.spec.seats.insert(0, bow);
        }
        let user = request.user_info.name.clone();
        let annotations = boat.metadata.annotations.get_or_insert_default();
        annotations
            .entry("harbour.example/owner".to_owned())
            .or_insert(user);
        Ok(())
    }
}

impl Validator<Boat> for Boats {
    async fn validate_create(&self, boat: &Boat, request: &AdmissionRequest) -> Result<Vec<String>, Denial> {
        if boat.spec.oars % 2 == 1 {
            let cause = Cause {
                reason: "FieldValueInvalid".to_owned(),
                message: "must be even".to_owned(),
                field: "spec.oars".to_owned(),
            };
            return Err(Denial::invalid("Boat", &request.name, vec![cause]));
        }
        Ok(Vec::new())
    }

    async fn validate_update(
        &self,
        old: &Boat,
        new: &Boat,
        _: &AdmissionRequest,
    ) -> Result<Vec<String>, Denial> {
        if old.spec.oars != new.spec.oars {
            return Err(Denial::forbidden("the number of oars is immutable"));
        }
        Ok(Vec::new())
    }

    async fn validate_delete(&self, boat: &Boat, _: &AdmissionRequest) -> Result<Vec<String>, Denial> {
        if boat.spec.oars > 8 {
            return Err(Denial::forbidden("galleys are protected"));
        }
        Ok(Vec::new())
    }
}

/// A server of typed handlers, and an API server that calls it.
async fn cluster(test: &str) -> (Fixture, Client) {
    let hooks = Hooks::new()
        .with_defaulter::<Boat>(Boats)
        .with_validator::<Boat>(Boats);
    let fixture = fixture(test, hooks).await;
    let sandbox = Sandbox::builder()
        .crds(CRD)
        .services([("kube-system/hooks:443".to_owned(), fixture.address)])
        .start()
        .expect("a sandbox");
    let transport = Transport::from_service(
        sandbox.service(),
        "sandbox",
        "test",
        &fixture.env.clock,
        &Registry::new("test"),
    );
    let client = transport.expect("a transport").unfenced("test", None);
    let boats = Resource::of::<Boat>();
    for (configuration, path, operations) in [
        (MUTATING, mutating_path(&boats), json!(["CREATE", "UPDATE"])),
        (
            VALIDATING,
            validating_path(&boats),
            json!(["CREATE", "UPDATE", "DELETE"]),
        ),
    ] {
        let service = json!({"namespace": "kube-system", "name": "hooks", "path": path});
        let body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": configuration.kind, "metadata": {"name": "hooks"},
            "webhooks": [{
                "name": "boats.harbour.example", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": service, "caBundle": bytes(&fixture.bundle)},
                "rules": [{
                    "apiGroups": ["harbour.example"], "apiVersions": ["v1"], "operations": operations,
                    "resources": ["boats"],
                }],
            }],
        });
        let created: Result<MetaObject, _> = client.create(&configuration, "", body.to_string().into()).await;
        created.expect("created");
    }
    (fixture, client)
}

async fn create(client: &Client, name: &str, spec: Value) -> Result<Value, ClientError> {
    let boat = json!({
        "apiVersion": "harbour.example/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec,
    });
    client
        .create(&Resource::of::<Boat>(), "default", boat.to_string().into())
        .await
}

#[tokio::test]
async fn defaults_are_stored_beside_unknown_fields() {
    let (_server, client) = cluster("defaults").await;
    let spec = json!({"hull": "oak", "seats": [{"name": "stern", "cushion": true}]});
    let boat = create(&client, "gig", spec).await.expect("created");
    assert_eq!(
        boat["spec"],
        json!({"hull": "oak", "oars": 8, "seats": [{"name": "bow"}, {"name": "stern", "cushion": true}]})
    );
    let owner = &boat["metadata"]["annotations"]["harbour.example/owner"];
    assert!(owner.as_str().is_some_and(|it| !it.is_empty()), "{boat}");
}

#[tokio::test]
async fn invalid_requests_are_denied() {
    let (_server, client) = cluster("denials").await;
    let boats = Resource::of::<Boat>();
    let denied = |result: Result<Value, ClientError>, code, message: &str| {
        let error = result.expect_err("denied");
        assert_eq!(error.code(), Some(code), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    };
    let odd = create(&client, "odd", json!({"oars": 7})).await;
    denied(odd, 422, "Boat \"odd\" is invalid: spec.oars: must be even");
    let undecodable = create(&client, "text", json!({"oars": "many"})).await;
    let message =
        "the object is not a valid Boat of harbour.example/v1: invalid value or missing field at spec.oars";
    denied(undecodable, 400, message);

    let key = Key::new("default", "galley");
    let galley = create(&client, "galley", json!({"oars": 100}))
        .await
        .expect("created");
    let patch = Patch::merge(&json!({"spec": {"oars": 2}}));
    let updated = client.patch(&boats, &key, patch).await;
    denied(updated, 403, "the number of oars is immutable");
    let uid = galley["metadata"]["uid"].as_str().expect("a uid");
    let deleted = client.delete(&boats, &key, &Delete::of(uid.into())).await;
    let error = deleted.map(|_| ()).expect_err("denied");
    assert!(error.to_string().contains("galleys are protected"), "{error}");
}
