//! One sync of an owner, and the engine as a controller.

mod look;
mod manage;

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::cache::{Cache, Caches, Lookup};
use coxswain_manager::client::Client;
use coxswain_manager::controller::{
    self, Action, Builder, Context, Controller, ControllerError, ReconcileError, Reconciler,
};
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, Recorder};
use coxswain_manager::expectations::Expectations;
use coxswain_manager::handler::Handler;
use coxswain_manager::object::{Key, Uid};
use coxswain_manager::selector::Selector;
use coxswain_manager::source::Source;
use prometheus::Registry;
use tokio::time::Instant;

use self::manage::Attempt;
use super::act::Hands;
use super::backoff::Backoff;
use super::plan::{self, Claims};
use super::status::{self, Failure, Managed, PACE, Status};
use super::{Kind, Metrics, Owner, PODS, Pod};
use crate::support::memory::{BEHIND, Memory};
use crate::support::write_backoff::WriteBackoff;

/// How long a sync waits while the kind is not served, if no event comes before.
const UNSERVED: Duration = Duration::from_secs(10);

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
    memory: Memory<Known>,
}

/// What is remembered of an owner.
#[derive(Debug)]
struct Known {
    backoff: Backoff,
    /// Since when the status is another one than was written.
    unwritten: Option<Instant>,
    /// The writes of a status that another client overwrites.
    statuses: WriteBackoff<u64>,
    /// The namespace is terminating, and no create is sent before this time.
    no_creates_before: Option<Instant>,
}

/// The actions of a sync.
enum Acted {
    /// The pods that were found, and the attempt at their number.
    Done(Claims, Attempt),
    /// The cache does not show the pods as they are yet.
    Behind(Action),
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
        memory: Memory::default(),
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
        self.memory.enter(context.term, || self.expectations.clear());
        let owner = match self.owners.get(&key) {
            Lookup::Present(owner) => owner,
            Lookup::Absent => {
                self.memory.forget(&key);
                self.expectations.forget(&key);
                return Ok(Action::Done);
            }
            // It is there, and nobody can tell what it wants.
            Lookup::Undecodable => return Ok(Action::Done),
        };
        // What the cache shows may all be gone with its kind: nothing is made for it.
        if self.owners.is_unserved() {
            return Ok(Action::Postpone(UNSERVED));
        }
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
            written: &self.memory.written,
            recorder: &self.recorder,
            stop: &context.stop,
        };
        self.sync(&hands).await
    }
}

impl Engine {
    /// An owner under a name that another one had starts with nothing.
    fn know(&self, key: &Key, uid: &Uid, now: Instant) {
        let start = || Known {
            backoff: Backoff::starting_at(now),
            unwritten: None,
            statuses: WriteBackoff::default(),
            no_creates_before: None,
        };
        if self.memory.know(key, uid, start) {
            self.expectations.forget(key);
        }
    }

    /// When to come back, if the caches do not show what was written.
    fn behind(&self, key: &Key, env: &Env) -> Option<Action> {
        let resource = self.memory.behind(key, env.clock.now(), &self.caches)?;
        self.metrics.skipped(&resource);
        Some(Action::Postpone(BEHIND))
    }

    /// Acts, then writes the status that was found, whether or not the actions succeeded. An error keeps every wake-up.
    async fn sync(&self, hands: &Hands<'_>) -> Result<Action, ReconcileError> {
        let Hands { owner, key, env, .. } = *hands;
        let selector = match check(owner) {
            Ok(selector) => selector,
            Err(failure) => return self.refuse(hands, &failure).await,
        };
        // Before the pods are read: what is settled here is in what is read there.
        self.settle(key, owner);
        let (claims, attempt) = match self.act(hands, selector).await {
            Ok(Acted::Done(claims, attempt)) => (claims, attempt),
            Ok(Acted::Behind(later)) => return Ok(later),
            Err(error) if error.is_fenced() => return Err(error),
            Err(error) => {
                // What was not adopted does not count.
                let mut claims = plan::claims(owner, selector, &self.candidates(owner));
                claims.active.retain(|it| it.metadata.controller().is_some());
                (claims, Attempt::failed(error))
            }
        };
        if attempt.left {
            // Whoever takes over says how many there are.
            return Ok(Action::Done);
        }
        let managed = match &attempt.failure {
            _ if !attempt.made => Managed::Not,
            None => Managed::Well,
            Some(failure) => Managed::Badly(failure),
        };
        let now = env.clock.wall();
        let wanted = status::wanted(&self.kind, owner, &claims, managed, now);
        // A status that is put off would wait for the retry of what failed.
        let may_wait = attempt.error.is_none() && !attempt.again;
        let told = self.tell(hands, wanted.clone(), managed, may_wait).await;
        let available = (wanted.ready_replicas != wanted.available_replicas).then(|| {
            let least = u64::try_from(owner.min_ready_seconds()).unwrap_or(0);
            status::next_available(owner, &claims, now).unwrap_or(Duration::from_secs(least))
        });
        let next = [available, attempt.more_in].into_iter().flatten().min();
        let paced = match (told, attempt.error) {
            (Err(error), _) | (Ok(_), Some(error)) => return Err(error.again_within(next)),
            (Ok(_), None) if attempt.again => return Ok(Action::RequeueAfter(Duration::ZERO)),
            (Ok(paced), None) => paced,
        };
        // Not with an error: the retry looks for what was not seen.
        let next = [next, paced, self.unseen(hands)].into_iter().flatten().min();
        // With no time at all it would be a failure.
        let soon = Duration::from_millis(1);
        Ok(next.map_or(Action::Done, |it| Action::RequeueAfter(it.max(soon))))
    }

    /// Finds out about unknown outcomes, adopts and releases pods, and has the right number of them.
    async fn act(&self, hands: &Hands<'_>, selector: &Selector) -> Result<Acted, ReconcileError> {
        let Hands { owner, key, env, .. } = *hands;
        let doubtful = self.doubtful(hands);
        if !doubtful.is_empty() {
            hands.resolve_deletes(doubtful).await?;
            if let Some(later) = self.behind(key, env) {
                return Ok(Acted::Behind(later));
            }
        }
        let unknown = self.expectations.pending_creates(key, env.clock.now());
        let unused = hands.resolve(&unknown).await?;
        let satisfied = self.expectations.satisfied(key, env.clock.now());
        let claims = plan::claims(owner, selector, &self.candidates(owner));
        hands.release(&claims.release).await?;
        hands.adopt(&claims.adopt).await?;
        let attempt = if satisfied && !owner.metadata.is_terminating() {
            self.manage(hands, &claims, unused).await?
        } else {
            Attempt::default()
        };
        Ok(Acted::Done(claims, attempt))
    }

    /// Writes the status, if it is another one and not about to change again. Answers when to look again, if it is. Only a
    /// status that `may_wait` is put off.
    async fn tell(
        &self,
        hands: &Hands<'_>,
        wanted: Status,
        managed: Managed<'_>,
        may_wait: bool,
    ) -> Result<Option<Duration>, ReconcileError> {
        let Hands { owner, key, env, .. } = *hands;
        let present = &owner.status;
        let now = env.clock.now();
        if wanted.changes(present).is_none() {
            self.memory.with(key, |known| known.unwritten = None);
            return Ok(None);
        }
        let at_rest = wanted.is_at_rest(owner.replicas()) || wanted.conditions != present.conditions;
        if may_wait && !at_rest {
            let since = self.memory.with(key, |known| *known.unwritten.get_or_insert(now));
            let left = since.map_or(PACE, |since| PACE.saturating_sub(now - since));
            if !left.is_zero() {
                return Ok(Some(left));
            }
        }
        let content = wanted.digest();
        let delay = self.memory.with(key, |known| {
            known.unwritten = None;
            known.statuses.delay(content, now)
        });
        if let Some(delay) = delay.flatten() {
            if delay.is_new {
                tracing::warn!(object = %key, kind = %self.kind.resource.kind, "Another client overwrites the status, writing it again later");
            }
            return Ok(Some(delay.left));
        }
        hands.write_status(wanted, managed).await?;
        self.memory.with(key, |known| known.statuses.wrote(content, now));
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
    let invalid = |message| Failure {
        reason: "InvalidSelector",
        message,
    };
    let selector = owner.selector().map_err(|error| invalid(error.to_string()))?;
    // Each pod would be let go as soon as it is made, and the next one made in its place.
    if !selector.matches(&owner.template().labels) {
        let message = "spec.selector does not match the labels of spec.template";
        return Err(invalid(message.to_owned()));
    }
    Ok(selector)
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
        for odd in [
            r#""selector":{}"#,
            r#""selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}"#,
            // It would let go what it makes.
            r#""selector":{"matchLabels":{"a":"c"}}"#,
            r#""selector":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}"#,
        ] {
            assert_eq!(
                reason(format!(r#"{{"replicas":1,{odd},{template}}}"#)),
                Some("InvalidSelector"),
                "{odd}"
            );
        }
        assert_eq!(
            reason(format!(r#"{{"replicas":1,{selector}}}"#)),
            Some("InvalidSelector")
        );
    }
}
