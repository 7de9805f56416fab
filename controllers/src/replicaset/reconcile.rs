//! One sync of an owner, and the engine as a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::cache::{Cache, Caches, Lookup, Readiness, Written};
use coxswain_manager::client::{Client, ClientError, Term};
use coxswain_manager::controller::{
    self, Action, Builder, Context, Controller, ControllerError, ReconcileError, Reconciler,
};
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, Recorder};
use coxswain_manager::expectations::Expectations;
use coxswain_manager::handler::Handler;
use coxswain_manager::object::{Key, Text, Uid};
use coxswain_manager::selector::Selector;
use coxswain_manager::source::Source;
use prometheus::Registry;
use tokio::time::Instant;

use super::act::{Hands, Outcome};
use super::backoff::Backoff;
use super::plan::{self, Claims, Plan};
use super::status::{self, Failure, Managed, PACE, Status};
use super::template::Body;
use super::victims::Crowds;
use super::{Kind, Metrics, Owner, PODS, Pod, naming};

/// How long a sync that the caches are not ready for waits, if no event comes before.
const BEHIND: Duration = Duration::from_millis(500);

/// How long until what was done and is not shown is looked for.
const UNSEEN: Duration = Duration::from_secs(30);

/// The engine for one kind of owner, on its caches.
#[derive(Debug)]
pub struct Engine {
    kind: Kind,
    caches: Caches,
    owners: Cache<Owner>,
    pods: Cache<Pod>,
    recorder: Recorder,
    metrics: Metrics,
    expectations: Expectations,
    written: Written,
    memory: Mutex<Memory>,
}

/// What is remembered from sync to sync, in one term.
#[derive(Debug, Default)]
struct Memory {
    term: Option<Term>,
    owners: BTreeMap<Key, Known>,
}

#[derive(Debug)]
struct Known {
    uid: Uid,
    backoff: Backoff,
    /// Since when the status is another one than was written.
    unwritten: Option<Instant>,
}

/// Builds the engine for owners of `kind`.
///
/// # Panics
/// Outside a tokio runtime.
#[expect(
    clippy::too_many_arguments,
    reason = "what a controller is made of, named one by one"
)]
pub fn build(
    env: &Env,
    caches: &Caches,
    client: Client,
    registry: &Registry,
    recorder: Recorder,
    metrics: Metrics,
    kind: &Kind,
    workers: usize,
) -> Result<Controller<Engine>, ControllerError> {
    let (owners, pods) = (caches.of::<Owner>(&kind.resource), caches.of::<Pod>(&PODS));
    let engine = Engine {
        kind: kind.clone(),
        caches: caches.clone(),
        owners: owners.clone(),
        pods: pods.clone(),
        recorder,
        metrics,
        expectations: Expectations::new(),
        written: Written::default(),
        memory: Mutex::default(),
    };
    let how = controller::Options {
        workers,
        queue: Some(kind.queue.to_owned()),
        ..controller::Options::default()
    };
    let concerned = {
        let (kind, owners) = (kind.clone(), owners.clone());
        Handler::map(move |pod: &Pod| concerned(&kind, &owners, pod))
    };
    Builder::new(kind.name, how, engine)
        .watch(Source::new(owners, Handler::for_object()))
        .watch(Source::new(pods, concerned))
        .build(env, client, registry)
}

/// The owners that a pod concerns: the one that manages it, or all that would take it.
fn concerned(kind: &Kind, owners: &Cache<Owner>, pod: &Pod) -> Vec<Key> {
    let meta = &pod.metadata;
    if let Some(controller) = meta.controller() {
        if controller.kind != *kind.resource.kind {
            return Vec::new();
        }
        let key = Key::new(meta.namespace.clone(), controller.name.clone());
        let is_owner = |owner: Arc<Owner>| owner.metadata.uid == controller.uid;
        let known = owners.get(&key).present().is_some_and(is_owner);
        return if known { vec![key] } else { Vec::new() };
    }
    let owners = owners.list_namespace(&meta.namespace).into_iter();
    let would_take = |it: &Arc<Owner>| it.selector().is_ok_and(|selector| selector.matches(&meta.labels));
    owners.filter(would_take).map(|it| it.metadata.key()).collect()
}

impl Reconciler for Engine {
    async fn reconcile(&self, context: Context, key: Key) -> Result<Action, ReconcileError> {
        self.enter(context.term);
        let owner = match self.owners.get(&key) {
            Lookup::Present(owner) => owner,
            Lookup::Absent => {
                self.forget(&key);
                return Ok(Action::Done);
            }
            // It is there, and nobody can tell what it wants.
            Lookup::Unknown => return Ok(Action::Done),
        };
        self.know(&key, &owner.metadata.uid, context.env.clock.now());
        if let Some(later) = self.behind(&key, &context.env) {
            return Ok(later);
        }
        let hands = Hands {
            kind: &self.kind,
            owner: &owner,
            key: &key,
            client: &context.client,
            env: &context.env,
            caches: &self.caches,
            expectations: &self.expectations,
            written: &self.written,
            recorder: &self.recorder,
            stop: &context.stop,
        };
        self.sync(&hands).await
    }
}

/// What has become of the number of pods.
#[derive(Default)]
struct Attempt {
    /// None if it was not made.
    outcome: Option<Outcome>,
    /// When more pods may be made.
    more_in: Option<Duration>,
}

impl Engine {
    /// When to come back, if the caches do not show what was written.
    fn behind(&self, key: &Key, env: &Env) -> Option<Action> {
        match self.written.ready(key, env.clock.now(), &self.caches) {
            Readiness::Ready => return None,
            Readiness::Behind { resource, .. } => self.metrics.skipped(&resource),
            Readiness::Stuck { resource } => {
                self.metrics.skipped(&resource);
                tracing::warn!(%resource, "The cache does not show what was written: listing again");
                self.caches.relist(&resource);
            }
        }
        Some(Action::RequeueAfter(BEHIND))
    }

    async fn sync(&self, hands: &Hands<'_>) -> Result<Action, ReconcileError> {
        let Hands { owner, key, env, .. } = *hands;
        let selector = match check(owner) {
            Ok(selector) => selector,
            Err(failure) => return self.refuse(hands, &failure).await,
        };
        // Before the pods are read: what is settled here is in what is read there.
        self.settle(key, owner);
        let doubtful = self.doubtful(hands);
        if !doubtful.is_empty() {
            hands.resolve_deletes(doubtful).await?;
            if let Some(later) = self.behind(key, env) {
                return Ok(later);
            }
        }
        let unknown = self.expectations.pending_creates(key, env.clock.now());
        let unused = hands.resolve(&unknown).await?;
        let satisfied = self.expectations.satisfied(key, env.clock.now());
        let pods = self.candidates(owner);
        let claims = plan::claims(owner, selector, &pods);
        hands.release(&claims.release).await?;
        hands.adopt(&claims.adopt).await?;
        let attempt = if satisfied && !owner.metadata.is_deleting() {
            self.manage(hands, &claims, unused).await
        } else {
            Attempt::default()
        };
        let Attempt { outcome, more_in } = attempt;
        if outcome.as_ref().is_some_and(|it| it.left) {
            // Whoever takes over says how many there are.
            return Ok(Action::Done);
        }
        let (failed, error, again) = match outcome {
            None => (None, None, false),
            Some(Outcome { failure, again, .. }) => {
                let (failed, error) = failure.unzip();
                (Some(failed), error, again)
            }
        };
        if let Some(error @ ClientError::Fenced { .. }) = error {
            return Err(error.into());
        }
        let managed = match &failed {
            None => Managed::Not,
            Some(None) => Managed::Well,
            Some(Some(failure)) => Managed::Badly(failure),
        };
        let now = env.clock.wall();
        let wanted = status::wanted(&self.kind, owner, &claims, managed, now);
        let paced = self.tell(hands, wanted.clone(), managed).await?;
        match error {
            Some(error) => return Err(error.into()),
            None if again => return Ok(Action::RequeueAfter(Duration::ZERO)),
            None => {}
        }
        let available = (wanted.ready_replicas != wanted.available_replicas).then(|| {
            let least = u64::try_from(owner.min_ready_seconds()).unwrap_or(0);
            status::next_available(owner, &claims, now).unwrap_or(Duration::from_secs(least))
        });
        let unseen = self.unseen(hands);
        let next = [paced, available, more_in, unseen].into_iter().flatten().min();
        // With no time at all it would be a failure.
        let soon = Duration::from_millis(1);
        Ok(next.map_or(Action::Done, |it| Action::RequeueAfter(it.max(soon))))
    }

    /// Has the right number of pods, as far as it can be had now.
    async fn manage(&self, hands: &Hands<'_>, claims: &Claims, unused: Vec<Text>) -> Attempt {
        let Hands { owner, key, env, .. } = *hands;
        let (now, wall) = (env.clock.now(), env.clock.wall());
        let unseen = self.expectations.pending_creates(key, now);
        let mut unknown = unseen.clone();
        for name in &unused {
            unknown.remove(name);
        }
        let mut missing = plan::missing(owner.replicas(), &claims.active, &unknown);
        if missing > 0 {
            // What cannot be read may be one of them, by its name. It is no reason to delete those that can be.
            unknown.extend(self.unreadable(owner));
            missing = plan::missing(owner.replicas(), &claims.active, &unknown).max(0);
        }
        let crowds = if missing < 0 {
            self.crowds(owner)
        } else {
            Crowds::new()
        };
        let Plan { create, delete } = plan::manage(missing, &claims.active, &crowds, wall);
        let allowed = self.with(key, |known| {
            let backoff = &mut known.backoff;
            backoff.see(&claims.ended, &claims.active, &unseen, now);
            backoff.took(&delete);
            backoff.allow(create, now)
        });
        let more_in = allowed.and_then(|it| it.more_in);
        let names = self.names(hands, unused, allowed.map_or(0, |it| it.now), create);
        let mut outcome = if !delete.is_empty() {
            self.metrics.chosen(&delete, &claims.active, wall);
            hands.delete(&delete).await
        } else if names.is_empty() {
            Outcome::default()
        } else {
            match Body::of(&self.kind, owner) {
                Ok(body) => hands.create(names, &body).await,
                Err(error) => {
                    let what = format!("creating pods of {key}");
                    let message = error.to_string();
                    hands.event(
                        EventType::Warning,
                        "FailedCreate",
                        &format!("Error creating: {message}"),
                    );
                    let failure = Failure {
                        reason: "FailedCreate",
                        message: message.clone(),
                    };
                    let error = ClientError::Invalid {
                        what,
                        reason: message,
                    };
                    Outcome {
                        failure: Some((failure, error)),
                        ..Outcome::default()
                    }
                }
            }
        };
        if create > 0 {
            let made = std::mem::take(&mut outcome.made);
            self.with(key, |known| known.backoff.made(made, create, now));
        }
        Attempt {
            outcome: Some(outcome),
            more_in,
        }
    }

    /// The names of pods that may be the owner's, and cannot be read.
    fn unreadable(&self, owner: &Owner) -> impl Iterator<Item = Text> {
        let base = naming::base(&owner.metadata.name);
        let namespace = owner.metadata.namespace.clone();
        let mut keys = self.pods.undecodable();
        keys.retain(|it| it.namespace == namespace && naming::is_made_of(&base, &it.name));
        keys.into_iter().map(|it| it.name)
    }

    /// So many names: first those that were used already and are not there. Of the rest of these, those that are wanted later
    /// are kept, as a request for one may still be under way; the others will not be used.
    fn names(&self, hands: &Hands<'_>, unused: Vec<Text>, count: usize, wanted: usize) -> Vec<Text> {
        let base = naming::base(&hands.owner.metadata.name);
        let mut unused = unused.into_iter();
        let mut names: BTreeSet<Text> = unused.by_ref().take(count).collect();
        for name in unused.skip(wanted.saturating_sub(count)) {
            self.expectations.not_created(hands.key, &name);
        }
        while names.len() < count {
            names.insert(naming::name(&base, &hands.env.rng));
        }
        names.into_iter().collect()
    }

    /// Writes the status, if it is another one and not about to change again. Answers when to look again, if it is.
    async fn tell(
        &self,
        hands: &Hands<'_>,
        wanted: Status,
        managed: Managed<'_>,
    ) -> Result<Option<Duration>, ReconcileError> {
        let Hands { owner, key, env, .. } = *hands;
        let present = &owner.status;
        let now = env.clock.now();
        if wanted.changes(present).is_none() {
            self.with(key, |known| known.unwritten = None);
            return Ok(None);
        }
        let at_once = wanted.is_at_rest(owner.replicas()) || wanted.conditions != present.conditions;
        if !at_once {
            let since = self.with(key, |known| *known.unwritten.get_or_insert(now));
            let left = since.map_or(PACE, |since| PACE.saturating_sub(now - since));
            if !left.is_zero() {
                return Ok(Some(left));
            }
        }
        self.with(key, |known| known.unwritten = None);
        hands.write_status(wanted, managed).await?;
        Ok(None)
    }

    /// What is asked for makes no sense: it is said once, and nothing is done before it changes.
    async fn refuse(&self, hands: &Hands<'_>, failure: &Failure) -> Result<Action, ReconcileError> {
        let owner = hands.owner;
        let managed = Managed::Badly(failure);
        let (generation, now) = (owner.metadata.generation, hands.env.clock.wall());
        let conditions = status::with(&owner.status, generation, managed, now);
        let wanted = Status {
            observed_generation: generation,
            conditions,
            ..owner.status.clone()
        };
        if wanted.conditions != owner.status.conditions {
            hands.event(EventType::Warning, failure.reason, &failure.message);
        }
        if wanted.changes(&owner.status).is_some() {
            hands.write_status(wanted, managed).await?;
        }
        Ok(Action::Done)
    }

    /// When to look again for what the cache has not shown: what came and went while nobody looked leads to no event. Not
    /// more than a read per second, if it is out of the cache's scope.
    fn unseen(&self, hands: &Hands<'_>) -> Option<Duration> {
        let (key, now) = (hands.key, hands.env.clock.now());
        let names = self.expectations.pending_creates(key, now).len();
        let open = names > 0 || !self.expectations.satisfied(key, now);
        open.then(|| UNSEEN.max(Duration::from_secs(names.try_into().unwrap_or(u64::MAX))))
    }

    /// Strikes off what the cache shows. A pod that was deleted cannot have become somebody else's.
    fn settle(&self, key: &Key, owner: &Owner) {
        let pods = &self.pods;
        let is_absent = |it: &Lookup<Pod>| matches!(it, Lookup::Absent);
        let shown = |name: &Text, _| !is_absent(&pods.get(&Key::new(key.namespace.clone(), name.clone())));
        let mut here: Option<BTreeSet<Uid>> = None;
        let gone = |uid: &Uid| {
            let here = here.get_or_insert_with(|| {
                let all = pods.by_owner(&owner.metadata.uid).into_iter();
                let staying = all.filter(|it| !it.metadata.is_deleting());
                staying.map(|it| it.metadata.uid.clone()).collect()
            });
            !here.contains(uid)
        };
        self.expectations.settle(key, shown, gone);
    }

    /// The pods that the cache shows although they may have been deleted.
    fn doubtful(&self, hands: &Hands<'_>) -> Vec<Arc<Pod>> {
        let uids = self
            .expectations
            .doubtful_deletes(hands.key, hands.env.clock.now());
        if uids.is_empty() {
            return Vec::new();
        }
        let mut pods = self.pods.by_owner(&hands.owner.metadata.uid);
        pods.retain(|it| uids.contains(&it.metadata.uid));
        pods
    }

    /// The pods that may concern an owner: its own, and those that are nobody's.
    fn candidates(&self, owner: &Owner) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.by_owner(&owner.metadata.uid);
        pods.extend(self.pods.unmanaged(&owner.metadata.namespace));
        pods
    }

    /// How many pods of the application there are on each node: of all owners that the manager of this one has. Without a
    /// manager there is no application.
    fn crowds(&self, owner: &Owner) -> Crowds {
        let Some(manager) = owner.manager() else {
            return Crowds::new();
        };
        let related = self.owners.by_owner(manager);
        let related = related.iter();
        let selectors: Vec<&Selector> = related.filter_map(|it| it.selector().ok()).collect();
        plan::crowds(&selectors, &self.pods.list_namespace(&owner.metadata.namespace))
    }

    /// What another term remembers does not count.
    fn enter(&self, term: Term) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.term != Some(term) {
            memory.term = Some(term);
            memory.owners.clear();
            self.expectations.clear();
            self.written.clear();
        }
    }

    /// An owner under a name that another one had starts with nothing.
    fn know(&self, key: &Key, uid: &Uid, now: Instant) {
        if self.with(key, |known| known.uid != *uid) == Some(true) {
            self.forget(key);
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.owners.entry(key.clone()).or_insert_with(|| Known {
            uid: uid.clone(),
            backoff: Backoff::starting_at(now),
            unwritten: None,
        });
    }

    fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.owners.remove(key);
        self.expectations.forget(key);
        self.written.forget(key);
    }

    fn with<T>(&self, key: &Key, with: impl FnOnce(&mut Known) -> T) -> Option<T> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.owners.get_mut(key).map(with)
    }
}

/// The selector of an owner that makes sense.
fn check(owner: &Owner) -> Result<&Selector, Failure> {
    let replicas = owner.replicas();
    if replicas < 0 {
        return Err(Failure {
            reason: "InvalidReplicas",
            message: format!("spec.replicas is {replicas}; it must be 0 or more"),
        });
    }
    owner.selector().map_err(|error| Failure {
        reason: "InvalidSelector",
        message: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said_by_its_field() {
        let owner = |spec: &str| -> Owner {
            let json = format!(r#"{{"metadata":{{"name":"web"}},"spec":{spec}}}"#);
            serde_json::from_str(&json).expect("an owner")
        };
        let template = r#""template":{"metadata":{"labels":{"a":"b"}}}"#;
        let reason = |spec: String| check(&owner(&spec)).err().map(|it| it.reason);
        let selector = r#""selector":{"matchLabels":{"a":"b"}}"#;
        assert_eq!(reason(format!(r#"{{"replicas":1,{selector},{template}}}"#)), None);
        assert_eq!(
            reason(format!(r#"{{"replicas":-1,{selector},{template}}}"#)),
            Some("InvalidReplicas")
        );
        assert_eq!(
            reason(format!(r#"{{"replicas":1,{template}}}"#)),
            Some("InvalidSelector")
        );
        let odd = r#""selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}"#;
        assert_eq!(
            reason(format!(r#"{{"replicas":1,{odd},{template}}}"#)),
            Some("InvalidSelector")
        );
    }
}
