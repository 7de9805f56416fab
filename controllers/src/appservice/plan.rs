//! The plan of a sync: the actions that bring the children of an `AppService` to the desired state. Pure.

use std::sync::Arc;

use serde_json::{Value, json};

use super::child::{Child, Service};

use super::drift::drift;
use super::ownership::{Ownership, ownership, was_created_for};
use super::{deletion_policy, desired};
use crate::api::app_service::AppService;
use crate::api::app_service::validation::{self, FieldError};
use crate::support::deployment::Deployment;

/// The observed state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) app: &'a AppService,
    /// The Deployments that may belong to the `AppService`, and the one named by `deploymentName`.
    pub(super) deployments: &'a [Arc<Deployment>],
    /// The Service with the name of the `AppService`.
    pub(super) service: Option<&'a Arc<Service>>,
    /// The image of the first Deployment if the `AppService` does not set one.
    pub(super) default_image: Option<&'a str>,
}

/// The actions of a sync, in the order in which they are executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Errors in the spec. If there are any, only the deletion policy is followed.
    pub(super) errors: Vec<FieldError>,
    /// The patch that adds the finalizer. Nothing else is done without it.
    pub(super) add_finalizer: Option<Value>,
    pub(super) deployment: ChildAction<Deployment>,
    pub(super) service: ChildAction<Service>,
    /// The Deployments of previous values of `deploymentName`.
    pub(super) previous: Vec<ChildAction<Deployment>>,
    /// Whether to remove the finalizer if all other actions succeeded.
    pub(super) remove_finalizer: bool,
}

/// The action for one child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ChildAction<T> {
    /// The child does not exist and is not desired.
    #[default]
    None,
    /// The child is in the desired state.
    Keep(Arc<T>),
    Create(Value),
    /// Apply the desired state.
    Apply(Arc<T>, Value),
    /// Patch the ownerReferences as the deletion policy requires.
    PatchOwner(Arc<T>, Value),
    Delete(Arc<T>),
    /// An object that is being deleted has the name.
    AwaitDeletion(Arc<T>),
    /// An object that does not belong to the `AppService` has the name.
    NameTaken(Arc<T>),
}

/// Plans the sync of an `AppService` that is not being deleted.
pub(super) fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let Snapshot {
        app,
        deployments,
        service,
        default_image,
    } = *snapshot;
    let present = deployments
        .iter()
        .find(|it| it.metadata.name == app.spec.deployment_name);
    let mut errors = validation::validate_spec(app);
    let image = match present {
        Some(_) => None,
        None => previous_deployments(app, deployments)
            .find_map(|it| image_of(it))
            .or_else(|| default_image.map(str::to_owned)),
    };
    match present {
        None if image.is_none() => errors.extend(validation::missing_image(app)),
        Some(present) if app.spec.image().is_none() => errors.extend(missing_container(app, present)),
        _ => {}
    }
    let valid = errors.is_empty();
    let mut deployment = plan_child(app, present, valid.then(|| desired::deployment(app)));
    if let (ChildAction::Create(body), None, Some(image)) = (&mut deployment, app.spec.image(), image) {
        // Not part of the desired state: neither applied nor compared later.
        body["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    }
    let desired_service = desired::service(app);
    let service = match (service, valid) {
        (Some(present), true) if desired_service.is_none() => match ownership_of(app, &**present) {
            Ownership::Owned => ChildAction::Delete(Arc::clone(present)),
            Ownership::Adoptable | Ownership::Terminating | Ownership::Foreign => ChildAction::None,
        },
        (present, _) => plan_child(app, present, desired_service.filter(|_| valid)),
    };
    let replaced = matches!(&deployment, ChildAction::Keep(it) if valid && is_available(app, it));
    let previous = previous_deployments(app, deployments).map(|it| {
        if replaced {
            ChildAction::Delete(Arc::clone(it))
        } else {
            plan_owner(app, it)
        }
    });
    Plan {
        previous: previous.collect(),
        add_finalizer: deletion_policy::finalizer_patch(app),
        deployment,
        service,
        remove_finalizer: deletion_policy::is_finalizer_obsolete(app),
        errors,
    }
}

/// Plans the action for a child. Without a desired state, only its ownerReferences follow the deletion policy.
fn plan_child<T: Child>(
    app: &AppService,
    present: Option<&Arc<T>>,
    desired: Option<Value>,
) -> ChildAction<T> {
    let Some(present) = present else {
        return desired.map_or(ChildAction::None, ChildAction::Create);
    };
    let child = Arc::clone(present);
    match (ownership_of(app, &**present), desired) {
        (Ownership::Terminating, _) => ChildAction::AwaitDeletion(child),
        (Ownership::Foreign, _) => ChildAction::NameTaken(child),
        (Ownership::Adoptable, None) => ChildAction::None,
        (_, Some(desired)) if drift(&**present, &desired).is_some() => ChildAction::Apply(child, desired),
        _ => plan_owner(app, present),
    }
}

fn plan_owner<T: Child>(app: &AppService, child: &Arc<T>) -> ChildAction<T> {
    match deletion_policy::owner_patch(app, child.meta()) {
        Some(patch) => ChildAction::PatchOwner(Arc::clone(child), patch),
        None => ChildAction::Keep(Arc::clone(child)),
    }
}

/// Returns the relation of `child` to `app`.
pub(super) fn ownership_of(app: &AppService, child: &impl Child) -> Ownership {
    ownership(&app.metadata, child.meta(), child.annotations())
}

/// Returns the Deployments of previous values of `deploymentName`. They are recognized by their metadata, so a crash between
/// the creation of the new one and the deletion of the old one loses nothing. They must be owned and created for `app` under
/// their name: a copy that another client made is never deleted. The deletion policy does not apply to their deletion.
fn previous_deployments<'a>(
    app: &'a AppService,
    candidates: &'a [Arc<Deployment>],
) -> impl Iterator<Item = &'a Arc<Deployment>> {
    candidates.iter().filter(|it| {
        it.metadata.name != app.spec.deployment_name
            && ownership_of(app, &***it) == Ownership::Owned
            && was_created_for(&app.metadata, &it.metadata, &it.annotations)
    })
}

/// Returns the error of an `AppService` without an image, if `deployment` has none that it could keep.
fn missing_container(app: &AppService, deployment: &Deployment) -> Option<FieldError> {
    let is_ours = matches!(
        ownership_of(app, deployment),
        Ownership::Owned | Ownership::Adoptable
    );
    (is_ours && image_of(deployment).is_none()).then(|| {
        let (name, container) = (&deployment.metadata.name, desired::CONTAINER);
        FieldError::required(
            "spec.image",
            &format!("Deployment {name:?} has no container {container:?}"),
        )
    })
}

/// Returns the image of the application's container.
fn image_of(deployment: &Deployment) -> Option<String> {
    let spec = deployment.spec();
    let containers = spec["template"]["spec"]["containers"].as_array()?;
    let container = containers.iter().find(|it| it["name"] == desired::CONTAINER)?;
    container["image"].as_str().map(str::to_owned)
}

/// Returns whether all desired replicas of `deployment` are updated and available.
fn is_available(app: &AppService, deployment: &Deployment) -> bool {
    let (status, present) = (&deployment.status, deployment.replicas());
    let desired = app.spec.replicas().unwrap_or(present);
    status.observed_generation >= deployment.metadata.generation
        && present == desired
        && status.updated_replicas >= desired
        && status.available_replicas >= desired
}

#[cfg(test)]
mod tests;
