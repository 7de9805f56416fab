//! The order of facts and commits: commits follow the store, and a fact follows the commit that it shows.

use std::time::Duration;

use super::super::etcd::Change;
use super::{Entry, State};
use crate::simulation::record::{Commit, Fact, Violation};

/// The time in which etcd reports a change after its response.
const REPORTED_WITHIN: Duration = Duration::from_secs(30);
/// The time from a removal to its response.
const REMOVAL: Duration = Duration::from_secs(2);

impl State {
    /// Evaluates the facts up to a time.
    pub(super) fn evaluate(&mut self, until: Duration) {
        while let Some((key, entry)) = self.entries.pop_first() {
            let is_missing = matches!(entry, Entry::Fact { after, .. } if after > self.reported);
            let waits = is_missing && self.begun.elapsed() < key.0 + REPORTED_WITHIN;
            if key.0 > until || waits {
                self.entries.insert(key, entry);
                return;
            }
            match entry {
                Entry::Commit(revision) => self.commit_up_to(revision),
                Entry::Fact { fact, after } => {
                    if is_missing {
                        let message = format!("etcd has not reported revision {after} of {fact:?}");
                        self.violations.push(Violation {
                            invariant: "record",
                            message,
                        });
                    }
                    self.commit_up_to(after);
                    self.observe(&fact);
                }
            }
        }
    }

    /// Evaluates the changes up to a revision.
    fn commit_up_to(&mut self, revision: u64) {
        while let Some(entry) = self.changes.first_entry().filter(|it| *it.key() <= revision) {
            let (revision, (at, change)) = entry.remove_entry();
            self.evaluated = revision;
            let request = self.request_of(&change, at);
            if let Some((request, code)) = request {
                self.counts.own_commits += 1;
                self.observe(&Fact::Executed { request, at, code });
            }
            if !is_background(&change.collection) {
                self.last_change = self.last_change.max(at);
            }
            let request = request.map(|it| it.0);
            self.histories.commit(&change, request, at);
            self.observe(&Fact::Commit(Commit {
                revision,
                at,
                collection: change.collection,
                key: change.key,
                before: change.before,
                after: change.after,
                request,
                is_restored: false,
            }));
        }
    }

    /// Returns the number and the code of the request that has made a change.
    fn request_of(&mut self, change: &Change, at: Duration) -> Option<(usize, u16)> {
        if let Some(found) = self.writes.remove(&change.revision) {
            return Some(found);
        }
        if change.after.is_some() {
            return None;
        }
        let mut candidates = self.removals.remove(&change.uid)?.into_iter();
        let found = candidates.find(|it| it.sent <= at && at <= it.answered + REMOVAL)?;
        Some((found.request, found.code))
    }

    fn observe(&mut self, fact: &Fact) {
        if let Err(violation) = self.checker.observe(fact)
            && violation.invariant != "L4"
        {
            self.violations.push(violation);
        }
    }
}

/// Reports whether a resource changes without an effect on the desired state.
fn is_background(collection: &str) -> bool {
    let resources = ["leases.coordination.k8s.io", "events", "events.events.k8s.io"];
    resources.contains(&collection)
}
