//! The number of writes, by resourceVersion and generation.

use serde_json::{Value, json};
use steersman_harness::Test;

use super::fixture::{Fixture, app, text};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(steady_objects_are_not_written),
        fixture_test!(each_change_is_one_write),
    ]
}

fn version(object: &Value) -> String {
    text(&object["metadata"]["resourceVersion"])
}

async fn steady_objects_are_not_written(s: Fixture) {
    s.create_ready(app("a", json!({"ports": [{"port": 80}], "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"cpu": "0.25"}}})))
        .await;
    let label = json!({"metadata": {"labels": {"example.com/more": "labels"}}});
    let mut before = Vec::new();
    for kind in ["deployments", "services", "appservices"] {
        let changed = s.change(kind, "a", label.clone()).await;
        before.push((kind, version(&changed), changed["metadata"]["generation"].clone()));
    }
    // Later AppServices are ready, so the changes were processed.
    for name in ["b", "c"] {
        s.create_ready(app(name, json!({}))).await;
    }
    for (kind, version, generation) in before {
        let now = s.get(kind, "a").await;
        // The Deployment controller writes too.
        if kind == "deployments" {
            assert_eq!(now["metadata"]["generation"], generation);
        } else {
            assert_eq!(super::writes::version(&now), version, "{kind}");
        }
    }
}

async fn each_change_is_one_write(s: Fixture) {
    s.create_ready(app("a", json!({"ports": [{"port": 80}]}))).await;
    let before = s.get("deployments", "a").await;
    let service = s.get("services", "a").await;
    s.patch_spec(
        "a",
        json!({"replicas": 3, "image": "i:2", "env": [{"name": "A", "value": "b"}]}),
    )
    .await;
    s.wait_ready("a").await;
    let after = s.get("deployments", "a").await;
    let generation = |it: &Value| it["metadata"]["generation"].as_i64().expect("a number");
    // The Deployment controller may add one generation with its annotations.
    let more = generation(&after) - generation(&before);
    assert!((1..=2).contains(&more), "{more}");
    assert_eq!(version(&s.get("services", "a").await), version(&service));
}
