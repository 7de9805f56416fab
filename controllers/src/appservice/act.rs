//! Execution of a [`Plan`]. Its [`Outcome`] feeds the status.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_manager::client::{ClientError, Patch};
use steersman_manager::object::{Meta, Resource};

use super::child::Child;
use super::deletion_policy::{self, FINALIZER};
use super::history::WriteTarget;
use super::ownership::{ADOPT_BY_ANNOTATION, Ownership};
use super::plan::{ChildAction, Plan, ownership_of};
use super::requests::{Created, Failure, Requests, content, display_name};
use super::status::{Observed, Stall};
use crate::api::app_service::DeletionPolicy;
use crate::support::DEPLOYMENTS;
use crate::support::errors::{is_namespace_terminating, message};

/// Delay before a create that was refused because the namespace is terminating is sent again. A server with a stale cache
/// refuses it for a new namespace too.
const NAMESPACE_TERMINATING_RETRY: Duration = Duration::from_mins(5);

/// The result of executing a plan.
pub(super) struct Outcome {
    /// The metadata of the `AppService` after all writes.
    pub(super) meta: Meta,
    pub(super) observed: Observed,
    /// The first error that is retried with backoff.
    pub(super) error: Option<Failure>,
    /// The name of a child is taken, so the sync is retried with backoff.
    pub(super) name_taken: bool,
    /// The delay of an action that was postponed.
    pub(super) retry_after: Option<Duration>,
}

impl Outcome {
    /// Has the sync retried after `delay` at the latest.
    pub(super) fn retry_within(&mut self, delay: Duration) {
        self.retry_after = Some(self.retry_after.map_or(delay, |it| it.min(delay)));
    }
}

/// Executes `plan` as far as possible. Fails if the status must not be written.
pub(super) async fn act(requests: &Requests<'_>, plan: &Plan) -> Result<Outcome, Failure> {
    let mut executor = Executor {
        requests,
        outcome: Outcome {
            meta: requests.app.metadata.clone(),
            observed: Observed::default(),
            error: None,
            name_taken: false,
            retry_after: None,
        },
        verified: false,
    };
    if let Err(failure) = executor.execute(plan).await {
        return Err(longest_wait(executor.outcome.error, failure));
    }
    executor.report_delays();
    Ok(executor.outcome)
}

struct Executor<'a> {
    requests: &'a Requests<'a>,
    outcome: Outcome,
    /// A live read in this sync has shown that the spec is unchanged.
    verified: bool,
}

impl Executor<'_> {
    async fn execute(&mut self, plan: &Plan) -> Result<(), Failure> {
        if let Some(error) = plan.errors.first() {
            let message = format!("The spec is invalid: {}: {}.", error.field, error.message);
            self.stall("InvalidSpec", message);
        }
        if let Some(patch) = &plan.add_finalizer
            && !self.add_finalizer(patch).await?
        {
            self.outcome.observed.deployment = plan.deployment.owned().cloned();
            return Ok(());
        }
        self.outcome.observed.deployment = self.act_on_child(&plan.deployment).await?;
        self.act_on_child(&plan.service).await?;
        for action in &plan.previous {
            match action {
                ChildAction::Delete(old) => self.delete(&DEPLOYMENTS, &old.metadata).await?,
                ChildAction::PatchOwner(old, patch) => {
                    self.patch_owner(&DEPLOYMENTS, &old.metadata, patch).await?;
                }
                _ => {}
            }
        }
        if plan.remove_finalizer && self.outcome.error.is_none() && self.outcome.retry_after.is_none() {
            self.remove_finalizer().await?;
        }
        Ok(())
    }

    /// Adds the finalizer. Returns whether it is present.
    async fn add_finalizer(&mut self, patch: &Value) -> Result<bool, Failure> {
        let present = Value::Bool(true);
        if self.must_wait(WriteTarget::Finalizer, &present) {
            return Ok(false);
        }
        match self.requests.patch_app(Patch::merge(patch)).await {
            Ok(meta) => {
                self.record_write(WriteTarget::Finalizer, &present, finalizer_name());
                self.outcome.meta = meta;
                // The patch carried the resourceVersion that was read.
                self.verified = true;
                Ok(true)
            }
            Err(Failure::Client(error)) => {
                self.handle_error("FailedUpdate", &format!("add {}", finalizer_name()), error)?;
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn remove_finalizer(&mut self) -> Result<(), Failure> {
        let absent = Value::Bool(false);
        if self.must_wait(WriteTarget::Finalizer, &absent) {
            return Ok(());
        }
        if let Some(meta) = self.requests.remove_finalizer(&self.outcome.meta).await? {
            self.record_write(WriteTarget::Finalizer, &absent, finalizer_name());
            self.outcome.meta = meta;
        }
        Ok(())
    }

    /// Executes the action for a child. Returns the child after it, if it exists and belongs to the `AppService`.
    async fn act_on_child<T: Child>(&mut self, action: &ChildAction<T>) -> Result<Option<Arc<T>>, Failure> {
        if matches!(action, ChildAction::None | ChildAction::Delete(_)) {
            self.requests.history(|it| it.forget(T::TARGET));
        }
        match action {
            ChildAction::None => Ok(None),
            ChildAction::Keep(present) => Ok(Some(Arc::clone(present))),
            ChildAction::Create(body) => self.create(body).await,
            ChildAction::Apply(present, desired) => self.apply(present, desired).await,
            ChildAction::PatchOwner(present, patch) => {
                self.patch_owner_limited::<T>(present.meta(), patch).await?;
                Ok(Some(Arc::clone(present)))
            }
            ChildAction::Delete(present) => self.delete(&T::RESOURCE, present.meta()).await.map(|()| None),
            ChildAction::AwaitDeletion(present) | ChildAction::NameTaken(present) => {
                Ok(self.resolve_existing(Arc::clone(present)))
            }
        }
    }

    async fn create<T: Child>(&mut self, body: &Value) -> Result<Option<Arc<T>>, Failure> {
        let name = display_name(
            &T::RESOURCE,
            body["metadata"]["name"].as_str().unwrap_or_default(),
        );
        if self.must_wait(T::TARGET, content(body)) {
            return Ok(None);
        }
        let now = self.requests.env.clock.now();
        let resumed_at = self.requests.history(|it| it.no_creates_before);
        if let Some(left) = resumed_at.map(|it| it - now).filter(|it| !it.is_zero()) {
            self.report_terminating_namespace(&name, left);
            return Ok(None);
        }
        if self.requests.app.spec.deletion_policy() == DeletionPolicy::Orphan {
            // Without an ownerReference the garbage collector would not delete a child of an absent AppService.
            self.verify_app().await?;
        }
        match self.requests.create::<T>(body).await {
            Ok(Created::New(child)) => {
                self.requests.record_content(T::TARGET, body, name);
                self.outcome.observed.deployment_changed |= T::TARGET == WriteTarget::Deployment;
                Ok(Some(child))
            }
            Ok(Created::Existing(child)) => Ok(self.resolve_existing(child)),
            Err(error) if is_namespace_terminating(&error) => {
                let retry = NAMESPACE_TERMINATING_RETRY;
                self.requests
                    .history(|it| it.no_creates_before = Some(now + retry));
                self.report_terminating_namespace(&name, retry);
                Ok(None)
            }
            Err(error) => {
                self.handle_error("FailedCreate", &format!("create {name}"), error)?;
                Ok(None)
            }
        }
    }

    /// Applies the desired state of a child.
    async fn apply<T: Child>(
        &mut self,
        present: &Arc<T>,
        desired: &Value,
    ) -> Result<Option<Arc<T>>, Failure> {
        let (requests, meta) = (self.requests, present.meta());
        let name = display_name(&T::RESOURCE, &meta.name);
        if self.must_wait(T::TARGET, content(desired)) {
            return Ok(Some(Arc::clone(present)));
        }
        let adds_owner = desired["metadata"].get("ownerReferences").is_some()
            && !deletion_policy::has_controller_reference(requests.app, meta);
        if adds_owner {
            self.verify_app().await?;
        }
        match requests.apply::<T>(meta, desired).await {
            Ok(Some(child)) => {
                self.outcome.observed.deployment_changed |=
                    T::TARGET == WriteTarget::Deployment && child.meta().generation != meta.generation;
                Ok(Some(child))
            }
            Ok(None) => Ok(None),
            Err(Failure::Client(error)) => {
                self.handle_error("FailedUpdate", &format!("apply {name}"), error)?;
                Ok(Some(Arc::clone(present)))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn delete(&mut self, resource: &Resource, child: &Meta) -> Result<(), Failure> {
        self.verify_app().await?;
        if let Err(error) = self.requests.delete(resource, child).await {
            let action = format!("delete {}", display_name(resource, &child.name));
            self.handle_error("FailedDelete", &action, error)?;
        }
        Ok(())
    }

    async fn patch_owner(&mut self, resource: &Resource, child: &Meta, patch: &Value) -> Result<(), Failure> {
        if self.requests.app.spec.deletion_policy() == DeletionPolicy::Delete {
            // The garbage collector deletes a child whose owner is absent.
            self.verify_app().await?;
        }
        if let Err(error) = self.requests.patch_owner(resource, child, patch).await {
            let action = format!("update {}", display_name(resource, &child.name));
            self.handle_error("FailedUpdate", &action, error)?;
        }
        Ok(())
    }

    /// Patches the ownerReferences of a child, unless the same patch was sent too often.
    async fn patch_owner_limited<T: Child>(&mut self, child: &Meta, patch: &Value) -> Result<(), Failure> {
        let references = &patch["metadata"]["ownerReferences"];
        let name = display_name(&T::RESOURCE, &child.name);
        if !self.must_wait(T::OWNER_TARGET, references) {
            self.patch_owner(&T::RESOURCE, child, patch).await?;
            self.record_write(T::OWNER_TARGET, references, name);
        }
        Ok(())
    }

    /// Returns the object that has the name of a child, if it belongs to the `AppService`. Otherwise reports it.
    fn resolve_existing<T: Child>(&mut self, existing: Arc<T>) -> Option<Arc<T>> {
        let name = display_name(&T::RESOURCE, &existing.meta().name);
        match ownership_of(self.requests.app, &*existing) {
            // The next sync corrects drift.
            Ownership::Owned | Ownership::Adoptable => return Some(existing),
            Ownership::Terminating => {
                let message = format!("Waiting for the previous {name} to be deleted.");
                self.outcome.observed.pending = Some(("WaitingForDeletion", message));
            }
            Ownership::Foreign => {
                self.outcome.name_taken = true;
                let message = format!(
                    "{name} already exists and does not belong to this AppService. Delete it, use another name, or annotate \
                     it with {ADOPT_BY_ANNOTATION}={} to have it adopted.",
                    self.outcome.meta.name,
                );
                self.stall("ErrResourceExists", message);
            }
        }
        None
    }

    /// Verifies once per sync that the spec is unchanged, before a write that cannot be undone.
    async fn verify_app(&mut self) -> Result<(), Failure> {
        if !self.verified {
            self.requests.verify_app().await?;
            self.verified = true;
        }
        Ok(())
    }

    /// Returns whether `content` was written so often that another client must be undoing it.
    fn must_wait(&mut self, target: WriteTarget, content: &Value) -> bool {
        let now = self.requests.env.clock.now();
        let delay = self.requests.history(|it| it.write_delay(target, content, now));
        if !delay.is_zero() {
            self.outcome.retry_within(delay);
        }
        !delay.is_zero()
    }

    /// Reports the writes that other clients keep undoing, whether or not one of them has been delayed by this sync: the
    /// conditions stay the same from one correction to the next.
    fn report_delays(&mut self) {
        let now = self.requests.env.clock.now();
        for (delay, name) in self.requests.history(|it| it.delayed(now)) {
            self.outcome.retry_within(delay);
            let message = format!("Other clients repeatedly change or delete {name}.");
            self.stall("CorrectionBackOff", message);
        }
    }

    fn report_terminating_namespace(&mut self, child: &str, retry: Duration) {
        let namespace = &self.outcome.meta.namespace;
        let message = format!("Failed to create {child}: namespace \"{namespace}\" is being terminated.");
        self.outcome.retry_within(retry);
        self.outcome.observed.stalls.push(Stall {
            reason: "NamespaceTerminating",
            message,
            emit_event: false,
        });
    }

    fn record_write(&self, target: WriteTarget, content: &Value, name: String) {
        let now = self.requests.env.clock.now();
        self.requests
            .history(|it| it.record_write(target, content, name, now));
    }

    fn stall(&mut self, reason: &'static str, message: String) {
        self.outcome.observed.stalls.push(Stall {
            reason,
            message,
            emit_event: true,
        });
    }

    /// Reports an error that the user has to fix, and keeps any error for a retry. Fails if the error ends the sync.
    fn handle_error(
        &mut self,
        reason: &'static str,
        action: &str,
        error: ClientError,
    ) -> Result<(), Failure> {
        if error.is_conflict() || matches!(error, ClientError::Fenced { .. }) {
            return Err(error.into());
        }
        if error.code().is_some_and(|code| (400..500).contains(&code)) && !error.is_throttled() {
            self.stall(reason, format!("Failed to {action}: {}", message(&error)));
        } else {
            self.outcome.observed.unknown = true;
        }
        self.outcome.error = Some(match self.outcome.error.take() {
            Some(kept) => longest_wait(Some(error.into()), kept),
            None => error.into(),
        });
        Ok(())
    }
}

/// Returns `first` if the API server has requested a longer wait with it than with `last`. Otherwise returns `last`.
pub(super) fn longest_wait(first: Option<Failure>, last: Failure) -> Failure {
    first
        .filter(|it| it.retry_after() > last.retry_after())
        .unwrap_or(last)
}

impl<T> ChildAction<T> {
    /// Returns the present child, if it belongs to the `AppService` and stays.
    fn owned(&self) -> Option<&Arc<T>> {
        match self {
            Self::Keep(present) | Self::Apply(present, _) | Self::PatchOwner(present, _) => Some(present),
            _ => None,
        }
    }
}

fn finalizer_name() -> String {
    format!("finalizer \"{FINALIZER}\"")
}
