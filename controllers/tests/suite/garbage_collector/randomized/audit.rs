//! Checks each write of the collector against the store at the time of its execution.
//!
//! - No object with a live owner is deleted, unless the collector has recently read a foreground deletion of that owner.
//! - No orphan is deleted for the owner that orphaned it, with the same exception.
//! - The foreground finalizer stays while a dependent blocks that current caches have shown for long.
//! - A patch removes only finalizers of the garbage collector and references to absent owners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use steersman_manager::env::Clock;
use tokio::time::Instant;

use super::super::{MAPS, WIDGETS};
use super::fault_injector::KINDS;

/// Maximum age of a read when a write based on it is sent, beside the latency of the read.
const READ_MAX_AGE: Duration = Duration::from_secs(1);
/// After this time the caches show a change, and a stale cache is current again.
const CACHE_LAG_MAX: Duration = Duration::from_mins(2);

#[derive(Clone)]
pub struct Audit {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Start and end of validity of reads that showed a foreground deletion, by uid of the owner.
    foreground_reads: BTreeMap<String, Vec<(Instant, Instant)>>,
    /// Orphans by uid of their former owner.
    orphans: BTreeMap<String, BTreeSet<String>>,
    /// Owners in orphan deletion.
    orphaning: BTreeSet<String>,
    /// Owners whose dependents could not all be listed.
    unlisted: BTreeSet<String>,
    /// Last change of an object by another client.
    changed_at: BTreeMap<String, Instant>,
    /// Last time at which the cache of a kind was stale.
    stale_at: BTreeMap<String, Instant>,
    violations: Vec<String>,
    deletes: usize,
    patches: usize,
}

#[derive(Default)]
pub struct Audited {
    pub deletes: usize,
    pub patches: usize,
}

impl std::ops::AddAssign for Audited {
    fn add_assign(&mut self, more: Self) {
        self.deletes += more.deletes;
        self.patches += more.patches;
    }
}

impl Audit {
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            state: Arc::default(),
        }
    }

    pub fn violations(&self) -> Vec<String> {
        self.with(|it| it.violations.clone())
    }

    pub fn audited(&self) -> Audited {
        self.with(|it| Audited {
            deletes: it.deletes,
            patches: it.patches,
        })
    }

    /// Notes that the collector's cache of a kind is stale.
    pub fn mark_stale(&self, kind: &str) {
        let now = self.clock.now();
        self.with(|it| it.stale_at.insert(kind.to_owned(), now));
    }

    /// Notes that a live list of the collector failed.
    pub fn list_failed(&self) {
        self.with(|it| it.unlisted.extend(it.orphans.keys().cloned()));
    }

    /// Notes a restart: the collector has no memory of dependents that it could not list.
    pub fn restarted(&self) {
        self.with(|it| {
            let lost = std::mem::take(&mut it.unlisted);
            it.orphans.retain(|owner, _| !lost.contains(owner));
        });
    }

    /// Notes a change of an object by another client.
    pub fn changed(&self, object: &Value) {
        let now = self.clock.now();
        self.note_orphaning(object);
        self.with(|it| {
            it.changed_at.insert(uid(object), now);
            for orphans in it.orphans.values_mut() {
                orphans.remove(&uid(object));
            }
            it.orphans.remove(&uid(object));
        });
    }

    /// Notes an orphan deletion.
    pub fn orphaned(&self, owner: &Value, objects: &[Value]) {
        let refers =
            |it: &&Value| refs(it).any(|to| self::owner(it, to, std::slice::from_ref(owner)).is_some());
        let dependents = objects.iter().filter(refers).filter(|it| !is_terminating(it));
        let dependents = dependents.map(uid).collect();
        self.with(|it| it.orphans.insert(uid(owner), dependents));
    }

    /// Notes a live read of the collector.
    pub fn read(&self, object: &Value, latency: Duration) {
        let now = self.clock.now();
        let is_foreground = has_finalizer(object, "foregroundDeletion") && !has_finalizer(object, "orphan");
        if is_terminating(object) && is_foreground {
            let valid = (now, now + latency + READ_MAX_AGE);
            self.with(|it| it.foreground_reads.entry(uid(object)).or_default().push(valid));
        }
    }

    /// Checks the effect of a write of the collector.
    pub fn check_write(&self, operation: &str, sent: Instant, before: &[Value], after: &[Value]) {
        for it in before {
            self.note_orphaning(it);
        }
        for was in before {
            let is = after.iter().find(|it| uid(it) == uid(was));
            if is == Some(was) {
                continue;
            }
            if operation.starts_with("DELETE") {
                self.with(|it| it.deletes += 1);
                self.check_delete(operation, sent, was, before);
            } else {
                self.with(|it| it.patches += 1);
                self.check_patch(operation, sent, was, is, before);
            }
        }
    }

    fn check_delete(&self, operation: &str, sent: Instant, was: &Value, objects: &[Value]) {
        for reference in refs(was) {
            if let Some(owner) = owner(was, reference, objects)
                && !self.was_foreground_deletion_read(sent, &reference["uid"])
            {
                self.violation(format!("{operation}: {was} has a live owner: {owner}"));
            }
            if !has_known_kind(reference) {
                self.violation(format!("{operation}: {was} has an owner of an unknown kind"));
            }
            let orphaned = |it: &State| {
                let orphans = it.orphans.get(reference["uid"].as_str().unwrap_or_default());
                orphans.is_some_and(|it| it.contains(&uid(was)))
            };
            // The orphan deletion may follow a foreground deletion that the collector has read.
            if self.with(|it| orphaned(it)) && !self.was_foreground_deletion_read(sent, &reference["uid"]) {
                self.violation(format!("{operation}: {was} was orphaned by {reference}"));
            }
        }
    }

    fn check_patch(
        &self,
        operation: &str,
        sent: Instant,
        was: &Value,
        is: Option<&Value>,
        objects: &[Value],
    ) {
        let finalizers = |it: &Value| {
            it["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let (had, has) = (finalizers(was), is.map(finalizers).unwrap_or_default());
        let lost: Vec<_> = had.iter().filter(|it| !has.contains(it)).collect();
        for finalizer in &lost {
            if *finalizer != "orphan" && *finalizer != "foregroundDeletion" {
                self.violation(format!("{operation}: {was} lost {finalizer}"));
            }
        }
        if lost.iter().any(|it| *it == "foregroundDeletion") {
            self.check_finalizer_removal(operation, was, objects);
        }
        let Some(is) = is else {
            if lost.is_empty() {
                self.violation(format!("{operation}: {was} was deleted"));
            }
            return;
        };
        for reference in refs(was).filter(|it| !refs(is).any(|kept| kept["uid"] == it["uid"])) {
            if let Some(owner) = owner(was, reference, objects)
                && !self.was_foreground_deletion_read(sent, &reference["uid"])
                && !self.is_orphaning(owner)
            {
                self.violation(format!("{operation}: {was} lost a live owner: {owner}"));
            }
        }
    }

    /// Checks the removal of the foreground finalizer.
    fn check_finalizer_removal(&self, operation: &str, owner: &Value, objects: &[Value]) {
        let now = self.clock.now();
        let long_ago = |at: Option<&Instant>| at.is_none_or(|at| now.duration_since(*at) > CACHE_LAG_MAX);
        for dependent in objects.iter().filter(|it| blocks(it, owner)) {
            let kind = dependent["kind"].as_str().unwrap_or_default();
            let seen = self
                .with(|it| long_ago(it.changed_at.get(&uid(dependent))) && long_ago(it.stale_at.get(kind)));
            if seen {
                self.violation(format!("{operation}: {owner} is deleted before {dependent}"));
            }
        }
    }

    fn is_orphaning(&self, owner: &Value) -> bool {
        self.with(|it| it.orphaning.contains(&uid(owner)))
    }

    fn note_orphaning(&self, owner: &Value) {
        if is_terminating(owner) && has_finalizer(owner, "orphan") {
            self.with(|it| it.orphaning.insert(uid(owner)));
        }
    }

    /// Returns whether a read that was valid when a write was sent showed a foreground deletion of the owner.
    fn was_foreground_deletion_read(&self, sent: Instant, owner: &Value) -> bool {
        self.with(|it| {
            let reads = it.foreground_reads.get(owner.as_str().unwrap_or_default());
            let mut reads = reads.into_iter().flatten();
            reads.any(|(read, until)| (*read..=*until).contains(&sent))
        })
    }

    fn violation(&self, violation: String) {
        self.with(|it| it.violations.push(violation));
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the deviations from the converged state.
pub fn unsettled(objects: &[Value]) -> Vec<String> {
    // Objects with unresolvable owners stay, and so do owners that they block.
    let mut unresolvable: Vec<&Value> = objects.iter().filter(|it| !is_resolvable(it)).collect();
    loop {
        let is_blocked =
            |it: &&Value| is_terminating(it) && unresolvable.iter().any(|other| blocks(other, it));
        let is_new = |it: &&Value| !unresolvable.iter().any(|other| uid(other) == uid(it));
        let more: Vec<&Value> = objects.iter().filter(is_blocked).filter(is_new).collect();
        if more.is_empty() {
            break;
        }
        unresolvable.extend(more);
    }
    let mut violations = Vec::new();
    for object in objects
        .iter()
        .filter(|it| !unresolvable.iter().any(|other| uid(other) == uid(it)))
    {
        let name = format!("{} {}", object["kind"], object["metadata"]);
        if is_terminating(object) {
            violations.push(format!("not deleted: {name}"));
            continue;
        }
        let (solid, dangling): (Vec<_>, Vec<_>) =
            refs(object).partition(|it| owner(object, it, objects).is_some());
        if solid.is_empty() && !dangling.is_empty() {
            violations.push(format!("garbage: {name}"));
        }
        let is_solid = |uid: &Value| solid.iter().any(|it| it["uid"] == *uid);
        if dangling.iter().any(|it| !is_solid(&it["uid"])) {
            violations.push(format!("refers to an absent owner: {name}"));
        }
    }
    violations
}

/// Returns whether all owners of an object can be looked up.
fn is_resolvable(object: &Value) -> bool {
    let namespaced = |it: &Value| it["kind"] == *MAPS.kind || it["kind"] == *WIDGETS.kind;
    refs(object).all(|it| has_known_kind(it) && (!namespaced(it) || namespaced(object)))
}

/// Returns whether a dependent blocks the foreground deletion of an owner.
fn blocks(dependent: &Value, by: &Value) -> bool {
    let mut refs = refs(dependent).filter(|it| it["blockOwnerDeletion"] == true);
    uid(dependent) != uid(by) && refs.any(|it| owner(dependent, it, std::slice::from_ref(by)).is_some())
}

pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

pub fn is_terminating(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|it| it.iter().any(|it| it == finalizer))
}

/// Returns whether the kind of an owner is served at some time of the test.
fn has_known_kind(reference: &Value) -> bool {
    let mut kinds = KINDS.into_iter();
    kinds.any(|kind| reference["apiVersion"] == kind.api_version() && reference["kind"] == *kind.kind)
}

fn refs(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

/// Resolves a reference.
fn owner<'a>(dependent: &Value, reference: &Value, objects: &'a [Value]) -> Option<&'a Value> {
    objects.iter().find(|it| {
        let namespace = it["metadata"].get("namespace");
        it["metadata"]["uid"] == reference["uid"]
            && it["metadata"]["name"] == reference["name"]
            && it["apiVersion"] == reference["apiVersion"]
            && it["kind"] == reference["kind"]
            && namespace.is_none_or(|it| *it == dependent["metadata"]["namespace"])
    })
}
