//! One pass over the plan of an `AppService`: what was done, what it has come to, and what stands in the way.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::object::{Meta, Object, Resource};
use serde_json::Value;

use super::act::{Failure, Hands, Made};
use super::admission::Problem;
use super::object::{AppService, Policy, Service};
use super::plan::{Plan, Step};
use super::reconcile::Keeper;
use super::standing::{MADE_AS, Standing, standing};
use super::status::{Observed, Obstacle};
use super::{DEPLOYMENTS, SERVICES, children, former};
use crate::deployment::{Deployment, is_namespace_terminating, said};

/// What a pass has come to.
pub(super) struct Work {
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
    Service,
    Finalizer,
    Status,
}

/// What a child is called, how it is told whose it is, and what it shall be.
trait Child: Object {
    const WHERE: Resource;
    const SITE: Site;

    fn standing(&self, app: &AppService) -> Standing;

    fn wanted(app: &AppService) -> Option<Value>;
}

impl Child for Deployment {
    const WHERE: Resource = DEPLOYMENTS;
    const SITE: Site = Site::Deployment;

    fn standing(&self, app: &AppService) -> Standing {
        standing(&app.metadata, &self.metadata, self.annotations.get(MADE_AS))
    }

    fn wanted(app: &AppService) -> Option<Value> {
        Some(children::deployment(app))
    }
}

impl Child for Service {
    const WHERE: Resource = SERVICES;
    const SITE: Site = Site::Service;

    fn standing(&self, app: &AppService) -> Standing {
        standing(
            &app.metadata,
            &self.metadata,
            self.metadata.annotations.get(MADE_AS),
        )
    }

    fn wanted(app: &AppService) -> Option<Value> {
        children::service(app)
    }
}

impl Work {
    /// Does what is planned, as far as it can be done. Fails where nothing is to be said of it.
    pub(super) async fn of(keeper: &Keeper, hands: &Hands<'_>, plan: &Plan) -> Result<Self, Failure> {
        let mut work = Self {
            meta: hands.app.metadata.clone(),
            deployment: None,
            seen: Observed {
                obstacles: plan.problems.first().map(invalid).into_iter().collect(),
                ..Observed::default()
            },
            error: None,
            taken: false,
            wait: None,
            verified: false,
        };
        if let Some(patch) = &plan.hold
            && !work.hold(keeper, hands, patch).await?
        {
            // Nothing may be without it.
            work.deployment = plan.deployment.present().cloned();
            return Ok(work);
        }
        work.deployment = work.child(keeper, hands, &plan.deployment).await?;
        work.child(keeper, hands, &plan.service).await?;
        work.former(hands, plan).await?;
        if plan.let_go && work.error.is_none() && work.wait.is_none() {
            work.let_go(keeper, hands).await?;
        }
        Ok(work)
    }

    /// Puts the finalizer on. Answers whether it is.
    async fn hold(&mut self, keeper: &Keeper, hands: &Hands<'_>, patch: &Value) -> Result<bool, Failure> {
        let on = Value::Bool(true);
        if self.must_wait(keeper, hands, Site::Finalizer, &on, "The finalizer") {
            return Ok(false);
        }
        match hands.hold(patch).await {
            Ok(meta) => {
                keeper.paced(hands, Site::Finalizer, &on);
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
    async fn let_go(&mut self, keeper: &Keeper, hands: &Hands<'_>) -> Result<(), Failure> {
        let off = Value::Bool(false);
        if self.must_wait(keeper, hands, Site::Finalizer, &off, "The finalizer") {
            return Ok(());
        }
        if let Some(meta) = hands.let_go(&self.meta).await? {
            keeper.paced(hands, Site::Finalizer, &off);
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
    async fn child<T: Child>(
        &mut self,
        keeper: &Keeper,
        hands: &Hands<'_>,
        step: &Step<T>,
    ) -> Result<Option<Arc<T>>, Failure> {
        let kind = &T::WHERE.kind;
        let wanted = || T::wanted(hands.app).unwrap_or_default();
        match step {
            Step::None => Ok(None),
            Step::Keep(present) => Ok(Some(Arc::clone(present))),
            Step::Create(body) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let name = format!("{kind} {name}");
                if self.must_wait(keeper, hands, T::SITE, body, &name) {
                    return Ok(None);
                }
                if hands.app.spec.policy() == Policy::Orphan {
                    // What refers to nobody is collected by nobody, if there is nobody to make it for.
                    self.verify(hands).await?;
                }
                match hands.create::<T>(&T::WHERE, body).await {
                    Ok(Made::Created(made)) => {
                        keeper.paced(hands, T::SITE, body);
                        self.seen.changed |= T::SITE == Site::Deployment;
                        Ok(Some(made))
                    }
                    Ok(Made::Found(found)) => Ok(self.found(hands.app, found)),
                    Err(error) => {
                        self.failed("FailedCreate", &format!("Cannot create {name}"), error)?;
                        Ok(None)
                    }
                }
            }
            Step::Patch(present, patch) => {
                let (meta, wanted) = (present.meta(), wanted());
                if self.must_wait(keeper, hands, T::SITE, &wanted, &format!("{kind} {}", meta.name)) {
                    return Ok(Some(Arc::clone(present)));
                }
                self.verify_for(hands, patch).await?;
                match hands.patch::<T>(&T::WHERE, meta, patch).await {
                    // If it is gone, that is seen next.
                    Ok(patched) => {
                        keeper.paced(hands, T::SITE, &wanted);
                        self.seen.changed |= T::SITE == Site::Deployment && patch.get("spec").is_some();
                        Ok(patched)
                    }
                    Err(error) => {
                        self.failed(
                            "FailedUpdate",
                            &format!("Cannot update {kind} {}", meta.name),
                            error,
                        )?;
                        Ok(Some(Arc::clone(present)))
                    }
                }
            }
            Step::Delete(present) => {
                let meta = present.meta();
                self.verify(hands).await?;
                if let Err(error) = hands.delete(&T::WHERE, meta).await {
                    self.failed(
                        "FailedDelete",
                        &format!("Cannot delete {kind} {}", meta.name),
                        error,
                    )?;
                }
                Ok(None)
            }
            Step::Wait(present) => {
                self.leaving::<T>(present.meta());
                Ok(None)
            }
            Step::Taken(present) => {
                self.place_taken::<T>(present.meta());
                Ok(None)
            }
        }
    }

    /// Removes former Deployments if the present one does their work, or has their references follow the policy.
    async fn former(&mut self, hands: &Hands<'_>, plan: &Plan) -> Result<(), Failure> {
        let replaced = matches!(&plan.deployment,
            Step::Keep(present) if plan.problems.is_empty() && former::is_available(hands.app, present));
        for (old, references) in &plan.former {
            let meta = &old.metadata;
            if replaced {
                self.verify(hands).await?;
                if let Err(error) = hands.delete(&DEPLOYMENTS, meta).await {
                    self.failed(
                        "FailedDelete",
                        &format!("Cannot delete Deployment {}", meta.name),
                        error,
                    )?;
                }
            } else if let Some(patch) = references {
                self.verify_for(hands, patch).await?;
                if let Err(error) = hands.refer(&DEPLOYMENTS, meta, patch).await {
                    self.failed(
                        "FailedUpdate",
                        &format!("Cannot update Deployment {}", meta.name),
                        error,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// What to make of an object that has the name already.
    fn found<T: Child>(&mut self, app: &AppService, found: Arc<T>) -> Option<Arc<T>> {
        match found.standing(app) {
            // An earlier try was not in vain. What differs is seen next.
            Standing::Ours => return Some(found),
            Standing::Leaving => self.leaving::<T>(found.meta()),
            Standing::Foreign => self.place_taken::<T>(found.meta()),
        }
        None
    }

    fn leaving<T: Child>(&mut self, meta: &Meta) {
        let message = format!("{} {} of before is on its way out", T::WHERE.kind, meta.name);
        self.seen.awaited = Some(("WaitingForDeletion", message));
    }

    fn place_taken<T: Child>(&mut self, meta: &Meta) {
        self.taken = true;
        self.seen.obstacles.push(Obstacle {
            reason: "ErrResourceExists",
            message: format!(
                "{} {} exists and is not this AppService's: delete it, or choose another name",
                T::WHERE.kind,
                meta.name
            ),
            told: true,
        });
    }

    /// Before what cannot be undone: what the `AppService` asked for when it was read is what it asks for.
    async fn verify(&mut self, hands: &Hands<'_>) -> Result<(), Failure> {
        if !self.verified {
            hands.verify().await?;
            self.verified = true;
        }
        Ok(())
    }

    /// What is made to refer to the `AppService` must not be made to refer to nobody.
    async fn verify_for(&mut self, hands: &Hands<'_>, patch: &Value) -> Result<(), Failure> {
        let policy = hands.app.spec.policy();
        if policy == Policy::Delete && patch["metadata"].get("ownerReferences").is_some() {
            self.verify(hands).await?;
        }
        Ok(())
    }

    /// Whether the same was written so often of late that somebody must be undoing it.
    fn must_wait(
        &mut self,
        keeper: &Keeper,
        hands: &Hands<'_>,
        site: Site,
        wanted: &Value,
        name: &str,
    ) -> bool {
        let wait = keeper.pace(hands, site, wanted);
        if wait.is_zero() {
            return false;
        }
        self.wait = Some(self.wait.map_or(wait, |it| it.min(wait)));
        self.seen.obstacles.push(Obstacle {
            reason: "Contested",
            message: format!("{name} does not stay as it is made: somebody else changes or deletes it"),
            told: true,
        });
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
            self.seen.obstacles.push(Obstacle {
                reason,
                message: format!("{what}: {}", said(&error)),
                told: true,
            });
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
            Self::Keep(present) | Self::Patch(present, _) => Some(present),
            _ => None,
        }
    }
}

fn invalid(problem: &Problem) -> Obstacle {
    Obstacle {
        reason: "InvalidSpec",
        message: format!("{}: {}", problem.field, problem.message),
        told: true,
    }
}
