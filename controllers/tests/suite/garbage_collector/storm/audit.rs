//! What may be written, judged by the store as it was when the write came.
//!
//! - Nothing goes that has a living owner, unless the collector was told, not too long before, that the owner waits for it.
//! - What was let go is not deleted for the owner that let it go, with the same exception.
//! - An owner goes on only when nobody blocks it whom an undisturbed view has shown for long.
//! - A patch takes away what it is for, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::env::Clock;
use serde_json::Value;
use tokio::time::Instant;

use super::super::{MAPS, WIDGETS};
use super::way::KINDS;

/// How old the answer that an owner waits may be when a write is sent, apart from the latency of that answer.
const FRESH: Duration = Duration::from_secs(1);
/// After this long what is in the store is seen, and a view that was disturbed is whole again.
const SEEN: Duration = Duration::from_mins(2);

#[derive(Clone)]
pub struct Audit {
    clock: Clock,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    /// The answers to the collector that an owner waits for its dependents: when each was read, and until when it is valid.
    waiting: BTreeMap<String, Vec<(Instant, Instant)>>,
    /// Who is let go, by the owner that was deleted so.
    orphans: BTreeMap<String, BTreeSet<String>>,
    /// The owners that were deleted so that their dependents stay.
    letting: BTreeSet<String>,
    /// The owners of which not all dependents could be listed.
    unlisted: BTreeSet<String>,
    /// When somebody else than the collector changed an object.
    changed: BTreeMap<String, Instant>,
    /// When the view of a resource was last disturbed.
    disturbed: BTreeMap<String, Instant>,
    wrong: Vec<String>,
    deletes: usize,
    patches: usize,
}

/// How much was looked at.
#[derive(Default)]
pub struct Looked {
    pub deletes: usize,
    pub patches: usize,
}

impl std::ops::AddAssign for Looked {
    fn add_assign(&mut self, more: Self) {
        self.deletes += more.deletes;
        self.patches += more.patches;
    }
}

impl Audit {
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            book: Arc::default(),
        }
    }

    pub fn wrong(&self) -> Vec<String> {
        self.with(|it| it.wrong.clone())
    }

    /// How many deletes and patches were looked at.
    pub fn looked(&self) -> Looked {
        self.with(|it| Looked {
            deletes: it.deletes,
            patches: it.patches,
        })
    }

    /// The collector does not see all of a resource.
    pub fn disturb(&self, kind: &str) {
        let now = self.clock.now();
        self.with(|it| it.disturbed.insert(kind.to_owned(), now));
    }

    /// A list of the collector came to nothing.
    pub fn unlisted(&self) {
        self.with(|it| it.unlisted.extend(it.orphans.keys().cloned()));
    }

    /// The collector begins anew: what it could not find before, it cannot know to let go.
    pub fn restarted(&self) {
        self.with(|it| {
            let lost = std::mem::take(&mut it.unlisted);
            it.orphans.retain(|owner, _| !lost.contains(owner));
        });
    }

    /// Somebody else is about to change an object.
    pub fn touched(&self, object: &Value) {
        let now = self.clock.now();
        self.see(object);
        self.with(|it| {
            it.changed.insert(uid(object), now);
            for orphans in it.orphans.values_mut() {
                orphans.remove(&uid(object));
            }
            it.orphans.remove(&uid(object));
        });
    }

    /// An owner was deleted so that its dependents stay. These are all objects.
    pub fn let_go(&self, owner: &Value, world: &[Value]) {
        let refers =
            |it: &&Value| refs(it).any(|to| self::owner(it, to, std::slice::from_ref(owner)).is_some());
        let dependents = world.iter().filter(refers).filter(|it| !is_terminating(it));
        let dependents = dependents.map(uid).collect();
        self.with(|it| it.orphans.insert(uid(owner), dependents));
    }

    /// The collector is shown an object, after this time.
    pub fn read(&self, object: &Value, latency: Duration) {
        let now = self.clock.now();
        let is_foreground = has_finalizer(object, "foregroundDeletion") && !has_finalizer(object, "orphan");
        if is_terminating(object) && is_foreground {
            let answer = (now, now + latency + FRESH);
            self.with(|it| it.waiting.entry(uid(object)).or_default().push(answer));
        }
    }

    /// A write of the collector has come, which was sent at this time.
    pub fn look(&self, what: &str, sent: Instant, before: &[Value], after: &[Value]) {
        for it in before {
            self.see(it);
        }
        for was in before {
            let is = after.iter().find(|it| uid(it) == uid(was));
            if is == Some(was) {
                continue;
            }
            if what.starts_with("DELETE") {
                self.with(|it| it.deletes += 1);
                self.deleted(what, sent, was, before);
            } else {
                self.with(|it| it.patches += 1);
                self.patched(what, sent, was, is, before);
            }
        }
    }

    fn deleted(&self, what: &str, sent: Instant, was: &Value, world: &[Value]) {
        for reference in refs(was) {
            if let Some(owner) = owner(was, reference, world)
                && !self.may_wait(sent, &reference["uid"])
            {
                self.complain(format!("{what}: {was} has a living owner: {owner}"));
            }
            if !is_known(reference) {
                self.complain(format!("{what}: {was} has an owner that nobody can ask for"));
            }
            let let_go = |it: &Book| {
                let orphans = it.orphans.get(reference["uid"].as_str().unwrap_or_default());
                orphans.is_some_and(|it| it.contains(&uid(was)))
            };
            // The owner may have been deleted once more, to orphan its dependents, after the collector was told that it waits.
            if self.with(|it| let_go(it)) && !self.may_wait(sent, &reference["uid"]) {
                self.complain(format!("{what}: {was} was let go by {reference}"));
            }
        }
    }

    fn patched(&self, what: &str, sent: Instant, was: &Value, is: Option<&Value>, world: &[Value]) {
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
                self.complain(format!("{what}: {was} lost {finalizer}"));
            }
        }
        if lost.iter().any(|it| *it == "foregroundDeletion") {
            self.left(what, was, world);
        }
        let Some(is) = is else {
            if lost.is_empty() {
                self.complain(format!("{what}: {was} is gone"));
            }
            return;
        };
        for reference in refs(was).filter(|it| !refs(is).any(|kept| kept["uid"] == it["uid"])) {
            if let Some(owner) = owner(was, reference, world)
                && !self.may_wait(sent, &reference["uid"])
                && !self.lets_go(owner)
            {
                self.complain(format!("{what}: {was} lost a living owner: {owner}"));
            }
        }
    }

    /// An owner no longer waits.
    fn left(&self, what: &str, owner: &Value, world: &[Value]) {
        let now = self.clock.now();
        let long_ago = |at: Option<&Instant>| at.is_none_or(|at| now.duration_since(*at) > SEEN);
        for dependent in world.iter().filter(|it| blocks(it, owner)) {
            let kind = dependent["kind"].as_str().unwrap_or_default();
            let seen =
                self.with(|it| long_ago(it.changed.get(&uid(dependent))) && long_ago(it.disturbed.get(kind)));
            if seen {
                self.complain(format!("{what}: {owner} goes before {dependent}"));
            }
        }
    }

    /// Whether an owner was deleted so that its dependents stay.
    fn lets_go(&self, owner: &Value) -> bool {
        self.with(|it| it.letting.contains(&uid(owner)))
    }

    /// Notes whether an owner lets its dependents go.
    fn see(&self, owner: &Value) {
        if is_terminating(owner) && has_finalizer(owner, "orphan") {
            self.with(|it| it.letting.insert(uid(owner)));
        }
    }

    /// Whether a valid answer said that an owner waits for its dependents when a write was sent.
    fn may_wait(&self, sent: Instant, owner: &Value) -> bool {
        self.with(|it| {
            let answers = it.waiting.get(owner.as_str().unwrap_or_default());
            let mut answers = answers.into_iter().flatten();
            answers.any(|(read, until)| (*read..=*until).contains(&sent))
        })
    }

    fn complain(&self, what: String) {
        self.with(|it| it.wrong.push(what));
    }

    fn with<T>(&self, with: impl FnOnce(&mut Book) -> T) -> T {
        with(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is wrong with a world that has come to rest.
pub fn unsettled(world: &[Value]) -> Vec<String> {
    // Of whom nobody can say whether it is owned stays, and so does who waits for it.
    let mut stays: Vec<&Value> = world.iter().filter(|it| !is_clear(it)).collect();
    loop {
        let waits = |it: &&Value| is_terminating(it) && stays.iter().any(|other| blocks(other, it));
        let is_new = |it: &&Value| !stays.iter().any(|other| uid(other) == uid(it));
        let more: Vec<&Value> = world.iter().filter(waits).filter(is_new).collect();
        if more.is_empty() {
            break;
        }
        stays.extend(more);
    }
    let mut wrong = Vec::new();
    for object in world
        .iter()
        .filter(|it| !stays.iter().any(|other| uid(other) == uid(it)))
    {
        let name = format!("{} {}", object["kind"], object["metadata"]);
        if is_terminating(object) {
            wrong.push(format!("not gone: {name}"));
            continue;
        }
        let (solid, dangling): (Vec<_>, Vec<_>) =
            refs(object).partition(|it| owner(object, it, world).is_some());
        if solid.is_empty() && !dangling.is_empty() {
            wrong.push(format!("nobody owns {name}"));
        }
        let is_solid = |uid: &Value| solid.iter().any(|it| it["uid"] == *uid);
        if dangling.iter().any(|it| !is_solid(&it["uid"])) {
            wrong.push(format!("still refers to who is gone: {name}"));
        }
    }
    wrong
}

/// Whether it can be found out who owns an object.
fn is_clear(object: &Value) -> bool {
    let namespaced = |it: &Value| it["kind"] == *MAPS.kind || it["kind"] == *WIDGETS.kind;
    refs(object).all(|it| is_known(it) && (!namespaced(it) || namespaced(object)))
}

/// Whether an owner waits for an object when it is deleted in the foreground.
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

/// Whether there is such a kind, at least now and then.
fn is_known(reference: &Value) -> bool {
    let mut kinds = KINDS.into_iter();
    kinds.any(|kind| reference["apiVersion"] == kind.api_version() && reference["kind"] == *kind.kind)
}

fn refs(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

/// Who is meant by a reference of an object, if it exists.
fn owner<'a>(dependent: &Value, reference: &Value, world: &'a [Value]) -> Option<&'a Value> {
    world.iter().find(|it| {
        let namespace = it["metadata"].get("namespace");
        it["metadata"]["uid"] == reference["uid"]
            && it["metadata"]["name"] == reference["name"]
            && it["apiVersion"] == reference["apiVersion"]
            && it["kind"] == reference["kind"]
            && namespace.is_none_or(|it| *it == dependent["metadata"]["namespace"])
    })
}
