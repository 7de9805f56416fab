//! What was planned, done. Every write site of the engine is here: a pod is created, deleted, adopted, released; the status
//! of an owner is patched. And the live reads that go before them.

use std::collections::BTreeSet;
use std::sync::Arc;

use coxswain_manager::cache::{Caches, PendingWrites};
use coxswain_manager::client::{Client, ClientError, Delete, Patch};
use coxswain_manager::controller::ReconcileError;
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, ObjectRef, Recorder};
use coxswain_manager::expectations::Expectations;
use coxswain_manager::object::{Key, Meta, MetaObject, Resource, Text};
use coxswain_manager::owner::{adopt_patch, release_patch};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::status::{Failure, Managed, Status, with};
use super::template::Body;
use super::{Kind, Owner, PODS, Pod, naming};
use crate::support::errors::{self, is_namespace_terminating};
use crate::support::memory::write_of;

/// How many requests of one sync are under way at once: each may take a connection.
const AT_ONCE: usize = 32;
/// How often another name is tried if one is taken.
const NAMES: usize = 5;

/// Everything that a sync of one owner acts with.
pub(super) struct Hands<'a> {
    pub(super) kind: &'a Kind,
    pub(super) owner: &'a Owner,
    pub(super) key: &'a Key,
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) caches: &'a Caches,
    pub(super) expectations: &'a Expectations,
    pub(super) written: &'a PendingWrites,
    pub(super) recorder: &'a Recorder,
    pub(super) stop: &'a CancellationToken,
}

/// What an attempt at the number of pods has come to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The names of the pods that were made, or may have been.
    pub(super) made: Vec<Text>,
    /// The first failure.
    pub(super) failure: Option<(Failure, ClientError)>,
    /// Something was not as the cache has it: look again.
    pub(super) again: bool,
    /// It was left before all was done, because the engine is to stop.
    pub(super) left: bool,
    /// The namespace is terminating: every create in it is refused.
    pub(super) namespace_terminating: bool,
}

/// What became of one create.
enum Create {
    Created(Text),
    /// Refused, as the namespace is terminating.
    NamespaceTerminating,
    Failed(Text, ClientError),
    /// Not sent.
    Left(Text),
}

/// Why nothing may be adopted.
#[derive(Debug, thiserror::Error)]
#[error("{key} was deleted or replaced since it was read: it adopts nothing")]
struct OwnerChanged {
    key: Key,
}

impl Hands<'_> {
    /// Looks for pods that the cache does not show although they may have been created. Answers the names that are not
    /// there, to be used again.
    pub(super) async fn resolve(&self, unknown: &BTreeSet<Text>) -> Result<Vec<Text>, ClientError> {
        let reads = stream::iter(unknown.clone()).map(|name: Text| async move {
            let read = self.pod(&name).await;
            (name, read)
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).collect().await;
        let mut unused = Vec::new();
        for (name, read) in reads {
            let found = read?;
            if found.as_ref().is_some_and(|pod| !self.is_live(pod)) {
                // Somebody else's, or over: it does not count.
                self.expectations.create_failed(self.key, &name);
                continue;
            }
            // Whatever was answered, it is not known any more what becomes of it. If it is there it counts until the cache
            // shows it; if it is out of the cache's scope, for ever.
            let now = self.env.clock.now();
            self.expectations.expect_creates(self.key, [name.clone()], now);
            if found.is_none() {
                unused.push(name);
            }
        }
        Ok(unused)
    }

    /// Finds out whether these pods, which the cache shows, were deleted. If one was not, the cache has to show it as it is
    /// now before another one is chosen.
    pub(super) async fn resolve_deletes(&self, doubtful: Vec<Arc<Pod>>) -> Result<(), ClientError> {
        let reads = stream::iter(doubtful).map(|pod: Arc<Pod>| async move {
            let read = self.pod(&pod.metadata.name).await;
            (pod, read)
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).collect().await;
        for (pod, read) in reads {
            let uid = &pod.metadata.uid;
            let live = read?.filter(|it| it.metadata.uid == *uid && !it.metadata.is_terminating());
            if let Some(live) = live {
                self.expectations.delete_failed(self.key, uid);
                self.wrote(&PODS, &live.metadata, true);
            } else {
                let now = self.env.clock.now();
                self.expectations.expect_deletes(self.key, [uid.clone()], now);
                self.expectations.delete_succeeded(self.key, uid);
            }
        }
        Ok(())
    }

    /// Takes pods that are nobody's. The first failure ends the sync.
    pub(super) async fn adopt(&self, pods: &[Arc<Pod>]) -> Result<(), ReconcileError> {
        if pods.is_empty() {
            return Ok(());
        }
        let live: Owner = self.client.get(&self.kind.resource, self.key).await?;
        if live.metadata.uid != self.owner.metadata.uid || live.metadata.is_terminating() {
            let key = self.key.clone();
            return Err(ReconcileError::retryable(OwnerChanged { key }));
        }
        let patch = |pod: &Pod| {
            Some(adopt_patch(
                &self.kind.resource,
                &self.owner.metadata,
                &pod.metadata,
            ))
        };
        Ok(self.patch_all(pods, patch, &[]).await?)
    }

    /// Lets pods go that are not meant any more. One that is gone, or not ours any more, is let go already.
    pub(super) async fn release(&self, pods: &[Arc<Pod>]) -> Result<(), ReconcileError> {
        let patch = |pod: &Pod| release_patch(&self.owner.metadata, &pod.metadata);
        Ok(self.patch_all(pods, patch, &[422]).await?)
    }

    async fn patch_all(
        &self,
        pods: &[Arc<Pod>],
        patch: impl Fn(&Pod) -> Option<Value> + Sync,
        fine: &[u16],
    ) -> Result<(), ClientError> {
        let patches: Vec<_> = pods
            .iter()
            .filter_map(|pod| Some((pod.metadata.key(), patch(pod)?)))
            .collect();
        let sent = stream::iter(patches).map(|(key, patch): (Key, Value)| async move {
            let patch = Patch::merge(&patch);
            let answer = self.client.patch::<MetaObject>(&PODS, &key, patch).await;
            (key, answer)
        });
        let answers: Vec<_> = sent.buffered(AT_ONCE).collect().await;
        let mut first = Ok(());
        for (key, answer) in answers {
            match answer {
                Ok(pod) => self.wrote(&PODS, &pod.metadata, true),
                Err(error) if error.is_not_found(&key.name) => {}
                Err(error) if error.code().is_some_and(|code| fine.contains(&code)) => {}
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// Creates pods under these names: one, then two at once, then four and so on, until a lot has a failure, or the namespace
    /// turns out to be terminating. When the engine
    /// is to stop, none is begun: somebody else may be about to make them. Those in `earlier` were sent before, and what became
    /// of that is not known.
    pub(super) async fn create(&self, names: Vec<Text>, earlier: &BTreeSet<Text>, body: &Body) -> Outcome {
        self.expectations
            .expect_creates(self.key, names.iter().cloned(), self.env.clock.now());
        let mut outcome = Outcome::default();
        let (mut left, mut lot) = (names.as_slice(), 1);
        while !left.is_empty() && outcome.failure.is_none() && !outcome.left && !outcome.namespace_terminating
        {
            let (now, later) = left.split_at(lot.min(left.len()));
            let sent = stream::iter(now.to_vec()).map(|name: Text| self.create_one(name, earlier, body));
            let answers: Vec<_> = sent.buffered(AT_ONCE).collect().await;
            for answer in answers {
                match answer {
                    Create::Created(name) => outcome.made.push(name),
                    Create::NamespaceTerminating => outcome.namespace_terminating = true,
                    Create::Left(name) => {
                        self.not_sent(&name, earlier);
                        outcome.left = true;
                    }
                    Create::Failed(name, error) => {
                        let message = self.message(&name, &error);
                        self.warn("FailedCreate", &format!("Error creating: {message}"), &error);
                        let reason = "FailedCreate";
                        if error.is_unknown_outcome() {
                            outcome.made.push(name);
                        }
                        outcome
                            .failure
                            .get_or_insert((Failure { reason, message }, error));
                    }
                }
            }
            (left, lot) = (later, 2 * lot);
        }
        for name in left {
            self.not_sent(name, earlier);
        }
        outcome
    }

    /// This request was not done. One that was sent before it may still arrive: then the name is looked for once more.
    fn not_sent(&self, name: &Text, earlier: &BTreeSet<Text>) {
        if !earlier.contains(name) {
            self.expectations.create_failed(self.key, name);
        }
    }

    async fn create_one(&self, mut name: Text, earlier: &BTreeSet<Text>, body: &Body) -> Create {
        let namespace = &self.key.namespace;
        for _ in 0..NAMES {
            if self.stop.is_cancelled() {
                return Create::Left(name);
            }
            let body = body.named(&name);
            let created = self.client.create::<MetaObject>(&PODS, namespace, body).await;
            let error = match created {
                Ok(pod) => {
                    self.was_created(&pod.metadata);
                    let message = format!("Created pod: {name}");
                    self.event(EventType::Normal, "SuccessfulCreate", &message);
                    return Create::Created(name);
                }
                Err(error) => error,
            };
            if error.is_already_exists() {
                match self.pod(&name).await {
                    // Made by an earlier try, whose answer was lost.
                    Ok(Some(pod)) if self.is_live(&pod) => {
                        self.was_created(&pod.metadata);
                        return Create::Created(name);
                    }
                    Ok(Some(_)) => name = self.another_name(&name),
                    // It has just gone.
                    Ok(None) => {}
                    Err(error) => return Create::Failed(name, error),
                }
                continue;
            }
            if !error.is_unknown_outcome() {
                self.not_sent(&name, earlier);
            }
            if is_namespace_terminating(&error) {
                return Create::NamespaceTerminating;
            }
            return Create::Failed(name, error);
        }
        self.not_sent(&name, earlier);
        let request_line = format!("creating a pod of {}", self.key);
        let reason = format!("{NAMES} names were taken, the last one is {name}");
        Create::Failed(name, ClientError::Invalid { request_line, reason })
    }

    /// The name is somebody else's.
    fn another_name(&self, taken: &Text) -> Text {
        let name = naming::name(&naming::base(&self.owner.metadata.name), &self.env.rng);
        let now = self.env.clock.now();
        self.expectations.expect_creates(self.key, [name.clone()], now);
        self.expectations.create_failed(self.key, taken);
        name
    }

    /// Deletes pods, each in the state in which it was chosen. When the engine is to stop, none is begun.
    pub(super) async fn delete(&self, pods: &[Arc<Pod>]) -> Outcome {
        let uids = pods.iter().map(|it| it.metadata.uid.clone());
        self.expectations
            .expect_deletes(self.key, uids, self.env.clock.now());
        let sent = stream::iter(pods.to_vec()).map(|pod: Arc<Pod>| async move {
            if self.stop.is_cancelled() {
                return (pod, None);
            }
            let Meta {
                uid,
                resource_version,
                ..
            } = &pod.metadata;
            let delete = Delete::of(uid.clone()).at(resource_version.clone());
            let answer = self.client.delete(&PODS, &pod.metadata.key(), &delete).await;
            (pod, Some(answer))
        });
        let answers: Vec<_> = sent.buffered(AT_ONCE).collect().await;
        let mut outcome = Outcome::default();
        for (pod, answer) in answers {
            let pod = &pod.metadata;
            let Some(answer) = answer else {
                self.expectations.delete_failed(self.key, &pod.uid);
                outcome.left = true;
                continue;
            };
            match answer {
                Ok(_) => {
                    self.expectations.delete_succeeded(self.key, &pod.uid);
                    let message = format!("Deleted pod: {}", pod.name);
                    self.event(EventType::Normal, "SuccessfulDelete", &message);
                }
                // The cache will show that.
                Err(error) if error.is_not_found(&pod.name) => {
                    self.expectations.delete_succeeded(self.key, &pod.uid);
                }
                // It has changed; for all that is known it is on its way out.
                Err(error) if error.is_conflict() => outcome.again = true,
                Err(error) => {
                    if !error.is_unknown_outcome() {
                        self.expectations.delete_failed(self.key, &pod.uid);
                    }
                    let message = errors::message(&error);
                    self.warn("FailedDelete", &format!("Error deleting: {message}"), &error);
                    let failure = Failure {
                        reason: "FailedDelete",
                        message: format!("unable to delete pods: {message}"),
                    };
                    outcome.failure.get_or_insert((failure, error));
                }
            }
        }
        outcome
    }

    /// Makes `wanted` the status of the owner. If that fails, it is tried once more on the owner as it is then.
    pub(super) async fn write_status(
        &self,
        mut wanted: Status,
        managed: Managed<'_>,
    ) -> Result<(), ClientError> {
        let Some(error) = self.patch_status(self.owner, &wanted).await.err() else {
            return Ok(());
        };
        if matches!(error, ClientError::Fenced { .. }) {
            return Err(error);
        }
        let live: Owner = match self.client.get(&self.kind.resource, self.key).await {
            Ok(live) => live,
            Err(error) => {
                if error.code() == Some(404) {
                    // It is gone, or its kind is, and the cache should show it.
                    self.caches.relist(&self.kind.resource);
                }
                return if error.is_not_found(&self.key.name) {
                    Ok(())
                } else {
                    Err(error)
                };
            }
        };
        if live.metadata.uid != self.owner.metadata.uid {
            return Ok(());
        }
        let now = self.env.clock.wall();
        wanted.conditions = with(&live.status, wanted.observed_generation, managed, now);
        // If the lost answer was a good one, this is what it wrote.
        self.wrote(&self.kind.resource, &live.metadata, true);
        if live.status.observed_generation > wanted.observed_generation {
            // What is said there is of a later state than what was seen here.
            return Ok(());
        }
        self.patch_status(&live, &wanted).await
    }

    async fn patch_status(&self, on: &Owner, wanted: &Status) -> Result<(), ClientError> {
        let Some(changes) = wanted.changes(&on.status) else {
            return Ok(());
        };
        let patch = json!({"metadata": on.metadata.preconditions(), "status": changes});
        let patch = Patch::merge(&patch).of("status");
        let patched: MetaObject = self.client.patch(&self.kind.resource, self.key, patch).await?;
        self.wrote(&self.kind.resource, &patched.metadata, true);
        Ok(())
    }

    /// An event about the owner.
    pub(super) fn event(&self, type_: EventType, reason: &str, message: &str) {
        let about = ObjectRef::of(&self.kind.resource, &self.owner.metadata);
        self.recorder.event(&about, type_, reason, message);
    }

    /// Tells of what the server refused. What was not answered may still have been done.
    fn warn(&self, reason: &str, message: &str, error: &ClientError) {
        if error.code().is_some() {
            self.event(EventType::Warning, reason, message);
        }
    }

    async fn pod(&self, name: &Text) -> Result<Option<Pod>, ClientError> {
        let key = Key::new(self.key.namespace.clone(), name.clone());
        match self.client.get(&PODS, &key).await {
            Ok(pod) => Ok(Some(pod)),
            Err(error) if error.is_not_found(name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_live(&self, pod: &Pod) -> bool {
        let controller = pod.metadata.controller();
        controller.is_some_and(|it| it.uid == self.owner.metadata.uid) && pod.is_active()
    }

    fn was_created(&self, pod: &Meta) {
        self.wrote(&PODS, pod, false);
        self.expectations.create_succeeded(self.key, &pod.name);
    }

    fn wrote(&self, resource: &Resource, object: &Meta, seen: bool) {
        let write = write_of(object, self.env.clock.now(), seen);
        self.written.record(self.key, resource, write, self.caches);
    }

    /// What the server said, without the name that was tried: the next one is another, and nothing else has changed.
    fn message(&self, name: &Text, error: &ClientError) -> String {
        errors::message(error).replace(&**name, &naming::generate_name(&self.owner.metadata.name))
    }
}
