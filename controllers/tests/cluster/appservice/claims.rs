//! Names that are taken.

use coxswain_tests::Test;
use coxswain_tests::fixtures;
use serde_json::json;

use super::stage::{Stage, app, condition};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(what_is_not_its_own_is_not_touched),
        staged!(the_first_keeps_it),
    ]
}

async fn what_is_not_its_own_is_not_touched(s: Stage) {
    let theirs = s.create("deployments", fixtures::deployment("a")).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 9}]}});
    s.create("services", service).await;
    s.create("appservices", app("a", json!({"ports": [{"port": 80}]})))
        .await;
    let it = s.stalled("a", "ErrResourceExists").await;
    assert_eq!(condition(&it, "Ready").0, "False");
    s.until("it is told", async || {
        s.told("a")
            .await
            .contains(&"ErrResourceExists".to_owned())
            .then_some(())
    })
    .await;
    let after = s.get("deployments", "a").await;
    assert_eq!(
        (&after["spec"], after["metadata"].get("ownerReferences")),
        (&theirs["spec"], None)
    );
    s.delete("deployments", "a", "Background").await;
    s.until("the Deployment is its own", async || {
        let it = s.read("deployments", "a").await;
        (it.status == 200 && it.json()["metadata"]["labels"]["app.kubernetes.io/instance"] == "a")
            .then_some(())
    })
    .await;
    assert_eq!(s.get("services", "a").await["spec"]["ports"][0]["port"], 9);
    s.delete("services", "a", "Background").await;
    s.ready("a").await;
}

async fn the_first_keeps_it(s: Stage) {
    s.serve(app("a", json!({"deploymentName": "web"}))).await;
    s.create(
        "appservices",
        app("b", json!({"deploymentName": "web", "image": "i:2"})),
    )
    .await;
    s.stalled("b", "ErrResourceExists").await;
    assert_eq!(condition(&s.get("appservices", "a").await, "Ready").0, "True");
    s.delete("appservices", "a", "Foreground").await;
    s.ready("b").await;
    let image = &s.get("deployments", "web").await["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "i:2");
}
