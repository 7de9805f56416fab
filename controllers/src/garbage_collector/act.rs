//! One write: what was decided, of the state that it was decided on, and what the answer says.
//!
//! A DELETE names the uid and the version that were judged, always. So do the patches, but for one: references are taken
//! away by the owner's uid where the server knows strategic merge, which no other change of the object can make wrong.

use std::sync::PoisonError;

use coxswain_manager::client::{Client, ClientError, Delete, Patch, View};
use coxswain_manager::object::{Meta, MetaObject, OwnerRef};
use serde_json::{Value, json};

use super::audit;
use super::floor::{Floor, Slot};
use super::graph::{Act, Deed, Identity, Proof};

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It was done, and the graph knows.
    Done,
    /// The object is gone, and the graph knows.
    Gone,
    /// The object is not in the state that was judged.
    Changed,
    /// The server does not know strategic merge patches of this kind. The next patch will be another one.
    Unsupported,
}

/// Sends it, by a client that has a token.
pub(super) async fn send(
    floor: &Floor,
    act: &Act,
    client: &Client,
    slot: &Slot,
) -> Result<Came, ClientError> {
    let scope = (act.kind.resource.clone(), act.key.namespace.clone());
    let sent = match &act.deed {
        Deed::Delete(policy) => {
            let delete = Delete::of(act.uid.clone())
                .at(act.version.clone())
                .propagating(*policy)
                .returning(View::Metadata);
            let answer = client.delete(&act.kind.resource, &act.key, &delete);
            floor.answer(&scope, slot, answer).await.map(|meta| match meta {
                Some(meta) if meta.uid == act.uid && meta.is_terminating() => {
                    floor.step(|graph| graph.refresh(&act.kind, &meta));
                }
                _ => floor.steps(|graph, _| graph.deleted(&act.uid, &act.version)),
            })
        }
        deed => match floor.answer(&scope, slot, patch(floor, act, deed, client)).await {
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
        Err(error) if error.code() == Some(415) && uses_strategic_merge(floor, act) => {
            let mut kinds = floor.merge_only.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.insert(act.kind.resource.clone());
            Ok(Came::Unsupported)
        }
        // A patch that names another uid than the object has is refused with either.
        Err(error) if error.is_conflict() || error.code() == Some(422) => Ok(Came::Changed),
        Err(error) => Err(error),
    }
}

/// Reads an object that was not as it was judged, and tells the graph. None if it is gone; an error if nothing has changed,
/// so that nobody tries again at once.
pub(super) async fn read_again(floor: &Floor, act: &Act, slot: &Slot) -> Result<Option<Meta>, ClientError> {
    let resource = &act.kind.resource;
    let client = floor.client.with_token("GET").await;
    let read = client.get_as::<MetaObject>(resource, &act.key, View::Metadata);
    let scope = (resource.clone(), act.key.namespace.clone());
    match floor.answer(&scope, slot, read).await {
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
    let mut metadata = json!({"uid": act.uid, "resourceVersion": act.version});
    match deed {
        Deed::RemoveOwners { uids, .. } if uses_strategic_merge(floor, act) => {
            let removed = uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid}));
            let removed: Vec<Value> = removed.collect();
            metadata = json!({"uid": act.uid, "ownerReferences": removed});
            let patch = Patch::strategic(&json!({"metadata": metadata}));
            return write(client, act, patch).await;
        }
        Deed::RemoveOwners { remaining: all, .. } | Deed::Unblock { references: all } => {
            metadata["ownerReferences"] = references(all);
        }
        Deed::RemoveFinalizer { rest, .. } => {
            metadata["finalizers"] = if rest.is_empty() { Value::Null } else { json!(rest) };
        }
        Deed::Delete(_) => {
            return Err(ClientError::Invalid {
                request_line: format!("PATCH {}", act.kind.resource.path(&act.key)),
                reason: "a delete is no patch".to_owned(),
            });
        }
    }
    write(client, act, Patch::merge(&json!({"metadata": metadata}))).await
}

async fn write(client: &Client, act: &Act, patch: Patch) -> Result<Meta, ClientError> {
    let patch = patch.returning(View::Metadata);
    let object: MetaObject = client.patch(&act.kind.resource, &act.key, patch).await?;
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

fn uses_strategic_merge(floor: &Floor, act: &Act) -> bool {
    let kinds = floor.merge_only.lock().unwrap_or_else(PoisonError::into_inner);
    let removes_owners = matches!(act.deed, Deed::RemoveOwners { .. });
    removes_owners && act.kind.is_strategic() && !kinds.contains(&act.kind.resource)
}

fn unchanged(act: &Act) -> ClientError {
    ClientError::Decode {
        request_line: format!("GET {}", act.kind.resource.path(&act.key)),
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
