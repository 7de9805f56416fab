//! What it costs: seen by somebody who watches.

use coxswain_tests::Test;
use serde_json::{Value, json};

use super::stage::{Stage, app, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(a_steady_one_is_not_written),
        staged!(each_change_is_one_write),
    ]
}

fn version(object: &Value) -> String {
    text(&object["metadata"]["resourceVersion"])
}

async fn a_steady_one_is_not_written(s: Stage) {
    s.serve(app("a", json!({"ports": [{"port": 80}], "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"cpu": "0.25"}}})))
        .await;
    let label = json!({"metadata": {"labels": {"example.com/more": "labels"}}});
    let mut before = Vec::new();
    for kind in ["deployments", "services", "appservices"] {
        let changed = s.change(kind, "a", label.clone()).await;
        before.push((kind, version(&changed), changed["metadata"]["generation"].clone()));
    }
    // By the time that others are done that came later, it was looked at.
    for name in ["b", "c"] {
        s.serve(app(name, json!({}))).await;
    }
    for (kind, version, generation) in before {
        let now = s.get(kind, "a").await;
        // A Deployment is looked at by its own controller too.
        if kind == "deployments" {
            assert_eq!(now["metadata"]["generation"], generation);
        } else {
            assert_eq!(super::costs::version(&now), version, "{kind}");
        }
    }
}

async fn each_change_is_one_write(s: Stage) {
    s.serve(app("a", json!({"ports": [{"port": 80}]}))).await;
    let before = s.get("deployments", "a").await;
    let service = s.get("services", "a").await;
    s.want(
        "a",
        json!({"replicas": 3, "image": "i:2", "env": [{"name": "A", "value": "b"}]}),
    )
    .await;
    s.ready("a").await;
    let after = s.get("deployments", "a").await;
    let generation = |it: &Value| it["metadata"]["generation"].as_i64().expect("a number");
    // Each is one more: its own controller writes annotations, which count too, but not more than one of them.
    let more = generation(&after) - generation(&before);
    assert!((1..=2).contains(&more), "{more}");
    assert_eq!(version(&s.get("services", "a").await), version(&service));
}
