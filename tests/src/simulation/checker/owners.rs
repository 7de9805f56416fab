//! S1 and S2: the garbage collector deletes only objects without an owner, and removes only references to absent owners. L3: one
//! broken resource does not delay it.
//!
//! A deletion counts for the request that starts it. An owner in foreground deletion does not keep its dependents; the
//! collector may act on that state for a short time after it has read it, even if the owner has changed since.

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::{Change, Context, Found};
use super::model::{Object, Reference, Target};
use super::requests::{Sent, Verb};
use super::symbols::{COLLECTOR, Symbol};

/// The time for which the collector may act on a read of an owner.
const READ_VALID: Duration = Duration::from_secs(1);
/// The same with a slow API.
const READ_VALID_SLOW: Duration = Duration::from_secs(10);
/// The time after a slow response in which the API counts as slow.
const SLOW: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    /// The numbers of the requests of the collector that have read an owner in foreground deletion.
    reads: BTreeMap<Symbol, Vec<usize>>,
    /// The owners that orphan or have orphaned their dependents, with the position in the run.
    pub(super) orphaned: BTreeMap<Symbol, u64>,
    /// The times since which objects have no owner, for L3.
    garbage: BTreeMap<Symbol, Duration>,
    /// The times since which objects wait for the removal of a finalizer of the collector, for L2.
    finalizing: BTreeMap<Symbol, Duration>,
}

impl Owners {
    /// Records a read of the collector that was executed.
    pub(super) fn executed(&mut self, context: &Context, number: usize, sent: &Sent, code: u16) {
        if sent.agent != COLLECTOR || sent.verb != Verb::Get || code != 200 {
            return;
        }
        let owner = context.model.at(sent.collection, sent.namespace, sent.name);
        if let Some(owner) = owner.filter(|it| it.is_waiting()) {
            self.reads.entry(owner.uid).or_default().push(number);
        }
    }

    pub(super) fn commit(&mut self, context: &Context, change: &Change, found: &mut Found) {
        let new = context.model.get(change.uid);
        if let (Some(sent), Some(old)) = (change.by(COLLECTOR), &change.old) {
            if sent.verb == Verb::Delete && change.is_deletion(new) {
                self.check_deletion(context, change, sent, old, found);
            } else if let Some(new) = new
                && sent.verb != Verb::Delete
                && old.references != new.references
            {
                self.check_removed_references(context, sent, old, new, found);
            }
        }
        if new.is_some_and(Object::is_orphaning) {
            self.orphaned.entry(change.uid).or_insert(context.position);
        }
        if context.rules.isolation.is_some() {
            self.note_garbage(context, change);
            self.check_finalizer(context, change, found);
        }
    }

    fn check_deletion(
        &self,
        context: &Context,
        change: &Change,
        sent: &Sent,
        old: &Object,
        found: &mut Found,
    ) {
        for reference in &old.references {
            match context.resolve(old, reference) {
                Target::Live(owner) if !owner.is_waiting() && !self.was_waiting(context, sent, owner.uid) => {
                    found.add(
                        "S1",
                        format!(
                            "{} was deleted at revision {} by {}, but its owner {} exists{}",
                            context.name(old),
                            change.revision,
                            context.sender(sent),
                            context.name(owner),
                            if owner.terminating {
                                " and is not in foreground deletion"
                            } else {
                                ""
                            },
                        ),
                    );
                }
                Target::Unserved if !is_proven_absent(context, sent, reference) => found.add(
                    "S2",
                    format!(
                        "{} was deleted at revision {} by {}, but the kind of its owner {} is not served",
                        context.name(old),
                        change.revision,
                        context.sender(sent),
                        context.reference(reference),
                    ),
                ),
                Target::Ambiguous => found.add(
                    "S2",
                    format!(
                        "{} was deleted at revision {} by {}: it is cluster-scoped, and the kind of its owner {} is \
                         namespaced, so the owner is unknown",
                        context.name(old),
                        change.revision,
                        context.sender(sent),
                        context.reference(reference),
                    ),
                ),
                _ => {}
            }
        }
        self.check_delay(context, change, old, found);
    }

    fn check_removed_references(
        &self,
        context: &Context,
        sent: &Sent,
        old: &Object,
        new: &Object,
        found: &mut Found,
    ) {
        let is_kept = |it: &Reference| new.references.iter().any(|kept| kept.uid == it.uid);
        for reference in old.references.iter().filter(|it| !is_kept(it)) {
            if self.orphaned.contains_key(&reference.uid) {
                continue;
            }
            match context.resolve(old, reference) {
                Target::Live(owner) if !owner.is_waiting() && !self.was_waiting(context, sent, owner.uid) => {
                    found.add(
                        "S1",
                        format!(
                            "{} lost its reference to {} at revision {} by {}, but that owner exists",
                            context.name(old),
                            context.name(owner),
                            new.revision,
                            context.sender(sent),
                        ),
                    );
                }
                Target::Unserved if !is_proven_absent(context, sent, reference) => found.add(
                    "S2",
                    format!(
                        "{} lost its reference to {} at revision {} by {}, but that kind is not served",
                        context.name(old),
                        context.reference(reference),
                        new.revision,
                        context.sender(sent),
                    ),
                ),
                _ => {}
            }
        }
    }

    /// Reports whether a read of the collector that was valid when `sent` was sent showed a foreground deletion.
    pub(super) fn was_waiting(&self, context: &Context, sent: &Sent, owner: Symbol) -> bool {
        let reads = self.reads.get(&owner).into_iter().flatten();
        let mut reads = reads.filter_map(|number| context.requests.get(*number));
        reads.any(|read| {
            let Some(answered) = read.answered else {
                return false;
            };
            let is_slow = context.last_slow.is_some_and(|at| sent.at < at + SLOW);
            let until = if is_slow {
                read.at + context.rules.longest(READ_VALID_SLOW)
            } else {
                answered + context.rules.longest(READ_VALID)
            };
            let same = read.actor.map(|it| it.process) == sent.actor.map(|it| it.process);
            same && read.position < sent.position && sent.at <= until
        })
    }

    /// Records the dependents that have no owner any more.
    fn note_garbage(&mut self, context: &Context, change: &Change) {
        let Some(old) = change
            .old
            .as_ref()
            .filter(|_| context.model.get(change.uid).is_none())
        else {
            return;
        };
        self.garbage.remove(&change.uid);
        if is_broken(context, old) {
            return;
        }
        for dependent in context.model.dependents(change.uid) {
            let is_absent = |it: &Reference| matches!(context.resolve(dependent, it), Target::Absent);
            if !dependent.terminating && dependent.references.iter().all(is_absent) {
                self.garbage.insert(dependent.uid, change.at);
            }
        }
    }

    /// Checks that a foreground or orphan deletion ends in time.
    fn check_finalizer(&mut self, context: &Context, change: &Change, found: &mut Found) {
        let is_finalizing = |it: &Object| it.is_waiting() || it.is_orphaning();
        let new = context.model.get(change.uid);
        if new.is_some_and(is_finalizing) {
            self.finalizing.entry(change.uid).or_insert(change.at);
            return;
        }
        let since = self.finalizing.remove(&change.uid);
        let (Some(since), Some(old), Some(isolation)) = (since, &change.old, &context.rules.isolation) else {
            return;
        };
        let delay = change.at.saturating_sub(since);
        if delay > context.rules.longest(isolation.within) && !is_broken(context, old) {
            found.add(
                "L2",
                format!(
                    "the deletion of {} took {delay:?}, more than {:?}",
                    context.name(old),
                    isolation.within,
                ),
            );
        }
    }

    fn check_delay(&self, context: &Context, change: &Change, old: &Object, found: &mut Found) {
        let (Some(isolation), Some(since)) = (&context.rules.isolation, self.garbage.get(&change.uid)) else {
            return;
        };
        let delay = change.at.saturating_sub(*since);
        if delay > context.rules.longest(isolation.within) && !is_broken(context, old) {
            found.add(
                "L3",
                format!(
                    "{} was deleted {delay:?} after its last owner, more than {:?}, while {:?} failed",
                    context.name(old),
                    isolation.within,
                    isolation.broken,
                ),
            );
        }
    }
}

/// Reports whether a resource or an object fails.
fn is_broken(context: &Context, object: &Object) -> bool {
    let collection = context.text(object.collection);
    let name = || format!("{collection} {}", context.key(object));
    let isolation = context.rules.isolation.as_ref();
    isolation.is_some_and(|it| it.broken.contains(collection) || it.broken.contains(&name()))
}

/// Reports whether the absence of an owner could be proven although its kind is not served now: it was removed, or the kind
/// was served while the process ran.
fn is_proven_absent(context: &Context, sent: &Sent, reference: &Reference) -> bool {
    let process = sent
        .actor
        .and_then(|it| context.requests.processes.get(&it.process));
    let removed = context.kinds.removed(reference.api_version, reference.kind);
    let was_served = removed.is_some_and(|at| process.is_none_or(|it| at > it.started));
    let exists = context.model.get(reference.uid).is_some();
    !exists && (was_served || context.model.was_removed(reference.uid))
}
