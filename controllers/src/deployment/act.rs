//! What was planned, done. Every write site of the controller is here: a `ReplicaSet` is created, scaled, deleted, adopted,
//! let go; a Deployment is rolled back, its status is patched. And the live reads that go before them.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::cache::{Caches, PendingWrites};
use coxswain_manager::client::{Client, ClientError, Patch};
use coxswain_manager::controller::ReconcileError;
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, ObjectRef, Recorder};
use coxswain_manager::object::{Key, Meta, MetaObject, Resource, Text};
use coxswain_manager::owner::{adopt_patch, release_patch};
use serde_json::{Value, json};

use super::new_replica_set::Creation;
use super::rollback::Rollback;
use super::sets::{Set, Sets};
use super::{DEPLOYMENTS, REPLICA_SETS, ReplicaSet};
use crate::support::deployment::Deployment;
use crate::support::errors::is_namespace_terminating;
use crate::support::memory::write_of;
use crate::support::pod_template::Canonical;
use crate::support::requests;

/// Everything that a sync of one Deployment acts with.
pub(super) struct Hands<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) key: &'a Key,
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) caches: &'a Caches,
    pub(super) written: &'a PendingWrites,
    pub(super) recorder: &'a Recorder,
}

/// What became of a create.
pub(super) enum Made {
    Created(Arc<ReplicaSet>),
    /// It was there: the answer to an earlier try was lost.
    Found(Arc<ReplicaSet>),
    /// The name is another one's.
    Taken(ClientError),
    /// Refused, as the namespace is terminating.
    NamespaceTerminating,
    Failed(ClientError),
}

/// Why a sync has ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A request has failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Nothing may be adopted.
    #[error("{key} was deleted or replaced since it was read: it adopts nothing")]
    OwnerChanged {
        /// The Deployment.
        key: Key,
    },
    /// A request has failed after the status was computed, which keeps its wake-up.
    #[error("{error}")]
    Later {
        /// The request.
        error: ClientError,
        /// The time within which the Deployment is to be looked at again.
        within: Option<Duration>,
    },
}

impl Failure {
    /// Somebody has changed an object since it was read: that is seen soon, and looked at again.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Client(error) | Self::Later { error, .. } if error.is_conflict())
    }
}

impl From<Failure> for ReconcileError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Client(error) => error.into(),
            Failure::Later { error, within } => Self::from(error).again_within(within),
            Failure::OwnerChanged { .. } => Self::retryable(failure),
        }
    }
}

impl Hands<'_> {
    /// Takes `ReplicaSets` that are nobody's. Answers whether any was taken; the first failure ends the sync.
    pub(super) async fn adopt(&self, sets: &[Arc<ReplicaSet>]) -> Result<bool, Failure> {
        if sets.is_empty() {
            return Ok(false);
        }
        let live: MetaObject = self.client.get(&DEPLOYMENTS, self.key).await?;
        if live.metadata.uid != self.deployment.metadata.uid || live.metadata.is_terminating() {
            let key = self.key.clone();
            return Err(Failure::OwnerChanged { key });
        }
        let mut any = false;
        for set in sets {
            let patch = adopt_patch(&DEPLOYMENTS, &self.deployment.metadata, &set.metadata);
            any |= self.patch_set(&set.metadata, &patch, &[]).await?;
        }
        Ok(any)
    }

    /// Lets `ReplicaSets` go that are not meant any more. One that is gone, or not ours any more, is let go already.
    pub(super) async fn release(&self, sets: &[Arc<ReplicaSet>]) -> Result<bool, Failure> {
        let mut any = false;
        for set in sets {
            if let Some(patch) = release_patch(&self.deployment.metadata, &set.metadata) {
                any |= self.patch_set(&set.metadata, &patch, &[422]).await?;
            }
        }
        Ok(any)
    }

    /// A `ReplicaSet` as it is in the store; none if it is not there.
    pub(super) async fn look(&self, name: &Text) -> Result<Option<Meta>, ClientError> {
        let key = Key::new(self.key.namespace.clone(), name.clone());
        match self.client.get::<MetaObject>(&REPLICA_SETS, &key).await {
            Ok(found) => Ok(Some(found.metadata)),
            Err(error) if error.is_not_found(name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the `ReplicaSet` of the present template.
    pub(super) async fn create(&self, creation: &Creation) -> Result<Made, ClientError> {
        let Creation { name, body, .. } = creation;
        let namespace = &self.key.namespace;
        let created = self
            .client
            .create::<ReplicaSet>(&REPLICA_SETS, namespace, body.clone())
            .await;
        let error = match created {
            Ok(set) => {
                self.wrote(&REPLICA_SETS, &set.metadata, false);
                self.tell_size(name, 0, creation.replicas);
                return Ok(Made::Created(Arc::new(set)));
            }
            Err(error) => error,
        };
        if is_namespace_terminating(&error) {
            return Ok(Made::NamespaceTerminating);
        }
        if !error.is_already_exists() {
            return Ok(Made::Failed(error));
        }
        let key = Key::new(self.key.namespace.clone(), name.clone());
        let set: ReplicaSet = self.client.get(&REPLICA_SETS, &key).await?;
        let ours = set.manager() == Some(&self.deployment.metadata.uid);
        let template = Canonical::of(&self.deployment.template().text);
        let set = Arc::new(set);
        let sets = Sets::of(self.deployment, &template, std::slice::from_ref(&set));
        if ours && sets.new.is_some() {
            self.wrote(&REPLICA_SETS, &set.metadata, false);
            return Ok(Made::Found(set));
        }
        Ok(Made::Taken(error))
    }

    /// Makes a `ReplicaSet` what it shall be.
    pub(super) async fn write(&self, set: &Set) -> Result<(), ClientError> {
        let Some(patch) = set.patch() else {
            return Ok(());
        };
        if self.patch_set(&set.object.metadata, &patch, &[]).await? {
            self.tell_size(&set.object.metadata.name, set.object.replicas(), set.replicas);
        }
        Ok(())
    }

    /// Deletes a `ReplicaSet`, in the state in which it was chosen.
    pub(super) async fn delete(&self, set: &ReplicaSet) -> Result<(), ClientError> {
        if let Some(deleted) = requests::delete_unchanged(self.client, &REPLICA_SETS, &set.metadata).await? {
            self.wrote(&REPLICA_SETS, &deleted, true);
        }
        Ok(())
    }

    /// Grants or refuses a request for another revision.
    pub(super) async fn roll_back(&self, rollback: &Rollback) -> Result<(), ClientError> {
        let patch = Patch::merge(&rollback.patch);
        let patched: MetaObject = self.client.patch(&DEPLOYMENTS, self.key, patch).await?;
        self.wrote(&DEPLOYMENTS, &patched.metadata, true);
        let type_ = if rollback.granted {
            EventType::Normal
        } else {
            EventType::Warning
        };
        self.event(type_, rollback.reason, &rollback.message);
        Ok(())
    }

    /// Patches the status. A Deployment that is gone needs none, and the cache will show that it is.
    pub(super) async fn write_status(&self, patch: &Value) -> Result<(), ClientError> {
        let patch = Patch::merge(patch).of("status");
        if let Some(patched) = requests::patch_existing(self.client, &DEPLOYMENTS, self.key, patch).await? {
            self.wrote(&DEPLOYMENTS, &patched, true);
        }
        Ok(())
    }

    /// The name for the present template is another one's: the next one will be another.
    pub(super) async fn count_collision(&self) -> Result<(), ClientError> {
        let Deployment { metadata, status, .. } = self.deployment;
        let count = status.collision_count.unwrap_or(0) + 1;
        self.write_status(&json!({"metadata": metadata.preconditions(), "status": {"collisionCount": count}}))
            .await
    }

    /// An event about the Deployment.
    pub(super) fn event(&self, type_: EventType, reason: &str, message: &str) {
        let about = ObjectRef::of(&DEPLOYMENTS, &self.deployment.metadata);
        self.recorder.event(&about, type_, reason, message);
    }

    fn tell_size(&self, name: &Text, from: i64, to: i64) {
        if from != to {
            let way = if from < to { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {name} from {from} to {to}");
            self.event(EventType::Normal, "ScalingReplicaSet", &message);
        }
    }

    /// Whether it was done: one that is gone, or whose refusal is `fine`, needs it no more.
    async fn patch_set(&self, set: &Meta, patch: &Value, fine: &[u16]) -> Result<bool, ClientError> {
        let patch = Patch::merge(patch);
        match requests::patch_existing(self.client, &REPLICA_SETS, &set.key(), patch).await {
            Ok(Some(patched)) => {
                self.wrote(&REPLICA_SETS, &patched, true);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) if error.code().is_some_and(|code| fine.contains(&code)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The caches have to show this before the next step.
    pub(super) fn wrote(&self, resource: &Resource, object: &Meta, seen: bool) {
        let write = write_of(object, self.env.clock.now(), seen);
        self.written.record(self.key, resource, write, self.caches);
    }
}
