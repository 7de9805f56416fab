//! Conditions in the status of a derived custom resource.

use steersman_manager::client::ErrorClass;
use steersman_manager::conditions::{self, Condition, Status};
use steersman_sandbox::faults::Matcher;

use super::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Ferry",
    namespaced,
    status = "FerryStatus"
)]
struct FerrySpec {}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct FerryStatus {
    conditions: Vec<Condition>,
}

async fn reconcile(ctx: Context<Ferry>) -> Result<Action, ReconcileError> {
    let Some(ferry) = ctx.object() else {
        return Ok(Action::Done);
    };
    let mut status = ferry.status.clone().unwrap_or_default();
    let ready = Condition::new("Ready", Status::True, "Moored", "The ferry is moored.");
    let ready = ready.observed_generation(ferry.metadata.generation.unwrap_or_default());
    conditions::set(&mut status.conditions, ready, ctx.env().clock.wall());
    ctx.patch_status(&status).await?;
    Ok(Action::Done)
}

#[tokio::test(start_paused = true)]
async fn condition_of_a_derived_status_is_written_once_and_has_a_schema() {
    let f = Fixture::with_crds(&serde_json::to_string(&Ferry::crd()).expect("a CRD"));
    f.run(Controller::<Ferry>::new("ferry").reconcile(reconcile));
    let ferries = f.user.api::<Ferry>();
    let mut ferry = Ferry::new("a", FerrySpec {});
    ferry.metadata.namespace = Some("default".to_owned());
    ferries.create(&ferry).await.expect("created");
    f.settle().await;
    let ferry = ferries.get(&key("a")).await.expect("an answer").expect("a ferry");
    let expected = json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "Moored", "message": "The ferry is moored.",
        "observedGeneration": 1, "lastTransitionTime": "1970-01-01T00:00:00Z",
    }]});
    assert_eq!(serde_json::to_value(&ferry.status).expect("JSON"), expected);
    let patches = Matcher::verb("patch").resource("ferries.example.com/status");
    assert_eq!(
        f.faults.count(&patches),
        1,
        "the second reconcile changes nothing"
    );
    let incomplete = json!({"conditions": [{"type": "Ready"}]});
    let rejected = ferries.patch_status(&ferry, &incomplete).await;
    assert_eq!(rejected.expect_err("no status").class(), ErrorClass::Invalid);
}
