//! One sync of an `AppService`, and the controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::cache::{Cache, Caches, Delta, Lookup};
use coxswain_manager::client::Client;
use coxswain_manager::controller::{
    self, Action, Builder, Context, Controller, ControllerError, ReconcileError, Reconciler,
};
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, Recorder};
use coxswain_manager::handler::Handler;
use coxswain_manager::object::{Key, Meta, Resource, Text, Uid};
use coxswain_manager::predicate::Predicate;
use coxswain_manager::source::Source;
use prometheus::Registry;
use serde_json::Value;
use tokio::time::Instant;

use super::act::{Failure, Hands};
use super::plan::{self, Snapshot};
use super::policy::{self, FINALIZER};
use super::service::Service;
use super::standing::{ADOPT_BY, MADE_AS, Standing, UID, standing};
use super::status::Status;
use super::work::{Site, Work};
use super::{APP_SERVICES, DEPLOYMENTS, NAME, SERVICES, children};
use crate::api::app_service::{AppService, Policy};
use crate::support::deployment::Deployment;
use crate::support::memory::{BEHIND, Memory};
use crate::support::pod_template::Canonical;
use crate::support::template_hash::Hash;
use crate::support::write_backoff::WriteBackoff;

/// How long a sync waits while the kind is not served, if no event comes before.
const UNSERVED: Duration = Duration::from_secs(10);

/// How long an apply that was refused waits, if its child does not change.
const REFUSED_RETRY: Duration = Duration::from_mins(1);

/// The controller, on its caches.
#[derive(Debug)]
pub struct Keeper {
    caches: Caches,
    apps: Cache<AppService>,
    deployments: Cache<Deployment>,
    services: Cache<Service>,
    recorder: Recorder,
    memory: Memory<Known>,
}

/// What is remembered of an `AppService`.
#[derive(Debug, Default)]
struct Known {
    /// How often the same was written.
    paces: BTreeMap<Site, WriteBackoff<Hash>>,
    /// The last apply to each child that other field managers stood against.
    refused: BTreeMap<Site, Refused>,
    /// It was seen that its dependents are to be orphaned.
    orphaned: bool,
}

/// An apply that other field managers have refused.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// The desired state, and the generation of the child.
    of: (Hash, i64),
    /// The end of the time in which it is not sent again.
    pub(super) until: Instant,
    /// The refusal, for a condition.
    pub(super) message: String,
}

/// What there is for an `AppService`.
struct Seen {
    /// The Deployments that may be its own, and the one of the name.
    deployments: Vec<Arc<Deployment>>,
    /// The Service of its name.
    service: Option<Arc<Service>>,
}

/// Builds the controller.
///
/// # Panics
/// Outside a tokio runtime.
pub fn build(
    env: &Env,
    caches: &Caches,
    client: Client,
    registry: &Registry,
    recorder: Recorder,
    workers: usize,
) -> Result<Controller<Keeper>, ControllerError> {
    let (apps, deployments, services) = (
        caches.of::<AppService>(&APP_SERVICES),
        caches.of_labels::<Deployment>(&DEPLOYMENTS, &[UID]),
        caches.of::<Service>(&SERVICES),
    );
    let keeper = Keeper {
        caches: caches.clone(),
        apps: apps.clone(),
        deployments: deployments.clone(),
        services: services.clone(),
        recorder,
        memory: Memory::default(),
    };
    let how = controller::Options {
        workers,
        queue: Some("appservice".to_owned()),
        ..controller::Options::default()
    };
    let owner = Handler::map(|it: &Deployment| owner(it).into_iter().collect());
    let waiting = {
        let apps = apps.clone();
        Handler::map(move |it: &Deployment| claimants(&apps, &it.metadata))
    };
    let freed = Predicate::new(|delta: &Delta<Deployment>| match delta {
        Delta::Added { .. } => false,
        Delta::Updated { old, new } => whose(old) != whose(new),
        Delta::Deleted { .. } => true,
    });
    let namesake = {
        let apps = apps.clone();
        Handler::map(move |it: &Service| {
            let key = it.metadata.key();
            apps.get(&key).present().map(|_| key).into_iter().collect()
        })
    };
    Builder::new(NAME, how, keeper)
        .watch(Source::new(apps, Handler::for_object()))
        .watch(Source::new(deployments.clone(), owner))
        .watch(Source::new(deployments, waiting).only(freed))
        .watch(Source::new(services, namesake))
        .build(env, client, registry)
}

/// The `AppService` whose child this is, or says to be.
fn owner(it: &Deployment) -> Option<Key> {
    let meta = &it.metadata;
    let name = match meta.controller() {
        Some(controller) if controller.kind == *APP_SERVICES.kind => &controller.name,
        Some(_) => return None,
        None => it
            .annotations
            .get(ADOPT_BY)
            .or_else(|| children::instance(&meta.labels))?,
    };
    Some(Key::new(meta.namespace.clone(), name.clone()))
}

/// All that decides whose a Deployment is.
fn whose(it: &Deployment) -> (Option<&Uid>, Option<&Text>, Option<&Text>, &Uid) {
    let meta = &it.metadata;
    let controller = meta.controller().map(|it| &it.uid);
    (
        controller,
        meta.labels.get(UID),
        it.annotations.get(MADE_AS),
        &meta.uid,
    )
}

/// The `AppServices` that want a Deployment of this name, whoever has it.
fn claimants(apps: &Cache<AppService>, meta: &Meta) -> Vec<Key> {
    let all = apps.list_namespace(&meta.namespace).into_iter();
    let wants = |it: &Arc<AppService>| it.spec.deployment_name == meta.name;
    all.filter(wants).map(|it| it.metadata.key()).collect()
}

impl Reconciler for Keeper {
    async fn reconcile(&self, context: Context, key: Key) -> Result<Action, ReconcileError> {
        self.memory.enter(context.term, || {});
        let app = match self.apps.get(&key) {
            Lookup::Present(app) => app,
            Lookup::Absent => {
                self.memory.forget(&key);
                return Ok(Action::Done);
            }
            // It is there, and nobody can tell what it wants.
            Lookup::Undecodable => return Ok(Action::Done),
        };
        // What the cache shows may all be gone with its kind: nothing is made for it.
        if self.apps.is_unserved() {
            return Ok(Action::Postpone(UNSERVED));
        }
        self.know(&key, &app);
        let now = context.env.clock.now();
        if self.memory.behind(&key, now, &self.caches).is_some() {
            return Ok(Action::Postpone(BEHIND));
        }
        let hands = Hands {
            app: &app,
            key: &key,
            client: &context.client,
            env: &context.env,
            caches: &self.caches,
            written: &self.memory.written,
            recorder: &self.recorder,
        };
        let synced = if app.metadata.is_terminating() {
            self.farewell(&hands).await
        } else {
            self.sync(&hands).await
        };
        match synced {
            // Not worth a word: it is normal next to others who write.
            Err(failure) if failure.is_conflict() => Ok(Action::RequeueAfter(Duration::ZERO)),
            // The cache will show that, or say that it does not know the kind.
            Err(Failure::Gone { .. }) => {
                self.caches.relist(&APP_SERVICES);
                Ok(Action::RequeueAfter(Duration::ZERO))
            }
            done => Ok(done?),
        }
    }
}

impl Keeper {
    async fn sync(&self, hands: &Hands<'_>) -> Result<Action, Failure> {
        let app = hands.app;
        let Some(Seen { deployments, service }) = self.look(app) else {
            return Ok(Action::Done);
        };
        let plan = plan::plan(&Snapshot {
            app,
            deployments: &deployments,
            service: service.as_ref(),
        });
        let work = Work::of(self, hands, &plan).await?;
        let observed = work.observed();
        let status = Status::of(app, &observed, hands.env.clock.wall());
        if let Some(obstacle) = status.news(app, &observed) {
            hands.event(EventType::Warning, obstacle.reason, &obstacle.message);
        }
        let mut wait = work.wait;
        if let Some(patch) = status.patch(app, &work.meta) {
            let said = status.said();
            let unsaid = self.pace(hands, Site::Status, &said);
            if unsaid.is_zero() {
                hands.write_status(&patch).await?;
                self.paced(hands, Site::Status, &said);
            } else {
                wait = Some(wait.map_or(unsaid, |it| it.min(unsaid)));
            }
        }
        if let Some(error) = work.error {
            return Err(error);
        }
        Ok(match wait {
            Some(wait) => Action::RequeueAfter(wait),
            None if work.taken => Action::RequeueAfter(Duration::ZERO),
            None => Action::Done,
        })
    }

    /// What there is. None if the Deployment of the name, or the Service, cannot be decoded: then nobody can tell what it is.
    fn look(&self, app: &AppService) -> Option<Seen> {
        let namespace = &app.metadata.namespace;
        let named = Key::new(namespace.clone(), app.spec.deployment_name.clone());
        let named = self.deployments.get(&named);
        let service = self.services.get(&app.metadata.key());
        if matches!(named, Lookup::Undecodable) || matches!(service, Lookup::Undecodable) {
            return None;
        }
        let mut deployments = self.deployments.by_owner(&app.metadata.uid);
        deployments.extend(self.deployments.by_label(UID, &app.metadata.uid.to_string()));
        deployments.extend(named.present());
        deployments.retain(|it| it.metadata.namespace == *namespace);
        deployments.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        deployments.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        Some(Seen {
            deployments,
            service: service.present(),
        })
    }

    /// The end of an `AppService`: its children are let go, or follow it, as it asks for.
    async fn farewell(&self, hands: &Hands<'_>) -> Result<Action, Failure> {
        let app = hands.app;
        let held = app.metadata.has_finalizer(FINALIZER);
        if !held && app.spec.policy() == Policy::Delete {
            return Ok(Action::Done);
        }
        let children = self.children(hands).await?;
        let children = children.values().map(|(resource, meta)| (resource, meta));
        let orphaned = self.memory.with(hands.key, |known| known.orphaned);
        let farewell = policy::farewell(app, orphaned == Some(true), children);
        if app.spec.policy() == Policy::Delete && !farewell.references.is_empty() {
            hands.verify().await?;
        }
        for (resource, child, patch) in &farewell.references {
            if let Err(error) = hands.refer(resource, child, patch).await {
                if error.code().is_some_and(|code| code < 500) && !error.is_conflict() {
                    let message = format!("Cannot update {} {}: {error}", resource.kind, child.name);
                    hands.event(EventType::Warning, "FailedUpdate", &message);
                }
                return Err(error.into());
            }
        }
        if farewell.held {
            hands.let_go(&app.metadata).await?;
        }
        Ok(Action::Done)
    }

    /// All children, by uid: what the caches show, and what is there now, because what is overlooked here is lost.
    async fn children(&self, hands: &Hands<'_>) -> Result<BTreeMap<Uid, (Resource, Meta)>, Failure> {
        let app = &hands.app.metadata;
        let mut all = Vec::new();
        for it in self.deployments.by_owner(&app.uid) {
            all.push((DEPLOYMENTS, it.metadata.clone()));
        }
        for it in self.services.by_owner(&app.uid) {
            all.push((SERVICES, it.metadata.clone()));
        }
        for resource in [DEPLOYMENTS, SERVICES] {
            let marked = hands.marked(&resource).await?;
            all.extend(marked.into_iter().map(|it| (resource.clone(), it)));
        }
        let own = all.into_iter().filter(|(_, it)| {
            let controlled = it.controller().is_some_and(|it| it.uid == app.uid);
            let standing = standing(app, it, &it.annotations);
            it.namespace == app.namespace && (controlled || standing == Standing::Ours)
        });
        Ok(own
            .map(|(resource, it)| (it.uid.clone(), (resource, it)))
            .collect())
    }

    /// How long the same write has to wait, because it was done so often of late.
    pub(super) fn pace(&self, hands: &Hands<'_>, site: Site, wanted: &Value) -> Duration {
        let now = hands.env.clock.now();
        let wait = |known: &mut Known| known.paces.get(&site).map(|it| it.wait(hash(wanted), now));
        self.memory.with(hands.key, wait).flatten().unwrap_or_default()
    }

    /// This was written.
    pub(super) fn paced(&self, hands: &Hands<'_>, site: Site, wanted: &Value) {
        let now = hands.env.clock.now();
        self.memory.with(hands.key, |known| {
            known.paces.entry(site).or_default().wrote(hash(wanted), now);
        });
    }

    /// Returns the refusal of the same apply to the same state of the child, if it was short ago.
    pub(super) fn refused(
        &self,
        hands: &Hands<'_>,
        site: Site,
        desired: &Value,
        child: &Meta,
    ) -> Option<Refused> {
        let known = |known: &mut Known| known.refused.get(&site).cloned();
        let refused = self.memory.with(hands.key, known).flatten();
        let of = (hash(desired), child.generation);
        refused.filter(|it| it.of == of && hands.env.clock.now() < it.until)
    }

    /// Remembers that an apply was refused.
    pub(super) fn refuse(
        &self,
        hands: &Hands<'_>,
        site: Site,
        desired: &Value,
        child: &Meta,
        message: String,
    ) -> Refused {
        let refused = Refused {
            of: (hash(desired), child.generation),
            until: hands.env.clock.after(REFUSED_RETRY),
            message,
        };
        let remembered = refused.clone();
        self.memory
            .with(hands.key, |known| known.refused.insert(site, remembered));
        refused
    }

    /// This is the one of the name, and what was seen of it stays known.
    fn know(&self, key: &Key, app: &AppService) {
        self.memory.know(key, &app.metadata.uid, Known::default);
        if policy::is_orphaned(app) {
            self.memory.with(key, |known| known.orphaned = true);
        }
    }
}

fn hash(body: &Value) -> Hash {
    Hash::of(&Canonical::of(&body.to_string()))
}
