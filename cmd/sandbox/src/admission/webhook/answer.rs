//! The answer of a webhook: what may be believed of it, and what it does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission::webhook::hook::Version;
use crate::patch;
use crate::patch::{PatchError, PatchType};
use crate::status::ApiError;

/// What a webhook says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Whether the write may go on.
    pub allowed: bool,
    /// A JSON patch, not read yet; empty if nothing is to be changed.
    pub patch: Vec<u8>,
    /// What the client is told in any case.
    pub warnings: Vec<String>,
    patch_type: String,
    status: Option<Value>,
}

/// Why the answer of a webhook cannot be followed.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// It is none, or none that can be read: the policy of the webhook decides.
    Call(String),
    /// What it wants cannot be done.
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

impl Answer {
    /// Reads the answer to the review `uid`. The error is the reason why the call counts as failed.
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
        match (mutating, answer.patch.is_empty(), response.patch_type) {
            (_, true, None) => {}
            (true, true, Some(_)) => {
                let why = "webhook returned response.patchType but not response.patch";
                return Err(invalid(why.to_owned()));
            }
            (true, false, None) => {
                let why = "webhook returned response.patch but not response.patchType";
                return Err(invalid(why.to_owned()));
            }
            (true, false, Some(ty)) if ty.is_empty() => {
                let why = "webhook returned invalid response.patchType of \"\"";
                return Err(invalid(why.to_owned()));
            }
            (true, false, Some(ty)) => answer.patch_type = ty,
            (false, false, _) => {
                let why = "validating webhook may not return response.patch";
                return Err(invalid(why.to_owned()));
            }
            (false, true, Some(_)) => {
                let why = "validating webhook may not return response.patchType";
                return Err(invalid(why.to_owned()));
            }
        }
        Ok(answer)
    }

    /// The refusal, in the webhook's words and under its name.
    #[must_use]
    pub fn refusal(&self, hook: &str) -> ApiError {
        let none = json!({});
        let status = self.status.as_ref().unwrap_or(&none);
        let text = |key: &str| status[key].as_str().unwrap_or_default();
        let why = match (text("message"), text("reason")) {
            ("", "") => " without explanation".to_owned(),
            ("", reason) => format!(": {reason}"),
            (message, _) => format!(": {message}"),
        };
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        // A refusal is never a success, nor anything that is no status of HTTP.
        let code = code.filter(|code| (400..1000).contains(code)).unwrap_or(400);
        let message = format!("admission webhook {hook:?} denied the request{why}");
        let details = status.get("details").filter(|details| details.is_object());
        ApiError::said_by_others(code, text("reason"), message, details.cloned())
    }

    /// The object as the webhook wants it; none if it wants nothing. `object` is none where there is nothing to change.
    pub fn change(&self, hook: &str, object: Option<&Value>) -> Result<Option<Value>, Fault> {
        if self.patch.is_empty() {
            return Ok(None);
        }
        let undecodable =
            |why: String| Fault::Call(format!("received undecodable patch in webhook response: {why}"));
        let operations: Vec<Value> =
            serde_json::from_slice(&self.patch).map_err(|error| undecodable(error.to_string()))?;
        if operations.is_empty() {
            return Ok(None);
        }
        let Some(object) = object else {
            return Err(Fault::Change(ApiError::internal(format!(
                "admission webhook {hook:?} attempted to modify the object, which is not supported for this operation"
            ))));
        };
        if self.patch_type != "JSONPatch" {
            return Err(Fault::Call(format!(
                "unsupported patch type {:?}",
                self.patch_type
            )));
        }
        match patch::apply(PatchType::Json, object, &self.patch, None) {
            Ok(changed) => Ok(Some(changed)),
            Err(PatchError::NotDecodable(why)) => Err(undecodable(why)),
            Err(PatchError::NotApplicable(why)) => Err(Fault::Change(ApiError::internal(why))),
            Err(other) => Err(Fault::Change(ApiError::internal(other.to_string()))),
        }
    }
}

fn shown_version(api_version: &str) -> &str {
    if api_version.is_empty() { "/" } else { api_version }
}
