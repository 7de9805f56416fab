//! One write: what was decided, of the state that it was decided on, and what the answer says.
//!
//! A DELETE names the uid and the version that were judged, always. So do the patches, but for one: references are taken
//! away by the owner's uid where the server knows strategic merge, which no other change of the object can make wrong.

use std::sync::PoisonError;

use coxswain_manager::client::{Client, ClientError, Delete, Patch, View};
use coxswain_manager::object::{Key, Meta, MetaObject, OwnerRef, Resource};
use serde_json::{Value, json};

use super::audit;
use super::floor::Floor;
use super::graph::{Act, Deed, Identity, Proof};
use super::kinds::Kind;

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It was done, and the graph knows.
    Done,
    /// The object is gone, and the graph knows.
    Gone,
    /// The object is not in the state that was judged.
    Changed,
}

/// Sends it. `client` has paid for one request.
pub(super) async fn send(floor: &Floor, act: &Act, client: &Client) -> Result<Came, ClientError> {
    let sent = match &act.deed {
        Deed::Delete(policy) => {
            let delete = Delete::of(act.uid.clone())
                .at(act.version.clone())
                .propagating(*policy)
                .answered_as(View::Metadata);
            let answer = client.delete(&act.kind.resource, &act.key, &delete).await;
            answer.map(|meta| match meta {
                Some(meta) if meta.uid == act.uid && meta.is_deleting() => {
                    floor.step(|graph| graph.refresh(&act.kind, &meta));
                }
                _ => floor.steps(|graph, _| graph.deleted(&act.uid, &act.version)),
            })
        }
        deed => match patch(floor, act, deed, client).await {
            Ok(meta) if meta.uid == act.uid => {
                floor.steps(|graph, effects| {
                    effects.push(graph.refresh(&act.kind, &meta));
                    // Without its last finalizer it was not written but removed, and the answer shows its last version.
                    if matches!(deed, Deed::RemoveFinalizer { .. }) && meta.resource_version == act.version {
                        graph.deleted(&act.uid, &act.version);
                    }
                });
                Ok(())
            }
            // Nothing else can answer to a patch that names the uid.
            Ok(_) => return Ok(Came::Changed),
            Err(error) => Err(error),
        },
    };
    floor.came(&act.kind.resource, &sent);
    match sent {
        Ok(()) => {
            audit::done(act, false);
            floor.metrics.acted(&act.deed, false);
            Ok(Came::Done)
        }
        Err(error) if error.is_not_found(&act.key.name) => {
            floor.step(|graph| graph.absent(&identity(act), Proof::NotFound));
            Ok(Came::Gone)
        }
        // A patch that names another uid than the object has is refused with either.
        Err(error) if error.is_conflict() || error.code() == Some(422) => Ok(Came::Changed),
        Err(error) => Err(error),
    }
}

/// Reads an object that was not as it was judged, and tells the graph. None if it is gone; an error if nothing has changed,
/// so that nobody tries again at once.
pub(super) async fn read_again(floor: &Floor, act: &Act) -> Result<Option<Meta>, ClientError> {
    let resource = &act.kind.resource;
    let read = floor
        .client
        .get_as::<MetaObject>(resource, &act.key, View::Metadata);
    let read = read.await;
    floor.came(resource, &read);
    match read {
        Ok(MetaObject { metadata }) if metadata.uid == act.uid => {
            if metadata.resource_version == act.version {
                return Err(unchanged(act));
            }
            floor.step(|graph| graph.refresh(&act.kind, &metadata));
            Ok(Some(metadata))
        }
        Ok(MetaObject { metadata }) if metadata.uid.is_empty() => Err(unchanged(act)),
        Ok(MetaObject { metadata }) => {
            let proof = Proof::OtherUid(metadata.uid);
            floor.step(|graph| graph.absent(&identity(act), proof));
            Ok(None)
        }
        Err(error) if error.is_not_found(&act.key.name) => {
            floor.step(|graph| graph.absent(&identity(act), Proof::NotFound));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The verb, as the metrics write it.
pub(super) fn verb(deed: &Deed) -> &'static str {
    match deed {
        Deed::Delete(_) => "DELETE",
        _ => "PATCH",
    }
}

async fn patch(floor: &Floor, act: &Act, deed: &Deed, client: &Client) -> Result<Meta, ClientError> {
    let (kind, key) = (&*act.kind, &act.key);
    let mut lock = json!({"uid": act.uid, "resourceVersion": act.version});
    match deed {
        Deed::RemoveOwners { uids, remaining } => {
            let strategic = kind.is_strategic() && !is_merge_only(floor, &kind.resource);
            if strategic {
                let away: Vec<Value> = uids
                    .iter()
                    .map(|uid| json!({"$patch": "delete", "uid": uid}))
                    .collect();
                let body = json!({"metadata": {"uid": act.uid, "ownerReferences": away}});
                match write(client, kind, key, Patch::strategic(&body)).await {
                    Err(error) if error.code() == Some(415) => remember(floor, &kind.resource),
                    answer => return answer,
                }
            }
            lock["ownerReferences"] = references(remaining);
            let body = json!({"metadata": lock});
            if strategic {
                // That was the second request.
                let client = floor.client.paid("PATCH").await;
                return write(&client, kind, key, Patch::merge(&body)).await;
            }
            write(client, kind, key, Patch::merge(&body)).await
        }
        Deed::Unblock { references: all } => {
            lock["ownerReferences"] = references(all);
            write(client, kind, key, Patch::merge(&json!({"metadata": lock}))).await
        }
        Deed::RemoveFinalizer { rest, .. } => {
            lock["finalizers"] = if rest.is_empty() { Value::Null } else { json!(rest) };
            write(client, kind, key, Patch::merge(&json!({"metadata": lock}))).await
        }
        Deed::Delete(_) => Err(ClientError::Invalid {
            what: format!("PATCH {}", kind.resource.path(key)),
            reason: "a delete is no patch".to_owned(),
        }),
    }
}

async fn write(client: &Client, kind: &Kind, key: &Key, patch: Patch) -> Result<Meta, ClientError> {
    let patch = patch.answered_as(View::Metadata);
    let object: MetaObject = client.patch(&kind.resource, key, patch).await?;
    Ok(object.metadata)
}

/// References as they were read: these are all fields there are.
fn references(all: &[OwnerRef]) -> Value {
    let write = |it: &OwnerRef| {
        let mut json = json!({"apiVersion": it.api_version, "kind": it.kind, "name": it.name, "uid": it.uid});
        if it.controller {
            json["controller"] = json!(true);
        }
        if it.block_owner_deletion {
            json["blockOwnerDeletion"] = json!(true);
        }
        json
    };
    if all.is_empty() {
        Value::Null
    } else {
        all.iter().map(write).collect()
    }
}

fn is_merge_only(floor: &Floor, resource: &Resource) -> bool {
    let kinds = floor.merge_only.lock().unwrap_or_else(PoisonError::into_inner);
    kinds.contains(resource)
}

fn remember(floor: &Floor, resource: &Resource) {
    let mut kinds = floor.merge_only.lock().unwrap_or_else(PoisonError::into_inner);
    kinds.insert(resource.clone());
}

fn unchanged(act: &Act) -> ClientError {
    ClientError::Decode {
        what: format!("GET {}", act.kind.resource.path(&act.key)),
        reason: "it shows the state that a write was refused for".to_owned(),
    }
}

fn identity(act: &Act) -> Identity {
    Identity {
        uid: act.uid.clone(),
        api_version: act.kind.api_version.clone(),
        kind: act.kind.kind.clone(),
        namespace: act.key.namespace.clone(),
        name: act.key.name.clone(),
    }
}
