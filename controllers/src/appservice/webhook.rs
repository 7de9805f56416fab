//! What the API server is told of an `AppService` before it stores it: [`admission`](super::admission), on the cache.
//!
//! Every replica answers. A cache that is behind, or not filled yet, knows of fewer others: then two may claim one Deployment,
//! and the controller leaves it to the first. So the webhooks may be missing, or their failure ignored.

use std::future::ready;

use coxswain_manager::cache::Caches;
use coxswain_manager::client::Cause;
use coxswain_manager::webhook::{Hooks, Operation, Refusal};

use super::admission::{self, Problem};
use super::{APP_SERVICES, AppService};

/// Adds the webhooks of `AppServices` to `hooks`.
///
/// # Panics
/// Outside a tokio runtime.
#[must_use]
pub fn hooks(hooks: Hooks, caches: &Caches) -> Hooks {
    let apps = caches.of::<AppService>(&APP_SERVICES);
    hooks
        .mutating(&APP_SERVICES, |request| {
            let is_whole = request.sub_resource.is_empty();
            ready(Ok(if is_whole {
                admission::default(&request.object)
            } else {
                Vec::new()
            }))
        })
        .validating(&APP_SERVICES, move |request| {
            let written = matches!(request.operation, Operation::Create | Operation::Update);
            if !written || !request.sub_resource.is_empty() {
                return ready(Ok(Vec::new()));
            }
            let others = apps.list_namespace(&request.namespace);
            let old = (!request.old_object.is_null()).then_some(&request.old_object);
            let judged = admission::validate(&request.object, old, &others);
            ready(judged.map(|()| Vec::new()).map_err(|problems| {
                let causes = problems.into_iter().map(cause).collect();
                Refusal::invalid("AppService.appcontroller.k8s.io", &request.name, causes)
            }))
        })
}

fn cause(problem: Problem) -> Cause {
    let Problem {
        field,
        reason,
        message,
    } = problem;
    Cause {
        reason: reason.to_owned(),
        message,
        field,
    }
}
