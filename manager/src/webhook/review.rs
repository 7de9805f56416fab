//! Decoding of reviews, and encoding of `AdmissionReview` in `admission.k8s.io/v1`.
//!
//! Objects stay texts, and the rest of a review is small, so that a decoded review is not larger than its body. Error messages
//! never quote the request.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::denial::Denial;
use super::request::AdmissionRequest;
use crate::object::decode::null_is_default;

/// The bytes of a review without its objects: names, and the groups and attributes of the user.
const HEAD_BYTES_MAX: usize = 256 * 1024;
/// API servers send 36 bytes. The uid is copied several times.
const UID_BYTES_MAX: usize = 1024;
/// The limit of API servers. A decoder that skips a value needs memory for each level.
const NESTING_MAX: usize = 10_000;

/// The request of a review.
pub(super) trait ReviewRequest: DeserializeOwned {
    const API_VERSION: &'static str;
    const KIND: &'static str;
    /// The field of the configuration that selects the version of the review.
    const VERSIONS: &'static str;

    fn uid(&self) -> &str;
}

impl ReviewRequest for AdmissionRequest {
    const API_VERSION: &'static str = "admission.k8s.io/v1";
    const KIND: &'static str = "AdmissionReview";
    const VERSIONS: &'static str = "admissionReviewVersions of the webhook";

    fn uid(&self) -> &str {
        &self.uid
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("request body is empty")]
    Empty,
    #[error("request body has more than {NESTING_MAX} levels of nesting")]
    Nesting,
    #[error("request body has more than {HEAD_BYTES_MAX} bytes besides the objects")]
    Head,
    #[error("request body is not valid JSON (line {line}, column {column})")]
    Syntax { line: usize, column: usize },
    #[error("request body is not a valid {kind} (line {line}, column {column})")]
    Form {
        kind: &'static str,
        line: usize,
        column: usize,
    },
    #[error("kind of the request body is not {kind} of {api_version}; {versions} must contain v1")]
    Version {
        kind: &'static str,
        api_version: &'static str,
        versions: &'static str,
    },
    #[error("{0} has no request")]
    NoRequest(&'static str),
    #[error("request has no uid")]
    NoUid,
    #[error("uid of the request has more than {UID_BYTES_MAX} bytes")]
    Uid,
}

pub(super) enum Decision {
    /// Allowed with the operations of a JSON patch, none for no change.
    Patch(Vec<Box<RawValue>>),
    /// Allowed with warnings.
    Allow(Vec<String>),
    Deny(Denial),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<R> {
    #[serde(default, deserialize_with = "null_is_default")]
    api_version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    kind: String,
    request: Option<R>,
}

/// The parts of a review that may be large.
#[derive(Deserialize)]
struct Objects<'a> {
    #[serde(borrow)]
    request: Option<JsonObject<RequestObjects<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestObjects<'a> {
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
    #[serde(borrow)]
    objects: Option<&'a RawValue>,
}

/// A value that is decoded only from a JSON object. A derived decoder also accepts an array with the fields in their order,
/// which differs between the types that decode the same request.
struct JsonObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(JsonObjectVisitor(PhantomData))
    }
}

struct JsonObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for JsonObjectVisitor<T> {
    type Value = JsonObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(JsonObject)
    }
}

pub(super) fn decode<R: ReviewRequest>(body: &[u8]) -> Result<R, ReviewError> {
    if body.is_empty() {
        return Err(ReviewError::Empty);
    }
    if nesting(body) > NESTING_MAX {
        return Err(ReviewError::Nesting);
    }
    let objects: Objects = parse::<R, _>(body)?;
    let objects = objects.request.iter();
    let objects = objects.flat_map(|JsonObject(it)| [it.object, it.old_object, it.options, it.objects]);
    let objects: usize = objects.flatten().map(|it| it.get().len()).sum();
    if body.len() - objects > HEAD_BYTES_MAX {
        return Err(ReviewError::Head);
    }
    let review: Review<R> = parse::<R, _>(body)?;
    if review.api_version != R::API_VERSION || review.kind != R::KIND {
        return Err(ReviewError::Version {
            kind: R::KIND,
            api_version: R::API_VERSION,
            versions: R::VERSIONS,
        });
    }
    let request = review.request.ok_or(ReviewError::NoRequest(R::KIND))?;
    if request.uid().is_empty() {
        return Err(ReviewError::NoUid);
    }
    if request.uid().len() > UID_BYTES_MAX {
        return Err(ReviewError::Uid);
    }
    Ok(request)
}

fn parse<'a, R: ReviewRequest, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ReviewError> {
    // The parser's error may quote the body.
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            let kind = R::KIND;
            ReviewError::Form { kind, line, column }
        } else {
            ReviewError::Syntax { line, column }
        }
    })
}

/// Returns the number of levels of a JSON text.
fn nesting(text: &[u8]) -> usize {
    let (mut level, mut deepest, mut is_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' if !is_string => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Encodes the response of a review.
pub(super) fn envelope<R: ReviewRequest>(response: &Value) -> Bytes {
    let review = json!({"apiVersion": R::API_VERSION, "kind": R::KIND, "response": response});
    review.to_string().into()
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
    envelope::<AdmissionRequest>(&response)
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::value::to_raw_value;

    use crate::client::Cause;
    use crate::serve::User;
    use crate::webhook::{GroupVersionKind, GroupVersionResource, Operation, RawObject};

    const API_VERSION: &str = AdmissionRequest::API_VERSION;
    const KIND: &str = AdmissionRequest::KIND;

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
            object: json!({"a": 1}).into(),
            old_object: RawObject::default(),
            options: json!({"kind": "UpdateOptions"}).into(),
        };
        assert_eq!(decoded(&review(&request)), Ok(expected));
        let least = decoded(&review(&json!({"uid": "a", "operation": "EXPLODE"}))).expect("a request");
        assert_eq!(
            (least.operation, least.object),
            (Operation::Unknown, RawObject::default())
        );
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
            assert_eq!(
                decode::<AdmissionRequest>(body.as_bytes())
                    .expect_err(body)
                    .to_string(),
                error
            );
        }
        for body in [
            "7",
            "[]",
            r#"{"kind":{"hunter2":1}}"#,
            r#"{"request":"hunter2"}"#,
            r#"{"request":["hunter2"]}"#,
        ] {
            let error = decode::<AdmissionRequest>(body.as_bytes()).expect_err(body);
            assert!(matches!(error, ReviewError::Form { .. }), "{body}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let mut beta = review(&json!({"uid": "a"}));
        beta["apiVersion"] = json!("admission.k8s.io/v1beta1");
        for review in [beta, json!({})] {
            assert_eq!(
                decoded(&review).expect_err("an error").to_string(),
                "kind of the request body is not AdmissionReview of admission.k8s.io/v1; admissionReviewVersions of the \
                 webhook must contain v1"
            );
        }
        assert_eq!(decoded(&review(&Value::Null)), Err(ReviewError::NoRequest(KIND)));
        assert_eq!(decoded(&review(&json!({}))), Err(ReviewError::NoUid));
        let uid = |bytes| decoded(&review(&json!({"uid": "7".repeat(bytes)}))).map(drop);
        assert_eq!((uid(1024), uid(1025)), (Ok(()), Err(ReviewError::Uid)));
        let array = review(&json!(["7".repeat(HEAD_BYTES_MAX)]));
        assert!(matches!(decoded(&array), Err(ReviewError::Form { .. })));
    }

    #[test]
    fn review_that_needs_more_memory_than_its_objects_is_rejected() {
        let groups = |count: usize| json!({"uid": "a", "userInfo": {"groups": vec![""; count]}});
        decoded(&review(&groups(1000))).expect("a request");
        assert_eq!(
            decoded(&review(&groups(HEAD_BYTES_MAX / 3))),
            Err(ReviewError::Head)
        );
        let nested = |levels: usize| {
            let object = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let review = review(&json!({"uid": "a", "object": "\\\"["})).to_string();
            decode::<AdmissionRequest>(review.replace(r#""\\\"[""#, &object).as_bytes()).map(drop)
        };
        assert_eq!(nested(NESTING_MAX - 2), Ok(()));
        assert_eq!(nested(NESTING_MAX - 1), Err(ReviewError::Nesting));
        let strings = review(&json!({"uid": "a", "object": "[\\\"{".repeat(NESTING_MAX)}));
        assert!(decoded(&strings).is_ok(), "brackets in a string");
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
        let changed = response(Decision::Patch(vec![to_raw_value(&op).expect("text")]));
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
