//! Conversion reviews through the hooks of a server.

use super::*;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResource;
use serde::Serialize;
use serde_json::value::to_raw_value;

use crate::object::Resource;
use crate::webhook::hooks::Hooks;

const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "harbour.example", version = "v2", kind = "Boat", root = "Hub")]
#[kube(namespaced, schema = "disabled")]
struct Pairs {
    pairs: u32,
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "harbour.example", version = "v1", kind = "Boat", root = "V1")]
#[kube(namespaced, schema = "disabled")]
struct Oars {
    oars: u32,
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "harbour.example", version = "v3", kind = "Boat", root = "V3")]
#[kube(namespaced, schema = "disabled")]
struct Rowers {
    rowers: Vec<u32>,
}

impl Convertible<Hub> for V1 {
    fn convert_to(self) -> Result<Hub, ConversionError> {
        let Self { mut metadata, spec } = self;
        if spec.oars % 2 == 1 {
            return Err(ConversionError::new("the number of oars is odd"));
        }
        metadata
            .labels
            .get_or_insert_default()
            .insert("from".to_owned(), "v1".to_owned());
        let pairs = spec.oars / 2;
        Ok(Hub {
            metadata,
            spec: Pairs { pairs },
        })
    }

    fn convert_from(Hub { metadata, spec }: Hub) -> Result<Self, ConversionError> {
        let oars = spec.pairs * 2;
        Ok(Self {
            metadata,
            spec: Oars { oars },
        })
    }
}

/// A conversion that does not keep the metadata.
impl Convertible<Hub> for V3 {
    fn convert_to(self) -> Result<Hub, ConversionError> {
        let metadata = ObjectMeta {
            uid: Some("another".to_owned()),
            ..self.metadata
        };
        Ok(Hub {
            metadata,
            spec: Pairs { pairs: 1 },
        })
    }

    fn convert_from(hub: Hub) -> Result<Self, ConversionError> {
        let rowers = (0..hub.spec.pairs).collect();
        Ok(Self {
            metadata: ObjectMeta::default(),
            spec: Rowers { rowers },
        })
    }
}

fn tree(object: &RawValue) -> Value {
    serde_json::from_str(object.get()).expect("JSON")
}

fn hooks() -> Hooks {
    Hooks::new().with_conversion(Conversion::<Hub>::new().version::<V1>().version::<V3>())
}

fn boat(version: &str, field: &str, value: impl Into<Value>) -> Value {
    // With a field that `ObjectMeta` does not know, and a time that it would write in another way.
    let metadata = json!({
        "name": "gig", "namespace": "default", "uid": "7", "future": {"a": 1}, "labels": {"kept": "yes"},
        "creationTimestamp": "2026-02-03T04:05:06.000000Z",
    });
    let api_version = format!("harbour.example/{version}");
    json!({"apiVersion": api_version, "kind": "Boat", "metadata": metadata, "spec": {field: value.into()}})
}

fn review(request: &Value) -> Vec<u8> {
    let review =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    review.to_string().into_bytes()
}

async fn respond(hooks: &Hooks, desired: &str, objects: &[Value]) -> Value {
    let request = json!({"uid": "9", "desiredAPIVersion": desired, "objects": objects});
    let reviewed = hooks.0[CONVERSION_PATH]
        .review(review(&request))
        .await
        .expect("a review");
    let reviewed: Value = serde_json::from_slice(&reviewed).expect("JSON");
    assert_eq!(reviewed["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(reviewed["kind"], "ConversionReview");
    assert_eq!(reviewed["response"]["uid"], "9");
    reviewed["response"].clone()
}

async fn converted(hooks: &Hooks, desired: &str, objects: &[Value]) -> Vec<Value> {
    let response = respond(hooks, desired, objects).await;
    assert_eq!(response["result"], json!({"status": "Success"}));
    response["convertedObjects"].as_array().expect("objects").clone()
}

/// Returns the message of a failed review.
async fn failure(hooks: &Hooks, desired: &str, objects: &[Value]) -> String {
    let response = respond(hooks, desired, objects).await;
    assert_eq!(response["result"]["status"], "Failure", "{response}");
    assert_eq!(response["result"]["code"], 400);
    assert_eq!(response["convertedObjects"], json!([]));
    response["result"]["message"]
        .as_str()
        .expect("a message")
        .to_owned()
}

#[tokio::test]
async fn objects_are_converted_in_order() {
    let objects = [
        boat("v1", "oars", 8),
        boat("v2", "pairs", 9),
        boat("v1", "oars", 6),
    ];
    let mut expected = [
        boat("v2", "pairs", 4),
        boat("v2", "pairs", 9),
        boat("v2", "pairs", 3),
    ];
    expected[0]["metadata"]["labels"]["from"] = json!("v1");
    expected[2]["metadata"]["labels"]["from"] = json!("v1");
    assert_eq!(
        converted(&hooks(), "harbour.example/v2", &objects).await,
        expected
    );
    let back = converted(&hooks(), "harbour.example/v1", &[boat("v2", "pairs", 4)]).await;
    assert_eq!(back, [boat("v1", "oars", 8)]);
    assert_eq!(
        converted(&hooks(), "harbour.example/v1", &[]).await,
        [] as [Value; 0]
    );
}

#[tokio::test]
async fn failure_of_one_object_fails_the_review() {
    let objects = [boat("v1", "oars", 8), boat("v1", "oars", 7)];
    assert_eq!(
        failure(&hooks(), "harbour.example/v2", &objects).await,
        "cannot convert Boat \"default/gig\" to \"harbour.example/v2\": the number of oars is odd"
    );
    for (object, error) in [
        (
            boat("v1", "oars", "hunter2"),
            "invalid value or missing field at spec.oars",
        ),
        (boat("v1", "hunter2", 1), "invalid value or missing field at spec"),
        (
            boat("v9", "oars", 1),
            "the version is unknown; known versions are harbour.example/v1, harbour.example/v2, harbour.example/v3",
        ),
    ] {
        let message = failure(&hooks(), "harbour.example/v2", &[object]).await;
        assert!(
            message.ends_with(&format!("\"harbour.example/v2\": {error}")),
            "{message}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[tokio::test]
async fn unknown_desired_version_or_kind_fails_the_review() {
    let object = boat("v1", "oars", 8);
    let mut other = object.clone();
    other["kind"] = json!("Ship");
    for (object, desired, error) in [
        (
            &object,
            "harbour.example/v9",
            "the version is unknown; known versions are harbour.example/v1,",
        ),
        (&object, "", "the desired version has another group"),
        (
            &object,
            "other.example/v2",
            "the desired version has another group",
        ),
        (
            &other,
            "harbour.example/v2",
            "the webhook does not convert this kind",
        ),
        (
            &json!({}),
            "harbour.example/v2",
            "it has no apiVersion or no kind",
        ),
        (&json!(7), "harbour.example/v2", "it has no apiVersion or no kind"),
    ] {
        let message = failure(&hooks(), desired, std::slice::from_ref(object)).await;
        assert!(message.contains(error), "{message}");
    }
    let message = failure(&hooks(), "harbour.example/v2", &[object, json!(7)]).await;
    assert!(
        message.starts_with("cannot convert object 1 of the review "),
        "{message}"
    );
}

#[tokio::test]
async fn changed_metadata_fails_the_review() {
    let kept = "; it may change only labels and annotations";
    let message = failure(&hooks(), "harbour.example/v2", &[boat("v3", "rowers", json!([]))]).await;
    assert!(
        message.ends_with(&format!("changed metadata.uid{kept}")),
        "{message}"
    );
    let message = failure(&hooks(), "harbour.example/v3", &[boat("v2", "pairs", 1)]).await;
    assert!(
        message.ends_with(&format!("changed metadata.creationTimestamp{kept}")),
        "{message}"
    );
}

#[tokio::test]
async fn result_of_an_untyped_converter_is_checked() {
    let with = |change: fn(&mut Value)| {
        Hooks::new().converting(&BOATS, move |object, desired| {
            let mut object = tree(object);
            object["apiVersion"] = desired.into();
            change(&mut object);
            Ok(to_raw_value(&object).expect("text"))
        })
    };
    let object = || [boat("v1", "oars", 8)];
    let desired = "harbour.example/v2";
    let changed = with(|it| it["metadata"]["annotations"] = json!({"a": "b"}));
    assert_eq!(
        converted(&changed, desired, &object()).await[0]["metadata"]["annotations"]["a"],
        "b"
    );
    for (hooks, error) in [
        (
            with(|it| it["metadata"]["uid"] = json!("8")),
            "changed metadata.uid;",
        ),
        (
            with(|it| it["metadata"] = Value::Null),
            "changed metadata.creationTimestamp;",
        ),
        (
            with(|it| it["metadata"]["generation"] = json!(1)),
            "changed metadata.generation;",
        ),
        (
            with(|it| it["apiVersion"] = json!("v1")),
            "returned another apiVersion than",
        ),
        (
            with(|it| it["kind"] = json!("Ship")),
            "returned another kind than \"Boat\"",
        ),
        (with(|it| *it = json!([])), "returned another apiVersion than"),
    ] {
        let message = failure(&hooks, desired, &object()).await;
        assert!(message.contains(error), "{message}");
    }
}

#[tokio::test]
async fn malformed_review_is_rejected_without_quoting_it() {
    let hooks = hooks();
    let hook = &hooks.0[CONVERSION_PATH];
    for (request, error) in [
        (Value::Null, "ConversionReview has no request"),
        (
            json!({"desiredAPIVersion": "a/v1", "objects": []}),
            "request has no uid",
        ),
        (
            json!({"uid": "hunter2", "desiredAPIVersion": "a/v1"}),
            "request body is not a valid ConversionReview (line 1, column ",
        ),
        (
            json!({"uid": "hunter2", "desiredAPIVersion": "a/v1", "objects": null}),
            "request body is not a valid ConversionReview (line 1, column ",
        ),
        (
            json!({"uid": "hunter2", "objects": []}),
            "request body is not a valid ConversionReview (line 1, column ",
        ),
    ] {
        let message = hook
            .review(review(&request))
            .await
            .expect_err("an error")
            .to_string();
        assert!(
            message.starts_with(error) && !message.contains("hunter2"),
            "{message}"
        );
    }
    let admission = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": null});
    let message = hook
        .review(admission.to_string().into())
        .await
        .expect_err("an error")
        .to_string();
    assert_eq!(
        message,
        "kind of the request body is not ConversionReview of apiextensions.k8s.io/v1; conversionReviewVersions of the \
         CustomResourceDefinition must contain v1"
    );
}

#[tokio::test]
async fn several_kinds_share_the_path() {
    let ships = Resource::cluster("harbour.example", "v1", "ships", "Ship");
    let hooks = hooks().converting(&ships, |object, desired| {
        let mut object = tree(object);
        object["apiVersion"] = desired.into();
        Ok(to_raw_value(&object).expect("text"))
    });
    let mut ship = boat("v1", "masts", 3);
    ship["kind"] = json!("Ship");
    let objects = converted(&hooks, "harbour.example/v2", &[ship, boat("v1", "oars", 2)]).await;
    assert_eq!(
        (&objects[0]["spec"]["masts"], &objects[1]["spec"]["pairs"]),
        (&json!(3), &json!(1))
    );
    let limits = hooks.0[CONVERSION_PATH].limits();
    assert_eq!(
        (limits.body_bytes, limits.timeout),
        (32 << 20, Duration::from_secs(30))
    );
}
