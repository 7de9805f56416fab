use serde_json::{Value, json};

use crate::admission::webhook::configuration::Version;
use crate::admission::webhook::{ResponseError, ReviewResponse};

fn read(review: &Value, mutating: bool) -> Result<ReviewResponse, String> {
    ReviewResponse::read(review.to_string().as_bytes(), Version::V1, "u", mutating)
}

fn review(response: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[test]
fn invalid_response_is_reported() {
    for (body, why) in [
        ("", "failed to call webhook: "),
        ("no", "failed to call webhook: "),
        (
            "{}",
            "received invalid webhook response: webhook response was absent",
        ),
        (
            r#"{"kind": "Pod", "apiVersion": "v1"}"#,
            "failed to call webhook: no kind \"Pod\"",
        ),
    ] {
        let error = ReviewResponse::read(body.as_bytes(), Version::V1, "u", true).expect_err(body);
        assert!(error.starts_with(why), "{body}: {error}");
    }
    for (response, mutating, why) in [
        (
            json!({"uid": "v", "allowed": true}),
            true,
            "expected response.uid=\"u\", got \"v\"",
        ),
        (
            json!({"uid": "u", "patch": "W10="}),
            true,
            "webhook returned response.patch but not response.patchType",
        ),
        (
            json!({"uid": "u", "patchType": "JSONPatch"}),
            true,
            "webhook returned response.patchType but not response.patch",
        ),
        (
            json!({"uid": "u", "patch": "W10=", "patchType": ""}),
            true,
            "webhook returned invalid response.patchType of \"\"",
        ),
        (
            json!({"uid": "u", "patch": "W10=", "patchType": "JSONPatch"}),
            false,
            "validating webhook may not return response.patch",
        ),
        (
            json!({"uid": "u", "patchType": "JSONPatch"}),
            false,
            "validating webhook may not return response.patchType",
        ),
    ] {
        assert_eq!(
            read(&review(&response), mutating),
            Err(format!("received invalid webhook response: {why}"))
        );
    }
    assert!(read(&review(&json!({"uid": "u", "allowed": "yes"})), true).is_err());
    assert!(
        read(
            &review(&json!({"uid": "u", "patch": "?", "patchType": "JSONPatch"})),
            true
        )
        .is_err()
    );
}

#[test]
fn v1beta1_response_is_validated_loosely() {
    let body = json!({"response": {"allowed": true, "patch": "W10="}}).to_string();
    let answer = ReviewResponse::read(body.as_bytes(), Version::V1Beta1, "u", true).expect("an answer");
    assert!(answer.allowed);
}

#[test]
fn rejection_is_always_an_error() {
    let refusal = |status: Value| {
        let answer = read(
            &review(&json!({"uid": "u", "allowed": false, "status": status})),
            false,
        );
        let error = answer.expect("an answer").refusal("a.b.c");
        (error.code, error.reason.into_owned(), error.message)
    };
    let denied = |why: &str| format!("admission webhook \"a.b.c\" denied the request{why}");
    assert_eq!(
        refusal(json!(null)),
        (400, String::new(), denied(" without explanation"))
    );
    assert_eq!(
        refusal(json!({"code": 200, "message": "no"})),
        (400, String::new(), denied(": no"))
    );
    assert_eq!(
        refusal(json!({"code": 403, "reason": "Forbidden"})),
        (403, "Forbidden".to_owned(), denied(": Forbidden"))
    );
    assert_eq!(refusal(json!({"code": 99999})).0, 400);
}

#[test]
fn patches_apply_or_fail() {
    let object = json!({"a": 1});
    let change = |patch: &[u8], ty: &str, object: Option<&Value>| {
        use base64::Engine as _;
        let patch = base64::engine::general_purpose::STANDARD.encode(patch);
        let answer = read(
            &review(&json!({"uid": "u", "allowed": true, "patch": patch, "patchType": ty})),
            true,
        );
        answer.expect("an answer").change("a.b.c", object)
    };
    let add = br#"[{"op": "add", "path": "/b", "value": 2}]"#;
    assert_eq!(
        change(add, "JSONPatch", Some(&object)),
        Ok(Some(json!({"a": 1, "b": 2})))
    );
    assert_eq!(change(b"[]", "JSONPatch", Some(&object)), Ok(None));
    assert!(matches!(
        change(b"{}", "JSONPatch", Some(&object)),
        Err(ResponseError::Call(_))
    ));
    assert_eq!(
        change(add, "MergePatch", Some(&object)),
        Err(ResponseError::Call(
            "unsupported patch type \"MergePatch\"".to_owned()
        ))
    );
    let test = br#"[{"op": "test", "path": "/a", "value": 2}]"#;
    assert!(matches!(
        change(test, "JSONPatch", Some(&object)),
        Err(ResponseError::Change(_))
    ));
    assert!(matches!(
        change(add, "JSONPatch", None),
        Err(ResponseError::Change(_))
    ));
}
