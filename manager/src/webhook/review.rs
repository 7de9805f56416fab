//! `AdmissionReview` of `admission.k8s.io/v1`: what the API server asks, and how it is answered.
//!
//! What cannot be read is the API server's mistake, or a stranger's: it is told what is wrong with it, in words that quote
//! nothing of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::hooks::Denial;
use crate::object::decode::null_is_default;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What somebody wants to do with an object, and is to be admitted or refused.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionRequest {
    /// Which request this is: the answer names it again.
    pub(super) uid: String,
    /// What is done.
    pub operation: Operation,
    /// The kind of the object.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: GroupVersionKind,
    /// The subresource that is written, such as `status`; empty for the object itself.
    #[serde(deserialize_with = "null_is_default")]
    pub sub_resource: String,
    /// The name; empty if the server is still to choose it.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The namespace; empty for what is in none.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// Whether nothing will be stored.
    #[serde(deserialize_with = "null_is_default")]
    pub dry_run: bool,
    /// The object as it is to be; null where it is deleted.
    pub object: Value,
    /// The object as it is; null where it is created.
    pub old_object: Value,
}

/// What is done with an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// Somebody connects to it.
    Connect,
    /// Something that this program does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// Why a body is no review.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadReview {
    #[error("the body is empty")]
    Empty,
    #[error("the body is not JSON (line {line}, column {column})")]
    Syntax { line: usize, column: usize },
    #[error("the body is not of the form of a review (line {line}, column {column})")]
    Form { line: usize, column: usize },
    #[error("the body is not an {KIND} of {API_VERSION}; name v1 in admissionReviewVersions of the webhook")]
    Version,
    #[error("the review has no request")]
    NoRequest,
    #[error("the request has no uid")]
    NoUid,
}

/// How a request is answered.
pub(super) enum Verdict {
    /// It is admitted, changed by these operations.
    Changed(Vec<Value>),
    /// It is admitted, and whoever sent it is told these.
    Admitted(Vec<String>),
    Refused(Denial),
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

pub(super) fn decode(body: &[u8]) -> Result<AdmissionRequest, BadReview> {
    if body.is_empty() {
        return Err(BadReview::Empty);
    }
    // The words of the parser may quote the body.
    let review: Review = serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            BadReview::Form { line, column }
        } else {
            BadReview::Syntax { line, column }
        }
    })?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(BadReview::Version);
    }
    let request = review.request.ok_or(BadReview::NoRequest)?;
    if request.uid.is_empty() {
        return Err(BadReview::NoUid);
    }
    Ok(request)
}

/// The answer to the request with this uid.
pub(super) fn encode(uid: &str, verdict: Verdict) -> Bytes {
    let mut response = json!({"uid": uid, "allowed": true});
    match verdict {
        Verdict::Changed(ops) => {
            if !ops.is_empty() {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(json!(ops).to_string()));
            }
        }
        Verdict::Admitted(warnings) => {
            if !warnings.is_empty() {
                response["warnings"] = json!(warnings);
            }
        }
        Verdict::Refused(refusal) => {
            response["allowed"] = json!(false);
            response["status"] = refusal.status();
            if !refusal.warnings.is_empty() {
                response["warnings"] = json!(refusal.warnings);
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

    fn decoded(review: &Value) -> Result<AdmissionRequest, BadReview> {
        decode(review.to_string().as_bytes())
    }

    #[test]
    fn a_request_of_an_api_server_is_read() {
        // As it comes, with what is not read here.
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
        let least = decoded(&review(&json!({"uid": "a", "operation": "EXPLODE"}))).expect("it is read");
        assert_eq!((least.operation, least.object), (Operation::Unknown, Value::Null));
    }

    #[test]
    fn what_is_no_review_is_told_what_is_wrong_and_not_quoted() {
        for (body, error) in [
            ("", "the body is empty"),
            ("hunter2", "the body is not JSON (line 1, column 1)"),
            (
                "{\"apiVersion\":\n\"hunter2",
                "the body is not JSON (line 2, column 8)",
            ),
        ] {
            assert_eq!(decode(body.as_bytes()).expect_err(body).to_string(), error);
        }
        for body in ["7", r#"{"kind":{"hunter2":1}}"#, r#"{"request":"hunter2"}"#] {
            let error = decode(body.as_bytes()).expect_err(body);
            assert!(matches!(error, BadReview::Form { .. }), "{body}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let mut beta = review(&json!({"uid": "a"}));
        beta["apiVersion"] = json!("admission.k8s.io/v1beta1");
        assert_eq!(decoded(&beta), Err(BadReview::Version));
        assert_eq!(decoded(&json!({})), Err(BadReview::Version));
        assert_eq!(decoded(&json!([])), Err(BadReview::Version));
        assert_eq!(decoded(&review(&Value::Null)), Err(BadReview::NoRequest));
        assert_eq!(decoded(&review(&json!({}))), Err(BadReview::NoUid));
    }

    fn response(verdict: Verdict) -> Value {
        let review: Value = serde_json::from_slice(&encode("7", verdict)).expect("JSON");
        assert_eq!(review["apiVersion"], API_VERSION);
        assert_eq!(review["kind"], KIND);
        review["response"].clone()
    }

    #[test]
    fn an_answer_names_its_request_and_says_no_more_than_there_is() {
        let admitted = json!({"uid": "7", "allowed": true});
        assert_eq!(response(Verdict::Admitted(vec![])), admitted);
        assert_eq!(response(Verdict::Changed(vec![])), admitted);
        let warned = response(Verdict::Admitted(vec!["old".to_owned()]));
        assert_eq!(warned, json!({"uid": "7", "allowed": true, "warnings": ["old"]}));
    }

    #[test]
    fn a_change_is_a_patch_in_base64() {
        let op = json!({"op": "add", "path": "/a", "value": 1});
        let changed = response(Verdict::Changed(vec![op]));
        assert_eq!(changed["patchType"], "JSONPatch");
        let patch = STANDARD.decode(changed["patch"].as_str().expect("text"));
        let patch: Value = serde_json::from_slice(&patch.expect("base64")).expect("JSON");
        assert_eq!(patch, json!([{"op": "add", "path": "/a", "value": 1}]));
    }

    #[test]
    fn a_refusal_says_what_is_wrong_field_by_field() {
        let cause = Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: "is taken".to_owned(),
            field: "spec.deploymentName".to_owned(),
        };
        let mut refusal = Denial::invalid("AppService", "web", vec![cause]);
        refusal.warnings.push("old".to_owned());
        assert_eq!(
            response(Verdict::Refused(refusal)),
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
