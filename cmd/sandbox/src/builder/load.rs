//! Creates the objects of a YAML stream through the API, as `kubectl create` with strict field validation.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use tower_service::Service as _;

use crate::endpoints::Api;
use crate::json::Value;
use crate::resource::Resource;
use crate::service::ApiService;
use crate::{meta, yaml};

/// The source of a document. CRDs are created first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// [`Builder::crds`](crate::Builder::crds).
    Crds,
    /// [`Builder::objects`](crate::Builder::objects).
    Objects,
}

/// A document that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {number} of {}{}: {reason}", .input.name(), .object.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
pub struct StartError {
    /// The source of the document.
    pub input: Input,
    /// Position of the document in its stream, from 1.
    pub number: usize,
    /// Kind and name of the object, such as `ConfigMap default/settings`, if they are known.
    pub object: Option<String>,
    /// The cause.
    pub reason: Reason,
}

/// The cause of a [`StartError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The document is not YAML, or not an object with apiVersion and kind.
    #[error("{0}")]
    Malformed(String),
    /// The input for CRDs contains another kind.
    #[error("expected a CustomResourceDefinition, found {0}")]
    NotACrd(String),
    /// The API does not serve the kind.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// `apiVersion` of the document.
        api_version: String,
        /// `kind` of the document.
        kind: String,
    },
    /// The API rejected the object.
    #[error("{message} ({code})")]
    Rejected {
        /// HTTP status code.
        code: u16,
        /// `message` of the Status.
        message: String,
    },
    /// A webhook configuration precedes the object. Webhooks cannot be called before the start.
    #[error("a webhook configuration precedes the object: move it to the end, or create it after the start")]
    Webhook,
}

impl Input {
    fn name(self) -> &'static str {
        match self {
            Self::Crds => "the CRDs",
            Self::Objects => "the objects",
        }
    }
}

pub(super) fn load(api: &Arc<Api>, input: Input, yaml: &str) -> Result<(), StartError> {
    for (index, document) in yaml::documents(yaml).enumerate() {
        let error = |object: Option<&Value>, reason| StartError {
            input,
            number: index + 1,
            object: object.and_then(described),
            reason,
        };
        let parsed = document.map_err(|it| error(None, Reason::Malformed(it.to_string())))?;
        if !parsed.duplicates.is_empty() {
            let message = yaml::unmarshal_errors(&parsed.duplicates);
            return Err(error(Some(&parsed.value), Reason::Malformed(message)));
        }
        // A document of comments only.
        if parsed.value.is_null() {
            continue;
        }
        for object in expanded(parsed.value) {
            create(api, input, &object).map_err(|reason| error(Some(&object), reason))?;
        }
    }
    Ok(())
}

/// Returns the items of a list, or the object itself.
fn expanded(mut value: Value) -> Vec<Value> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items.into_iter().collect(),
        _ => vec![value],
    }
}

fn described(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str()?;
    let name = match meta::name(object) {
        "" => meta::text(object, "generateName"),
        name => name,
    };
    Some(format!("{kind} {}", meta::key(meta::namespace(object), name)))
}

fn create(api: &Arc<Api>, input: Input, object: &Value) -> Result<(), Reason> {
    let (Some(api_version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
        return Err(Reason::Malformed(
            "an object needs apiVersion and kind as strings".to_owned(),
        ));
    };
    if input == Input::Crds && kind != "CustomResourceDefinition" {
        return Err(Reason::NotACrd(kind.to_owned()));
    }
    let registry = api.registry();
    let served = |res: &&Arc<Resource>| res.api_version() == api_version && res.kind == kind;
    let Some(res) = registry.all().iter().find(served) else {
        return Err(Reason::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let webhooks = api
        .webhooks
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .is_some();
    // No webhook is called for the configurations themselves.
    if webhooks && res.group != "admissionregistration.k8s.io" {
        return Err(Reason::Webhook);
    }
    let path = collection_path(res, meta::namespace(object));
    let created = send(
        api,
        Method::POST,
        &format!("{path}?fieldValidation=Strict"),
        object,
    )?;
    match object.get("status") {
        Some(status) if res.status && !status.is_null() => {
            let path = format!("{path}/{}/status", meta::name(&created));
            let mut updated = created;
            meta::set_path(&mut updated, "status", status.clone());
            send(api, Method::PUT, &path, &updated).map(drop)
        }
        _ => Ok(()),
    }
}

fn collection_path(res: &Resource, namespace: &str) -> String {
    let version = match res.group.as_str() {
        "" => format!("/api/{}", res.version),
        group => format!("/apis/{group}/{}", res.version),
    };
    let namespace = match namespace {
        _ if !res.namespaced => String::new(),
        "" => "/namespaces/default".to_owned(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{version}{namespace}/{}", res.plural)
}

/// Sends a request as the administrator. Without webhooks, no request waits.
fn send(api: &Arc<Api>, method: Method, path: &str, object: &Value) -> Result<Value, Reason> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::USER_AGENT, "steersman-sandbox")
        .body(Full::new(Bytes::from(object.to_string())))
        .map_err(|error| Reason::Malformed(error.to_string()))?;
    let sending = async {
        let answer = ApiService::new(api.clone()).call(request).await;
        let (parts, body) = answer
            .unwrap_or_else(|never: Infallible| match never {})
            .into_parts();
        let body = body
            .collect()
            .await
            .unwrap_or_else(|never: Infallible| match never {});
        (parts.status, body.to_bytes())
    };
    let (status, body) = sending.now_or_never().ok_or(Reason::Webhook)?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() {
        return Ok(answer);
    }
    let message = answer["message"].as_str().unwrap_or("no message");
    Err(Reason::Rejected {
        code: status.as_u16(),
        message: message.to_owned(),
    })
}
