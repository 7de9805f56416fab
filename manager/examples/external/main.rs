//! A controller of an outside system: each Bucket has a bucket in a store.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman_manager::controller::{Action, Context, Controller, Definition, ReconcileError};
use steersman_manager::events::EventType;
use steersman_manager::manager::Manager;
use steersman_manager::object::Key;
use steersman_manager::predicate::Predicate;

mod store;
#[cfg(test)]
mod tests;

use store::{Folder, Store};

/// The store has no watch: a change in it is detected after this time.
const RESYNC: Duration = Duration::from_mins(10);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Bucket", namespaced)]
#[kube(status = "BucketStatus")]
struct BucketSpec {
    /// quota is the size of the bucket, such as 10Gi.
    quota: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
struct BucketStatus {
    ready: bool,
    message: String,
}

async fn apply(ctx: Context<Bucket>, store: &impl Store) -> Result<Action, ReconcileError> {
    let Some(bucket) = ctx.object() else {
        return Ok(Action::Done);
    };
    let gibibytes = bucket.spec.quota.strip_suffix("Gi");
    let Some(quota) = gibibytes.and_then(|number| number.parse().ok()) else {
        let message = "spec.quota must be a number of Gi, such as 10Gi.";
        report(&ctx, "InvalidQuota", message).await?;
        // A retry does not help. A change of the object, or the resync, causes the next reconcile.
        return Err(ReconcileError::terminal(message));
    };
    match store.ensure(&name_of(ctx.key()), quota).await {
        Ok(true) => ctx.event(EventType::Normal, "Synced", "The bucket has the desired quota."),
        Ok(false) => {}
        Err(error) => {
            report(&ctx, "FailedSync", &format!("Cannot sync the bucket: {error}.")).await?;
            return Err(ReconcileError::retryable(error));
        }
    }
    let (ready, message) = (true, String::new());
    ctx.patch_status(&BucketStatus { ready, message }).await?;
    Ok(Action::Done)
}

async fn cleanup(ctx: Context<Bucket>, store: &impl Store) -> Result<Action, ReconcileError> {
    if let Err(error) = store.delete(&name_of(ctx.key())).await {
        report(
            &ctx,
            "FailedDelete",
            &format!("Cannot delete the bucket: {error}."),
        )
        .await?;
        return Err(ReconcileError::retryable(error));
    }
    Ok(Action::Done)
}

/// Reports a problem to the user, in an event and in the status.
async fn report(ctx: &Context<Bucket>, reason: &str, message: &str) -> Result<(), ReconcileError> {
    ctx.event(EventType::Warning, reason, message);
    let (ready, message) = (false, message.to_owned());
    Ok(ctx.patch_status(&BucketStatus { ready, message }).await?)
}

/// Returns the name of a bucket in the store. It is unique, because a namespace does not contain a dot.
fn name_of(key: &Key) -> String {
    format!("{}.{}", key.namespace, key.name)
}

fn controller(store: Arc<impl Store>) -> Definition {
    Controller::<Bucket>::new("bucket")
        // Not by the status that the controller writes, or a failure would be retried at once.
        .filter(Predicate::generation_changed())
        .resync(RESYNC)
        .reconcile(move |ctx: Context<Bucket>| {
            let store = store.clone();
            async move {
                let (apply, cleanup) = (|ctx| apply(ctx, &*store), |ctx| cleanup(ctx, &*store));
                ctx.with_finalizer("demo.dev/bucket", apply, cleanup).await
            }
        })
}

#[tokio::main]
async fn main() -> ExitCode {
    Manager::builder("external")
        .leader_election("external-system", "external")
        .endpoints("0.0.0.0:8443")
        .controller(controller(Arc::new(Folder("/var/lib/buckets".into()))))
        .run()
        .await
}
