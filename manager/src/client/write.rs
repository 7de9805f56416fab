//! Writes: create, patch, delete, and replace for Leases.

use std::borrow::Cow;

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    CONDITIONAL_WRITE_TIMEOUT, Call, Client, ClientError, UNCONDITIONAL_WRITE_TIMEOUT, View,
    timeout_parameter,
};
use crate::object::{Key, Meta, Resource, Uid, Version};

/// A patch of an object.
#[derive(Clone, Debug)]
pub struct Patch {
    content_type: &'static str,
    body: Bytes,
    subresource: &'static str,
    /// The field manager; empty for the default of the user agent.
    manager: Cow<'static, str>,
    /// Whether a server-side apply takes fields over from other managers.
    force: bool,
    /// Whether it cannot overwrite a change in between.
    conditional: bool,
    view: View,
}

/// The options of a server-side apply: its field manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    manager: Cow<'static, str>,
    force: bool,
}

/// A delete with the uid as a precondition.
#[derive(Clone, Debug)]
pub struct Delete {
    uid: Uid,
    resource_version: Option<Version>,
    propagation: Option<Propagation>,
    grace_period_seconds: Option<i64>,
    view: View,
}

/// The propagationPolicy of a delete.
#[expect(missing_docs, reason = "as in the API")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The response to a delete: the object, or a `Status`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Deleted {
    kind: String,
    metadata: Meta,
}

impl Patch {
    /// Returns a merge patch, conditional if it contains the resourceVersion.
    #[must_use]
    pub fn merge(patch: &Value) -> Self {
        Self::new("application/merge-patch+json", patch)
    }

    /// Returns a strategic merge patch, for built-in kinds, conditional if it contains the resourceVersion.
    #[must_use]
    pub fn strategic(patch: &Value) -> Self {
        Self::new("application/strategic-merge-patch+json", patch)
    }

    /// Returns a JSON patch (RFC 6902), an array of operations, conditional if it tests the resourceVersion.
    #[must_use]
    pub fn json(operations: &Value) -> Self {
        let is_test = |it: &Value| it["op"] == "test" && it["path"] == "/metadata/resourceVersion";
        Self {
            conditional: operations.as_array().is_some_and(|all| all.iter().any(is_test)),
            ..Self::new("application/json-patch+json", operations)
        }
    }

    /// Returns a server-side apply, conditional if it contains the resourceVersion. Without one, it creates the object if it
    /// does not exist.
    #[must_use]
    pub fn apply(body: &Value, options: impl Into<Apply>) -> Self {
        let Apply { manager, force } = options.into();
        Self {
            manager,
            force,
            ..Self::new("application/apply-patch+yaml", body)
        }
    }

    fn new(content_type: &'static str, patch: &Value) -> Self {
        Self {
            content_type,
            body: patch.to_string().into(),
            subresource: "",
            manager: Cow::Borrowed(""),
            force: false,
            conditional: patch.pointer("/metadata/resourceVersion").is_some(),
            view: View::Full,
        }
    }

    /// Requests the response in the representation `view`.
    #[must_use]
    pub fn returning(self, view: View) -> Self {
        Self { view, ..self }
    }

    /// Gives the patch the deadline of a conditional one. Only for a patch that is right whenever it arrives, also after the
    /// term, such as the removal of list items by uid.
    #[must_use]
    pub fn may_be_late(self) -> Self {
        Self {
            conditional: true,
            ..self
        }
    }

    /// Patches a subresource, such as `status`.
    #[must_use]
    pub fn of(self, subresource: &'static str) -> Self {
        Self { subresource, ..self }
    }
}

impl Apply {
    /// Takes over fields that other managers own. Without it, they fail the apply with 409 Conflict.
    #[must_use]
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }
}

/// The field manager.
impl<T: Into<Cow<'static, str>>> From<T> for Apply {
    fn from(manager: T) -> Self {
        Self {
            manager: manager.into(),
            force: false,
        }
    }
}

impl Delete {
    /// Returns a delete with the default options.
    #[must_use]
    pub fn of(uid: Uid) -> Self {
        Self {
            uid,
            resource_version: None,
            propagation: None,
            grace_period_seconds: None,
            view: View::Full,
        }
    }

    /// Adds the resourceVersion to the preconditions.
    #[must_use]
    pub fn at(self, version: Version) -> Self {
        Self {
            resource_version: Some(version),
            ..self
        }
    }

    /// Sets the propagationPolicy. Defaults to that of the object.
    #[must_use]
    pub fn propagating(self, propagation: Propagation) -> Self {
        Self {
            propagation: Some(propagation),
            ..self
        }
    }

    /// Sets the grace period. Defaults to that of the object.
    #[must_use]
    pub fn grace(self, seconds: i64) -> Self {
        Self {
            grace_period_seconds: Some(seconds),
            ..self
        }
    }

    /// Requests the response in the representation `view`.
    #[must_use]
    pub fn returning(self, view: View) -> Self {
        Self { view, ..self }
    }

    fn body(&self) -> Value {
        let mut preconditions = json!({"uid": self.uid});
        if let Some(version) = &self.resource_version {
            preconditions["resourceVersion"] = json!(version);
        }
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = json!(propagation);
        }
        if let Some(seconds) = self.grace_period_seconds {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        body
    }
}

impl Client {
    /// Creates an object. The create is conditional if `body` has a name: a second one fails with `AlreadyExists`. With only
    /// a generateName it is not.
    pub async fn create<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        self.create_as(resource, namespace, body, "").await
    }

    /// [`Client::create`] by this field manager.
    pub async fn create_as<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        body: Bytes,
        manager: &'static str,
    ) -> Result<T, ClientError> {
        let conditional = has_name(&body);
        let call = Call {
            body: Some(("application/json", body)),
            ..write(Method::POST, "POST", resource.collection(namespace), conditional)
        };
        self.write(resource, call.by(manager)).await
    }

    /// Creates a subresource, such as `binding`. It is not conditional.
    pub async fn create_subresource<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let path = format!("{}/{subresource}", resource.path(key));
        let call = Call {
            body: Some(("application/json", body)),
            ..write(Method::POST, "POST", path, false)
        };
        self.write(resource, call).await
    }

    /// Patches an object, and returns its new state.
    pub async fn patch<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        patch: Patch,
    ) -> Result<T, ClientError> {
        let mut target = resource.path(key);
        if !patch.subresource.is_empty() {
            target.push('/');
            target.push_str(patch.subresource);
        }
        let call = Call {
            body: Some((patch.content_type, patch.body)),
            accept: patch.view.object_media_type(),
            ..write(Method::PATCH, "PATCH", target, patch.conditional)
        };
        let mut call = call.by(patch.manager);
        if patch.force {
            call.query.push(("force", "true".to_owned()));
        }
        self.write(resource, call).await
    }

    /// Deletes an object. Returns its metadata if it is terminating, none if it is deleted.
    pub async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        delete: &Delete,
    ) -> Result<Option<Meta>, ClientError> {
        let conditional = delete.resource_version.is_some();
        let call = Call {
            body: Some(("application/json", delete.body().to_string().into())),
            accept: delete.view.object_media_type(),
            ..write(Method::DELETE, "DELETE", resource.path(key), conditional)
        };
        let Deleted { kind, metadata } = self.write(resource, call).await?;
        Ok((kind != "Status").then_some(metadata))
    }

    /// Replaces an object by `body`, which contains its resourceVersion. Only for Leases, which are read and written as a
    /// whole: for other kinds it would wipe the fields that `body` omits.
    pub async fn replace<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        key: &Key,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let call = Call {
            body: Some(("application/json", body)),
            ..write(Method::PUT, "PUT", resource.path(key), true)
        };
        self.write(resource, call).await
    }
}

/// Returns true if the body has a name, so that the server does not generate one.
fn has_name(body: &[u8]) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        metadata: Name,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Name {
        name: String,
    }
    let named: Named = serde_json::from_slice(body).unwrap_or_default();
    !named.metadata.name.is_empty()
}

impl Call {
    /// Sets the field manager, unless it is empty.
    fn by(mut self, manager: impl Into<Cow<'static, str>>) -> Self {
        let manager = manager.into();
        if !manager.is_empty() {
            self.query.push(("fieldManager", manager.into_owned()));
        }
        self
    }
}

fn write(method: Method, verb: &'static str, path: String, conditional: bool) -> Call {
    let deadline = if conditional {
        CONDITIONAL_WRITE_TIMEOUT
    } else {
        UNCONDITIONAL_WRITE_TIMEOUT
    };
    Call {
        method,
        verb,
        path,
        query: vec![timeout_parameter(deadline)],
        accept: "application/json",
        body: None,
        deadline,
    }
}
