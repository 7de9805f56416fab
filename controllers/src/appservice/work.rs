//! One pass over the plan of an `AppService`: what was done, what it has come to, and what stands in the way.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::object::{Meta, Resource};
use serde_json::Value;

use super::act::{Failure, Hands, Made};
use super::drift::{self, Child};
use super::plan::{Plan, Step, standing_of};
use super::reconcile::{Keeper, Refused};
use super::service::Service;
use super::standing::{ADOPT_BY, Standing};
use super::status::{Observed, Obstacle};
use super::{DEPLOYMENTS, SERVICES, former};
use crate::api::app_service::Policy;
use crate::support::deployment::Deployment;
use crate::support::errors::{self, is_field_conflict, is_namespace_terminating};

/// What a pass has come to.
pub(super) struct Work<'a> {
    keeper: &'a Keeper,
    hands: &'a Hands<'a>,
    /// The metadata of the `AppService`, as it is now.
    pub(super) meta: Meta,
    /// The Deployment, as it is now.
    pub(super) deployment: Option<Arc<Deployment>>,
    /// What is to be said of it.
    seen: Observed<'static>,
    /// What is to be tried again.
    pub(super) error: Option<Failure>,
    /// A place is taken: it is looked at again, less and less often.
    pub(super) taken: bool,
    /// When to look again, if something could not be done yet.
    pub(super) wait: Option<Duration>,
    /// The `AppService` was found to ask for what it asked for.
    verified: bool,
}

/// What is written again and again if somebody else undoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Site {
    Deployment,
    DeploymentReference,
    Service,
    ServiceReference,
    Finalizer,
    Status,
}

/// A kind of children.
trait Kind: Child {
    const WHERE: Resource;
    const SITE: Site;
    const REFERENCE: Site;
}

impl Kind for Deployment {
    const WHERE: Resource = DEPLOYMENTS;
    const SITE: Site = Site::Deployment;
    const REFERENCE: Site = Site::DeploymentReference;
}

impl Kind for Service {
    const WHERE: Resource = SERVICES;
    const SITE: Site = Site::Service;
    const REFERENCE: Site = Site::ServiceReference;
}

impl<'a> Work<'a> {
    /// Does what is planned, as far as it can be done. Fails where nothing is to be said of it.
    pub(super) async fn of(keeper: &'a Keeper, hands: &'a Hands<'a>, plan: &Plan) -> Result<Self, Failure> {
        let mut work = Self {
            keeper,
            hands,
            meta: hands.app.metadata.clone(),
            deployment: None,
            seen: Observed::default(),
            error: None,
            taken: false,
            wait: None,
            verified: false,
        };
        if let Some(problem) = plan.problems.first() {
            work.obstacle("InvalidSpec", format!("{}: {}", problem.field, problem.message));
        }
        if let Some(patch) = &plan.hold
            && !work.hold(patch).await?
        {
            // Nothing may be without it.
            work.deployment = plan.deployment.present().cloned();
            return Ok(work);
        }
        work.deployment = work.child(&plan.deployment).await?;
        work.child(&plan.service).await?;
        work.former(plan).await?;
        if plan.let_go && work.error.is_none() && work.wait.is_none() {
            work.let_go().await?;
        }
        Ok(work)
    }

    /// Puts the finalizer on. Answers whether it is.
    async fn hold(&mut self, patch: &Value) -> Result<bool, Failure> {
        let on = Value::Bool(true);
        if self.must_wait(Site::Finalizer, &on, "The finalizer") {
            return Ok(false);
        }
        match self.hands.hold(patch).await {
            Ok(meta) => {
                self.keeper.paced(self.hands, Site::Finalizer, &on);
                self.meta = meta;
                // It was still in the state in which it was read.
                self.verified = true;
                Ok(true)
            }
            Err(Failure::Client(error)) => {
                self.failed("FailedUpdate", "Cannot put the finalizer on", error)?;
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Takes the finalizer off.
    async fn let_go(&mut self) -> Result<(), Failure> {
        let off = Value::Bool(false);
        if self.must_wait(Site::Finalizer, &off, "The finalizer") {
            return Ok(());
        }
        if let Some(meta) = self.hands.let_go(&self.meta).await? {
            self.keeper.paced(self.hands, Site::Finalizer, &off);
            self.meta = meta;
        }
        Ok(())
    }

    /// For the status.
    pub(super) fn observed(&self) -> Observed<'_> {
        Observed {
            deployment: self.deployment.as_deref(),
            ..self.seen.clone()
        }
    }

    /// Brings a child to what it shall be. Answers what it is then, if it is there.
    async fn child<T: Kind>(&mut self, step: &Step<T>) -> Result<Option<Arc<T>>, Failure> {
        let kind = &T::WHERE.kind;
        match step {
            Step::None => Ok(None),
            Step::Keep(present) => Ok(Some(Arc::clone(present))),
            Step::Create(body) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let name = format!("{kind} {name}");
                if self.must_wait(T::SITE, body, &name) {
                    return Ok(None);
                }
                if self.hands.app.spec.policy() == Policy::Orphan {
                    // What refers to nobody is collected by nobody, if there is nobody to make it for.
                    self.verify().await?;
                }
                match self.hands.create::<T>(&T::WHERE, body).await {
                    Ok(Made::Created(made)) => {
                        self.keeper.paced(self.hands, T::SITE, body);
                        self.seen.changed |= T::SITE == Site::Deployment;
                        Ok(Some(made))
                    }
                    Ok(Made::Found(found)) => Ok(self.found(found)),
                    Err(error) => {
                        self.failed("FailedCreate", &format!("Cannot create {name}"), error)?;
                        Ok(None)
                    }
                }
            }
            Step::Apply(present, desired) => self.apply(present, desired).await,
            Step::Refer(present, patch) => {
                self.refer_paced::<T>(present.meta(), patch).await?;
                Ok(Some(Arc::clone(present)))
            }
            Step::Delete(present) => self.delete(&T::WHERE, present.meta()).await.map(|()| None),
            Step::Wait(present) | Step::Taken(present) => Ok(self.found(Arc::clone(present))),
        }
    }

    /// Applies the desired state of a child. A field that another manager owns is not forced: the refusal becomes a
    /// condition, and the same apply is not sent again for a minute, unless the child changes.
    async fn apply<T: Kind>(&mut self, present: &Arc<T>, desired: &Value) -> Result<Option<Arc<T>>, Failure> {
        let meta = present.meta();
        let name = format!("{} {}", T::WHERE.kind, meta.name);
        if let Some(refused) = self.keeper.refused(self.hands, T::SITE, desired, meta) {
            self.refused::<T>(meta, refused).await?;
            return Ok(Some(Arc::clone(present)));
        }
        if self.must_wait(T::SITE, desired, &name) {
            return Ok(Some(Arc::clone(present)));
        }
        if desired["metadata"].get("ownerReferences").is_some() && !drift::refers(self.hands.app, meta) {
            self.verify().await?;
        }
        match self.hands.apply::<T>(&T::WHERE, meta, desired).await {
            // If it is gone, that is seen next.
            Ok(applied) => {
                self.keeper.paced(self.hands, T::SITE, desired);
                let generation = applied.as_ref().map(|it| it.meta().generation);
                self.seen.changed |= T::SITE == Site::Deployment && generation != Some(meta.generation);
                Ok(applied)
            }
            Err(Failure::Client(error)) if is_field_conflict(&error) => {
                let message = format!("Cannot update {name}: {}", errors::message(&error));
                let refused = self.keeper.refuse(self.hands, T::SITE, desired, meta, message);
                self.refused::<T>(meta, refused).await?;
                Ok(Some(Arc::clone(present)))
            }
            Err(Failure::Client(error)) => {
                self.failed("FailedUpdate", &format!("Cannot update {name}"), error)?;
                Ok(Some(Arc::clone(present)))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Deletes a child.
    async fn delete(&mut self, resource: &Resource, meta: &Meta) -> Result<(), Failure> {
        self.verify().await?;
        if let Err(error) = self.hands.delete(resource, meta).await {
            let what = format!("Cannot delete {} {}", resource.kind, meta.name);
            self.failed("FailedDelete", &what, error)?;
        }
        Ok(())
    }

    /// Patches the ownerReference of a child.
    async fn refer(&mut self, resource: &Resource, meta: &Meta, patch: &Value) -> Result<(), Failure> {
        if self.hands.app.spec.policy() == Policy::Delete {
            // The reference must not be one to an object that is gone.
            self.verify().await?;
        }
        if let Err(error) = self.hands.refer(resource, meta, patch).await {
            let what = format!("Cannot update {} {}", resource.kind, meta.name);
            self.failed("FailedUpdate", &what, error)?;
        }
        Ok(())
    }

    /// An apply was refused. The policy is followed all the same.
    async fn refused<T: Kind>(&mut self, meta: &Meta, refused: Refused) -> Result<(), Failure> {
        self.wait_for(refused.until - self.hands.env.clock.now());
        self.obstacle("FieldManagerConflict", refused.message);
        match drift::reference(self.hands.app, meta) {
            Some(patch) => self.refer_paced::<T>(meta, &patch).await,
            None => Ok(()),
        }
    }

    /// Patches the ownerReference of a child, unless that was done too often.
    async fn refer_paced<T: Kind>(&mut self, meta: &Meta, patch: &Value) -> Result<(), Failure> {
        let references = &patch["metadata"]["ownerReferences"];
        let name = format!("{} {}", T::WHERE.kind, meta.name);
        if !self.must_wait(T::REFERENCE, references, &name) {
            self.refer(&T::WHERE, meta, patch).await?;
            self.keeper.paced(self.hands, T::REFERENCE, references);
        }
        Ok(())
    }

    fn wait_for(&mut self, wait: Duration) {
        self.wait = Some(self.wait.map_or(wait, |it| it.min(wait)));
    }

    /// Something that the user has to mend, and is told of.
    fn obstacle(&mut self, reason: &'static str, message: String) {
        self.seen.obstacles.push(Obstacle {
            reason,
            message,
            told: true,
        });
    }

    /// Removes former Deployments if the present one does their work, or has their references follow the policy.
    async fn former(&mut self, plan: &Plan) -> Result<(), Failure> {
        let replaced = matches!(&plan.deployment,
            Step::Keep(present) if plan.problems.is_empty() && former::is_available(self.hands.app, present));
        for (old, references) in &plan.former {
            let meta = &old.metadata;
            if replaced {
                self.delete(&DEPLOYMENTS, meta).await?;
            } else if let Some(patch) = references {
                self.refer(&DEPLOYMENTS, meta, patch).await?;
            }
        }
        Ok(())
    }

    /// What to make of an object that has the name.
    fn found<T: Kind>(&mut self, found: Arc<T>) -> Option<Arc<T>> {
        let meta = found.meta();
        match standing_of(self.hands.app, &*found) {
            // An earlier try was not in vain, or it is to be adopted. What differs is seen next.
            Standing::Ours | Standing::Adoptable => return Some(found),
            Standing::Leaving => self.leaving::<T>(meta),
            Standing::Foreign => self.place_taken::<T>(meta),
        }
        None
    }

    fn leaving<T: Kind>(&mut self, meta: &Meta) {
        let message = format!("{} {} of before is on its way out", T::WHERE.kind, meta.name);
        self.seen.awaited = Some(("WaitingForDeletion", message));
    }

    fn place_taken<T: Kind>(&mut self, meta: &Meta) {
        self.taken = true;
        let message = format!(
            "{} {} exists and does not belong to this AppService: delete it, choose another name, or annotate it with \
             {ADOPT_BY}={} to have it adopted",
            T::WHERE.kind,
            meta.name,
            self.meta.name,
        );
        self.obstacle("ErrResourceExists", message);
    }

    /// Before what cannot be undone: what the `AppService` asked for when it was read is what it asks for.
    async fn verify(&mut self) -> Result<(), Failure> {
        if !self.verified {
            self.hands.verify().await?;
            self.verified = true;
        }
        Ok(())
    }

    /// Whether the same was written so often of late that somebody must be undoing it.
    fn must_wait(&mut self, site: Site, wanted: &Value, name: &str) -> bool {
        let wait = self.keeper.pace(self.hands, site, wanted);
        if wait.is_zero() {
            return false;
        }
        self.wait_for(wait);
        let message = format!("{name} is changed or deleted again and again by another client");
        self.obstacle("Contested", message);
        true
    }

    /// A request has failed: what the user has to mend is an obstacle, all else is tried again. Ends the sync if
    /// nothing can be said.
    fn failed(&mut self, reason: &'static str, what: &str, error: ClientError) -> Result<(), Failure> {
        if error.is_conflict() || matches!(error, ClientError::Fenced { .. }) {
            return Err(error.into());
        }
        if is_namespace_terminating(&error) {
            self.seen.obstacles.push(Obstacle {
                reason: "NamespaceTerminating",
                message: "The namespace is on its way out: nothing is made in it".to_owned(),
                told: false,
            });
            let key = self.meta.key();
            self.error = Some(Failure::NamespaceGoes { key });
            return Ok(());
        }
        if error
            .code()
            .is_some_and(|code| (400..500).contains(&code) && code != 408 && code != 429)
        {
            self.obstacle(reason, format!("{what}: {}", errors::message(&error)));
        } else {
            self.seen.unclear = true;
        }
        self.error.get_or_insert(error.into());
        Ok(())
    }
}

impl<T> Step<T> {
    /// What is there now, if it is the `AppService`'s.
    fn present(&self) -> Option<&Arc<T>> {
        match self {
            Self::Keep(present) | Self::Apply(present, _) | Self::Refer(present, _) => Some(present),
            _ => None,
        }
    }
}
