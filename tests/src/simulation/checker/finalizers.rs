//! S4: the garbage collector removes the finalizer of a foreground deletion only after the last blocking dependent that its
//! caches show, only from terminating objects, and no finalizers of other clients.
//!
//! A term proves its caches current: dependents from before the term count even if the caches do not show them. The collector
//! waits [`SYNC_WAIT`] for a kind that cannot be read.

use std::time::Duration;

use super::context::{Change, Context, Found};
use super::model::Object;
use super::requests::{Sent, Verb};
use super::symbols::COLLECTOR;

/// The time that the collector waits for a kind that has not synced.
const SYNC_WAIT: Duration = Duration::from_secs(30);

/// Checks a write of the collector.
pub(super) fn commit(context: &Context, change: &Change, found: &mut Found) {
    let (Some(sent), Some(old)) = (change.by(COLLECTOR), &change.old) else {
        return;
    };
    if sent.verb == Verb::Delete {
        return;
    }
    let new = context.model.get(change.uid);
    let has = |field: fn(&Object) -> bool| new.is_some_and(field);
    let foreground = old.foreground && !has(|it| it.foreground);
    let orphan = old.orphan && !has(|it| it.orphan);
    let foreign = old
        .finalizers
        .iter()
        .find(|it| !new.is_some_and(|new| new.finalizers.contains(it)));
    if let Some(foreign) = foreign {
        found.add(
            "S4",
            format!(
                "{} lost the finalizer {} of another client at revision {} by {}",
                context.name(old),
                context.text(*foreign),
                change.revision,
                context.sender(sent),
            ),
        );
    }
    if (foreground || orphan) && !old.terminating {
        found.add(
            "S4",
            format!(
                "{} is not terminating, and lost the finalizer {} at revision {} by {}",
                context.name(old),
                if foreground {
                    "foregroundDeletion"
                } else {
                    "orphan"
                },
                change.revision,
                context.sender(sent),
            ),
        );
    }
    if foreground && old.terminating {
        check_dependents(context, change, sent, old, found);
    }
}

fn check_dependents(context: &Context, change: &Change, sent: &Sent, owner: &Object, found: &mut Found) {
    for dependent in context.model.dependents(owner.uid) {
        let delivered = context.requests.delivered_revision(sent, dependent.collection);
        let shown = delivered.max(proven(context, sent, dependent));
        if shown > 0 && dependent.referred <= shown && dependent.blocks(&context.kinds, owner) {
            found.add(
                "S4",
                format!(
                    "{} lost the finalizer foregroundDeletion at revision {} by {}, but {} blocks its deletion since \
                     revision {}, and the caches have to show revision {shown}",
                    context.name(owner),
                    change.revision,
                    context.sender(sent),
                    context.name(dependent),
                    dependent.referred,
                ),
            );
        }
    }
}

/// Returns the revision that the cache of a dependent has to show; 0 if it may be stale.
fn proven(context: &Context, sent: &Sent, dependent: &Object) -> u64 {
    let process = sent
        .actor
        .and_then(|it| context.requests.processes.get(&it.process));
    let Some(process) = process else { return 0 };
    let waits = sent.at < process.term_began + context.rules.shortest(SYNC_WAIT);
    let is_new = context.kinds.since(dependent.collection) > process.started;
    if waits && !is_new { sent.term_revision } else { 0 }
}
