//! Writes: create, patch, delete, and the one replace there is.

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CONDITIONED, Call, Client, ClientError, UNCONDITIONED, View, timeout_parameter};
use crate::object::{Key, Meta, Resource, Uid, Version};

/// A change of some fields of an object. What it does not name stays as it is.
#[derive(Clone, Debug)]
pub struct Patch {
    content_type: &'static str,
    body: Bytes,
    subresource: &'static str,
    /// The field manager; empty for that of the user agent.
    manager: &'static str,
    conditioned: bool,
    view: View,
}

/// A delete of the object with this uid, and of no other.
#[derive(Clone, Debug)]
pub struct Delete {
    uid: Uid,
    resource_version: Option<Version>,
    propagation: Option<Propagation>,
    grace_period_seconds: Option<i64>,
    view: View,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// The answer to a delete: the object, or a `Status`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Deleted {
    kind: String,
    metadata: Meta,
}

impl Patch {
    /// A merge patch. It is conditioned if it names the resourceVersion.
    #[must_use]
    pub fn merge(patch: &Value) -> Self {
        Self::new("application/merge-patch+json", patch)
    }

    /// A strategic merge patch, for the kinds that are built in. It is conditioned if it names the resourceVersion.
    #[must_use]
    pub fn strategic(patch: &Value) -> Self {
        Self::new("application/strategic-merge-patch+json", patch)
    }

    /// A server-side apply by this field manager, without force. It is conditioned if it names the resourceVersion. Without
    /// one it creates the object if there is none.
    #[must_use]
    pub fn apply(body: &Value, manager: &'static str) -> Self {
        Self {
            manager,
            ..Self::new("application/apply-patch+yaml", body)
        }
    }

    fn new(content_type: &'static str, patch: &Value) -> Self {
        Self {
            content_type,
            body: patch.to_string().into(),
            subresource: "",
            manager: "",
            conditioned: patch.pointer("/metadata/resourceVersion").is_some(),
            view: View::Full,
        }
    }

    /// The same patch, answered in the form of `view`.
    #[must_use]
    pub fn answered_as(self, view: View) -> Self {
        Self { view, ..self }
    }

    /// The same patch of a subresource, such as `status`.
    #[must_use]
    pub fn of(self, subresource: &'static str) -> Self {
        Self { subresource, ..self }
    }
}

impl Delete {
    /// A delete that nothing else is asked of.
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

    /// Only if the object is still at this version.
    #[must_use]
    pub fn at(self, version: Version) -> Self {
        Self {
            resource_version: Some(version),
            ..self
        }
    }

    /// With this policy, instead of the one that the object asks for.
    #[must_use]
    pub fn propagating(self, propagation: Propagation) -> Self {
        Self {
            propagation: Some(propagation),
            ..self
        }
    }

    /// With this grace period, instead of the one that the object asks for.
    #[must_use]
    pub fn grace(self, seconds: i64) -> Self {
        Self {
            grace_period_seconds: Some(seconds),
            ..self
        }
    }

    /// Answered in the form of `view`.
    #[must_use]
    pub fn answered_as(self, view: View) -> Self {
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
    /// Creates an object. Under a name in `body` it is conditioned: sent twice, it is created once. With a generateName
    /// alone it is not.
    pub async fn create<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        self.create_as(resource, namespace, body, "").await
    }

    /// Creates an object as [`Client::create`] does, by this field manager.
    pub async fn create_as<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        body: Bytes,
        manager: &'static str,
    ) -> Result<T, ClientError> {
        let conditioned = has_name(&body);
        let call = Call {
            body: Some(("application/json", body)),
            ..write(Method::POST, "POST", resource.collection(namespace), conditioned)
        };
        self.write(resource, call.by(manager)).await
    }

    /// Creates something below an object, such as a `binding`. It counts as unconditioned.
    pub async fn create_below(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &str,
        body: Bytes,
    ) -> Result<Value, ClientError> {
        let path = format!("{}/{subresource}", resource.path(key));
        let call = Call {
            body: Some(("application/json", body)),
            ..write(Method::POST, "POST", path, false)
        };
        self.write(resource, call).await
    }

    /// Changes an object, and answers its new state.
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
            accept: patch.view.one(),
            ..write(Method::PATCH, "PATCH", target, patch.conditioned)
        };
        self.write(resource, call.by(patch.manager)).await
    }

    /// Deletes an object. The answer is its metadata if it is only marked for deletion, none if it is gone.
    pub async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        delete: &Delete,
    ) -> Result<Option<Meta>, ClientError> {
        let conditioned = delete.resource_version.is_some();
        let call = Call {
            body: Some(("application/json", delete.body().to_string().into())),
            accept: delete.view.one(),
            ..write(Method::DELETE, "DELETE", resource.path(key), conditioned)
        };
        let Deleted { kind, metadata } = self.write(resource, call).await?;
        Ok((kind != "Status").then_some(metadata))
    }

    /// Replaces an object as a whole by `body`, which names its resourceVersion. Only for a Lease, which is read and written
    /// whole: for anything else it would wipe the fields that `body` does not have.
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

/// Whether the server cannot choose the name of this object.
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
    /// The same write by this field manager; by that of the user agent if empty.
    fn by(mut self, manager: &'static str) -> Self {
        if !manager.is_empty() {
            self.query.push(("fieldManager", manager.to_owned()));
        }
        self
    }
}

fn write(method: Method, verb: &'static str, path: String, conditioned: bool) -> Call {
    let deadline = if conditioned { CONDITIONED } else { UNCONDITIONED };
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
