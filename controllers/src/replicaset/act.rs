//! Executes a plan through pod control, and writes the status of an owner.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_manager::client::{ClientError, Patch};
use steersman_manager::controller::ReconcileError;
use steersman_manager::events::EventType;
use steersman_manager::object::MetaObject;
use steersman_manager::owner::{self, Claim};
use steersman_manager::revived;

use super::plan::{Plan, Scale, Snapshot};
use super::status::{ScaleResult, Status, updated_conditions};
use super::template::Body;
use super::{Owner, Pod, ReplicaSetReconciler};
use crate::support::pod_control::{self, Failure, PodControl};

/// The time until another create is sent in a terminating namespace. Events do not shorten it: the namespace controller
/// deletes every pod there, and each deletion is an event.
const NAMESPACE_TERMINATING_RETRY: Duration = Duration::from_mins(5);

/// The outcome of a plan.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// All planned releases and adoptions succeeded.
    pub(super) claimed: bool,
    pub(super) scale: ScaleResult,
    /// The error to retry.
    pub(super) error: Option<ReconcileError>,
    /// A pod has changed since the cache saw it.
    pub(super) conflict: bool,
    /// The controller is stopping, and some requests were not sent.
    pub(super) stopped: bool,
    /// The time until more pods may be created.
    pub(super) wake_up: Option<Duration>,
}

impl ReplicaSetReconciler {
    /// Releases, adopts, creates and deletes pods. A failed release or adoption ends the plan.
    pub(super) async fn act(&self, pods: &PodControl<'_>, snapshot: &Snapshot<'_>, plan: &Plan) -> Outcome {
        let claimed = async {
            let released = pods.release(&plan.release).await?;
            Ok::<_, ClientError>(pods.adopt(&plan.adopt).await? && released)
        };
        match claimed.await {
            Ok(true) => {}
            // A pod does not exist, or a webhook answered 404: the plan does not count the right pods.
            Ok(false) => {
                return Outcome {
                    conflict: true,
                    ..Outcome::default()
                };
            }
            Err(error) => {
                return Outcome {
                    error: Some(error.into()),
                    ..Outcome::default()
                };
            }
        }
        match &plan.scale {
            Some(scale) => self.scale(pods, snapshot, scale).await,
            None => Outcome {
                claimed: true,
                ..Outcome::default()
            },
        }
    }

    async fn scale(&self, pods: &PodControl<'_>, snapshot: &Snapshot<'_>, scale: &Scale) -> Outcome {
        let (key, now) = (pods.key, pods.env.clock.now());
        let outcome = if !scale.delete.is_empty() {
            self.memory.with(key, |it| it.backoff.exempt(&scale.delete));
            let active = &snapshot.claims.active;
            self.metrics
                .record_deletes(&scale.delete, active, pods.env.clock.wall());
            let current = |pod: &Pod| self.still_active(snapshot, pod);
            pods.delete(&scale.delete, current).await
        } else if scale.create.is_empty() {
            pod_control::Outcome::default()
        } else {
            match Body::new(&self.kind, snapshot.owner) {
                Ok(body) => {
                    let body = |name: &str| body.named(name);
                    pods.create(&scale.create, body).await
                }
                Err(error) => invalid_template(pods, &error.to_string()),
            }
        };
        let pod_control::Outcome {
            created,
            failure,
            error,
            conflict,
            stopped,
            namespace_terminating,
        } = outcome;
        let wake_up = self.memory.with(key, |it| {
            let next_token = it.backoff.record_creates(created, scale.missing, now);
            if namespace_terminating && !revived!(B4) {
                it.creates_resume = Some(now + NAMESPACE_TERMINATING_RETRY);
                return Some(NAMESPACE_TERMINATING_RETRY);
            }
            scale.wake_up.or(next_token)
        });
        let scale = match failure {
            Some(failure) => ScaleResult::Failed(failure),
            None if error.is_some() => ScaleResult::NotAttempted,
            None => ScaleResult::Succeeded,
        };
        Outcome {
            claimed: true,
            scale,
            error: error.map(ReconcileError::from),
            conflict,
            stopped,
            wake_up: wake_up.flatten(),
        }
    }

    /// Returns the current state of a pod that was selected for deletion; none if the owner no longer counts it.
    fn still_active(&self, snapshot: &Snapshot<'_>, selected: &Pod) -> Option<Arc<Pod>> {
        let pod = self.pods.get(&selected.metadata.key()).present()?;
        let matches = snapshot.owner.selector().ok()?.matches(&pod.metadata.labels);
        let claim = owner::claim(&snapshot.owner.metadata, &pod.metadata, matches);
        let same = pod.metadata.uid == selected.metadata.uid;
        (same && claim == Claim::Owned && pod.is_active()).then_some(pod)
    }

    /// Patches the status. If that fails, tries once more on the live owner, unless the API server postpones the request.
    pub(super) async fn write_status(
        &self,
        pods: &PodControl<'_>,
        owner: &Owner,
        mut status: Status,
        result: &ScaleResult,
    ) -> Result<(), ClientError> {
        let Some(error) = self.patch_status(pods, owner, &status).await.err() else {
            return Ok(());
        };
        if matches!(error, ClientError::Fenced { .. }) || error.is_throttled() {
            return Err(error);
        }
        let resource = &self.kind.resource;
        let live: Owner = match pods.client.get(resource, pods.key).await {
            Ok(live) => live,
            Err(error) => {
                if error.code() == Some(404) {
                    // The owner or its whole kind is gone, and the cache should show it.
                    self.caches.relist(resource);
                }
                return if error.is_not_found(&pods.key.name) {
                    Ok(())
                } else {
                    Err(error)
                };
            }
        };
        if live.metadata.uid != owner.metadata.uid {
            return Ok(());
        }
        let now = pods.env.clock.wall();
        status.conditions = updated_conditions(&live.status, status.observed_generation, result, now);
        // The failed patch may have succeeded without an answer: then this is the version that it wrote.
        pods.record_write(resource, &live.metadata, true);
        if live.status.observed_generation > status.observed_generation {
            return Ok(());
        }
        self.patch_status(pods, &live, &status).await
    }

    async fn patch_status(
        &self,
        pods: &PodControl<'_>,
        current: &Owner,
        status: &Status,
    ) -> Result<(), ClientError> {
        let Some(changes) = self.changes(status, &current.status) else {
            return Ok(());
        };
        let resource = &self.kind.resource;
        let patch = json!({"metadata": current.metadata.preconditions(), "status": changes});
        let patch = Patch::merge(&patch).of("status");
        let patched: MetaObject = pods.client.patch(resource, pods.key, patch).await?;
        if patched.metadata.resource_version == current.metadata.resource_version {
            // Nothing has changed: the API server drops the fields that the status does not have.
            self.drops_fields.store(true, Ordering::Relaxed);
        }
        pods.record_write(resource, &patched.metadata, true);
        Ok(())
    }

    /// Returns the fields of a status to write over `current`, if any.
    pub(super) fn changes(&self, status: &Status, current: &Status) -> Option<Value> {
        status.changes(current, self.drops_fields.load(Ordering::Relaxed))
    }
}

/// Reports a template that no pod can be created from.
fn invalid_template(pods: &PodControl<'_>, message: &str) -> pod_control::Outcome {
    let reason = "FailedCreate";
    pods.event(EventType::Warning, reason, &format!("Error creating: {message}"));
    let failure = Failure {
        reason,
        message: message.to_owned(),
    };
    let error = ClientError::Invalid {
        request_line: format!("creating pods of {}", pods.key),
        reason: message.to_owned(),
    };
    pod_control::Outcome {
        failure: Some(failure),
        error: Some(error),
        ..pod_control::Outcome::default()
    }
}
