//! What to do for an `AppService`, decided from what was observed. Pure.

use std::sync::Arc;

use coxswain_manager::object::{Meta, Text};
use serde_json::Value;

use super::admission::Problem;
use super::object::{AppService, Service};
use super::standing::{MADE_AS, Standing, standing};
use super::{admission, children, drift, former, policy};
use crate::deployment::Deployment;

/// What a sync has observed.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The `AppService`.
    pub app: &'a AppService,
    /// All Deployments that may be its own, and the one that has the name.
    pub deployments: &'a [Arc<Deployment>],
    /// The Service of its name.
    pub service: Option<&'a Arc<Service>>,
}

/// What is to be done, in this order; then the status is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Why nothing is done but to follow the policy.
    pub problems: Vec<Problem>,
    /// The patch that puts the finalizer on.
    pub hold: Option<Value>,
    /// What becomes of the Deployment.
    pub deployment: Step<Deployment>,
    /// What becomes of the Service.
    pub service: Step<Service>,
    /// The former Deployments, and the patches that make their references what the policy asks for.
    pub former: Vec<(Arc<Deployment>, Option<Value>)>,
    /// Whether the finalizer goes when all this is done.
    pub let_go: bool,
}

/// What becomes of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Step<T> {
    /// Nothing: there is none, and there shall be none.
    #[default]
    None,
    /// Nothing: it is as it shall be.
    Keep(Arc<T>),
    /// It is made.
    Create(Value),
    /// It is made what it shall be.
    Patch(Arc<T>, Value),
    /// It is not wanted any more.
    Delete(Arc<T>),
    /// Its place is taken by one that is on its way out.
    Wait(Arc<T>),
    /// Its place is taken.
    Taken(Arc<T>),
}

/// What to do next. Not for one that is being deleted.
#[must_use]
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let Snapshot {
        app,
        deployments,
        service,
    } = *snapshot;
    let problems = admission::problems(app);
    let valid = problems.is_empty();
    let present = deployments
        .iter()
        .find(|it| it.metadata.name == app.spec.deployment_name);
    let wanted = children::service(app);
    let deployment = step(
        app,
        present,
        valid.then(|| children::deployment(app)),
        |it| (&it.metadata, it.annotations.get(MADE_AS)),
        |it| drift::deployment(app, it),
    );
    let service = match (service, valid) {
        (Some(present), true) if wanted.is_none() => {
            // None is wanted: one that is not its own is none of its business.
            match standing_of(app, present) {
                Standing::Ours => Step::Delete(Arc::clone(present)),
                Standing::Leaving | Standing::Foreign => Step::None,
            }
        }
        (present, _) => step(
            app,
            present,
            wanted.clone().filter(|_| valid),
            |it| (&it.metadata, it.metadata.annotations.get(MADE_AS)),
            |it| drift::service(app, wanted.as_ref()?, it),
        ),
    };
    let former =
        former::all(app, deployments).map(|it| (Arc::clone(it), drift::reference(app, &it.metadata)));
    Plan {
        hold: policy::hold(app),
        deployment,
        service,
        former: former.collect(),
        let_go: policy::is_held_in_vain(app),
        problems,
    }
}

/// What becomes of a child that shall be `wanted`; if nothing is said of that, its references follow the policy.
fn step<T>(
    app: &AppService,
    present: Option<&Arc<T>>,
    wanted: Option<Value>,
    meta: impl Fn(&T) -> (&Meta, Option<&Text>),
    differs: impl Fn(&T) -> Option<Value>,
) -> Step<T> {
    let Some(present) = present else {
        return wanted.map_or(Step::None, Step::Create);
    };
    let (metadata, made_as) = meta(present);
    match standing(&app.metadata, metadata, made_as) {
        Standing::Leaving => Step::Wait(Arc::clone(present)),
        Standing::Foreign => Step::Taken(Arc::clone(present)),
        Standing::Ours => {
            let patch = match wanted {
                Some(_) => differs(present),
                None => drift::reference(app, metadata),
            };
            let present = Arc::clone(present);
            match patch {
                Some(patch) => Step::Patch(present, patch),
                None => Step::Keep(present),
            }
        }
    }
}

/// What a Service is to `app`.
#[must_use]
pub fn standing_of(app: &AppService, service: &Service) -> Standing {
    let made_as = service.metadata.annotations.get(MADE_AS);
    standing(&app.metadata, &service.metadata, made_as)
}

#[cfg(test)]
mod tests;
