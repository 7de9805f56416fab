//! Sandboxes that record no field managers.

use http::Method;
use serde_json::{Value, json};
use steersman_sandbox::Sandbox;

use crate::client::{MAPS, builder, get, patch, post, put, send_with};

fn sandbox() -> Sandbox {
    builder().managed_fields(false).start().expect("a sandbox")
}

async fn apply(sandbox: &Sandbox, query: &str, config: &Value) -> (u16, Value) {
    let path = format!("{MAPS}/a?{query}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let mut config = config.clone();
    config["apiVersion"] = "v1".into();
    config["kind"] = "ConfigMap".into();
    config["metadata"]["name"] = "a".into();
    send_with(&sandbox.service(), Method::PATCH, &path, &headers, &config).await
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let name = |it: &Value| it["manager"].as_str().unwrap_or_default().to_owned();
    entries.into_iter().flatten().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn writes_other_than_apply_record_no_managers() {
    let sandbox = sandbox();
    assert!(!sandbox.export().contains("managedFields"));
    let service = sandbox.service();
    let sent = json!({"metadata": {"name": "a", "managedFields": [{
        "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {}},
    }]}, "data": {"k": "v"}});
    let (code, mut object) = post(&service, MAPS, &sent).await;
    assert_eq!((code, &object["metadata"]["managedFields"]), (201, &Value::Null));
    let path = format!("{MAPS}/a");
    patch(&service, &path, &json!({"data": {"k": "w"}})).await;
    object["metadata"]["resourceVersion"] = Value::Null;
    let (code, _) = put(&service, &path, &object).await;
    assert_eq!(code, 200);
    assert!(!sandbox.export().contains("managedFields"));
}

#[tokio::test(start_paused = true)]
async fn apply_merges_and_removes_its_fields() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let (code, applied) = apply(
        &sandbox,
        "fieldManager=one",
        &json!({"data": {"a": "1", "b": "1"}}),
    )
    .await;
    assert_eq!((code, managers(&applied)), (201, vec!["one".to_owned()]));
    let path = format!("{MAPS}/a");
    patch(&service, &path, &json!({"data": {"c": "1"}})).await;
    let (code, applied) = apply(&sandbox, "fieldManager=one", &json!({"data": {"a": "2"}})).await;
    assert_eq!((code, &applied["data"]), (200, &json!({"a": "2", "c": "1"})));
    let (code, _) = apply(&sandbox, "fieldManager=two", &json!({"data": {"a": "3"}})).await;
    assert_eq!(code, 409);
    assert_eq!(get(&service, &path).await.1["data"]["a"], "2");
}

#[tokio::test(start_paused = true)]
async fn apply_to_a_created_object_starts_tracking() {
    let sandbox = sandbox();
    let service = sandbox.service();
    post(
        &service,
        MAPS,
        &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
    )
    .await;
    let (code, _) = apply(&sandbox, "fieldManager=one", &json!({"data": {"k": "w"}})).await;
    assert_eq!(code, 409, "the fields from before the first apply have a manager");
    let (code, applied) = apply(
        &sandbox,
        "fieldManager=one&force=true",
        &json!({"data": {"k": "w"}}),
    )
    .await;
    assert_eq!((code, &applied["data"]["k"]), (200, &json!("w")));
    assert!(managers(&applied).contains(&"one".to_owned()));
}
