//! An operator: each Greeting gets a `ConfigMap` with its text, and a status.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman_manager::controller::{Action, Context, Controller, Definition};
use steersman_manager::manager::Manager;
use steersman_manager::object::Key;
use steersman_manager::predicate::Predicate;

#[cfg(test)]
mod tests;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Greeting", namespaced)]
#[kube(status = "GreetingStatus")]
pub(crate) struct GreetingSpec {
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
pub(crate) struct GreetingStatus {
    ready: bool,
}

async fn reconcile(ctx: Context<Greeting>) -> Result<Action, Error> {
    let Some(greeting) = ctx.object() else {
        return Ok(Action::Done);
    };
    ctx.api().apply(&config_map_for(&greeting), "greeter").await?;
    ctx.patch_status(&GreetingStatus { ready: true }).await?;
    Ok(Action::Done)
}

pub(crate) fn controller() -> Definition {
    Controller::<Greeting>::new("greeting")
        .owns::<ConfigMap>()
        .watches::<Secret>(|secret| keys_of(secret))
        .filter(Predicate::generation_changed().or(Predicate::labels_changed()))
        .reconcile(reconcile)
}

#[tokio::main]
async fn main() -> ExitCode {
    Manager::builder("greeter")
        .leader_election("greeter-system", "greeter")
        .endpoints("0.0.0.0:8443")
        .controller(controller())
        .run()
        .await
}

/// Returns the `ConfigMap` of a Greeting, with the fields that this operator owns.
fn config_map_for(greeting: &Greeting) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(greeting.name_any());
    map.metadata.namespace = greeting.namespace();
    map.metadata.owner_references = Some(greeting.controller_owner_ref(&()).into_iter().collect());
    map.data = Some([("text".to_owned(), greeting.spec.text.clone())].into());
    map
}

/// Returns the Greeting that a Secret names in its annotation.
fn keys_of(secret: &Secret) -> Vec<Key> {
    let greeting = secret.annotations().get("demo.dev/greeting");
    let key = greeting.map(|name| Key::new(secret.namespace().unwrap_or_default(), name.as_str()));
    key.into_iter().collect()
}
