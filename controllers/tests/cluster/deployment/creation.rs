//! Creation of the `ReplicaSet` of a template.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    DESIRED, HASH, MAX, REVISION, annotation, condition_fields, counter_of, deployment, image, name,
    revision, steps, text,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(first_sync_creates_a_set_and_an_event),
        fixture_test!(set_is_created_from_the_template),
        fixture_test!(every_template_field_changes_the_hash),
        fixture_test!(equal_templates_have_equal_hashes),
        fixture_test!(long_name_is_truncated),
        fixture_test!(match_expressions_get_the_hash_label),
        fixture_test!(zero_replicas_create_an_empty_set),
        fixture_test!(api_server_defaults_are_used),
    ]
}

async fn first_sync_creates_a_set_and_an_event(s: Fixture) {
    let d = s.create(deployment("a", 3)).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "1");
    let status = &now["status"];
    for counter in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        assert_eq!(counter_of(status, counter), 3, "{counter}: {now:#}");
    }
    assert_eq!(counter_of(status, "unavailableReplicas"), 0, "{now:#}");
    let sets = s.sets(&d).await;
    assert_eq!((s.all_sets().await.len(), sets.len()), (1, 1));
    let set = name(&sets[0]);
    let available = [
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    ];
    assert_eq!(condition_fields(&now, "Available"), available);
    let progressed = format!("ReplicaSet \"{set}\" has successfully progressed.");
    assert_eq!(
        condition_fields(&now, "Progressing"),
        ["True", "NewReplicaSetAvailable", &progressed]
    );

    let scaled = format!("Scaled up replica set {set} from 0 to 3");
    s.event(&d, "Normal", "ScalingReplicaSet", &scaled).await;
    let events = s.raw_events(&d).await;
    assert_eq!(events.len(), 1, "{events:#?}");
    let object = &events[0]["involvedObject"];
    let about: [&Value; 5] = ["kind", "apiVersion", "name", "namespace", "uid"].map(|it| &object[it]);
    assert_eq!(about, ["Deployment", "apps/v1", "a", &s.ns, &d.uid]);
    assert_eq!(events[0]["source"]["component"], "deployment-controller");
    assert_eq!(events[0]["reportingComponent"], "deployment-controller");
}

async fn set_is_created_from_the_template(s: Fixture) {
    let template = json!({
        "metadata": {"labels": {"app": "a", "tier": "x"}, "annotations": {"example.com/note": "n"}},
        "spec": {"terminationGracePeriodSeconds": 7},
    });
    let change = json!({"spec": {"template": template, "minReadySeconds": 1}});
    let body = with(with(deployment("a", 4), change), steps("25%", 1));
    let d = s.create(body).await;
    let set = s.has_set(&d).await;
    let hash = text(&set["metadata"]["labels"][HASH]);
    assert!(
        !hash.is_empty() && hash.chars().all(|it| "bcdfghjklmnpqrstvwxz2456789".contains(it)),
        "{hash}"
    );
    assert_eq!(name(&set), format!("a-{hash}"));
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": d.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(set["metadata"]["ownerReferences"], owner);
    assert_eq!(
        set["metadata"]["labels"],
        json!({"app": "a", "tier": "x", HASH: hash})
    );
    let annotations = json!({REVISION: "1", DESIRED: "4", MAX: "5"});
    assert_eq!(set["metadata"]["annotations"], annotations);
    let spec = &set["spec"];
    assert_eq!(spec["replicas"], 4);
    assert_eq!(spec["minReadySeconds"], 1);
    assert_eq!(spec["selector"], json!({"matchLabels": {"app": "a", HASH: hash}}));
    let wanted = with(
        s.get(&d).await["spec"]["template"].clone(),
        json!({"metadata": {"labels": {HASH: hash}}}),
    );
    assert_eq!(spec["template"], wanted);
    for pod in s.has_pods("i:1", 4).await {
        assert_eq!(pod["metadata"]["labels"][HASH], *hash);
    }
}

async fn every_template_field_changes_the_hash(s: Fixture) {
    let d = s.create(deployment("a", 0)).await;
    s.complete(&d).await;
    let container = |change: Value| {
        let container = with(json!({"name": "c", "image": "i:1"}), change);
        json!({"spec": {"containers": [container]}})
    };
    let changes = [
        json!({"metadata": {"annotations": {"example.com/restarted": "now"}}}),
        json!({"metadata": {"labels": {"more": "labels"}}}),
        json!({"spec": {"terminationGracePeriodSeconds": 31}}),
        json!({"spec": {"nodeSelector": {"a": "b"}}}),
        json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
        container(json!({"env": [{"name": "A", "value": ""}]})),
        container(json!({"resources": {"requests": {"cpu": "1"}}})),
        container(json!({"resources": {"requests": {"memory": "1"}}})),
        container(json!({"image": "i:2"})),
    ];
    let count = 1 + changes.len();
    for change in changes {
        s.change(&d, json!({"spec": {"template": change}})).await;
        s.complete(&d).await;
    }
    let sets = s.sets(&d).await;
    assert_eq!(sets.len(), count, "{sets:#?}");
    assert_eq!(revision(&s.get(&d).await), count.to_string());
    assert!(s.get(&d).await["status"]["collisionCount"].is_null());
}

/// The hash does not depend on the name, the size or the time.
async fn equal_templates_have_equal_hashes(s: Fixture) {
    let hash = async |d: &Deployment| text(&s.has_set(d).await["metadata"]["labels"][HASH]);
    let first = s.completed(deployment("a", 0)).await;
    let template = s.get(&first).await["spec"]["template"].clone();
    let selector = json!({"matchLabels": {"app": "a"}});
    let more = json!({"spec": {
        "template": template, "selector": selector, "minReadySeconds": 2, "revisionHistoryLimit": 3,
    }});
    let second = s.completed(with(deployment("b", 1), more)).await;
    assert_eq!(hash(&first).await, hash(&second).await);
}

async fn long_name_is_truncated(s: Fixture) {
    let long = "a".repeat(253);
    let body = with(deployment("a", 1), json!({"metadata": {"name": long}}));
    let d = s.completed(body).await;
    let set = s.has_set(&d).await;
    let hash = text(&set["metadata"]["labels"][HASH]);
    let name = name(&set);
    assert!(
        name.len() <= 253 && name.ends_with(&format!("a-{hash}")),
        "{name}"
    );
    assert!(
        long.starts_with(name.trim_end_matches(&format!("-{hash}"))),
        "{name}"
    );
}

async fn match_expressions_get_the_hash_label(s: Fixture) {
    let expressions = json!([{"key": "app", "operator": "In", "values": ["a", "b"]}]);
    let selector = json!({"matchLabels": null, "matchExpressions": expressions});
    let d = s
        .completed(with(deployment("a", 1), json!({"spec": {"selector": selector}})))
        .await;
    let set = s.has_set(&d).await;
    let hash = &set["metadata"]["labels"][HASH];
    let wanted = json!({"matchLabels": {HASH: hash}, "matchExpressions": expressions});
    assert_eq!(set["spec"]["selector"], wanted);
    s.rolled_out(&d, "i:2").await;
    assert_eq!(s.sets(&d).await.len(), 2);
}

async fn zero_replicas_create_an_empty_set(s: Fixture) {
    let d = s.completed(deployment("a", 0)).await;
    let set = s.has_set(&d).await;
    assert_eq!(set["spec"]["replicas"], 0);
    let now = s.synced(&d).await;
    assert_eq!(condition_fields(&now, "Available")[0], "True");
    assert!(s.events(&d).await.is_empty());
    s.change(&d, image("i:2")).await;
    s.complete(&d).await;
    assert_eq!(s.sets(&d).await.len(), 2);
    assert!(s.all_pods().await.is_empty());
    assert!(s.events(&d).await.is_empty());
}

async fn api_server_defaults_are_used(s: Fixture) {
    let none = json!({"spec": {"replicas": null}});
    let d = s.completed(with(deployment("a", 0), none)).await;
    let set = s.has_set(&d).await;
    assert_eq!(set["spec"]["replicas"], 1);
    // 25% of 1, rounded up.
    assert_eq!([DESIRED, MAX].map(|key| annotation(&set, key)), ["1", "2"]);
}
