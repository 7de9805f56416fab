//! Decoding and encoding of `AdmissionReview` in `admission.k8s.io/v1`.
//!
//! Error messages never quote the request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::denial::Denial;
use super::request::AdmissionRequest;
use crate::object::decode::null_is_default;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("request body is empty")]
    Empty,
    #[error("request body is not valid JSON (line {line}, column {column})")]
    Syntax { line: usize, column: usize },
    #[error("request body is not a valid {KIND} (line {line}, column {column})")]
    Form { line: usize, column: usize },
    #[error(
        "request body is not an {KIND} of {API_VERSION}; admissionReviewVersions of the webhook must contain v1"
    )]
    Version,
    #[error("{KIND} has no request")]
    NoRequest,
    #[error("request has no uid")]
    NoUid,
}

pub(super) enum Decision {
    /// Allowed with a JSON patch, which may be empty.
    Patch(Vec<Value>),
    /// Allowed with warnings.
    Allow(Vec<String>),
    Deny(Denial),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Review {
    #[serde(deserialize_with = "null_is_default")]
    api_version: String,
    #[serde(deserialize_with = "null_is_default")]
    kind: String,
    request: Option<AdmissionRequest>,
}

pub(super) fn decode(body: &[u8]) -> Result<AdmissionRequest, ReviewError> {
    if body.is_empty() {
        return Err(ReviewError::Empty);
    }
    // The parser's error may quote the body.
    let review: Review = serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            ReviewError::Form { line, column }
        } else {
            ReviewError::Syntax { line, column }
        }
    })?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(ReviewError::Version);
    }
    let request = review.request.ok_or(ReviewError::NoRequest)?;
    if request.uid.is_empty() {
        return Err(ReviewError::NoUid);
    }
    Ok(request)
}

/// Encodes the response to the request with this uid.
pub(super) fn encode(uid: &str, decision: Decision) -> Bytes {
    let mut response = json!({"uid": uid, "allowed": true});
    match decision {
        Decision::Patch(ops) => {
            if !ops.is_empty() {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(json!(ops).to_string()));
            }
        }
        Decision::Allow(warnings) => {
            if !warnings.is_empty() {
                response["warnings"] = json!(warnings);
            }
        }
        Decision::Deny(denial) => {
            response["allowed"] = json!(false);
            response["status"] = denial.status();
            if !denial.warnings.is_empty() {
                response["warnings"] = json!(denial.warnings);
            }
        }
    }
    let review = json!({"apiVersion": API_VERSION, "kind": KIND, "response": response});
    review.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::client::Cause;
    use crate::serve::User;
    use crate::webhook::{GroupVersionKind, GroupVersionResource, Operation};

    fn review(request: &Value) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "request": request})
    }

    fn decoded(review: &Value) -> Result<AdmissionRequest, ReviewError> {
        decode(review.to_string().as_bytes())
    }

    #[test]
    fn request_of_an_api_server_is_decoded() {
        // With all fields that an API server sends.
        let request = json!({
            "uid": "7f0b2891", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
            "requestKind": {"group": "apps", "version": "v1beta1", "kind": "Deployment"},
            "requestResource": {"group": "apps", "version": "v1beta1", "resource": "deployments"},
            "subResource": "scale", "requestSubResource": "scale", "name": "web", "namespace": "default",
            "operation": "UPDATE", "object": {"a": 1}, "oldObject": null, "dryRun": true,
            "userInfo": {"username": "me", "uid": "8", "groups": ["a"], "extra": {"scopes": ["b", "c"]}},
            "options": {"kind": "UpdateOptions"},
        });
        let kind = |version: &str| GroupVersionKind {
            group: "apps".to_owned(),
            version: version.to_owned(),
            kind: "Deployment".to_owned(),
        };
        let resource = |version: &str| GroupVersionResource {
            group: "apps".to_owned(),
            version: version.to_owned(),
            resource: "deployments".to_owned(),
        };
        let expected = AdmissionRequest {
            uid: "7f0b2891".to_owned(),
            operation: Operation::Update,
            kind: kind("v1"),
            resource: resource("v1"),
            sub_resource: "scale".to_owned(),
            request_kind: kind("v1beta1"),
            request_resource: resource("v1beta1"),
            request_sub_resource: "scale".to_owned(),
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            user_info: User {
                name: "me".to_owned(),
                uid: "8".to_owned(),
                groups: vec!["a".to_owned()],
                extra: [("scopes".to_owned(), vec!["b".to_owned(), "c".to_owned()])].into(),
            },
            dry_run: true,
            object: json!({"a": 1}),
            old_object: Value::Null,
            options: json!({"kind": "UpdateOptions"}),
        };
        assert_eq!(decoded(&review(&request)), Ok(expected));
        let least = decoded(&review(&json!({"uid": "a", "operation": "EXPLODE"}))).expect("a request");
        assert_eq!((least.operation, least.object), (Operation::Unknown, Value::Null));
    }

    #[test]
    fn invalid_review_is_rejected_without_quoting_it() {
        for (body, error) in [
            ("", "request body is empty"),
            ("hunter2", "request body is not valid JSON (line 1, column 1)"),
            (
                "{\"apiVersion\":\n\"hunter2",
                "request body is not valid JSON (line 2, column 8)",
            ),
        ] {
            assert_eq!(decode(body.as_bytes()).expect_err(body).to_string(), error);
        }
        for body in ["7", r#"{"kind":{"hunter2":1}}"#, r#"{"request":"hunter2"}"#] {
            let error = decode(body.as_bytes()).expect_err(body);
            assert!(matches!(error, ReviewError::Form { .. }), "{body}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let mut beta = review(&json!({"uid": "a"}));
        beta["apiVersion"] = json!("admission.k8s.io/v1beta1");
        assert_eq!(decoded(&beta), Err(ReviewError::Version));
        assert_eq!(decoded(&json!({})), Err(ReviewError::Version));
        assert_eq!(decoded(&json!([])), Err(ReviewError::Version));
        assert_eq!(decoded(&review(&Value::Null)), Err(ReviewError::NoRequest));
        assert_eq!(decoded(&review(&json!({}))), Err(ReviewError::NoUid));
    }

    fn response(decision: Decision) -> Value {
        let review: Value = serde_json::from_slice(&encode("7", decision)).expect("JSON");
        assert_eq!(review["apiVersion"], API_VERSION);
        assert_eq!(review["kind"], KIND);
        review["response"].clone()
    }

    #[test]
    fn response_carries_the_uid_and_no_empty_fields() {
        let admitted = json!({"uid": "7", "allowed": true});
        assert_eq!(response(Decision::Allow(vec![])), admitted);
        assert_eq!(response(Decision::Patch(vec![])), admitted);
        let warned = response(Decision::Allow(vec!["old".to_owned()]));
        assert_eq!(warned, json!({"uid": "7", "allowed": true, "warnings": ["old"]}));
    }

    #[test]
    fn patch_is_encoded_in_base64() {
        let op = json!({"op": "add", "path": "/a", "value": 1});
        let changed = response(Decision::Patch(vec![op]));
        assert_eq!(changed["patchType"], "JSONPatch");
        let patch = STANDARD.decode(changed["patch"].as_str().expect("text"));
        let patch: Value = serde_json::from_slice(&patch.expect("base64")).expect("JSON");
        assert_eq!(patch, json!([{"op": "add", "path": "/a", "value": 1}]));
    }

    #[test]
    fn denial_lists_causes_by_field() {
        let cause = Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: "is taken".to_owned(),
            field: "spec.deploymentName".to_owned(),
        };
        let mut denial = Denial::invalid("AppService", "web", vec![cause]);
        denial.warnings.push("old".to_owned());
        assert_eq!(
            response(Decision::Deny(denial)),
            json!({
                "uid": "7", "allowed": false, "warnings": ["old"],
                "status": {
                    "status": "Failure", "code": 422, "reason": "Invalid",
                    "message": "AppService \"web\" is invalid: spec.deploymentName: is taken",
                    "details": {"causes": [
                        {"reason": "FieldValueInvalid", "message": "is taken", "field": "spec.deploymentName"},
                    ]},
                },
            })
        );
    }
}
