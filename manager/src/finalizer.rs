//! Finalizers: patches that add and remove one.
//!
//! The patch contains the whole list, because a merge patch cannot change parts of a list. It carries the uid and the
//! resourceVersion of the list, so that a concurrent change fails it with 409 Conflict. Other finalizers keep their order.
//!
//! [`Context::with_finalizer`](crate::controller::Context::with_finalizer) adds and removes the finalizer of a reconciled
//! object. For any object:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_manager::client::Transport;
//! # use steersman_manager::object::MetaObject;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use serde_json::json;
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! # let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": {"app": "web"}}});
//! # let client = transport.unfenced("backup", None);
//! # let map: MetaObject = client.create(&Resource::of::<ConfigMap>(), "default", map.to_string().into()).await?;
//! use steersman_manager::finalizer;
//! use steersman_manager::object::Resource;
//!
//! let maps = Resource::of::<ConfigMap>();
//! let added = finalizer::add(&client, &maps, &map.metadata, "example.com/backup").await?;
//! let meta = added.expect("it was absent");
//! assert!(meta.has_finalizer("example.com/backup"));
//!
//! let removed = finalizer::remove(&client, &maps, &meta, "example.com/backup").await?;
//! assert!(removed.is_some_and(|meta| meta.finalizers.is_empty()));
//! # Ok(())
//! # }
//! ```

use serde_json::{Value, json};

use crate::client::{Client, ClientError, Patch};
use crate::object::{Meta, MetaObject, Resource};

/// Returns the merge patch that appends `finalizer`; none if it is present, or if the object is terminating, which forbids
/// new finalizers.
#[must_use]
pub fn add_patch(meta: &Meta, finalizer: &str) -> Option<Value> {
    if meta.is_terminating() || meta.has_finalizer(finalizer) {
        return None;
    }
    let all: Vec<&str> = others(meta, finalizer).chain([finalizer]).collect();
    Some(patch(meta, &all))
}

/// Returns the merge patch that removes `finalizer`; none if it is absent.
#[must_use]
pub fn remove_patch(meta: &Meta, finalizer: &str) -> Option<Value> {
    if !meta.has_finalizer(finalizer) {
        return None;
    }
    let rest: Vec<&str> = others(meta, finalizer).collect();
    Some(patch(meta, &rest))
}

/// Adds `finalizer` and returns the new metadata; none if there was nothing to do.
pub async fn add(
    client: &Client,
    resource: &Resource,
    meta: &Meta,
    finalizer: &str,
) -> Result<Option<Meta>, ClientError> {
    match add_patch(meta, finalizer) {
        Some(patch) => send(client, resource, meta, &patch).await.map(Some),
        None => Ok(None),
    }
}

/// Removes `finalizer` and returns the new metadata; none if there was nothing to do, or if the object no longer exists.
pub async fn remove(
    client: &Client,
    resource: &Resource,
    meta: &Meta,
    finalizer: &str,
) -> Result<Option<Meta>, ClientError> {
    let Some(patch) = remove_patch(meta, finalizer) else {
        return Ok(None);
    };
    match send(client, resource, meta, &patch).await {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if client.is_absent(resource, &meta.key(), &meta.uid, &error).await? => Ok(None),
        Err(error) => Err(error),
    }
}

fn others<'a>(meta: &'a Meta, finalizer: &str) -> impl Iterator<Item = &'a str> {
    meta.finalizers
        .iter()
        .map(AsRef::as_ref)
        .filter(move |it| *it != finalizer)
}

fn patch(meta: &Meta, finalizers: &[&str]) -> Value {
    let mut metadata = meta.preconditions();
    metadata["finalizers"] = json!(finalizers);
    json!({"metadata": metadata})
}

async fn send(client: &Client, resource: &Resource, meta: &Meta, patch: &Value) -> Result<Meta, ClientError> {
    let object: MetaObject = client.patch(resource, &meta.key(), Patch::merge(patch)).await?;
    Ok(object.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "steersman.dev/ours";

    fn meta(finalizers: &[&str], deleting: bool) -> Meta {
        let mut json = json!({"name": "a", "uid": "u", "resourceVersion": "7", "finalizers": finalizers});
        if deleting {
            json["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(json).expect("metadata")
    }

    fn patched(finalizers: &[&str]) -> Value {
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": finalizers}})
    }

    #[test]
    fn other_finalizers_keep_their_order() {
        assert_eq!(add_patch(&meta(&[], false), OURS), Some(patched(&[OURS])));
        assert_eq!(
            add_patch(&meta(&["b", "a"], false), OURS),
            Some(patched(&["b", "a", OURS]))
        );
        assert_eq!(
            remove_patch(&meta(&["b", OURS, "a"], true), OURS),
            Some(patched(&["b", "a"]))
        );
        assert_eq!(
            remove_patch(&meta(&[OURS, OURS], false), OURS),
            Some(patched(&[]))
        );
    }

    #[test]
    fn no_patch_without_a_change() {
        assert_eq!(add_patch(&meta(&[OURS], false), OURS), None);
        assert_eq!(add_patch(&meta(&[], true), OURS), None, "forbidden by the API");
        assert_eq!(remove_patch(&meta(&["b"], true), OURS), None);
    }
}
