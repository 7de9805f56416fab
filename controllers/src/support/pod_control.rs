//! Pod control: creates, adopts, releases and deletes the pods of one owner.
//!
//! Every create and delete is recorded as an expectation before it is sent. The expectation ends when the cache shows the
//! pod, or when the request, and each earlier one for the same name, certainly had no effect.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use steersman_manager::cache::{Caches, PendingWrites};
use steersman_manager::client::{Client, ClientError, Delete, Patch};
use steersman_manager::controller::ReconcileError;
use steersman_manager::env::Env;
use steersman_manager::events::{EventType, ObjectRef, Recorder};
use steersman_manager::expectations::Expectations;
use steersman_manager::object::{Key, Meta, MetaObject, Resource, Text, Uid};
use steersman_manager::owner::{adopt_patch, release_patch};
use steersman_manager::revived;
use tokio_util::sync::CancellationToken;

use super::errors::{self, is_namespace_terminating};
use super::memory::write_of;
use super::pod::Pod;
use super::{PODS, naming};

/// The maximum number of concurrent requests of one sync. Each may take a connection.
const MAX_IN_FLIGHT: usize = 32;
/// The maximum number of names that one create tries.
const NAME_ATTEMPTS: usize = 5;

/// Sends the pod requests of one sync of one owner.
pub(crate) struct PodControl<'a> {
    /// The resource of the owner.
    pub(crate) resource: &'a Resource,
    pub(crate) owner: &'a Meta,
    pub(crate) key: &'a Key,
    pub(crate) client: &'a Client,
    pub(crate) env: &'a Env,
    pub(crate) caches: &'a Caches,
    pub(crate) expectations: &'a Expectations,
    pub(crate) written: &'a PendingWrites,
    pub(crate) recorder: &'a Recorder,
    /// Cancelled when the controller stops. No create or delete is sent after that.
    pub(crate) stop: &'a CancellationToken,
}

/// The reason and message of a failed create or delete, as conditions and events report them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The outcome of a batch of creates or deletes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The names of the pods that were created, or may have been.
    pub(crate) created: Vec<Text>,
    /// The first failure to report: a request that the API server postpones is none.
    pub(crate) failure: Option<Failure>,
    /// The error to retry.
    pub(crate) error: Option<ClientError>,
    /// A pod has changed since it was selected.
    pub(crate) conflict: bool,
    /// The controller is stopping, and some requests were not sent.
    pub(crate) stopped: bool,
    /// The API server refuses creates because the namespace is terminating.
    pub(crate) namespace_terminating: bool,
}

/// The outcome of one create.
enum Create {
    Created(Text),
    NamespaceTerminating,
    Failed(Text, ClientError),
    /// The controller is stopping.
    NotSent,
}

/// The outcome of one delete.
enum Deletion {
    /// The pod is terminating or does not exist.
    Done,
    /// The pod has changed.
    Conflict,
    /// The API server has postponed a request of the batch.
    Postponed,
    Failed(ClientError),
    /// The controller is stopping.
    NotSent,
}

/// The writes of a batch that were not sent, by name or uid. Their expectations end with the batch, also if the sync is dropped
/// at its timeout.
struct Unsent<'a, T: Ord> {
    writes: Mutex<BTreeSet<T>>,
    pods: &'a PodControl<'a>,
    end: fn(&PodControl<'_>, &T),
}

#[derive(Debug, thiserror::Error)]
#[error("{key} was deleted or replaced since it was read: it adopts no pods")]
struct OwnerChanged {
    key: Key,
}

impl PodControl<'_> {
    /// Reads the pods of creates that the cache does not show. Returns the names without a pod whose request may still arrive:
    /// they are the first names to use again.
    pub(crate) async fn resolve_creates(
        &self,
        pending: &BTreeSet<Text>,
    ) -> Result<BTreeSet<Text>, ClientError> {
        let reads = stream::iter(pending.clone()).map(|name: Text| async move {
            // Before the read: a request that can no longer arrive has either created the pod by then or never will.
            let now = self.env.clock.now();
            let may_arrive = self.expectations.may_arrive(self.key, &name, now);
            let read = self.get(&name).await;
            (name, may_arrive, read)
        });
        let mut reads = pin!(reads.buffer_unordered(MAX_IN_FLIGHT));
        let mut not_found = BTreeSet::new();
        // One by one: a sync that is dropped keeps the answers that it has received.
        while let Some((name, may_arrive, read)) = reads.next().await {
            let found = read?;
            let is_pending = found
                .as_ref()
                .map_or(may_arrive, |pod| self.is_active_and_owned(pod));
            // Even an answered create is pending again: an existing pod counts until the cache shows it, which is never if the
            // pod is outside the scope of the cache.
            let now = self.env.clock.now();
            self.expectations.create_unknown(self.key, &name, now);
            if !is_pending {
                self.expectations.create_failed(self.key, &name);
            } else if found.is_none() {
                not_found.insert(name);
            }
        }
        Ok(not_found)
    }

    /// Reads pods that the cache shows although their delete may have succeeded. The cache must show the current state of a
    /// pod that was not deleted before the next sync selects pods.
    pub(crate) async fn resolve_deletes(&self, pods: Vec<Arc<Pod>>) -> Result<(), ClientError> {
        let reads = stream::iter(pods).map(|pod: Arc<Pod>| async move {
            let read = self.get(&pod.metadata.name).await;
            (pod, read)
        });
        let mut reads = pin!(reads.buffer_unordered(MAX_IN_FLIGHT));
        while let Some((pod, read)) = reads.next().await {
            let uid = &pod.metadata.uid;
            let live = read?.filter(|it| it.metadata.uid == *uid && !it.metadata.is_terminating());
            if let Some(live) = live {
                self.expectations.delete_failed(self.key, uid);
                self.record_write(&PODS, &live.metadata, true);
            } else {
                let now = self.env.clock.now();
                self.expectations.expect_deletes(self.key, [uid.clone()], now);
                self.expectations.delete_succeeded(self.key, uid);
            }
        }
        Ok(())
    }

    /// Reads the owner live. Fails if it was replaced or is terminating: then it must not adopt pods.
    pub(crate) async fn confirm_owner(&self) -> Result<(), ReconcileError> {
        let live: MetaObject = self.client.get(self.resource, self.key).await?;
        if live.metadata.uid != self.owner.uid || live.metadata.is_terminating() {
            let key = self.key.clone();
            return Err(ReconcileError::retryable(OwnerChanged { key }));
        }
        Ok(())
    }

    /// Makes the owner the controller of pods without one. [`confirm_owner`](Self::confirm_owner) comes first. Returns whether
    /// all of them exist.
    pub(crate) async fn adopt(&self, pods: &[Arc<Pod>]) -> Result<bool, ClientError> {
        let patch = |pod: &Pod| Some(adopt_patch(self.resource, self.owner, &pod.metadata));
        self.patch_all(pods, patch, &[]).await
    }

    /// Removes the owner's reference from pods. A pod without the reference (422) is released already. Returns whether all of
    /// them exist.
    pub(crate) async fn release(&self, pods: &[Arc<Pod>]) -> Result<bool, ClientError> {
        let patch = |pod: &Pod| release_patch(self.owner, &pod.metadata);
        self.patch_all(pods, patch, &[422]).await
    }

    /// Sends all patches and returns the error to retry, or whether all pods exist. A missing pod and the codes in `ignored` are
    /// not errors.
    async fn patch_all(
        &self,
        pods: &[Arc<Pod>],
        patch: impl Fn(&Pod) -> Option<Value> + Sync,
        ignored: &[u16],
    ) -> Result<bool, ClientError> {
        let patches: Vec<_> = pods
            .iter()
            .filter_map(|pod| Some((pod.metadata.key(), patch(pod)?)))
            .collect();
        let sent = stream::iter(patches).map(|(key, patch): (Key, Value)| async move {
            let patch = Patch::merge(&patch);
            let answer = self.client.patch::<MetaObject>(&PODS, &key, patch).await;
            (key, answer)
        });
        let answers: Vec<_> = sent.buffered(MAX_IN_FLIGHT).collect().await;
        let (mut failed, mut all_exist) = (None, true);
        for (key, answer) in answers {
            match answer {
                Ok(pod) => self.record_write(&PODS, &pod.metadata, true),
                Err(error) if error.is_not_found(&key.name) => all_exist = false,
                Err(error) if error.code().is_some_and(|code| ignored.contains(&code)) => {}
                Err(error) => errors::keep(&mut failed, error),
            }
        }
        failed.map_or(Ok(all_exist), Err)
    }

    /// Creates pods with these names: one, then two, four and so on at once, until a batch fails. `body` encodes the pod with a
    /// name.
    pub(crate) async fn create(&self, names: &[Text], body: impl Fn(&str) -> Bytes + Sync) -> Outcome {
        self.expectations
            .expect_creates(self.key, names.iter().cloned(), self.env.clock.now());
        let unsent = Unsent {
            writes: Mutex::new(names.iter().cloned().collect()),
            pods: self,
            end: |pods, name| pods.expectations.create_failed(pods.key, name),
        };
        let mut outcome = Outcome::default();
        let (mut remaining, mut batch) = (names, 1);
        while !remaining.is_empty()
            && outcome.error.is_none()
            && !outcome.stopped
            && (!outcome.namespace_terminating || revived!(B4))
        {
            let (now, later) = remaining.split_at(batch.min(remaining.len()));
            let sent = stream::iter(now.to_vec()).map(|name: Text| self.create_one(name, &body, &unsent));
            let answers: Vec<_> = sent.buffered(MAX_IN_FLIGHT).collect().await;
            for answer in answers {
                match answer {
                    Create::Created(name) => outcome.created.push(name),
                    Create::NamespaceTerminating => outcome.namespace_terminating = true,
                    Create::NotSent => outcome.stopped = true,
                    Create::Failed(name, error) => {
                        if !error.is_throttled() {
                            let message = self.create_message(&name, &error);
                            self.warn("FailedCreate", &format!("Error creating: {message}"), &error);
                            let reason = "FailedCreate";
                            outcome.failure.get_or_insert(Failure { reason, message });
                        }
                        if error.is_unknown_outcome() {
                            outcome.created.push(name);
                        }
                        errors::keep(&mut outcome.error, error);
                    }
                }
            }
            (remaining, batch) = (later, 2 * batch);
        }
        outcome
    }

    async fn create_one(
        &self,
        mut name: Text,
        body: &(impl Fn(&str) -> Bytes + Sync),
        unsent: &Unsent<'_, Text>,
    ) -> Create {
        let namespace = &self.key.namespace;
        for _ in 0..NAME_ATTEMPTS {
            let client = match self.token("POST").await {
                None => return Create::NotSent,
                Some(Err(error)) => return Create::Failed(name, error),
                Some(Ok(client)) => client,
            };
            unsent.remove(&name);
            let created = client.create::<MetaObject>(&PODS, namespace, body(&name)).await;
            let error = match created {
                Ok(pod) => {
                    self.create_succeeded(&pod.metadata);
                    let message = format!("Created pod: {name}");
                    self.event(EventType::Normal, "SuccessfulCreate", &message);
                    return Create::Created(name);
                }
                Err(error) => error,
            };
            if error.is_already_exists() {
                match self.get(&name).await {
                    // The answer to an earlier request was lost.
                    Ok(Some(pod)) if self.is_active_and_owned(&pod) => {
                        self.create_succeeded(&pod.metadata);
                        return Create::Created(name);
                    }
                    Ok(Some(_)) => {
                        name = self.replace_name(&name);
                        unsent.insert(name.clone());
                    }
                    Ok(None) => {}
                    Err(error) => return Create::Failed(name, error),
                }
                continue;
            }
            if !error.is_unknown_outcome() {
                self.expectations.create_failed(self.key, &name);
            }
            if is_namespace_terminating(&error) {
                return Create::NamespaceTerminating;
            }
            return Create::Failed(name, error);
        }
        unsent.insert(name.clone());
        let request_line = format!("creating a pod of {}", self.key);
        let reason = format!("{NAME_ATTEMPTS} names already exist, the last one is {name}");
        Create::Failed(name, ClientError::Invalid { request_line, reason })
    }

    fn create_succeeded(&self, pod: &Meta) {
        self.record_write(&PODS, pod, false);
        self.expectations.create_succeeded(self.key, &pod.name);
    }

    /// Expects a create with a new name instead of one that another pod has.
    fn replace_name(&self, taken: &Text) -> Text {
        let name = naming::name(&naming::base(&self.owner.name), &self.env.rng);
        let now = self.env.clock.now();
        self.expectations.expect_creates(self.key, [name.clone()], now);
        self.expectations.create_failed(self.key, taken);
        name
    }

    /// Deletes pods. Each DELETE waits for the rate limiter, and then carries the uid and resourceVersion of the pod that
    /// `current` returns; none if the pod is no longer to be deleted.
    pub(crate) async fn delete(
        &self,
        pods: &[Arc<Pod>],
        current: impl Fn(&Pod) -> Option<Arc<Pod>> + Sync,
    ) -> Outcome {
        let uids = || pods.iter().map(|it| it.metadata.uid.clone());
        self.expectations
            .expect_deletes(self.key, uids(), self.env.clock.now());
        let unsent = Unsent {
            writes: Mutex::new(uids().collect()),
            pods: self,
            end: |pods, uid| pods.expectations.delete_failed(pods.key, uid),
        };
        let postponed = AtomicBool::new(false);
        let sent = stream::iter(pods.to_vec()).map(async |pod: Arc<Pod>| {
            if postponed.load(Ordering::Relaxed) {
                return Deletion::Postponed;
            }
            let answer = self.delete_one(pod, &current, &unsent).await;
            if matches!(&answer, Deletion::Failed(error) if error.is_throttled()) {
                postponed.store(true, Ordering::Relaxed);
            }
            answer
        });
        let answers: Vec<_> = sent.buffered(MAX_IN_FLIGHT).collect().await;
        let mut outcome = Outcome::default();
        for answer in answers {
            match answer {
                Deletion::Done | Deletion::Postponed => {}
                Deletion::Conflict => outcome.conflict = true,
                Deletion::NotSent => outcome.stopped = true,
                Deletion::Failed(error) => {
                    if !error.is_throttled() {
                        let message = errors::message(&error);
                        self.warn("FailedDelete", &format!("Error deleting: {message}"), &error);
                        outcome.failure.get_or_insert(Failure {
                            reason: "FailedDelete",
                            message: format!("unable to delete pods: {message}"),
                        });
                    }
                    errors::keep(&mut outcome.error, error);
                }
            }
        }
        outcome
    }

    async fn delete_one(
        &self,
        pod: Arc<Pod>,
        current: &(impl Fn(&Pod) -> Option<Arc<Pod>> + Sync),
        unsent: &Unsent<'_, Uid>,
    ) -> Deletion {
        let client = match self.token("DELETE").await {
            None => return Deletion::NotSent,
            Some(Err(error)) => return Deletion::Failed(error),
            Some(Ok(client)) => client,
        };
        let Some(pod) = current(&pod) else {
            return Deletion::Conflict;
        };
        let meta = &pod.metadata;
        unsent.remove(&meta.uid);
        let delete = Delete::of(meta.uid.clone()).at(meta.resource_version.clone());
        let key = meta.key();
        let Err(error) = client.delete(&PODS, &key, &delete).await else {
            self.expectations.delete_succeeded(self.key, &meta.uid);
            let message = format!("Deleted pod: {}", meta.name);
            self.event(EventType::Normal, "SuccessfulDelete", &message);
            return Deletion::Done;
        };
        let error = match self.client.is_absent(&PODS, &key, &meta.uid, &error).await {
            Ok(true) => {
                self.expectations.delete_succeeded(self.key, &meta.uid);
                return Deletion::Done;
            }
            Ok(false) => error,
            Err(error) => error,
        };
        if error.is_conflict() {
            // The change may be a deletion: the expectation stays until it is resolved.
            return Deletion::Conflict;
        }
        if !error.is_unknown_outcome() {
            self.expectations.delete_failed(self.key, &meta.uid);
        }
        Deletion::Failed(error)
    }

    /// Waits for the rate limiter, unless the controller is stopping. The client sends one request.
    async fn token(&self, verb: &'static str) -> Option<Result<Client, ClientError>> {
        self.stop.run_until_cancelled(self.client.with_token(verb)).await
    }

    /// Records an event about the owner.
    pub(crate) fn event(&self, type_: EventType, reason: &str, message: &str) {
        let about = ObjectRef::of(self.resource, self.owner);
        self.recorder.event(&about, type_, reason, message);
    }

    /// Records a warning about a refused request. An unanswered request may have succeeded.
    fn warn(&self, reason: &str, message: &str, error: &ClientError) {
        if error.code().is_some() {
            self.event(EventType::Warning, reason, message);
        }
    }

    async fn get(&self, name: &Text) -> Result<Option<Pod>, ClientError> {
        let key = Key::new(self.key.namespace.clone(), name.clone());
        match self.client.get(&PODS, &key).await {
            Ok(pod) => Ok(Some(pod)),
            Err(error) if error.is_not_found(name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_active_and_owned(&self, pod: &Pod) -> bool {
        let controller = pod.metadata.controller();
        controller.is_some_and(|it| it.uid == self.owner.uid) && pod.is_active()
    }

    /// Postpones the next sync of the owner until the caches show this write. `seen` says that they have shown the object
    /// before.
    pub(crate) fn record_write(&self, resource: &Resource, object: &Meta, seen: bool) {
        let write = write_of(object, self.env.clock.now(), seen);
        self.written.record(self.key, resource, write, self.caches);
    }

    /// Returns the message of a failed create without the generated name: the same failure under another name is not a
    /// change.
    fn create_message(&self, name: &Text, error: &ClientError) -> String {
        errors::message(error).replace(&**name, &naming::generate_name(&self.owner.name))
    }
}

impl<T: Ord> Unsent<'_, T> {
    fn insert(&self, write: T) {
        self.lock().insert(write);
    }

    /// Removes a write that is about to be sent.
    fn remove(&self, write: &T) {
        self.lock().remove(write);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<T>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Ord> Drop for Unsent<'_, T> {
    fn drop(&mut self) {
        self.lock().iter().for_each(|write| (self.end)(self.pods, write));
    }
}
