//! S5 for `ReplicaSets`: no create exceeds `spec.replicas`, and no delete falls below it. S6: only pods of the own kind of
//! owner are deleted, with their uid and resourceVersion.
//!
//! A controller may act on each value of `spec.replicas` since the state that it knew when its sync began. It has to count all
//! pods that it has created in its term, delivered or not, the pods of other processes from before its term, and all pods that
//! were delivered to it. Other clients may add and remove pods without its knowledge.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::record::Request;
use super::context::{Change, Context, Found};
use super::history::History;
use super::model::{Detail, Object, Reference};
use super::replacements::Replacements;
use super::requests::{Actor, Sent, Verb};
use super::rest::{has_equal_labels, selects};
use super::symbols::{
    APP_REPLICA_SET, APP_REPLICA_SET_AGENT, APP_REPLICA_SETS, COLLECTOR, KUBELET, PODS, REPLICA_SET,
    REPLICA_SET_AGENT, REPLICA_SETS, REPLICATION_AGENT, REPLICATION_CONTROLLER, REPLICATION_CONTROLLERS,
    Symbol,
};
use super::view::Conditions;

#[derive(Clone, Debug, Default)]
pub(super) struct Replicas {
    sets: BTreeMap<Symbol, Set>,
    pods: BTreeMap<Symbol, Pod>,
}

/// An owner of pods.
#[derive(Clone, Debug, Default)]
struct Set {
    active: i64,
    replicas: History<i64>,
    /// Revision and actor of each pod that was active and is not any more.
    losses: Vec<(u64, Option<Actor>)>,
    /// The time and the actor of each adoption of a pod.
    adoptions: Vec<(Duration, Option<Actor>)>,
    replacements: Replacements,
    /// The numbers of active pods and of ready ones, and the time since which the status differs from them.
    counts: (i64, i64),
    stale_since: Option<Duration>,
}

/// A pod of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod {
    set: Option<Symbol>,
    active: bool,
    /// The revision at which it became an active pod of the set.
    revision: u64,
    /// The actor that created or adopted it; none for other clients.
    by: Option<Actor>,
    /// The revision at which its labels began or ceased to match the selector of its set.
    selected: u64,
    pub(super) created: Duration,
    /// The time at which it was first running.
    pub(super) running: Option<Duration>,
    /// Whether it was ever ready.
    pub(super) ready: bool,
}

/// The controllers that create and delete pods, with the kind and the resource of their owners.
const CONTROLLERS: [(Symbol, Symbol, Symbol); 3] = [
    (REPLICA_SET_AGENT, REPLICA_SET, REPLICA_SETS),
    (REPLICATION_AGENT, REPLICATION_CONTROLLER, REPLICATION_CONTROLLERS),
    (APP_REPLICA_SET_AGENT, APP_REPLICA_SET, APP_REPLICA_SETS),
];

impl Pod {
    /// Returns the set of an active pod.
    fn counted(&self) -> Option<Symbol> {
        self.set.filter(|_| self.active)
    }
}

/// Checks the preconditions of a delete when it is sent.
pub(super) fn sent(context: &Context, request: &Request, sent: &Sent, found: &mut Found) {
    let is_controller = CONTROLLERS.iter().any(|it| it.0 == sent.agent);
    if sent.verb != Verb::Delete || sent.collection != PODS || sent.actor.is_none() || !is_controller {
        return;
    }
    let body: Conditions<'_> = serde_json::from_slice(&request.body).unwrap_or_default();
    let preconditions = body.preconditions;
    if preconditions.uid.is_none() || preconditions.resource_version.is_none() {
        found.add(
            "S6",
            format!(
                "the DELETE of pod {}/{} by {} has no uid or no resourceVersion: it could delete a pod that was released",
                request.namespace,
                request.name,
                context.sender(sent),
            ),
        );
    }
}

impl Replicas {
    pub(super) fn commit(&mut self, context: &Context, change: &Change, found: &mut Found) {
        let new = context.model.get(change.uid);
        let collection = new.or(change.old.as_ref()).map(|it| it.collection);
        match collection {
            Some(PODS) => self.commit_pod(context, change, new, found),
            Some(REPLICA_SETS | REPLICATION_CONTROLLERS | APP_REPLICA_SETS) => {
                self.commit_set(change, new);
                self.check_status(context, change.uid, change.at, found);
            }
            _ => {}
        }
    }

    fn commit_set(&mut self, change: &Change, new: Option<&Object>) {
        let Some(Object {
            detail: Detail::Set { replicas, .. },
            ..
        }) = new
        else {
            self.sets.remove(&change.uid);
            return;
        };
        let set = self.sets.entry(change.uid).or_default();
        let before = set.replicas.last().unwrap_or(0);
        set.replacements.allow(replicas - before);
        set.replicas.push(change.revision, *replicas);
    }

    fn commit_pod(&mut self, context: &Context, change: &Change, new: Option<&Object>, found: &mut Found) {
        let before = self.pods.get(&change.uid).copied();
        let after = new.map(|new| observe(context, before, change, new));
        let (was, is) = (
            before.and_then(|it| it.counted()),
            after.and_then(|it| it.counted()),
        );
        match after {
            Some(after) => self.pods.insert(change.uid, after),
            None => self.pods.remove(&change.uid),
        };
        let by = actor(change);
        if was != is {
            if let Some(set) = was.and_then(|it| self.sets.get_mut(&it)) {
                set.active -= 1;
                set.losses.push((change.revision, by));
                if let Some(pod) = after.or(before) {
                    set.replacements.lost(&pod, new, change.at);
                }
            }
            if let Some(set) = is {
                let set = self.sets.entry(set).or_default();
                set.active += 1;
                if before.is_some() {
                    set.adoptions.push((change.at, by));
                }
            }
        }
        if let Some(set) = is.or(was) {
            self.check_status(context, set, change.at, found);
        }
        let Some(sent) = &change.request else { return };
        let controller = CONTROLLERS.iter().find(|it| it.0 == sent.agent);
        if let (Verb::Delete, Some(old)) = (sent.verb, &change.old) {
            check_kind(context, change, sent, old, controller.map(|it| it.1), found);
        }
        let Some((_, _, owners)) = controller.filter(|_| !sent.is_repeated()) else {
            return;
        };
        match (sent.verb, was, is) {
            (Verb::Create, None, Some(uid)) => {
                self.check_create(context, change, sent, (uid, *owners), found);
                if let (Some(set), Some(by)) = (self.sets.get_mut(&uid), change.actor()) {
                    let delay = set.replacements.delay(change.at);
                    let within = context.rules.follows_within;
                    if let Some(delay) = delay.filter(|it| within.is_some_and(|within| *it > within)) {
                        let message =
                            format!("{} replaces a pod that ran after {delay:?}", name(context, uid));
                        found.add("L1", message);
                    }
                    let bound = set.replacements.created(by, change.at, &context.rules);
                    if let Err(count) = bound {
                        found.add("B4", too_many(context, uid, count));
                    }
                }
            }
            (Verb::Delete, Some(uid), None) if !sent.late => {
                self.check_delete(context, change, sent, (uid, *owners), found);
            }
            _ => {}
        }
    }

    /// Checks that the status of a set follows its pods in time.
    fn check_status(&mut self, context: &Context, uid: Symbol, at: Duration, found: &mut Found) {
        let (Some(within), Some(object)) = (context.rules.follows_within, context.model.get(uid)) else {
            return;
        };
        let Detail::Set { pods, available, .. } = object.detail else {
            return;
        };
        let dependents = context.model.dependents(uid);
        let active: Vec<&Object> = dependents.filter(|it| it.is_active()).collect();
        let is_ready = |it: &&&Object| {
            matches!(
                it.detail,
                Detail::Pod {
                    ready: Some(true),
                    ..
                }
            )
        };
        let count = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
        let counts = (count(active.len()), count(active.iter().filter(is_ready).count()));
        let set = self.sets.entry(uid).or_default();
        if set.counts != counts {
            set.counts = counts;
            set.stale_since = Some(at);
        }
        if (pods, available) != counts {
            return;
        }
        let delay = set.stale_since.take().map(|since| at.saturating_sub(since));
        if let Some(delay) = delay.filter(|it| *it > within) {
            let message = format!(
                "the status of {} follows its pods after {delay:?}",
                context.name(object)
            );
            found.add("L1", message);
        }
    }

    fn check_create(
        &self,
        context: &Context,
        change: &Change,
        sent: &Sent,
        (uid, owners): (Symbol, Symbol),
        found: &mut Found,
    ) {
        let (Some(pods), Some(owner)) = (self.sets.get(&uid), context.model.get(uid)) else {
            return;
        };
        if is_unexpected(context, sent, context.model.get(change.uid)) {
            return;
        }
        let known = context.requests.known_revision(sent, owners);
        // After a create without a response, its sender reads that the pod is absent, and may adopt another one.
        let process = |it: Option<Actor>| it.map(|it| it.process);
        let by_sender = |(at, by): &&(Duration, Option<Actor>)| {
            sent.late && *at >= sent.at && process(*by) == process(sent.actor)
        };
        let adopted = pods.adoptions.iter().filter(by_sender);
        let adopted = i64::try_from(adopted.count()).unwrap_or(i64::MAX);
        let most = pods.replicas.since(known).max().map(|it| it + adopted);
        let Some(most) = most.filter(|it| pods.active > *it) else {
            return;
        };
        // Pods that the controller could not know do not count.
        let shown = context.requests.known_revision(sent, PODS);
        let counted = context.model.dependents(uid).filter(|it| {
            let pod = self.pods.get(&it.uid).filter(|it| it.counted() == Some(uid));
            // The API may refuse the release of a pod that the selector does not match, or did not match.
            let counts = |it: &Pod| it.selected <= shown && !sent.may_ignore(it.revision, it.by, shown);
            pod.is_some_and(counts) && selects(owner, it)
        });
        let counted: Vec<&Object> = counted.collect();
        if i64::try_from(counted.len()).unwrap_or(i64::MAX) > most {
            let names: Vec<String> = counted
                .iter()
                .map(|it| context.text(it.name).to_owned())
                .collect();
            found.add(
                "S5",
                format!(
                    "{} has {} active pods after the create at revision {} by {}, of at most {most} since revision \
                     {known}: {}",
                    context.name(owner),
                    counted.len(),
                    change.revision,
                    context.sender(sent),
                    names.join(", "),
                ),
            );
        }
    }

    fn check_delete(
        &self,
        context: &Context,
        change: &Change,
        sent: &Sent,
        (uid, owners): (Symbol, Symbol),
        found: &mut Found,
    ) {
        let (Some(pods), Some(owner)) = (self.sets.get(&uid), context.model.get(uid)) else {
            return;
        };
        let known = context.requests.known_revision(sent, owners);
        let Some(least) = pods.replicas.since(known).min().filter(|it| pods.active < *it) else {
            return;
        };
        // Pods that the controller could still count as active.
        let shown = context.requests.known_revision(sent, PODS);
        let unknown = pods
            .losses
            .iter()
            .filter(|(revision, by)| sent.may_ignore(*revision, *by, shown));
        let active = pods.active + i64::try_from(unknown.count()).unwrap_or(i64::MAX);
        if active < least {
            found.add(
                "S5",
                format!(
                    "{} has {active} active pods after the delete of {} at revision {} by {}, of at least {least} since \
                     revision {known}",
                    context.name(owner),
                    change.old.as_ref().map_or_else(String::new, |it| context.name(it)),
                    change.revision,
                    context.sender(sent),
                ),
            );
        }
    }
}

/// Returns the actor of a change by a controller of pods; none if the sender does not know it.
fn actor(change: &Change) -> Option<Actor> {
    let sent = change.request.as_ref()?;
    if !CONTROLLERS.iter().any(|it| it.0 == sent.agent) {
        return None;
    }
    let expected = !sent.is_repeated() && (sent.verb == Verb::Create || !sent.late);
    sent.actor.filter(|_| expected)
}

/// Returns whether a late create was executed although its sender has repeated it, because the pod was removed since then: nothing
/// prevents that, and the sender learns of the other pod by its event.
fn is_unexpected(context: &Context, sent: &Sent, created: Option<&Object>) -> bool {
    sent.late
        && sent.verb == Verb::Create
        && created.is_some_and(|it| context.model.was_freed(it, sent.position))
}

fn observe(context: &Context, before: Option<Pod>, change: &Change, new: &Object) -> Pod {
    let Detail::Pod { running, ready, .. } = new.detail else {
        return before.unwrap_or_else(|| unowned(change));
    };
    let is_set = |it: &&Reference| CONTROLLERS.iter().any(|(_, kind, _)| it.kind == *kind);
    let mut pod = before.unwrap_or_else(|| unowned(change));
    let was = pod.counted();
    pod.set = new.controller().filter(is_set).map(|it| it.uid);
    pod.active = new.is_active();
    pod.ready |= ready == Some(true);
    if running && pod.running.is_none() {
        pod.running = Some(change.at);
    }
    if pod.counted() != was {
        let sender = change.request.as_ref();
        let unexpected = sender.is_some_and(|it| is_unexpected(context, it, Some(new)));
        (pod.revision, pod.by) = (change.revision, actor(change).filter(|_| !unexpected));
    }
    let set = pod.set.and_then(|it| context.model.get(it));
    if let (Some(old), Some(set)) = (&change.old, set)
        && !has_equal_labels(old, new)
        && selects(set, old) != selects(set, new)
    {
        pod.selected = change.revision;
    }
    pod
}

fn unowned(change: &Change) -> Pod {
    Pod {
        set: None,
        active: false,
        revision: change.revision,
        by: None,
        selected: 0,
        created: change.at,
        running: None,
        ready: false,
    }
}

/// Checks that the controller of a deleted pod has the kind that the sender reconciles.
fn check_kind(
    context: &Context,
    change: &Change,
    sent: &Sent,
    pod: &Object,
    kind: Option<Symbol>,
    found: &mut Found,
) {
    if matches!(sent.agent, COLLECTOR | KUBELET) || !change.is_deletion(context.model.get(change.uid)) {
        return;
    }
    let controller = pod.controller();
    if kind.is_none() || controller.map(|it| it.kind) != kind {
        found.add(
            "S6",
            format!(
                "{} was deleted at revision {} by {}, but its controller is {}",
                context.name(pod),
                change.revision,
                context.sender(sent),
                controller.map_or("no object".to_owned(), |it| context.reference(it)),
            ),
        );
    }
}

fn name(context: &Context, set: Symbol) -> String {
    let set = context.model.get(set);
    set.map_or_else(String::new, |it| context.name(it))
}

fn too_many(context: &Context, set: Symbol, count: usize) -> String {
    let name = name(context, set);
    format!("{name} has {count} replacements of pods that did not run, in one minute")
}
