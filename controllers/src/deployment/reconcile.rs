//! One sync of a Deployment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use steersman_manager::cache::{Cache, Caches, Lookup};
use steersman_manager::client::ClientError;
use steersman_manager::controller::{Action, ReconcileContext, ReconcileError, Reconciler};
use steersman_manager::env::Env;
use steersman_manager::events::Recorder;
use steersman_manager::object::{Key, Uid};
use tokio::time::Instant;

use super::ReplicaSet;
use super::act::{Executor, SyncError};
use super::execute::Outcome;
use super::plan::{self, Snapshot};
use super::progress;
use super::unknown_write::UnknownWrite;
use super::validation::{reject, validate};
use crate::support::deployment::Deployment;
use crate::support::memory::{BEHIND, Memory};
use crate::support::pod::Pod;
use crate::support::template_hash::Hash;
use crate::support::write_backoff::WriteBackoff;

/// The reconciler of Deployments.
#[derive(Debug)]
pub struct DeploymentReconciler {
    caches: Caches,
    deployments: Cache<Deployment>,
    pub(super) sets: Cache<ReplicaSet>,
    pods: Cache<Pod>,
    recorder: Recorder,
    pub(super) memory: Memory<DeploymentMemory>,
    /// The API server has dropped a field of a status in this term.
    drops_fields: AtomicBool,
}

/// State of one Deployment between syncs.
#[derive(Debug, Default)]
pub(super) struct DeploymentMemory {
    /// Creates of `ReplicaSets` that did not remain.
    pub(super) creates: WriteBackoff<Hash>,
    /// Writes of a status that another client overwrites.
    statuses: WriteBackoff<u64>,
    pub(super) unknown_write: Option<UnknownWrite>,
    /// The namespace is terminating, and no create is sent before this time.
    pub(super) no_creates_before: Option<Instant>,
}

impl Reconciler for DeploymentReconciler {
    fn kind(&self, _: &Key) -> &'static str {
        "Deployment"
    }

    async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        self.memory
            .enter(context.term, || self.drops_fields.store(false, Ordering::Relaxed));
        let deployment = match self.deployments.get(&key) {
            Lookup::Present(deployment) => deployment,
            Lookup::Absent => {
                self.memory.forget(&key);
                return Ok(Action::Done);
            }
            // The object exists but cannot be decoded.
            Lookup::Undecodable => return Ok(Action::Done),
        };
        self.memory
            .track(&key, &deployment.metadata.uid, DeploymentMemory::default);
        if self.is_behind(&key, &context.env) {
            return Ok(Action::Postpone(BEHIND));
        }
        let executor = Executor {
            deployment: &deployment,
            key: &key,
            client: &context.client,
            env: &context.env,
            caches: &self.caches,
            written: &self.memory.written,
            recorder: &self.recorder,
        };
        match self.sync(&executor).await {
            // Conflicts with other clients are normal and not logged.
            Err(error) if error.is_conflict() => Ok(Action::RequeueAfter(Duration::ZERO)),
            done => Ok(done?),
        }
    }
}

impl DeploymentReconciler {
    pub(super) fn new(
        caches: &Caches,
        deployments: &Cache<Deployment>,
        sets: &Cache<ReplicaSet>,
        pods: &Cache<Pod>,
        recorder: Recorder,
    ) -> Self {
        Self {
            caches: caches.clone(),
            deployments: deployments.clone(),
            sets: sets.clone(),
            pods: pods.clone(),
            recorder,
            memory: Memory::default(),
            drops_fields: AtomicBool::new(false),
        }
    }

    /// Reports whether the caches do not show the last writes yet.
    fn is_behind(&self, key: &Key, env: &Env) -> bool {
        self.memory.behind(key, env.clock.now(), &self.caches).is_some()
    }

    async fn sync(&self, executor: &Executor<'_>) -> Result<Action, SyncError> {
        let (deployment, clock) = (executor.deployment, &executor.env.clock);
        let (selector, bounds) = match validate(deployment) {
            Ok(valid) => valid,
            Err(invalid) => return reject(executor, &invalid).await,
        };
        let unknown = self.resolve_unknown_write(executor).await?;
        if self.is_behind(executor.key, executor.env) {
            return Ok(Action::Postpone(BEHIND));
        }
        let claims = plan::claims(deployment, selector, &self.candidates(deployment));
        if executor.release(&claims.release).await? | executor.adopt(&claims.adopt).await? {
            // The plan needs caches that show the new owners.
            return Ok(Action::Postpone(BEHIND));
        }
        let running = if bounds.rolling {
            BTreeMap::new()
        } else {
            self.running(&claims.owned)
        };
        let mut plan = plan::plan(&Snapshot {
            deployment,
            bounds,
            sets: &claims.owned,
            running: &running,
        });
        if let Some(rollback) = &plan.rollback {
            executor.roll_back(rollback).await?;
            return Ok(Action::Postpone(BEHIND));
        }
        if let Some(unknown) = unknown.as_ref().filter(|it| !it.allows(&plan)) {
            return Ok(Action::Postpone(unknown.time_left(clock.now())));
        }
        let first = unknown.map(|it| it.name);
        let Outcome {
            creation,
            error,
            wait,
        } = self.execute(executor, &mut plan, first.as_ref()).await?;
        let now = clock.wall();
        let reports = plan.reports_progress && !creation.blocks_progress();
        let status = progress::desired_status(deployment, &bounds, &plan.sets, &creation, reports, now);
        let drops_fields = self.drops_fields.load(Ordering::Relaxed);
        let written = match status.patch(deployment, plan.revision.as_ref(), drops_fields) {
            Some(patch) => {
                let content = status.digest(plan.revision.as_ref());
                self.write_status(executor, &patch, content).await
            }
            None => Ok(None),
        };
        let deadline = reports
            .then(|| progress::next_check(deployment, &status, now))
            .flatten();
        let (status_error, status_wait) = match written {
            Ok(wait) => (None, wait),
            Err(error) => (Some(error), None),
        };
        let next = [wait, deadline, status_wait].into_iter().flatten().min();
        // No request is sent again before its Retry-After.
        let errors = [error, status_error].into_iter().flatten();
        match errors.max_by_key(ClientError::retry_after) {
            Some(error) => Err(SyncError::AfterStatus { error, within: next }),
            None => Ok(next.map_or(Action::Done, Action::RequeueAfter)),
        }
    }

    /// Writes the status. If another client keeps overwriting it, returns the time until the next attempt instead.
    async fn write_status(
        &self,
        executor: &Executor<'_>,
        patch: &Value,
        content: u64,
    ) -> Result<Option<Duration>, ClientError> {
        let (key, now) = (executor.key, executor.env.clock.now());
        let delay = self.memory.with(key, |it| it.statuses.delay(content, now));
        if let Some(delay) = delay.flatten() {
            if delay.is_new {
                tracing::warn!("Another client overwrites the status, backing off");
            }
            return Ok(Some(delay.left));
        }
        if !executor.write_status(patch).await? {
            self.drops_fields.store(true, Ordering::Relaxed);
        }
        self.memory.with(key, |it| it.statuses.wrote(content, now));
        Ok(None)
    }

    /// Returns the `ReplicaSets` that the Deployment controls, and those of its namespace without a controller.
    fn candidates(&self, deployment: &Deployment) -> Vec<Arc<ReplicaSet>> {
        let mut sets = self.sets.by_owner(&deployment.metadata.uid);
        sets.extend(self.sets.unmanaged(&deployment.metadata.namespace));
        sets
    }

    /// Counts the pods of each `ReplicaSet` that have not finished, including terminating ones.
    fn running(&self, sets: &[Arc<ReplicaSet>]) -> BTreeMap<Uid, usize> {
        let count = |set: &Arc<ReplicaSet>| {
            let uid = &set.metadata.uid;
            let pods = self.pods.by_owner(uid);
            let running = pods.iter().filter(|it| !it.has_finished()).count();
            (running > 0).then(|| (uid.clone(), running))
        };
        sets.iter().filter_map(count).collect()
    }
}
