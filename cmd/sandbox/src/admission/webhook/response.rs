//! The response of a webhook: validation of the `AdmissionReview`, and its patch.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::admission::webhook::configuration::Version;
use crate::json::{Value, json};
use crate::patch::{Patch, PatchError, PatchType};
use crate::status::ApiError;

/// The response of a webhook.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReviewResponse {
    /// Whether the webhook allows the request.
    pub allowed: bool,
    /// The JSON patch, not parsed yet; empty if there is none.
    pub patch: Vec<u8>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    patch_type: String,
    status: Option<Value>,
}

/// The error of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseError {
    /// The response is malformed: the failure policy decides.
    Call(String),
    /// The patch does not apply.
    Change(ApiError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: Option<String>,
    kind: Option<String>,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    warnings: Option<Vec<String>>,
}

impl ReviewResponse {
    /// Parses the response to the review `uid`. The error is the reason of the failed call.
    pub fn read(body: &[u8], version: Version, uid: &str, mutating: bool) -> Result<Self, String> {
        let undecodable = |why: String| format!("failed to call webhook: {why}");
        let invalid = |why: String| format!("received invalid webhook response: {why}");
        let review: Review = serde_json::from_slice(body)
            .map_err(|error| undecodable(format!("couldn't get version/kind; json parse error: {error}")))?;
        let (api_version, kind) = (
            review.api_version.unwrap_or_default(),
            review.kind.unwrap_or_default(),
        );
        let of_admission = matches!(
            api_version.as_str(),
            "" | "admission.k8s.io/v1" | "admission.k8s.io/v1beta1"
        );
        if !of_admission || !matches!(kind.as_str(), "" | "AdmissionReview") {
            return Err(undecodable(format!(
                "no kind {kind:?} is registered for version {api_version:?}"
            )));
        }
        let Some(response) = review.response else {
            return Err(invalid("webhook response was absent".to_owned()));
        };
        let encoded = response.patch.unwrap_or_default();
        let patch = STANDARD
            .decode(encoded)
            .map_err(|error| undecodable(format!("illegal base64 data: {error}")))?;
        let mut answer = Self {
            allowed: response.allowed.unwrap_or_default(),
            patch,
            warnings: response.warnings.unwrap_or_default(),
            patch_type: "JSONPatch".to_owned(),
            status: response.status,
        };
        if version == Version::V1Beta1 {
            if !mutating {
                answer.patch.clear();
            }
            return Ok(answer);
        }
        let said = response.uid.unwrap_or_default();
        if said != uid {
            return Err(invalid(format!("expected response.uid={uid:?}, got {said:?}")));
        }
        if (api_version.as_str(), kind.as_str()) != (version.api_version(), "AdmissionReview") {
            let shown = format!("{}, Kind={kind}", shown_version(&api_version));
            return Err(invalid(format!(
                "expected webhook response of {}, Kind=AdmissionReview, got {shown}",
                version.api_version()
            )));
        }
        let why = match (mutating, answer.patch.is_empty(), response.patch_type.as_deref()) {
            (_, true, None) => return Ok(answer),
            (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
            (true, false, None) => "webhook returned response.patch but not response.patchType",
            (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
            (true, false, Some(ty)) => {
                ty.clone_into(&mut answer.patch_type);
                return Ok(answer);
            }
            (false, false, _) => "validating webhook may not return response.patch",
            (false, true, Some(_)) => "validating webhook may not return response.patchType",
        };
        Err(invalid(why.to_owned()))
    }

    /// Returns the error of a rejected request.
    pub fn refusal(&self, webhook: &str) -> ApiError {
        let none = json!({});
        let status = self.status.as_ref().unwrap_or(&none);
        let text = |key: &str| status[key].as_str().unwrap_or_default();
        let why = match (text("message"), text("reason")) {
            ("", "") => " without explanation".to_owned(),
            ("", reason) => format!(": {reason}"),
            (message, _) => format!(": {message}"),
        };
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        // The code of an error is never that of a success.
        let code = code.filter(|code| (400..1000).contains(code)).unwrap_or(400);
        let message = format!("admission webhook {webhook:?} denied the request{why}");
        let details = status.get("details").filter(|details| details.is_object());
        ApiError::with_reason(code, text("reason"), message, details.cloned())
    }

    /// Applies the patch to `object`, which is `None` for a DELETE. Returns `None` if the response has no patch.
    pub fn change(&self, webhook: &str, object: Option<&Value>) -> Result<Option<Value>, ResponseError> {
        if self.patch.is_empty() {
            return Ok(None);
        }
        let undecodable = |why: String| {
            ResponseError::Call(format!("received undecodable patch in webhook response: {why}"))
        };
        let operations: Vec<Value> =
            serde_json::from_slice(&self.patch).map_err(|error| undecodable(error.to_string()))?;
        if operations.is_empty() {
            return Ok(None);
        }
        let Some(object) = object else {
            return Err(ResponseError::Change(ApiError::internal(format!(
                "admission webhook {webhook:?} attempted to modify the object, which is not supported for this operation"
            ))));
        };
        if self.patch_type != "JSONPatch" {
            return Err(ResponseError::Call(format!(
                "unsupported patch type {:?}",
                self.patch_type
            )));
        }
        match Patch::new(PatchType::Json, &self.patch).apply(object, None) {
            Ok(changed) => Ok(Some(changed)),
            Err(PatchError::NotDecodable(why)) => Err(undecodable(why)),
            Err(PatchError::NotApplicable(why)) => Err(ResponseError::Change(ApiError::internal(why))),
            Err(other) => Err(ResponseError::Change(ApiError::internal(other.to_string()))),
        }
    }
}

fn shown_version(api_version: &str) -> &str {
    if api_version.is_empty() { "/" } else { api_version }
}
