//! What to do for an `AppService`, decided from what was observed. Pure.

use std::sync::Arc;

use serde_json::Value;

use super::drift::Child;
use super::service::Service;
use super::standing::{Standing, standing};
use super::{children, drift, former, policy};
use crate::api::app_service::AppService;
use crate::api::app_service::validation::{self, Problem};
use crate::support::deployment::Deployment;

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
    /// The desired state is applied to it.
    Apply(Arc<T>, Value),
    /// Its ownerReference is made what the policy asks for.
    Refer(Arc<T>, Value),
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
    let present = deployments
        .iter()
        .find(|it| it.metadata.name == app.spec.deployment_name);
    let mut problems = validation::problems(app);
    problems.extend(validation::missing_image(app, present.is_some()));
    let valid = problems.is_empty();
    let deployment = step(app, present, valid.then(|| children::deployment(app)));
    let wanted = children::service(app);
    let service = match (service, valid) {
        (Some(present), true) if wanted.is_none() => {
            // None is wanted: one that is not its own is none of its business.
            match standing_of(app, &**present) {
                Standing::Ours => Step::Delete(Arc::clone(present)),
                Standing::Adoptable | Standing::Leaving | Standing::Foreign => Step::None,
            }
        }
        (present, _) => step(app, present, wanted.filter(|_| valid)),
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

/// What becomes of a child that shall be `wanted`; if nothing is said of that, its reference follows the policy.
fn step<T: Child>(app: &AppService, present: Option<&Arc<T>>, wanted: Option<Value>) -> Step<T> {
    let Some(present) = present else {
        return wanted.map_or(Step::None, Step::Create);
    };
    let child = Arc::clone(present);
    match (standing_of(app, &**present), wanted) {
        (Standing::Leaving, _) => Step::Wait(child),
        (Standing::Foreign, _) => Step::Taken(child),
        (Standing::Adoptable, None) => Step::None,
        (_, Some(wanted)) if drift::is_apply_due(&**present, &wanted) => Step::Apply(child, wanted),
        _ => match drift::reference(app, present.meta()) {
            Some(patch) => Step::Refer(child, patch),
            None => Step::Keep(child),
        },
    }
}

/// What a child is to `app`.
#[must_use]
pub fn standing_of(app: &AppService, child: &impl Child) -> Standing {
    standing(&app.metadata, child.meta(), child.annotations())
}

#[cfg(test)]
mod tests;
