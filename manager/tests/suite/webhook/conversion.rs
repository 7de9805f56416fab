//! Conversion reviews over a real socket. The sandbox does not call conversion webhooks.

use http::StatusCode;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use steersman_manager::object::Resource;
use steersman_manager::webhook::{CONVERSION_PATH, ConversionError, Hooks};

use super::server::fixture;

const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");

fn hooks() -> Hooks {
    Hooks::new().converting(&BOATS, |boat, desired| {
        let mut boat: Value = serde_json::from_str(boat.get()).expect("JSON");
        assert_ne!(boat["oars"], 666, "for the test");
        let oars = boat["oars"].as_u64();
        let oars = oars.ok_or_else(|| ConversionError::new("oars is not a number"))?;
        boat["apiVersion"] = desired.into();
        boat["pairs"] = (oars / 2).into();
        Ok(to_raw_value(&boat).expect("text"))
    })
}

fn review(objects: &[Value]) -> String {
    let request = json!({"uid": "7", "desiredAPIVersion": "harbour.example/v2", "objects": objects});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
        .to_string()
}

fn boat(name: &str, oars: impl Into<Value>) -> Value {
    let metadata = json!({"name": name, "uid": name});
    json!({"apiVersion": "harbour.example/v1", "kind": "Boat", "metadata": metadata, "oars": oars.into()})
}

#[tokio::test]
async fn conversion_reviews_are_served() {
    let fixture = fixture("conversion", hooks()).await;
    let mut client = fixture.client(true).await;
    let (code, body) = client
        .post(CONVERSION_PATH, review(&[boat("a", 2), boat("b", 8)]))
        .await;
    assert_eq!(code, StatusCode::OK);
    let reviewed: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(reviewed["response"]["result"]["status"], "Success");
    let objects = reviewed["response"]["convertedObjects"]
        .as_array()
        .expect("objects");
    let converted: Vec<_> = { objects.iter() }
        .map(|it| (&it["metadata"]["uid"], &it["pairs"]))
        .collect();
    assert_eq!(converted, [(&json!("a"), &json!(1)), (&json!("b"), &json!(4))]);

    let (code, body) = client
        .post(CONVERSION_PATH, review(&[boat("a", 2), boat("b", "hunter2")]))
        .await;
    assert_eq!(code, StatusCode::OK);
    let reviewed: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        reviewed["response"]["result"]["message"],
        "cannot convert Boat \"b\" to \"harbour.example/v2\": oars is not a number"
    );
    assert_eq!(reviewed["response"]["convertedObjects"], json!([]));

    let (code, _) = client.post(CONVERSION_PATH, review(&[boat("a", 666)])).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "a panic");
}

/// A list is converted as a whole, so a review may be larger than one of admission.
#[tokio::test]
async fn review_of_a_long_list_is_served_up_to_a_limit() {
    let fixture = fixture("long-list", hooks()).await;
    let mut client = fixture.client(true).await;
    let mut large = boat("a", 2);
    large["hull"] = "x".repeat(1 << 20).into();
    let (code, _) = client
        .post(CONVERSION_PATH, review(&vec![large.clone(); 20]))
        .await;
    assert_eq!(code, StatusCode::OK);
    let (code, _) = client.post(CONVERSION_PATH, review(&vec![large; 33])).await;
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE);
}
