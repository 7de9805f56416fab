//! S3: the garbage collector deletes no object that existed when its owner was deleted with the policy Orphan.
//!
//! The guarantee covers the resources that the collector can list. It ends when the user changes the policy, or the references
//! of the object.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{Change, Context, Found};
use super::model::{Object, Target};
use super::owners::Owners;
use super::requests::{Sent, Verb};
use super::symbols::{COLLECTOR, EMPTY, Symbol};

#[derive(Clone, Debug, Default)]
pub(super) struct Orphans {
    /// The owners of each orphan that have orphaned it.
    owners: BTreeMap<Symbol, BTreeSet<Symbol>>,
    /// The owners that each object has had when their deletion was requested. A restored storage may contain them again.
    requested: BTreeMap<Symbol, BTreeSet<Symbol>>,
    /// The position of the last list of a resource by the collector, and whether it succeeded.
    lists: BTreeMap<Symbol, (u64, bool)>,
    /// The position of the last failure of discovery.
    discovery_failed: u64,
}

impl Orphans {
    /// Records whether the collector can list a resource.
    pub(super) fn answered(&mut self, context: &Context, sent: &Sent, code: Option<u16>) {
        let succeeded = code.is_some_and(|it| it < 400);
        if sent.actor.is_some() && sent.collection == EMPTY && !succeeded {
            self.discovery_failed = context.position;
        }
        if sent.agent == COLLECTOR && sent.verb == Verb::List {
            self.lists.insert(sent.collection, (context.position, succeeded));
        }
    }

    pub(super) fn commit(&mut self, context: &Context, change: &Change, owners: &Owners, found: &mut Found) {
        let new = context.model.get(change.uid);
        let old = change.old.as_ref();
        self.check_deletion(context, change, owners, found);
        let (was, is) = (
            old.is_some_and(Object::is_orphaning),
            new.is_some_and(Object::is_orphaning),
        );
        if is && !was {
            self.begin(context, change.uid);
        }
        if was && !is {
            self.end(context, change, owners);
        }
        let Some(new) = new else {
            self.owners.remove(&change.uid);
            return;
        };
        if change.request.is_none() && old.is_some_and(|old| old.references != new.references) {
            self.owners.remove(&change.uid);
        }
        if change.is_restored
            && let Some(requested) = self.requested.get(&change.uid)
        {
            let is_orphaning = |it: &&Symbol| context.model.get(**it).is_some_and(Object::is_orphaning);
            let owners = requested.iter().filter(is_orphaning).copied();
            self.owners.entry(change.uid).or_default().extend(owners);
        }
    }

    fn begin(&mut self, context: &Context, owner: Symbol) {
        for dependent in context.model.dependents(owner).filter(|it| !it.terminating) {
            let refers = dependent.references.iter().any(|it| {
                it.uid == owner
                    && matches!(context.resolve(dependent, it), Target::Live(live) if live.uid == owner)
            });
            if refers {
                self.owners.entry(dependent.uid).or_default().insert(owner);
                self.requested.entry(dependent.uid).or_default().insert(owner);
            }
        }
    }

    /// The owner does not orphan its dependents any more: it was removed, or the policy has changed.
    fn end(&mut self, context: &Context, change: &Change, owners: &Owners) {
        let owner = change.uid;
        let is_guaranteed = |orphan: &Object| match change.by(COLLECTOR) {
            Some(sent) if sent.verb != Verb::Delete => self.is_listable(context, owners, sent, owner, orphan),
            _ => false,
        };
        let lost: Vec<Symbol> = context
            .model
            .dependents(owner)
            .filter(|it| !is_guaranteed(it))
            .map(|it| it.uid)
            .collect();
        for orphan in lost {
            if let Some(of) = self.owners.get_mut(&orphan) {
                of.remove(&owner);
            }
        }
    }

    /// Reports whether the collector could list the resource of an orphan when it removed the finalizer.
    fn is_listable(
        &self,
        context: &Context,
        owners: &Owners,
        sent: &Sent,
        owner: Symbol,
        orphan: &Object,
    ) -> bool {
        let began = owners.orphaned.get(&owner).copied().unwrap_or(0);
        if self.discovery_failed > began {
            return false;
        }
        let process = sent
            .actor
            .and_then(|it| context.requests.processes.get(&it.process));
        let is_new = process.is_some_and(|it| context.kinds.since(orphan.collection) > it.started);
        match self.lists.get(&orphan.collection) {
            Some((at, succeeded)) if *at > began => *succeeded,
            // The collector has to list, unless it may not know the kind yet.
            _ => !is_new,
        }
    }

    fn check_deletion(&self, context: &Context, change: &Change, owners: &Owners, found: &mut Found) {
        let (Some(sent), Some(old)) = (change.by(COLLECTOR), &change.old) else {
            return;
        };
        if sent.verb != Verb::Delete {
            return;
        }
        let new = context.model.get(change.uid);
        if old.is_orphaning() && !new.is_some_and(Object::is_orphaning) {
            found.add(
                "S3",
                format!(
                    "the orphan deletion of {} was replaced at revision {} by {}",
                    context.name(old),
                    change.revision,
                    context.sender(sent),
                ),
            );
        }
        let Some(of) = self.owners.get(&change.uid).filter(|_| change.is_deletion(new)) else {
            return;
        };
        for owner in of {
            let refers = old.references.iter().any(|it| it.uid == *owner);
            if refers && !owners.was_waiting(context, sent, *owner) {
                found.add(
                    "S3",
                    format!(
                        "{} was deleted at revision {} by {}, but it existed when its owner (uid {}) was deleted with \
                         the policy Orphan",
                        context.name(old),
                        change.revision,
                        context.sender(sent),
                        context.text(*owner),
                    ),
                );
            }
        }
    }
}
