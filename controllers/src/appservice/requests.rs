//! The API requests of a sync. All writes of the controller are here.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_manager::cache::Caches;
use steersman_manager::client::{Apply, Client, ClientError, ListQuery, Patch};
use steersman_manager::controller::ReconcileError;
use steersman_manager::env::Env;
use steersman_manager::events::{EventType, ObjectRef, Recorder};
use steersman_manager::finalizer;
use steersman_manager::object::{Key, Meta, MetaObject, Resource};

use super::child::Child;
use super::deletion_policy::FINALIZER;
use super::drift::{Drift, drift};
use super::history::{History, WriteTarget};
use super::managed_fields::{self, DEFAULT_IMAGE_MANAGER, FIELD_MANAGER};
use super::ownership::{Ownership, UID_LABEL};
use super::plan;
use crate::api::app_service::{APP_SERVICES, AppService};
use crate::support::errors::field_conflicts;
use crate::support::memory::{Memory, write_of};
use crate::support::requests;

/// The page size of live lists.
const LIST_LIMIT: u32 = 500;

/// Sends the requests of one sync, and records writes and events.
pub(super) struct Requests<'a> {
    pub(super) app: &'a AppService,
    pub(super) key: &'a Key,
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) caches: &'a Caches,
    pub(super) memory: &'a Memory<History>,
    pub(super) recorder: &'a Recorder,
}

/// The result of a create.
pub(super) enum Created<T> {
    New(Arc<T>),
    /// The name exists: the response to an earlier create was lost, or another client created it.
    Existing(Arc<T>),
}

/// An error that ends a sync.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("AppService {key} changed since it was read")]
    Changed { key: Key },
    #[error("AppService {key} does not exist, or its resource is no longer served")]
    NotFound { key: Key },
}

impl Failure {
    /// Returns whether an object changed since it was read. The cache shows that change soon.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Client(error) => error.is_conflict(),
            Self::Changed { .. } => true,
            Self::NotFound { .. } => false,
        }
    }

    /// Returns the wait that the API server has requested.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Client(error) => error.retry_after(),
            Self::Changed { .. } | Self::NotFound { .. } => None,
        }
    }
}

impl From<Failure> for ReconcileError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Client(error) => error.into(),
            Failure::Changed { .. } | Failure::NotFound { .. } => Self::retryable(failure),
        }
    }
}

impl Requests<'_> {
    /// Creates a child. Reads the existing object if the name is taken.
    pub(super) async fn create<T: Child>(&self, body: &Value) -> Result<Created<T>, ClientError> {
        let (resource, namespace) = (&T::RESOURCE, &self.key.namespace);
        let body_text = body.to_string().into();
        let manager = if T::TARGET == WriteTarget::Deployment && self.app.spec.image().is_none() {
            DEFAULT_IMAGE_MANAGER
        } else {
            FIELD_MANAGER
        };
        let created = self
            .client
            .create_as::<T>(resource, namespace, body_text, manager);
        match created.await {
            Ok(child) => {
                self.record_write(resource, child.meta(), false);
                self.record_event("SuccessfulCreate", "Created", resource, child.meta());
                Ok(Created::New(Arc::new(child)))
            }
            Err(error) if error.is_already_exists() => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let key = Key::new(namespace.clone(), name);
                let existing: T = self.client.get(resource, &key).await?;
                // The cache does not show it yet, or it would not have been created.
                self.record_write(resource, existing.meta(), false);
                Ok(Created::Existing(Arc::new(existing)))
            }
            Err(error) => Err(error),
        }
    }

    /// Applies the desired state of a child, and returns the result, or `None` if the child does not exist. Fails with
    /// [`Failure::Changed`] if the live object does not belong to the `AppService`.
    ///
    /// The first attempt is not forced, because its answer names the fields that other field managers have changed.
    pub(super) async fn apply<T: Child>(
        &self,
        child: &Meta,
        desired: &Value,
    ) -> Result<Option<Arc<T>>, Failure> {
        let (resource, key) = (&T::RESOURCE, child.key());
        let live: Value = match self.client.get(resource, &key).await {
            Ok(live) => live,
            Err(error) if error.is_not_found(&child.name) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let typed = T::deserialize(&live).map_err(|error| ClientError::Decode {
            request_line: format!("GET {} {key}", resource.plural),
            reason: format!("{:?}", error.classify()),
        })?;
        let mut meta = typed.meta().clone();
        let ownership = plan::ownership_of(self.app, &typed);
        if meta.uid != child.uid || !matches!(ownership, Ownership::Owned | Ownership::Adoptable) {
            return Err(Failure::Changed {
                key: self.key.clone(),
            });
        }
        if let Some(entries) = managed_fields::upgrade(&live, desired) {
            let mut patch = json!({"metadata": meta.preconditions()});
            patch["metadata"]["managedFields"] = entries;
            let patched: MetaObject = self.client.patch(resource, &key, Patch::merge(&patch)).await?;
            meta = patched.metadata;
        }
        let mut body = desired.clone();
        body["metadata"]["uid"] = json!(meta.uid);
        body["metadata"]["resourceVersion"] = json!(meta.resource_version);
        let apply = async |how: Apply| {
            self.client
                .patch::<T>(resource, &key, Patch::apply(&body, how))
                .await
        };
        let name = display_name(resource, &child.name);
        let drift = drift(&typed, desired);
        let applied = apply(FIELD_MANAGER.into()).await;
        let (applied, event) = match (applied.as_ref().err().and_then(field_conflicts), drift) {
            (Some(fields), drift) => {
                // An outdated spec would overwrite a field that is no longer set.
                self.verify_app().await?;
                // Recorded even if it fails: a client that writes faster than this one is not fought at full speed.
                self.record_content(T::TARGET, desired, format!("{name}: {fields}"));
                let event = if drift == Some(Drift::Desired) {
                    let message = format!("Took over fields of {name} from other field managers: {fields}.");
                    (EventType::Normal, "FieldManagerConflict", message)
                } else {
                    let message =
                        format!("Corrected fields of {name} that other field managers changed: {fields}.");
                    (EventType::Warning, "FieldManagerConflict", message)
                };
                (apply(Apply::from(FIELD_MANAGER).force()).await?, event)
            }
            (None, Some(Drift::Field(field))) => {
                let applied = applied?;
                self.record_content(T::TARGET, desired, format!("{name}: {field}"));
                // The API server does not record who has removed a field.
                let message = format!("Restored field {field} of {name}, which another client changed.");
                (applied, (EventType::Warning, "FieldManagerConflict", message))
            }
            (None, _) => {
                let applied = applied?;
                self.record_content(T::TARGET, desired, name.clone());
                (
                    applied,
                    (EventType::Normal, "SuccessfulUpdate", format!("Updated {name}.")),
                )
            }
        };
        let after = applied.meta();
        self.record_write(resource, after, true);
        if after.resource_version != meta.resource_version {
            let (severity, reason, message) = event;
            self.event(severity, reason, &message);
        }
        Ok(Some(Arc::new(applied)))
    }

    /// Patches the ownerReferences of a child.
    pub(super) async fn patch_owner(
        &self,
        resource: &Resource,
        child: &Meta,
        patch: &Value,
    ) -> Result<(), ClientError> {
        let patch = Patch::merge(patch);
        let patched = requests::patch_existing(self.client, resource, child, patch).await?;
        if let Some(patched) = patched {
            self.record_write(resource, &patched, true);
        }
        Ok(())
    }

    /// Deletes a child with the uid and resourceVersion that were observed.
    pub(super) async fn delete(&self, resource: &Resource, child: &Meta) -> Result<(), ClientError> {
        if let Some(deleted) = requests::delete_unchanged(self.client, resource, child).await? {
            self.record_write(resource, &deleted, true);
            self.record_event("SuccessfulDelete", "Deleted", resource, child);
        }
        Ok(())
    }

    /// Removes the finalizer, and returns the new metadata; `None` if it was not present, or the object is deleted.
    pub(super) async fn remove_finalizer(&self, meta: &Meta) -> Result<Option<Meta>, Failure> {
        let after = finalizer::remove(self.client, &APP_SERVICES, meta, FINALIZER).await;
        let after = after.map_err(|error| {
            if error.is_not_found(&meta.name) {
                // The AppService was read after this answer, and exists.
                error.into()
            } else {
                self.app_failure(error)
            }
        })?;
        if let Some(after) = &after {
            self.record_write(&APP_SERVICES, after, true);
        }
        Ok(after)
    }

    /// Patches the `AppService`, and returns the new metadata.
    pub(super) async fn patch_app(&self, patch: Patch) -> Result<Meta, Failure> {
        let patched: Result<MetaObject, _> = self.client.patch(&APP_SERVICES, self.key, patch).await;
        let patched = patched.map_err(|error| self.app_failure(error))?;
        self.record_write(&APP_SERVICES, &patched.metadata, true);
        Ok(patched.metadata)
    }

    /// Classifies the error of a request for the `AppService` itself.
    fn app_failure(&self, error: ClientError) -> Failure {
        if error.code() == Some(404) {
            let key = self.key.clone();
            return Failure::NotFound { key };
        }
        error.into()
    }

    /// Fails unless a live read shows the same spec. Precedes writes that cannot be undone: the garbage collector deletes a
    /// child with an ownerReference to an absent `AppService`, and a deleted child is lost.
    pub(super) async fn verify_app(&self) -> Result<(), Failure> {
        let live = self.client.get::<AppService>(&APP_SERVICES, self.key).await;
        let live = live.map_err(|error| self.app_failure(error))?;
        let (seen, live_meta) = (&self.app.metadata, &live.metadata);
        let same = live_meta.uid == seen.uid
            && live_meta.is_terminating() == seen.is_terminating()
            && live.spec.is_equivalent(&self.app.spec);
        let key = self.key.clone();
        if same {
            Ok(())
        } else {
            Err(Failure::Changed { key })
        }
    }

    /// Lists the children of a resource live, by their uid label.
    pub(super) async fn list_children(&self, resource: &Resource) -> Result<Vec<Meta>, ClientError> {
        let query = ListQuery {
            label_selector: format!("{UID_LABEL}={}", self.app.metadata.uid),
            limit: LIST_LIMIT,
            ..ListQuery::default()
        };
        self.client
            .list_all_metadata(resource, &self.key.namespace, query, |_| true)
            .await
    }

    /// Records an event about the `AppService`.
    pub(super) fn event(&self, type_: EventType, reason: &str, message: &str) {
        let about = ObjectRef::of(&APP_SERVICES, &self.app.metadata);
        self.recorder.event(&about, type_, reason, message);
    }

    fn record_event(&self, reason: &str, verb: &str, resource: &Resource, child: &Meta) {
        let message = format!("{verb} {}.", display_name(resource, &child.name));
        self.event(EventType::Normal, reason, &message);
    }

    /// Calls `with` on the memory of the `AppService`.
    pub(super) fn history<R: Default>(&self, with: impl FnOnce(&mut History) -> R) -> R {
        self.memory.with(self.key, with).unwrap_or_default()
    }

    /// Records that `content` was written to `target`, which messages name `name`.
    pub(super) fn record_content(&self, target: WriteTarget, child: &Value, name: String) {
        let now = self.env.clock.now();
        self.history(|it| it.record_write(target, content(child), name, now));
    }

    /// Records a write. The next sync waits until the caches show it.
    fn record_write(&self, resource: &Resource, object: &Meta, seen: bool) {
        let write = write_of(object, self.env.clock.now(), seen);
        self.memory.written.record(self.key, resource, write, self.caches);
    }
}

/// Returns the part of a child's desired state that differs if any other does: its labels contain the hash.
pub(super) fn content(child: &Value) -> &Value {
    &child["metadata"]
}

/// Returns an object as messages name it, such as `Deployment "web"`.
pub(super) fn display_name(resource: &Resource, name: &str) -> String {
    format!("{} \"{name}\"", resource.kind)
}
