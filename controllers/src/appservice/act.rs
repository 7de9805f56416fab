//! The requests of a sync. Every write of the controller is here: a child is created, applied, deleted, its ownerReference
//! patched; the finalizer of an `AppService` goes on and off, its status is patched. And the live reads that go before them.

use std::sync::Arc;

use coxswain_manager::cache::{Caches, PendingWrites};
use coxswain_manager::client::{Client, ClientError, ListQuery, Patch};
use coxswain_manager::controller::ReconcileError;
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, ObjectRef, Recorder};
use coxswain_manager::finalizer;
use coxswain_manager::object::{Key, Meta, MetaObject, Object, Resource};
use serde_json::{Value, json};

use super::drift::Child;
use super::fields::{self, FIELD_MANAGER};
use super::policy::FINALIZER;
use super::standing::{Standing, UID};
use super::{APP_SERVICES, plan};
use crate::api::app_service::AppService;
use crate::support::errors::is_field_conflict;
use crate::support::memory::write_of;
use crate::support::requests;

/// Everything that a sync of one `AppService` acts with.
pub(super) struct Hands<'a> {
    pub(super) app: &'a AppService,
    pub(super) key: &'a Key,
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) caches: &'a Caches,
    pub(super) written: &'a PendingWrites,
    pub(super) recorder: &'a Recorder,
}

/// What became of a create.
pub(super) enum Made<T> {
    Created(Arc<T>),
    /// It was there: the answer to an earlier try was lost, or it is another one's.
    Found(Arc<T>),
}

/// Why a sync has ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A request has failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It is not to be acted for in that state.
    #[error("{key} was changed since it was read: nothing is made to refer to it, and nothing deleted")]
    Changed {
        /// The `AppService`.
        key: Key,
    },
    /// There is nobody to act for.
    #[error("{key} is gone, or its kind is not served any more, whatever the cache shows")]
    Gone {
        /// The `AppService`.
        key: Key,
    },
    /// Nothing may be made; to try again is of no use.
    #[error("the namespace of {key} is on its way out: nothing is made in it")]
    NamespaceGoes {
        /// The `AppService`.
        key: Key,
    },
}

impl Failure {
    /// Somebody has changed an object since it was read: that is seen soon, and looked at again.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Client(error) => error.is_conflict() && !is_field_conflict(error),
            Self::Changed { .. } => true,
            Self::Gone { .. } | Self::NamespaceGoes { .. } => false,
        }
    }
}

impl From<Failure> for ReconcileError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NamespaceGoes { .. } => Self::terminal(failure),
            Failure::Client(error) => error.into(),
            Failure::Changed { .. } | Failure::Gone { .. } => Self::retryable(failure),
        }
    }
}

impl Hands<'_> {
    /// Makes a child. If the name is taken, answers who has it.
    pub(super) async fn create<T: Object>(
        &self,
        resource: &Resource,
        body: &Value,
    ) -> Result<Made<T>, ClientError> {
        let namespace = &self.key.namespace;
        let body_text = body.to_string().into();
        let created = self
            .client
            .create_as::<T>(resource, namespace, body_text, FIELD_MANAGER);
        match created.await {
            Ok(made) => {
                self.wrote(resource, made.meta(), false);
                self.tell("SuccessfulCreate", "Created", resource, made.meta());
                Ok(Made::Created(Arc::new(made)))
            }
            Err(error) if error.is_already_exists() => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let key = Key::new(namespace.clone(), name);
                let found: T = self.client.get(resource, &key).await?;
                // The caches do not show it, or nobody would have tried.
                self.wrote(resource, found.meta(), false);
                Ok(Made::Found(Arc::new(found)))
            }
            Err(error) => Err(error),
        }
    }

    /// Applies the desired state of a child; returns the child after it, none if it is gone. Fails with
    /// [`Failure::Changed`] if the live object is not the `AppService`'s any more.
    pub(super) async fn apply<T: Child>(
        &self,
        resource: &Resource,
        child: &Meta,
        desired: &Value,
    ) -> Result<Option<Arc<T>>, Failure> {
        let key = child.key();
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
        let standing = plan::standing_of(self.app, &typed);
        if meta.uid != child.uid || !matches!(standing, Standing::Ours | Standing::Adoptable) {
            return Err(Failure::Changed {
                key: self.key.clone(),
            });
        }
        if let Some(entries) = fields::prepared(&live, desired) {
            let mut patch = json!({"metadata": meta.preconditions()});
            patch["metadata"]["managedFields"] = entries;
            let patched: MetaObject = self.client.patch(resource, &key, Patch::merge(&patch)).await?;
            meta = patched.metadata;
        }
        let mut body = desired.clone();
        body["metadata"]["uid"] = json!(meta.uid);
        body["metadata"]["resourceVersion"] = json!(meta.resource_version);
        let patch = Patch::apply(&body, FIELD_MANAGER);
        let applied: T = self.client.patch(resource, &key, patch).await?;
        let after = applied.meta();
        self.wrote(resource, after, true);
        if after.resource_version != meta.resource_version {
            self.tell("SuccessfulUpdate", "Updated", resource, child);
        }
        Ok(Some(Arc::new(applied)))
    }

    /// Changes the references of a child.
    pub(super) async fn refer(
        &self,
        resource: &Resource,
        child: &Meta,
        patch: &Value,
    ) -> Result<(), ClientError> {
        let patch = Patch::merge(patch);
        let patched = requests::patch_existing(self.client, resource, &child.key(), patch).await?;
        if let Some(patched) = patched {
            self.wrote(resource, &patched, true);
        }
        Ok(())
    }

    /// Deletes a child, in the state in which it was chosen.
    pub(super) async fn delete(&self, resource: &Resource, child: &Meta) -> Result<(), ClientError> {
        if let Some(deleted) = requests::delete_unchanged(self.client, resource, child).await? {
            self.wrote(resource, &deleted, true);
            self.tell("SuccessfulDelete", "Deleted", resource, child);
        }
        Ok(())
    }

    /// Puts the finalizer on, and answers the new metadata.
    pub(super) async fn hold(&self, patch: &Value) -> Result<Meta, Failure> {
        self.write(Patch::merge(patch)).await
    }

    /// Takes the finalizer off, and answers the new metadata; none if it was not on, or nothing is left.
    pub(super) async fn let_go(&self, meta: &Meta) -> Result<Option<Meta>, Failure> {
        let after = finalizer::remove(self.client, &APP_SERVICES, meta, FINALIZER).await;
        let after = after.map_err(|error| self.own(error))?;
        if let Some(after) = &after {
            self.wrote(&APP_SERVICES, after, true);
        }
        Ok(after)
    }

    /// Patches the status.
    pub(super) async fn write_status(&self, patch: &Value) -> Result<(), Failure> {
        self.write(Patch::merge(patch).of("status")).await.map(drop)
    }

    /// Patches the `AppService`, and answers the new metadata.
    async fn write(&self, patch: Patch) -> Result<Meta, Failure> {
        let patched: Result<MetaObject, _> = self.client.patch(&APP_SERVICES, self.key, patch).await;
        let patched = patched.map_err(|error| self.own(error))?;
        self.wrote(&APP_SERVICES, &patched.metadata, true);
        Ok(patched.metadata)
    }

    /// What it means that a request for the `AppService` itself has failed.
    fn own(&self, error: ClientError) -> Failure {
        if error.code() == Some(404) {
            let key = self.key.clone();
            return Failure::Gone { key };
        }
        error.into()
    }

    /// Makes sure that the `AppService` still asks for what it asked for: what refers to one that is gone is collected, and
    /// what was deleted in vain is lost.
    pub(super) async fn verify(&self) -> Result<(), Failure> {
        let live = self.client.get::<AppService>(&APP_SERVICES, self.key).await;
        let live = live.map_err(|error| self.own(error))?;
        let (seen, live_meta) = (&self.app.metadata, &live.metadata);
        let same = live_meta.uid == seen.uid
            && live_meta.is_terminating() == seen.is_terminating()
            && live.spec.asks_the_same(&self.app.spec);
        let key = self.key.clone();
        if same {
            Ok(())
        } else {
            Err(Failure::Changed { key })
        }
    }

    /// The children of a kind that carry the uid of the `AppService`, as they are now.
    pub(super) async fn marked(&self, resource: &Resource) -> Result<Vec<Meta>, ClientError> {
        let query = ListQuery {
            label_selector: format!("{UID}={}", self.app.metadata.uid),
            limit: 500,
            ..ListQuery::default()
        };
        let all = self
            .client
            .list_all_metadata(resource, &self.key.namespace, query, |_| true);
        all.await
    }

    /// An event about the `AppService`.
    pub(super) fn event(&self, type_: EventType, reason: &str, message: &str) {
        let about = ObjectRef::of(&APP_SERVICES, &self.app.metadata);
        self.recorder.event(&about, type_, reason, message);
    }

    fn tell(&self, reason: &str, done: &str, resource: &Resource, child: &Meta) {
        let message = format!("{done} {} {}", resource.kind, child.name);
        self.event(EventType::Normal, reason, &message);
    }

    /// The caches have to show this before the next sync.
    fn wrote(&self, resource: &Resource, object: &Meta, seen: bool) {
        let write = write_of(object, self.env.clock.now(), seen);
        self.written.record(self.key, resource, write, self.caches);
    }
}
