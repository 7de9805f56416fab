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
use super::{DEPLOYMENTS, SERVICES, former};
use crate::deployment::{Deployment, is_namespace_terminating, said};

/// What a pass has come to.
pub(super) struct Work {
    /// The metadata of the `AppService`, as it is now.
    pub(super) meta: Meta,
    /// The Deployment, as it is now.
    pub(super) deployment: Option<Arc<Deployment>>,
    obstacles: Vec<Obstacle>,
    awaited: Option<(&'static str, String)>,
    unclear: bool,
    /// What is to be tried again.
    pub(super) error: Option<Failure>,
    /// A place is taken: it is looked at again, less and less often.
    pub(super) taken: bool,
    /// When to look again, if something could not be done yet.
    pub(super) wait: Option<Duration>,
    /// The `AppService` was found to be what it was.
    verified: bool,
}

/// What a child is called, and how it is told whose it is.
trait Child: Object {
    const WHERE: Resource;

    fn standing(&self, app: &AppService) -> Standing;
}

impl Child for Deployment {
    const WHERE: Resource = DEPLOYMENTS;

    fn standing(&self, app: &AppService) -> Standing {
        standing(&app.metadata, &self.metadata, self.annotations.get(MADE_AS))
    }
}

impl Child for Service {
    const WHERE: Resource = SERVICES;

    fn standing(&self, app: &AppService) -> Standing {
        standing(
            &app.metadata,
            &self.metadata,
            self.metadata.annotations.get(MADE_AS),
        )
    }
}

impl Work {
    /// Does what is planned, as far as it can be done. Fails where nothing is to be said of it.
    pub(super) async fn of(keeper: &Keeper, hands: &Hands<'_>, plan: &Plan) -> Result<Self, Failure> {
        let mut work = Self {
            meta: hands.app.metadata.clone(),
            deployment: None,
            obstacles: plan.problems.first().map(invalid).into_iter().collect(),
            awaited: None,
            unclear: false,
            error: None,
            taken: false,
            wait: None,
            verified: false,
        };
        if let Some(patch) = &plan.hold {
            match hands.hold(patch).await {
                Ok(meta) => work.meta = meta,
                Err(error) => {
                    // Nothing may be without it.
                    work.failed("FailedUpdate", "Cannot put the finalizer on", error)?;
                    work.deployment = plan.deployment.present().cloned();
                    return Ok(work);
                }
            }
        }
        work.deployment = work.child(keeper, hands, &plan.deployment).await?;
        work.child(keeper, hands, &plan.service).await?;
        work.former(hands, plan).await?;
        if plan.let_go
            && work.error.is_none()
            && work.wait.is_none()
            && let Some(meta) = hands.let_go(&work.meta).await?
        {
            work.meta = meta;
        }
        Ok(work)
    }

    /// For the status.
    pub(super) fn observed(&self) -> Observed<'_> {
        Observed {
            deployment: self.deployment.as_deref(),
            obstacles: self.obstacles.clone(),
            awaited: self.awaited.clone(),
            unclear: self.unclear,
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
        match step {
            Step::None => Ok(None),
            Step::Keep(present) => Ok(Some(Arc::clone(present))),
            Step::Create(body) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.must_wait(keeper, hands, &T::WHERE, body, &name) {
                    return Ok(None);
                }
                match hands.create::<T>(&T::WHERE, body).await {
                    Ok(Made::Created(made)) => {
                        keeper.paced(hands, &T::WHERE, body);
                        Ok(Some(made))
                    }
                    Ok(Made::Found(found)) => Ok(self.found(hands.app, found)),
                    Err(error) => {
                        self.failed("FailedCreate", &format!("Cannot create {kind} {name}"), error)?;
                        Ok(None)
                    }
                }
            }
            Step::Patch(present, patch) => {
                let (meta, change) = (present.meta(), unlocked(patch));
                if self.must_wait(keeper, hands, &T::WHERE, &change, &meta.name) {
                    return Ok(Some(Arc::clone(present)));
                }
                self.verify(hands, patch).await?;
                match hands.patch::<T>(&T::WHERE, meta, patch).await {
                    // If it is gone, that is seen next.
                    Ok(patched) => {
                        keeper.paced(hands, &T::WHERE, &change);
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
                if let Err(error) = hands.delete(&DEPLOYMENTS, meta).await {
                    self.failed(
                        "FailedDelete",
                        &format!("Cannot delete Deployment {}", meta.name),
                        error,
                    )?;
                }
            } else if let Some(patch) = references {
                self.verify(hands, patch).await?;
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
        self.awaited = Some(("WaitingForDeletion", message));
    }

    fn place_taken<T: Child>(&mut self, meta: &Meta) {
        self.taken = true;
        self.obstacles.push(Obstacle {
            reason: "ErrResourceExists",
            message: format!(
                "{} {} exists and is not this AppService's: delete it, or choose another name",
                T::WHERE.kind,
                meta.name
            ),
            told: true,
        });
    }

    /// What is made to refer to the `AppService` must not be made to refer to nobody.
    async fn verify(&mut self, hands: &Hands<'_>, patch: &Value) -> Result<(), Failure> {
        let refers =
            hands.app.spec.policy() == Policy::Delete && patch["metadata"].get("ownerReferences").is_some();
        if refers && !self.verified {
            hands.verify().await?;
            self.verified = true;
        }
        Ok(())
    }

    /// Whether the same was written so often of late that somebody must be undoing it.
    fn must_wait(
        &mut self,
        keeper: &Keeper,
        hands: &Hands<'_>,
        resource: &Resource,
        body: &Value,
        name: &str,
    ) -> bool {
        let wait = keeper.pace(hands, resource, body);
        if wait.is_zero() {
            return false;
        }
        self.wait = Some(self.wait.map_or(wait, |it| it.min(wait)));
        self.obstacles.push(Obstacle {
            reason: "Contested",
            message: format!(
                "{} {name} does not stay as it is made: somebody else changes or deletes it",
                resource.kind
            ),
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
            self.obstacles.push(Obstacle {
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
            self.obstacles.push(Obstacle {
                reason,
                message: format!("{what}: {}", said(&error)),
                told: true,
            });
        } else {
            self.unclear = true;
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

/// What a patch changes, in whatever state.
fn unlocked(patch: &Value) -> Value {
    let mut patch = patch.clone();
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    patch
}
