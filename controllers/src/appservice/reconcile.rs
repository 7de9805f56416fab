//! The sync of an `AppService`: observe, plan, act, write the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steersman_manager::cache::{Cache, Caches, Index, Lookup};
use steersman_manager::client::Patch;
use steersman_manager::controller::{Action, ReconcileContext, ReconcileError, Reconciler};
use steersman_manager::events::{EventType, Recorder};
use steersman_manager::object::{Key, Meta, Resource, Text, Uid};

use super::act::{Outcome, act, longest_wait};
use super::child::Service;
use super::deletion_policy::{self, FINALIZER};
use super::history::{History, WriteTarget};
use super::ownership::{Ownership, ownership};
use super::plan::{self, Snapshot};
use super::requests::{Failure, Requests, display_name};
use super::status::unobserved_failure;
use crate::api::app_service::{APP_SERVICES, AppService, DeletionPolicy, Status};
use crate::support::deployment::Deployment;
use crate::support::memory::{BEHIND, Memory};
use crate::support::{DEPLOYMENTS, SERVICES};

/// Delay of a sync while the `AppService` resource is not served.
const UNSERVED_RETRY: Duration = Duration::from_secs(10);

/// Reconciles `AppServices`.
#[derive(Debug)]
pub struct AppServiceReconciler {
    pub(super) caches: Caches,
    pub(super) apps: Cache<AppService>,
    pub(super) deployments: Cache<Deployment>,
    /// By the uid in their label.
    pub(super) deployments_by_app: Index<Deployment>,
    pub(super) services: Cache<Service>,
    pub(super) recorder: Recorder,
    pub(super) memory: Memory<History>,
    /// The image of a new Deployment if the `AppService` does not set one.
    pub(super) default_image: Option<Text>,
}

impl Reconciler for AppServiceReconciler {
    fn kind(&self, _: &Key) -> &'static str {
        "AppService"
    }

    async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        self.memory.enter(context.term, || {});
        let app = match self.apps.get(&key) {
            Lookup::Present(app) => app,
            Lookup::Absent => {
                self.memory.forget(&key);
                return Ok(Action::Done);
            }
            // The object cannot be decoded.
            Lookup::Undecodable => return Ok(Action::Done),
        };
        // While the resource is not served, the objects in the cache may not exist any more.
        if self.apps.is_unserved() {
            return Ok(Action::Postpone(UNSERVED_RETRY));
        }
        self.memory.track(&key, &app.metadata.uid, History::default);
        if deletion_policy::is_orphaning(&app) {
            self.memory.with(&key, |history| history.orphaned = true);
        }
        let now = context.env.clock.now();
        if self.memory.behind(&key, now, &self.caches).is_some() {
            return Ok(Action::Postpone(BEHIND));
        }
        let requests = Requests {
            app: &app,
            key: &key,
            client: &context.client,
            env: &context.env,
            caches: &self.caches,
            memory: &self.memory,
            recorder: &self.recorder,
        };
        let synced = if app.metadata.is_terminating() {
            self.sync_deletion(&requests).await
        } else {
            self.sync(&requests).await
        };
        match synced {
            Err(failure) if failure.is_conflict() => Ok(Action::RequeueAfter(Duration::ZERO)),
            Err(Failure::NotFound { .. }) => {
                self.caches.relist(&APP_SERVICES);
                Ok(Action::RequeueAfter(Duration::ZERO))
            }
            done => Ok(done?),
        }
    }
}

impl AppServiceReconciler {
    async fn sync(&self, requests: &Requests<'_>) -> Result<Action, Failure> {
        let app = requests.app;
        let Some((deployments, service)) = self.observe(app) else {
            return Ok(Action::Done);
        };
        let plan = plan::plan(&Snapshot {
            app,
            deployments: &deployments,
            service: service.as_ref(),
            default_image: self.default_image.as_deref(),
        });
        let mut outcome = act(requests, &plan).await?;
        if let Err(failure) = write_status(requests, &mut outcome).await {
            return Err(longest_wait(outcome.error, failure));
        }
        if let Some(error) = outcome.error {
            return Err(error);
        }
        Ok(match outcome.retry_after {
            Some(delay) => Action::RequeueAfter(delay),
            None if outcome.name_taken => Action::RequeueAfter(Duration::ZERO),
            None => Action::Done,
        })
    }

    /// Returns the Deployments that may belong to `app`, with the one named by `deploymentName`, and its Service. Returns
    /// `None` if one of them cannot be decoded.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn observe(&self, app: &AppService) -> Option<(Vec<Arc<Deployment>>, Option<Arc<Service>>)> {
        let namespace = &app.metadata.namespace;
        let named = Key::new(namespace.clone(), app.spec.deployment_name.clone());
        let named = self.deployments.get(&named);
        let service = self.services.get(&app.metadata.key());
        if matches!(named, Lookup::Undecodable) || matches!(service, Lookup::Undecodable) {
            return None;
        }
        let mut deployments = self.deployments.by_owner(&app.metadata.uid);
        deployments.extend(self.deployments_by_app.get(&app.metadata.uid.to_string()));
        deployments.extend(named.present());
        deployments.retain(|it| it.metadata.namespace == *namespace);
        deployments.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        deployments.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        Some((deployments, service.present()))
    }

    /// Syncs an `AppService` that is being deleted: patches the ownerReferences of its children as its deletion policy
    /// requires, then removes the finalizer.
    async fn sync_deletion(&self, requests: &Requests<'_>) -> Result<Action, Failure> {
        let app = requests.app;
        let is_delete = app.spec.deletion_policy() == DeletionPolicy::Delete;
        if is_delete && !app.metadata.has_finalizer(FINALIZER) {
            return Ok(Action::Done);
        }
        let children = self.children(requests).await?;
        let children = children.values().map(|(resource, meta)| (resource, meta));
        let orphaned = requests.history(|it| it.orphaned);
        let plan = deletion_policy::plan_deletion(app, orphaned, children);
        if is_delete && !plan.owner_patches.is_empty() {
            requests.verify_app().await?;
        }
        for (resource, child, patch) in &plan.owner_patches {
            if let Err(error) = requests.patch_owner(resource, child, patch).await {
                let is_refused = error.code().is_some_and(|code| code < 500) && !error.is_throttled();
                if is_refused && !error.is_conflict() {
                    let name = display_name(resource, &child.name);
                    let message = format!("Failed to update {name}: {error}");
                    requests.event(EventType::Warning, "FailedUpdate", &message);
                }
                return Err(error.into());
            }
        }
        if plan.remove_finalizer {
            requests.remove_finalizer(&app.metadata).await?;
        }
        Ok(Action::Done)
    }

    /// Returns all children by uid. The live list finds those that the caches do not show yet: a child that is missed here
    /// would keep or lose its ownerReference for good.
    async fn children(&self, requests: &Requests<'_>) -> Result<BTreeMap<Uid, (Resource, Meta)>, Failure> {
        let app = &requests.app.metadata;
        let mut all = Vec::new();
        for it in self.deployments.by_owner(&app.uid) {
            all.push((DEPLOYMENTS, it.metadata.clone()));
        }
        for it in self.services.by_owner(&app.uid) {
            all.push((SERVICES, it.metadata.clone()));
        }
        for resource in [DEPLOYMENTS, SERVICES] {
            let labelled = requests.list_children(&resource).await?;
            all.extend(labelled.into_iter().map(|it| (resource.clone(), it)));
        }
        let owned = all.into_iter().filter(|(_, it)| {
            let controlled = it.controller().is_some_and(|it| it.uid == app.uid);
            it.namespace == app.namespace
                && (controlled || ownership(app, it, &it.annotations) == Ownership::Owned)
        });
        Ok(owned
            .map(|(resource, it)| (it.uid.clone(), (resource, it)))
            .collect())
    }
}

/// Writes the status and records the event of a new failure. Postpones a status that another client keeps overwriting.
async fn write_status(requests: &Requests<'_>, outcome: &mut Outcome) -> Result<(), Failure> {
    let (app, clock) = (requests.app, &requests.env.clock);
    let status = Status::of(app, &outcome.observed, clock.wall());
    if let Some(delay) = unobserved_failure(app, &outcome.observed, clock.wall()).filter(|it| !it.is_zero()) {
        outcome.retry_within(delay);
    }
    if let Some(stall) = status.new_stall(app, &outcome.observed) {
        requests.event(EventType::Warning, stall.reason, &stall.message);
    }
    let Some(patch) = status.patch(app, &outcome.meta) else {
        return Ok(());
    };
    let content = status.content();
    let delay = requests.history(|it| it.write_delay(WriteTarget::Status, &content, clock.now()));
    if delay.is_zero() {
        requests.patch_app(Patch::merge(&patch).of("status")).await?;
        let name = String::new();
        requests.history(|it| it.record_write(WriteTarget::Status, &content, name, clock.now()));
    } else {
        outcome.retry_within(delay);
    }
    Ok(())
}
