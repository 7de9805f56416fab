//! The workers of the deletion queue: evaluate an item, then send one write.
//!
//! A pass of an item waits for the rate limiter and for the token of the service account, and decides after both, so that no
//! decision is older than these waits; it reads the owners that it needs and sends one write. So every item occupies a worker
//! for both waits and for at most [`SLOW`](super::breaker::SLOW) per request: the wait of other namespaces is bounded.

use std::sync::Arc;
use std::time::Duration;

use steersman_manager::client::ClientError;
use steersman_manager::controller::Slot;
use steersman_manager::revived;

use super::act::{self, Outcome};
use super::breaker::{Scope, is_unanswered};
use super::graph::{Action, Decision, LOOKUPS_PER_PASS, Lookup, Proof};
use super::lookup;
use super::queues::{DeleteItem, Next};
use super::term::GcTerm;

/// The wait before an object with an owner of an unknown kind is evaluated again, for its other owners: a new kind is an event.
/// Not a backoff, because it costs no request.
const UNRESOLVED_WAIT: Duration = Duration::from_mins(1);
/// Processes an object or a virtual owner once.
pub(super) async fn process(term: Arc<GcTerm>, item: DeleteItem, slot: Slot) -> Result<Next, ClientError> {
    if let Some(other) = term.read(|graph| item.moved(graph)) {
        term.queues.deletes.add(other);
        return Ok(Next::Done);
    }
    let evaluate = || term.read(|graph| graph.evaluate(&item.item, term.now()));
    let (scopes, verb) = match evaluate() {
        Decision::Act(action) if term.options.dry_run => {
            log_dry_run(&term, &action);
            return Ok(Next::Done);
        }
        Decision::Act(action) => (vec![scope(&action)], act::verb(&action.operation)),
        Decision::LookUp(lookups) => {
            let lookups = first(&lookups);
            if term.lookups.wait(lookups, &item) {
                return Ok(Next::Parked);
            }
            (lookups.iter().map(lookup_scope).collect(), "GET")
        }
        Decision::Unresolvable(owner) if revived!(G4) => {
            term.apply(|graph| graph.absent(&owner, Proof::NotFound));
            return Ok(Next::Done);
        }
        other => return Ok(requeue(&other)),
    };
    if let Some(wait) = term.breaker.hold(&scopes, term.now()) {
        return Ok(Next::After(wait));
    }
    let client = slot.wait(term.client.with_token(verb)).await?;
    if term.stop.is_cancelled() {
        return Ok(Next::Done);
    }
    let decision = match evaluate() {
        Decision::LookUp(all) => {
            let lookups = first(&all);
            if !lookup::read(&term, lookups, &client, &item, &slot).await? {
                return Ok(Next::Parked);
            }
            let decision = evaluate();
            match &decision {
                // Without a backoff: an expiry, or a failure of the watch, could invalidate these answers before the last owner is read.
                Decision::LookUp(rest) if rest.len() < all.len() => return Ok(Next::After(Duration::ZERO)),
                _ => decision,
            }
        }
        decision => decision,
    };
    let action = match decision {
        Decision::Act(action) => action,
        other => return Ok(requeue(&other)),
    };
    if term.options.dry_run {
        log_dry_run(&term, &action);
        return Ok(Next::Done);
    }
    let sent = act::send(&term, &action, &client, &slot).await;
    if let Err(error) = &sent
        && (error.is_unknown_outcome() || is_unanswered(error))
    {
        term.apply_all(|graph, _| graph.record_failure(&action.uid));
    }
    match sent? {
        Outcome::Done | Outcome::NotFound => {}
        Outcome::Unsupported => return Ok(Next::Backoff),
        Outcome::Conflict => {
            act::read_again(&term, &action, &slot).await?;
            return Ok(Next::Backoff);
        }
    }
    // Some objects need two writes. The backoff covers a server that accepts a write without effect.
    Ok(match evaluate() {
        Decision::Act(_) => Next::Backoff,
        other => requeue(&other),
    })
}

/// The requeue of an item without an action.
fn requeue(decision: &Decision) -> Next {
    match decision {
        Decision::Nothing => Next::Done,
        Decision::Later(delay) => Next::After(*delay),
        Decision::Unresolvable(owner) => {
            let (object, uid) = (owner.logged(), &owner.uid);
            tracing::debug!(%object, %uid, "Owner has an unknown kind");
            Next::After(UNRESOLVED_WAIT)
        }
        Decision::Poll if revived!(G12) => Next::Done,
        Decision::Poll | Decision::LookUp(_) | Decision::Act(_) => Next::Backoff,
    }
}

fn first(lookups: &[Lookup]) -> &[Lookup] {
    &lookups[..lookups.len().min(LOOKUPS_PER_PASS)]
}

fn lookup_scope(Lookup { kind, identity }: &Lookup) -> Scope {
    (kind.resource.clone(), identity.namespace.clone())
}

pub(super) fn scope(action: &Action) -> Scope {
    (action.kind.resource.clone(), action.key.namespace.clone())
}

/// Logs and counts a write that a dry run does not send.
pub(super) fn log_dry_run(term: &GcTerm, action: &Action) {
    act::log(action, true);
    term.metrics.acted(&action.operation, true);
}
