//! Writes whose target may be gone by the time they arrive.

use steersman_manager::client::{Client, ClientError, Delete, Patch};
use steersman_manager::object::{Meta, MetaObject, Resource, Version};

/// Patches an object and returns its new metadata, or none if the object does not exist.
pub(crate) async fn patch_existing(
    client: &Client,
    resource: &Resource,
    meta: &Meta,
    patch: Patch,
) -> Result<Option<Meta>, ClientError> {
    let key = meta.key();
    match client.patch::<MetaObject>(resource, &key, patch).await {
        Ok(patched) => Ok(Some(patched.metadata)),
        Err(error) if client.is_absent(resource, &key, &meta.uid, &error).await? => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes an object, unless it has changed since `meta` was read. Returns the metadata that the cache shows next (no
/// resourceVersion if the object is removed at once), or none if the object does not exist.
pub(crate) async fn delete_unchanged(
    client: &Client,
    resource: &Resource,
    meta: &Meta,
) -> Result<Option<Meta>, ClientError> {
    let key = meta.key();
    let delete = Delete::of(meta.uid.clone()).at(meta.resource_version.clone());
    match client.delete(resource, &key, &delete).await {
        // The object has finalizers.
        Ok(Some(terminating)) if !terminating.uid.is_empty() => Ok(Some(terminating)),
        Ok(_) => Ok(Some(Meta {
            resource_version: Version::none(),
            ..meta.clone()
        })),
        Err(error) if client.is_absent(resource, &key, &meta.uid, &error).await? => Ok(None),
        Err(error) => Err(error),
    }
}
