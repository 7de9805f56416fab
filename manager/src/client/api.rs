//! The typed client: the objects of one kind.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use serde_json::{Value, json};

use super::response::decode;
use super::{Apply, Client, ClientError, Delete, ListQuery, Page, Patch, Reader, View, merge_patch};
use crate::object::{ApiObject, Key, Resource, Uid, Version};

/// The objects of type `K`, read and, if `C` is a [`Client`], written.
pub struct Api<K, C> {
    client: C,
    resource: Resource,
    kind: PhantomData<fn() -> K>,
}

/// The result of [`Api::create_or_patch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written<K> {
    /// The object did not exist.
    Created(K),
    /// The object was different.
    Patched(K),
    /// The object was as requested. No write was sent.
    Unchanged(K),
}

impl Reader {
    /// Returns the objects of type `K`, to read.
    #[must_use]
    pub fn api<K: ApiObject>(&self) -> Api<K, Self> {
        Api::new(self.clone())
    }
}

impl Client {
    /// Returns the objects of type `K`.
    #[must_use]
    pub fn api<K: ApiObject>(&self) -> Api<K, Self> {
        Api::new(self.clone())
    }
}

impl<K: ApiObject, C: AsRef<Reader>> Api<K, C> {
    fn new(client: C) -> Self {
        Self {
            client,
            resource: Resource::of::<K>(),
            kind: PhantomData,
        }
    }

    /// Reads an object from the API server; none if it does not exist.
    pub async fn get(&self, key: &Key) -> Result<Option<K>, ClientError> {
        self.check_namespace(key)?;
        match self.client.as_ref().get(&self.resource, key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found(&key.name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists objects, page by page while the stream is read. `query.limit` is the maximum number of objects on a page, 500 by
    /// default; pages that are too large are smaller. An empty namespace means all namespaces.
    ///
    /// The stream ends after its first error. If it is [gone](ClientError::is_gone), the rest of the list has expired, and a
    /// new list is needed.
    pub fn list(
        &self,
        namespace: &str,
        query: ListQuery,
    ) -> impl Stream<Item = Result<K, ClientError>> + Send + use<K, C> {
        let pages = { self.client.as_ref() }.pages(&self.resource, namespace, query, View::Full);
        let pages = stream::unfold(Some(pages), async |pages| {
            let mut pages = pages?;
            let request_line = pages.request_line();
            loop {
                let mut items = Vec::new();
                let add = |_: &Version, item: &str| {
                    items.push(Ok(decode(item.as_bytes(), &request_line)?));
                    Ok(())
                };
                return Some(match pages.next(add).await {
                    Ok(Page::Last(_)) => (items, None),
                    Ok(Page::More(_)) => (items, Some(pages)),
                    Ok(Page::Smaller(_)) => continue,
                    Ok(Page::Expired(error)) | Err(error) => (vec![Err(error)], None),
                });
            }
        });
        pages.flat_map(stream::iter)
    }

    /// Reads the `scale` subresource.
    pub async fn get_scale(&self, key: &Key) -> Result<Scale, ClientError> {
        self.check_namespace(key)?;
        self.client
            .as_ref()
            .get_subresource(&self.resource, key, "scale")
            .await
    }

    /// Rejects the key of a namespaced object without a namespace. The API server would answer that it does not serve the
    /// path.
    fn check_namespace(&self, key: &Key) -> Result<(), ClientError> {
        if !self.resource.namespaced || !key.namespace.is_empty() {
            return Ok(());
        }
        let (kind, name) = (&self.resource.kind, &key.name);
        let reason = format!("the {kind} {name:?} has no namespace; set the namespace of the object or key");
        Err(self.invalid(key, reason))
    }

    fn invalid(&self, key: &Key, reason: impl fmt::Display) -> ClientError {
        ClientError::Invalid {
            request_line: self.resource.path(key),
            reason: reason.to_string(),
        }
    }
}

impl<K: ApiObject + Serialize> Api<K, Client> {
    /// Creates an object.
    pub async fn create(&self, object: &K) -> Result<K, ClientError> {
        let key = Key::of(object);
        self.check_namespace(&key)?;
        let body = self.encode(&key, object)?;
        self.client
            .create(&self.resource, &key.namespace, Bytes::from(body.to_string()))
            .await
    }

    /// Patches an object, or one of its [subresources](Patch::of), and returns its new state.
    pub async fn patch(&self, key: &Key, patch: Patch) -> Result<K, ClientError> {
        self.check_namespace(key)?;
        self.client.patch(&self.resource, key, patch).await
    }

    /// Applies an object by server-side apply: it is created, or its fields are set and owned by the field manager. Fields
    /// that this manager applied before and that `object` omits are removed. With a resourceVersion in `object`, a concurrent
    /// change fails it with 409 Conflict. So does a field that another manager owns, unless [forced](Apply::force).
    pub async fn apply(&self, object: &K, options: impl Into<Apply>) -> Result<K, ClientError> {
        let key = Key::of(object);
        let mut body = self.encode(&key, object)?;
        // The API server rejects an apply that contains them.
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        self.patch(&key, Patch::apply(&body, options)).await
    }

    /// Deletes an object if it is unchanged, by its uid and resourceVersion. Returns false if it does not exist, which a read
    /// confirms: a webhook can answer 404, too. The role of the program needs the verb `get` in addition to `delete`.
    pub async fn delete(&self, object: &K) -> Result<bool, ClientError> {
        let (key, meta) = (Key::of(object), object.meta());
        let (Some(uid), Some(version)) = (&meta.uid, &meta.resource_version) else {
            return Err(self.invalid(&key, "the object has no uid or resourceVersion; read it first"));
        };
        let uid = Uid::from(uid.as_str());
        let delete = Delete::of(uid.clone()).at(Version::from(version.as_str()));
        match self.delete_with(&key, &delete).await {
            Ok(()) => Ok(true),
            Err(error) if self.client.is_absent(&self.resource, &key, &uid, &error).await? => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the object under a key with these preconditions and options.
    pub async fn delete_with(&self, key: &Key, delete: &Delete) -> Result<(), ClientError> {
        self.check_namespace(key)?;
        self.client.delete(&self.resource, key, delete).await.map(drop)
    }

    /// Sets the status of `object`, as it was read, to `status`. Sends only the difference, and nothing if there is none. A
    /// concurrent change fails it with 409 Conflict. Returns the new state; none if there was nothing to do.
    pub async fn patch_status(&self, object: &K, status: &impl Serialize) -> Result<Option<K>, ClientError> {
        let key = Key::of(object);
        let before = self.encode(&key, object)?;
        let after = serde_json::to_value(status).map_err(|error| self.invalid(&key, error))?;
        let Some(status) = merge_patch::diff(&before["status"], &after) else {
            return Ok(None);
        };
        let patch = json!({"metadata": identity(&before), "status": status});
        self.patch(&key, Patch::merge(&patch).of("status"))
            .await
            .map(Some)
    }

    /// Patches the `scale` subresource.
    pub async fn patch_scale(&self, key: &Key, patch: Patch) -> Result<Scale, ClientError> {
        self.check_namespace(key)?;
        self.client.patch(&self.resource, key, patch.of("scale")).await
    }

    /// Reads the object with the key of `object` from the API server, and lets `change` modify it. If it exists, the
    /// difference is patched, with the uid and resourceVersion that were read; otherwise, `object` is created after `change`.
    /// The status is not written. Fields that `K` does not know are left alone.
    pub async fn create_or_patch(
        &self,
        object: K,
        change: impl FnOnce(&mut K),
    ) -> Result<Written<K>, ClientError> {
        let key = Key::of(&object);
        let Some(mut current) = self.get(&key).await? else {
            let mut object = object;
            change(&mut object);
            return self.create(&object).await.map(Written::Created);
        };
        let without_status = |object: &K| {
            let mut json = self.encode(&key, object)?;
            json.as_object_mut().map(|members| members.remove("status"));
            Ok::<_, ClientError>(json)
        };
        let before = without_status(&current)?;
        change(&mut current);
        if Key::of(&current) != key {
            return Err(self.invalid(
                &key,
                "the change must not modify the name or namespace of the object",
            ));
        }
        let after = without_status(&current)?;
        let Some(mut patch) = merge_patch::diff(&before, &after) else {
            return Ok(Written::Unchanged(current));
        };
        if let (Value::Object(metadata), Value::Object(identity)) =
            (&mut patch["metadata"], identity(&before))
        {
            metadata.extend(identity);
        } else {
            patch["metadata"] = identity(&before);
        }
        self.patch(&key, Patch::merge(&patch)).await.map(Written::Patched)
    }

    fn encode(&self, key: &Key, object: &K) -> Result<Value, ClientError> {
        let mut json = serde_json::to_value(object).map_err(|error| self.invalid(key, error))?;
        // Types whose serialization omits them are accepted, too.
        json["apiVersion"] = json!(self.resource.api_version());
        json["kind"] = json!(self.resource.kind);
        Ok(json)
    }
}

impl<K> Written<K> {
    /// Returns the state of the object.
    pub fn into_inner(self) -> K {
        match self {
            Self::Created(object) | Self::Patched(object) | Self::Unchanged(object) => object,
        }
    }
}

impl<K, C> fmt::Debug for Api<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Api").field(&self.resource).finish()
    }
}

/// Returns the uid and resourceVersion of an object.
fn identity(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]})
}
