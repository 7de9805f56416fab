//! Decoding and encoding of `AdmissionReview` in `admission.k8s.io/v1`.
//!
//! Error messages never quote the request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Cause;
use crate::object::decode::null_is_default;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The response to a request that is denied, shown to the client of the API server after the name of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// HTTP status code, 400 or higher.
    pub code: u16,
    /// Reason of the `Status`, such as `Invalid` or `Forbidden`.
    pub reason: &'static str,
    /// Message of the `Status`.
    pub message: String,
    /// Errors by field.
    pub causes: Vec<Cause>,
    /// Warnings for the client, shown in addition to the message.
    pub warnings: Vec<String>,
}

impl Denial {
    /// Denies an invalid object with 422 and the API server's wording.
    #[must_use]
    pub fn invalid(kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let texts = causes.iter().map(|Cause { field, message, .. }| {
            if field.is_empty() {
                message.clone()
            } else {
                format!("{field}: {message}")
            }
        });
        let texts: Vec<_> = texts.collect();
        let texts = match texts.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{kind} {name:?} is invalid: {texts}"),
            causes,
            warnings: Vec::new(),
        }
    }

    /// Denies the request with 403.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self {
            code: 403,
            reason: "Forbidden",
            message: message.into(),
            causes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the `Status` object.
    pub(super) fn status(&self) -> Value {
        let Self {
            code,
            reason,
            message,
            causes,
            warnings: _,
        } = self;
        let mut status = json!({"status": "Failure", "code": code, "reason": reason, "message": message});
        if !causes.is_empty() {
            let causes = causes.iter().map(
                |Cause {
                     reason,
                     message,
                     field,
                 }| json!({"reason": reason, "message": message, "field": field}),
            );
            status["details"] = json!({"causes": causes.collect::<Vec<_>>()});
        }
        status
    }
}

/// The request of an `AdmissionReview`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionRequest {
    /// Copied to the response.
    pub(super) uid: String,
    #[expect(missing_docs, reason = "plain data")]
    pub operation: Operation,
    /// The kind of the object.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: GroupVersionKind,
    /// The subresource of the request, such as `status`; empty for the object itself.
    #[serde(deserialize_with = "null_is_default")]
    pub sub_resource: String,
    /// Empty if the API server will generate the name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Empty for a cluster-scoped object.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// Reports whether the change will not be persisted.
    #[serde(deserialize_with = "null_is_default")]
    pub dry_run: bool,
    /// The new object; null for DELETE.
    pub object: Value,
    /// The existing object; null for CREATE.
    pub old_object: Value,
}

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "plain data")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
    #[default]
    #[serde(other)]
    Unknown,
}

/// The kind of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain data")]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

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
            "requestKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "subResource": "scale", "requestSubResource": "scale", "name": "web", "namespace": "default",
            "operation": "UPDATE", "userInfo": {"username": "me", "groups": ["a"]}, "object": {"a": 1},
            "oldObject": null, "dryRun": true, "options": {"kind": "UpdateOptions"},
        });
        let kind = GroupVersionKind {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            kind: "Deployment".to_owned(),
        };
        let expected = AdmissionRequest {
            uid: "7f0b2891".to_owned(),
            operation: Operation::Update,
            kind,
            sub_resource: "scale".to_owned(),
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            dry_run: true,
            object: json!({"a": 1}),
            old_object: Value::Null,
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
