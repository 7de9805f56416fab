//! A line in the log for each deletion: what, and why.

use super::graph::{Act, Deed, Proof, Reason, Verdict};

/// How many of its owners are named in one line.
const NAMED: usize = 5;

/// Says what was done, or would be.
pub(super) fn done(act: &Act, dry_run: bool) {
    let Act {
        kind,
        key,
        uid,
        version,
        deed,
        because,
    } = act;
    let resource = &kind.resource;
    match deed {
        Deed::Delete(policy) => {
            let (owners, why) = (because.len(), reasons(because));
            tracing::info!(object = %key, %uid, %version, %resource, policy = ?policy, owners, why, dry_run, "Deleted an object that nobody owns any more");
        }
        Deed::RemoveOwners { uids, .. } => {
            let why = reasons(because);
            tracing::debug!(object = %key, %uid, %resource, owners = uids.len(), why, dry_run, "Removed references to owners");
        }
        Deed::Unblock { .. } => {
            tracing::debug!(object = %key, %uid, %resource, dry_run, "An object in a circle no longer blocks its owners");
        }
        Deed::RemoveFinalizer { finalizer, .. } => {
            tracing::debug!(object = %key, %uid, %resource, finalizer, dry_run, "Removed a finalizer");
        }
    }
}

fn reasons(because: &[Reason]) -> String {
    let named: Vec<_> = because.iter().take(NAMED).map(reason).collect();
    named.join("; ")
}

fn reason(Reason { owner, verdict }: &Reason) -> String {
    let verdict = match verdict {
        Verdict::Absent(Proof::Watched) => "was seen to go".to_owned(),
        Verdict::Absent(Proof::NotFound) => "the API server found none".to_owned(),
        Verdict::Absent(Proof::OtherUid(uid)) => format!("the API server showed another one, {uid}"),
        Verdict::Waiting => "waits for its dependents to go".to_owned(),
        Verdict::Orphaning => "lets its dependents be".to_owned(),
    };
    let slash = if owner.namespace.is_empty() { "" } else { "/" };
    format!(
        "{} {} {}{slash}{} {}: {verdict}",
        owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid
    )
}
