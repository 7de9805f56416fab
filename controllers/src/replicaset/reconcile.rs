//! The reconciler of owners of pods: observes, plans, acts, and writes the status.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use steersman_manager::cache::{Cache, Caches, Index, Lookup};
use steersman_manager::client::Reader;
use steersman_manager::controller::{
    self, Action, Builder, ControllerError, QueueController, ReconcileContext, ReconcileError, Reconciler,
};
use steersman_manager::env::Env;
use steersman_manager::events::{EventType, Recorder};
use steersman_manager::expectations::Expectations;
use steersman_manager::handler::Handler;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Uid};
use steersman_manager::revived;
use steersman_manager::selector::Selector;
use steersman_manager::source::Source;
use tokio::time::Instant;

use super::backoff::ReplacementBackoff;
use super::plan;
use super::status::{self, STATUS_INTERVAL, ScaleResult, Status};
use super::{Metrics, Owner, OwnerKind, PODS, Pod};
use crate::support::memory::{BEHIND, Memory};
use crate::support::pod_control::{Failure, PodControl};
use crate::support::write_backoff::WriteBackoff;

/// The time until the next sync while the API server does not serve the resource, unless an event comes first.
const UNSERVED_RETRY: Duration = Duration::from_secs(10);
/// The time after which a sync is dropped, with few workers.
const SYNC_TIMEOUT_MIN: Duration = Duration::from_mins(5);
/// The same time per worker: the workers share a rate limiter, and a sync sends up to 1000 requests.
const SYNC_TIMEOUT_PER_WORKER: Duration = Duration::from_mins(1);
/// The shortest requeue delay: a delay of zero counts as a failure.
const REQUEUE_MIN: Duration = Duration::from_millis(1);

/// Reconciles owners of one kind.
#[derive(Debug)]
pub struct ReplicaSetReconciler {
    pub(super) kind: OwnerKind,
    pub(super) caches: Caches,
    pub(super) owners: Cache<Owner>,
    pub(super) pods: Cache<Pod>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) expectations: Expectations,
    pub(super) memory: Memory<Remembered>,
    /// The API server has dropped a field of a status in this term.
    pub(super) drops_fields: AtomicBool,
}

/// State of one owner between its syncs.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) backoff: ReplacementBackoff,
    /// The time since which the status differs from the written one.
    status_changed: Option<Instant>,
    /// The writes of a status that another client overwrites.
    status_writes: WriteBackoff<u64>,
    /// The time until which creates are suspended because the namespace is terminating.
    pub(super) creates_resume: Option<Instant>,
}

/// Builds the controller of owners of `kind`.
///
/// # Panics
/// Outside a tokio runtime.
#[expect(clippy::too_many_arguments, reason = "one argument per dependency")]
pub fn build(
    env: &Env,
    caches: &Caches,
    client: Reader,
    registry: &Registry,
    recorder: Recorder,
    metrics: Metrics,
    kind: &OwnerKind,
    workers: usize,
) -> Result<QueueController<ReplicaSetReconciler>, ControllerError> {
    let (owners, pods) = (caches.of::<Owner>(&kind.resource), caches.of::<Pod>(&PODS));
    for resource in [&kind.resource, &PODS] {
        metrics.init_skips(resource);
    }
    let reconciler = ReplicaSetReconciler {
        kind: kind.clone(),
        caches: caches.clone(),
        owners: owners.clone(),
        pods: pods.clone(),
        recorder,
        metrics,
        expectations: Expectations::new(),
        memory: Memory::default(),
        drops_fields: AtomicBool::new(false),
    };
    let options = controller::Options {
        workers,
        timeout: SYNC_TIMEOUT_MIN
            .max(SYNC_TIMEOUT_PER_WORKER.saturating_mul(u32::try_from(workers).unwrap_or(u32::MAX))),
        queue: Some(kind.queue.to_owned()),
        ..controller::Options::default()
    };
    let pod_handler = {
        let (kind, owners, by_uid) = (kind.clone(), owners.clone(), owners.index_uid());
        Handler::map(move |pod: &Pod| owners_of(&kind, &owners, &by_uid, pod))
    };
    Builder::new(kind.name, options, reconciler)
        .watch(Source::new(owners, Handler::for_object()))
        .watch(Source::new(pods, pod_handler))
        .build(env, client, registry)
}

/// Returns the owner that controls a pod, or all owners that select a pod without a controller.
fn owners_of(kind: &OwnerKind, owners: &Cache<Owner>, by_uid: &Index<Owner>, pod: &Pod) -> Vec<Key> {
    let meta = &pod.metadata;
    if let Some(controller) = meta.controller() {
        if controller.kind != *kind.resource.kind {
            return Vec::new();
        }
        let owner = by_uid.owner(&meta.namespace, controller);
        return owner.map(|it| it.metadata.key()).into_iter().collect();
    }
    let owners = owners.list_namespace(&meta.namespace).into_iter();
    let selects = |it: &Arc<Owner>| it.selector().is_ok_and(|selector| selector.matches(&meta.labels));
    owners.filter(selects).map(|it| it.metadata.key()).collect()
}

impl Reconciler for ReplicaSetReconciler {
    fn kind(&self, _: &Key) -> &str {
        &self.kind.resource.kind
    }

    async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        self.memory.enter(context.term, || {
            self.expectations.clear();
            self.drops_fields.store(false, Ordering::Relaxed);
        });
        let owner = match self.owners.get(&key) {
            Lookup::Present(owner) => owner,
            Lookup::Absent => {
                self.memory.forget(&key);
                self.expectations.forget(&key);
                return Ok(Action::Done);
            }
            // The owner exists but cannot be decoded.
            Lookup::Undecodable => return Ok(Action::Done),
        };
        // If the kind was removed, the cached owners may be gone with it: no pods are created for them.
        if self.owners.is_unserved() {
            return Ok(Action::Postpone(UNSERVED_RETRY));
        }
        self.remember(&key, &owner.metadata.uid, context.env.clock.now());
        if self.is_stale(&key, &context.env) {
            return Ok(Action::Postpone(BEHIND));
        }
        let pods = PodControl {
            resource: &self.kind.resource,
            owner: &owner.metadata,
            key: &key,
            client: &context.client,
            env: &context.env,
            caches: &self.caches,
            expectations: &self.expectations,
            written: &self.memory.written,
            recorder: &self.recorder,
            stop: &context.stop,
        };
        self.sync(&owner, &pods).await
    }
}

impl ReplicaSetReconciler {
    /// Starts with fresh state if the owner is a new one under an old name.
    fn remember(&self, key: &Key, uid: &Uid, now: Instant) {
        let start = || Remembered {
            backoff: ReplacementBackoff::starting_at(now),
            status_changed: None,
            status_writes: WriteBackoff::default(),
            creates_resume: None,
        };
        if self.memory.track(key, uid, start) {
            self.expectations.forget(key);
        }
    }

    /// Reports whether a cache does not show the writes of earlier syncs yet.
    pub(super) fn is_stale(&self, key: &Key, env: &Env) -> bool {
        let resource = self.memory.behind(key, env.clock.now(), &self.caches);
        if let Some(resource) = &resource {
            self.metrics.record_skip(resource);
        }
        resource.is_some()
    }

    /// Observes, plans, acts, and writes the status whether or not the actions succeeded. An error keeps every wake-up.
    async fn sync(&self, owner: &Owner, pods: &PodControl<'_>) -> Result<Action, ReconcileError> {
        let clock = &pods.env.clock;
        let selector = match validate(owner) {
            Ok(selector) => selector,
            Err(failure) => return self.report_invalid(owner, pods, failure).await,
        };
        let Some((mut snapshot, unobserved)) = self.observe(owner, selector, pods).await else {
            return Ok(Action::Postpone(BEHIND));
        };
        let plan = plan::plan(&snapshot, clock.wall());
        let outcome = self.act(pods, &snapshot, &plan).await;
        if outcome.stopped {
            return Ok(Action::Done);
        }
        let claimed = outcome.claimed && unobserved.is_none();
        let error = match unobserved.or(outcome.error) {
            Some(error) if error.is_fenced() => return Err(error),
            error => error,
        };
        let now = clock.wall();
        if !claimed {
            // Pods that were not adopted do not count.
            snapshot
                .claims
                .active
                .retain(|it| it.metadata.controller().is_some());
        }
        let status = status::compute(&self.kind, owner, &snapshot.claims, &outcome.scale, now);
        // A status that waits would wait for the retry of the failed action.
        let may_wait = error.is_none() && !outcome.conflict || revived!(B2);
        let written = self
            .update_status(owner, pods, status, &outcome.scale, may_wait)
            .await;
        let available = status::next_available(owner, &snapshot.claims, now);
        let (refused, delayed) = match written {
            Ok(delay) => (None, delay),
            Err(error) => (Some(error), None),
        };
        let wake_up = [available, outcome.wake_up, delayed].into_iter().flatten().min();
        // No request is sent again before its Retry-After.
        let errors = [error, refused].into_iter().flatten();
        if let Some(error) = errors.max_by_key(ReconcileError::retry_after) {
            return Err(error.again_within(wake_up.filter(|_| !revived!(B2))));
        }
        if outcome.conflict {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        // Not after an error: its retry resolves them.
        let wake_up = wake_up.into_iter().chain(self.resolve_in(pods)).min();
        Ok(wake_up.map_or(Action::Done, |it| Action::RequeueAfter(it.max(REQUEUE_MIN))))
    }

    /// Writes a changed status, unless it is about to change again and `may_wait`. Returns the time that the write waits.
    async fn update_status(
        &self,
        owner: &Owner,
        pods: &PodControl<'_>,
        status: Status,
        result: &ScaleResult,
        may_wait: bool,
    ) -> Result<Option<Duration>, ReconcileError> {
        let (key, present) = (pods.key, &owner.status);
        let now = pods.env.clock.now();
        if self.changes(&status, present).is_none() {
            self.memory.with(key, |it| it.status_changed = None);
            return Ok(None);
        }
        let is_final = status.is_settled(owner.replicas()) || status.conditions != present.conditions;
        if may_wait && !is_final {
            let since = self.memory.with(key, |it| *it.status_changed.get_or_insert(now));
            let left = since.map_or(STATUS_INTERVAL, |since| {
                STATUS_INTERVAL.saturating_sub(now - since)
            });
            if !left.is_zero() {
                return Ok(Some(left));
            }
        }
        let content = status.digest();
        let delay = self.memory.with(key, |it| it.status_writes.delay(content, now));
        if let Some(delay) = delay.flatten() {
            if delay.is_new {
                tracing::warn!("Another client overwrites the status, writing it again later");
            }
            return Ok(Some(delay.left));
        }
        self.write_status(pods, owner, status, result).await?;
        // Not after a failure: the retry would wait, and a sync that only waits resets the backoff.
        self.memory.with(key, |it| {
            it.status_changed = None;
            it.status_writes.wrote(content, now);
        });
        Ok(None)
    }

    /// Reports an invalid spec once. Nothing else happens until the spec changes.
    async fn report_invalid(
        &self,
        owner: &Owner,
        pods: &PodControl<'_>,
        failure: Failure,
    ) -> Result<Action, ReconcileError> {
        let (generation, now) = (owner.metadata.generation, pods.env.clock.wall());
        let Failure { reason, message } = failure.clone();
        let result = ScaleResult::Failed(failure);
        let status = Status {
            observed_generation: generation,
            conditions: status::updated_conditions(&owner.status, generation, &result, now),
            ..owner.status.clone()
        };
        if status.conditions != owner.status.conditions {
            pods.event(EventType::Warning, reason, &message);
        }
        if self.changes(&status, &owner.status).is_some() {
            self.write_status(pods, owner, status, &result).await?;
        }
        Ok(Action::Done)
    }
}

/// Returns the selector of an owner with a valid spec.
fn validate(owner: &Owner) -> Result<&Selector, Failure> {
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
    // Each pod would be released as soon as it is created, and replaced.
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
    fn invalid_spec_is_reported_by_field() {
        let owner = |spec: &str| -> Owner {
            let json = format!(r#"{{"metadata":{{"name":"web"}},"spec":{spec}}}"#);
            serde_json::from_str(&json).expect("an owner")
        };
        let template = r#""template":{"metadata":{"labels":{"a":"b"}}}"#;
        let reason = |spec: String| validate(&owner(&spec)).err().map(|it| it.reason);
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
            // It would release the pods that it creates.
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
