//! The write of an action, its outcome, and its log line.
//!
//! A DELETE carries the uid and resourceVersion that were evaluated. So do patches, except the strategic merge patch that
//! removes ownerReferences by uid: no concurrent change can make it wrong.

use std::sync::PoisonError;

use serde_json::{Value, json};
use steersman_manager::client::{Client, ClientError, Delete, Patch, View};
use steersman_manager::controller::Slot;
use steersman_manager::object::{Meta, MetaObject, OwnerRef};
use steersman_manager::revived;

use super::graph::{Action, Graph, Identity, Operation, OwnerState, Proof, Reason};
use super::lookup;
use super::term::GcTerm;

/// The maximum number of owners that one log line names.
const LOGGED_OWNERS_MAX: usize = 5;

/// The outcome of a write. The graph is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The object does not exist.
    NotFound,
    /// The object has changed since it was evaluated.
    Conflict,
    /// The server does not support strategic merge patches of this kind. The next patch is a merge patch.
    Unsupported,
}

/// Sends the write by a client that has a token of the rate limiter.
pub(super) async fn send(
    term: &GcTerm,
    action: &Action,
    client: &Client,
    slot: &Slot,
) -> Result<Outcome, ClientError> {
    let scope = (action.kind.resource.clone(), action.key.namespace.clone());
    let sent = match &action.operation {
        Operation::Delete(policy) => {
            let mut delete = Delete::of(action.uid.clone())
                .propagating(*policy)
                .returning(View::Metadata);
            if !revived!(G3) {
                delete = delete.at(action.version.clone());
            }
            let answer = client.delete(&action.kind.resource, &action.key, &delete);
            term.answer(&scope, slot, answer).await.map(|meta| match meta {
                Some(meta) if meta.uid == action.uid && meta.is_terminating() => {
                    term.apply(|graph| graph.refresh(&action.kind, &meta));
                }
                _ => term.apply_all(|graph, _| graph.record_delete(&action.uid, &action.version, term.now())),
            })
        }
        operation => match term
            .answer(&scope, slot, patch(term, action, operation, client))
            .await
        {
            Ok(meta) if meta.uid == action.uid => {
                term.apply_all(|graph, effects| {
                    effects.push(graph.refresh(&action.kind, &meta));
                    // Without its last finalizer the object was deleted, and the answer shows its last version.
                    if let Operation::RemoveFinalizer { finalizer, .. } = operation
                        && meta.resource_version == action.version
                        && !meta.has_finalizer(finalizer)
                    {
                        graph.record_delete(&action.uid, &action.version, term.now());
                    }
                });
                Ok(())
            }
            // A patch with a uid cannot change another object.
            Ok(_) => return Ok(Outcome::Conflict),
            Err(error) => Err(error),
        },
    };
    match sent {
        Ok(()) => {
            log(action, false);
            term.metrics.acted(&action.operation, false);
            Ok(Outcome::Done)
        }
        Err(error) if error.is_not_found(&action.key.name) => {
            // A webhook can refuse a write with any code. Only a read proves that the object is absent.
            let found = read_again(term, action, slot).await?;
            Ok(found.map_or(Outcome::NotFound, |_| Outcome::Conflict))
        }
        Err(error) if error.code() == Some(415) && uses_strategic_merge(term, action) => {
            let mut kinds = term.merge_only.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.insert(action.kind.resource.clone());
            Ok(Outcome::Unsupported)
        }
        // A patch with the uid of another object fails with either code.
        Err(error) if error.is_conflict() || error.code() == Some(422) => Ok(Outcome::Conflict),
        Err(error) => Err(error),
    }
}

/// Reads an object after a conflict and updates the graph. None if it does not exist. An error if it has not changed, or if the
/// read is not a proof that it is absent, so that the write is retried with backoff.
pub(super) async fn read_again(
    term: &GcTerm,
    action: &Action,
    slot: &Slot,
) -> Result<Option<Meta>, ClientError> {
    let resource = &action.kind.resource;
    let client = slot.wait(term.client.with_token("GET")).await?;
    let sent = term.read(Graph::proofs);
    let read = client.get_as::<MetaObject>(resource, &action.key, View::Metadata);
    let scope = (resource.clone(), action.key.namespace.clone());
    match term.answer(&scope, slot, read).await {
        Ok(MetaObject { metadata }) if metadata.uid == action.uid => {
            if metadata.resource_version == action.version {
                return Err(unchanged(action));
            }
            term.apply(|graph| graph.refresh(&action.kind, &metadata));
            Ok(Some(metadata))
        }
        Ok(MetaObject { metadata }) if metadata.uid.is_empty() => Err(unchanged(action)),
        Ok(MetaObject { metadata }) => absent(term, action, Proof::OtherUid(metadata.uid), sent),
        Err(error) if error.is_not_found(&action.key.name) => absent(term, action, Proof::NotFound, sent),
        Err(error) => Err(error),
    }
}

/// The verb, as in the request metrics.
pub(super) fn verb(operation: &Operation) -> &'static str {
    match operation {
        Operation::Delete(_) => "DELETE",
        _ => "PATCH",
    }
}

async fn patch(
    term: &GcTerm,
    action: &Action,
    operation: &Operation,
    client: &Client,
) -> Result<Meta, ClientError> {
    let mut metadata = json!({"uid": action.uid, "resourceVersion": action.version});
    match operation {
        Operation::RemoveOwners { uids, .. } if uses_strategic_merge(term, action) => {
            let removed = uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid}));
            let removed: Vec<Value> = removed.collect();
            metadata = json!({"uid": action.uid, "ownerReferences": removed});
            let patch = Patch::strategic(&json!({"metadata": metadata})).may_be_late();
            return write(client, action, patch).await;
        }
        Operation::RemoveOwners { remaining: all, .. } | Operation::Unblock { references: all } => {
            metadata["ownerReferences"] = references(all);
        }
        Operation::RemoveFinalizer { rest, .. } => {
            metadata["finalizers"] = if rest.is_empty() { Value::Null } else { json!(rest) };
        }
        Operation::Delete(_) => {
            return Err(ClientError::Invalid {
                request_line: format!("PATCH {}", action.kind.resource.path(&action.key)),
                reason: "a DELETE is not a patch".to_owned(),
            });
        }
    }
    write(client, action, Patch::merge(&json!({"metadata": metadata}))).await
}

async fn write(client: &Client, action: &Action, patch: Patch) -> Result<Meta, ClientError> {
    let patch = patch.returning(View::Metadata);
    let object: MetaObject = client.patch(&action.kind.resource, &action.key, patch).await?;
    Ok(object.metadata)
}

/// All fields of the references, as they were read.
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

fn uses_strategic_merge(term: &GcTerm, action: &Action) -> bool {
    let kinds = term.merge_only.lock().unwrap_or_else(PoisonError::into_inner);
    let removes_owners = matches!(action.operation, Operation::RemoveOwners { .. });
    removes_owners && action.kind.is_strategic() && !kinds.contains(&action.kind.resource)
}

fn absent(term: &GcTerm, action: &Action, proof: Proof, sent: u64) -> Result<Option<Meta>, ClientError> {
    if lookup::absent(term, &identity(action), proof, sent) {
        return Ok(None);
    }
    Err(inconclusive(
        action,
        "the watch of its kind failed during the read, so the object may exist",
    ))
}

fn unchanged(action: &Action) -> ClientError {
    inconclusive(action, "the object has not changed since a write was rejected")
}

fn inconclusive(action: &Action, reason: &str) -> ClientError {
    ClientError::Decode {
        request_line: format!("GET {}", action.kind.resource.path(&action.key)),
        reason: reason.to_owned(),
    }
}

fn identity(action: &Action) -> Identity {
    Identity {
        uid: action.uid.clone(),
        api_version: action.kind.api_version.clone(),
        kind: action.kind.kind.clone(),
        namespace: action.key.namespace.clone(),
        name: action.key.name.clone(),
    }
}

/// Logs a write that was sent, or would have been.
pub(super) fn log(action: &Action, dry_run: bool) {
    let Action {
        kind,
        key,
        uid,
        version,
        operation,
        reasons,
    } = action;
    let object = kind.resource.logged(key);
    match operation {
        Operation::Delete(policy) => {
            let (owners, why) = (reasons.len(), format_reasons(reasons));
            tracing::info!(%object, %uid, %version, policy = ?policy, owners, why, dryRun = dry_run, "Deleted object without owners");
        }
        Operation::RemoveOwners { uids, .. } => {
            let why = format_reasons(reasons);
            tracing::debug!(%object, %uid, owners = uids.len(), why, dryRun = dry_run, "Removed owner references");
        }
        Operation::Unblock { .. } => {
            tracing::debug!(%object, %uid, dryRun = dry_run, "Unblocked owners of object in cycle");
        }
        Operation::RemoveFinalizer { finalizer, .. } => {
            tracing::debug!(%object, %uid, finalizer, dryRun = dry_run, "Removed finalizer");
        }
    }
}

fn format_reasons(reasons: &[Reason]) -> String {
    let named: Vec<_> = reasons.iter().take(LOGGED_OWNERS_MAX).map(reason).collect();
    named.join("; ")
}

fn reason(Reason { owner, state }: &Reason) -> String {
    let state = match state {
        OwnerState::Absent(Proof::Watched) => "its deletion was observed".to_owned(),
        OwnerState::Absent(Proof::NotFound) => "not found".to_owned(),
        OwnerState::Absent(Proof::OtherUid(uid)) => format!("the name belongs to another object, uid {uid}"),
        OwnerState::Waiting => "is in foreground deletion".to_owned(),
        OwnerState::Orphaning => "orphans its dependents".to_owned(),
    };
    let slash = if owner.namespace.is_empty() { "" } else { "/" };
    format!(
        "{} {} {}{slash}{} {}: {state}",
        owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid
    )
}
