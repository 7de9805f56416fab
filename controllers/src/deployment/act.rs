//! All requests of the controller: `ReplicaSets` are created, patched, deleted, adopted and released; a Deployment is
//! rolled back, and its status is patched.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_manager::cache::{Caches, PendingWrites};
use steersman_manager::client::{Client, ClientError, Patch};
use steersman_manager::controller::ReconcileError;
use steersman_manager::env::Env;
use steersman_manager::events::{EventType, ObjectRef, Recorder};
use steersman_manager::object::{Key, Meta, MetaObject, Resource, Text};
use steersman_manager::owner::{adopt_patch, release_patch};

use super::new_replica_set::NewReplicaSet;
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};
use super::rollback::Rollback;
use super::{DEPLOYMENTS, REPLICA_SETS, ReplicaSet};
use crate::support::deployment::Deployment;
use crate::support::errors::is_namespace_terminating;
use crate::support::memory::write_of;
use crate::support::requests;

/// Sends the requests of one sync.
pub(super) struct Executor<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) key: &'a Key,
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) caches: &'a Caches,
    pub(super) written: &'a PendingWrites,
    pub(super) recorder: &'a Recorder,
}

/// The outcome of a create.
pub(super) enum CreateOutcome {
    Created(Arc<ReplicaSet>),
    /// An earlier create had succeeded, and its response was lost.
    Existing(Arc<ReplicaSet>),
    /// Another object has the name.
    NameCollision(ClientError),
    NamespaceTerminating,
    Failed(ClientError),
}

/// The error that ended a sync.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot adopt: Deployment {key} was deleted or replaced since it was read")]
    OwnerChanged { key: Key },
    /// A request failed, but the status was computed and its next sync is due `within` a time.
    #[error("{error}")]
    AfterStatus {
        error: ClientError,
        within: Option<Duration>,
    },
}

impl SyncError {
    /// Reports whether an object has changed since it was read. The change is going to enqueue the Deployment.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Client(error) | Self::AfterStatus { error, .. } if error.is_conflict())
    }
}

impl From<SyncError> for ReconcileError {
    fn from(error: SyncError) -> Self {
        match error {
            SyncError::Client(error) => error.into(),
            SyncError::AfterStatus { error, within } => Self::from(error).again_within(within),
            SyncError::OwnerChanged { .. } => Self::retryable(error),
        }
    }
}

impl Executor<'_> {
    /// Adopts `ReplicaSets` that have no controller. Returns whether any was adopted.
    pub(super) async fn adopt(&self, sets: &[Arc<ReplicaSet>]) -> Result<bool, SyncError> {
        if sets.is_empty() {
            return Ok(false);
        }
        let live: MetaObject = self.client.get(&DEPLOYMENTS, self.key).await?;
        if live.metadata.uid != self.deployment.metadata.uid || live.metadata.is_terminating() {
            let key = self.key.clone();
            return Err(SyncError::OwnerChanged { key });
        }
        let mut any = false;
        for set in sets {
            let patch = adopt_patch(&DEPLOYMENTS, &self.deployment.metadata, &set.metadata);
            any |= self.patch_set(&set.metadata, &patch, &[]).await?;
        }
        Ok(any)
    }

    /// Releases `ReplicaSets` that the selector does not match. 422 means that another client removed the owner
    /// reference.
    pub(super) async fn release(&self, sets: &[Arc<ReplicaSet>]) -> Result<bool, SyncError> {
        let mut any = false;
        for set in sets {
            if let Some(patch) = release_patch(&self.deployment.metadata, &set.metadata) {
                any |= self.patch_set(&set.metadata, &patch, &[422]).await?;
            }
        }
        Ok(any)
    }

    /// Reads the metadata of a `ReplicaSet` live.
    pub(super) async fn get_set(&self, name: &Text) -> Result<Option<Meta>, ClientError> {
        let key = Key::new(self.key.namespace.clone(), name.clone());
        match self.client.get::<MetaObject>(&REPLICA_SETS, &key).await {
            Ok(found) => Ok(Some(found.metadata)),
            Err(error) if error.is_not_found(name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the `ReplicaSet` of the current template.
    pub(super) async fn create(&self, new: &NewReplicaSet) -> Result<CreateOutcome, ClientError> {
        let NewReplicaSet { name, body, .. } = new;
        let namespace = &self.key.namespace;
        let created = self
            .client
            .create::<ReplicaSet>(&REPLICA_SETS, namespace, body.clone())
            .await;
        let error = match created {
            Ok(set) => {
                self.record_write(&REPLICA_SETS, &set.metadata, false);
                self.record_scaling(name, 0, new.replicas);
                return Ok(CreateOutcome::Created(Arc::new(set)));
            }
            Err(error) => error,
        };
        if is_namespace_terminating(&error) {
            return Ok(CreateOutcome::NamespaceTerminating);
        }
        if !error.is_already_exists() {
            return Ok(CreateOutcome::Failed(error));
        }
        let key = Key::new(self.key.namespace.clone(), name.clone());
        let set: ReplicaSet = self.client.get(&REPLICA_SETS, &key).await?;
        let is_owned = set.manager() == Some(&self.deployment.metadata.uid);
        let set = Arc::new(set);
        let sets = ReplicaSets::of(self.deployment, std::slice::from_ref(&set));
        if is_owned && sets.new.is_some() {
            self.record_write(&REPLICA_SETS, &set.metadata, false);
            return Ok(CreateOutcome::Existing(set));
        }
        Ok(CreateOutcome::NameCollision(error))
    }

    /// Patches a `ReplicaSet` to its planned state.
    pub(super) async fn update(&self, set: &PlannedReplicaSet) -> Result<(), ClientError> {
        let Some(patch) = set.patch() else {
            return Ok(());
        };
        if self.patch_set(&set.object.metadata, &patch, &[]).await? {
            self.record_scaling(&set.object.metadata.name, set.object.replicas(), set.replicas);
        }
        Ok(())
    }

    /// Deletes a `ReplicaSet`, unless it has changed since it was read.
    pub(super) async fn delete(&self, set: &ReplicaSet) -> Result<(), ClientError> {
        if let Some(deleted) = requests::delete_unchanged(self.client, &REPLICA_SETS, &set.metadata).await? {
            self.record_write(&REPLICA_SETS, &deleted, true);
        }
        Ok(())
    }

    /// Writes the answer to a rollback request.
    pub(super) async fn roll_back(&self, rollback: &Rollback) -> Result<(), ClientError> {
        let patch = Patch::merge(&rollback.patch);
        let patched: MetaObject = self.client.patch(&DEPLOYMENTS, self.key, patch).await?;
        self.record_write(&DEPLOYMENTS, &patched.metadata, true);
        let type_ = if rollback.granted {
            EventType::Normal
        } else {
            EventType::Warning
        };
        self.event(type_, rollback.reason, &rollback.message);
        Ok(())
    }

    /// Patches the status, unless the Deployment is gone. Returns false if the API server drops the only new field.
    pub(super) async fn write_status(&self, patch: &Value) -> Result<bool, ClientError> {
        let patch = Patch::merge(patch).of("status");
        let meta = &self.deployment.metadata;
        let Some(patched) = requests::patch_existing(self.client, &DEPLOYMENTS, meta, patch).await? else {
            return Ok(true);
        };
        self.record_write(&DEPLOYMENTS, &patched, true);
        Ok(patched.resource_version != meta.resource_version)
    }

    /// Increments the collision count, so that the next name differs.
    pub(super) async fn count_collision(&self) -> Result<bool, ClientError> {
        let Deployment { metadata, status, .. } = self.deployment;
        let count = status.collision_count.unwrap_or(0) + 1;
        self.write_status(&json!({"metadata": metadata.preconditions(), "status": {"collisionCount": count}}))
            .await
    }

    /// Records an event about the Deployment.
    pub(super) fn event(&self, type_: EventType, reason: &str, message: &str) {
        let about = ObjectRef::of(&DEPLOYMENTS, &self.deployment.metadata);
        self.recorder.event(&about, type_, reason, message);
    }

    fn record_scaling(&self, name: &Text, from: i64, to: i64) {
        if from != to {
            let direction = if from < to { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
            self.event(EventType::Normal, "ScalingReplicaSet", &message);
        }
    }

    /// Patches a `ReplicaSet`. Returns false if it is gone or the API server answers with an `ignored` code.
    async fn patch_set(&self, set: &Meta, patch: &Value, ignored: &[u16]) -> Result<bool, ClientError> {
        let patch = Patch::merge(patch);
        match requests::patch_existing(self.client, &REPLICA_SETS, set, patch).await {
            Ok(Some(patched)) => {
                self.record_write(&REPLICA_SETS, &patched, true);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) if error.code().is_some_and(|code| ignored.contains(&code)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Records a write that the caches must show before the next step.
    pub(super) fn record_write(&self, resource: &Resource, object: &Meta, seen: bool) {
        let write = write_of(object, self.env.clock.now(), seen);
        self.written.record(self.key, resource, write, self.caches);
    }
}
