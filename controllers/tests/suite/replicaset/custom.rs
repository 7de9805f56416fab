//! The kind that is ours, where its definition is not what it should be.

use super::*;

use coxswain_manager::object::MetaObject;

const SETS: &str = "appreplicasets";

/// A server that knows no rules: it takes what breaks them.
async fn without_rules() -> Bed {
    let bed = bare(REPLICA_SET).await;
    let mut definition = app_replica_set::crd();
    forget_rules(&mut definition);
    let bed = Bed {
        kind: APP_REPLICA_SET,
        ..bed
    };
    let defined: Result<MetaObject, _> = bed
        .admin
        .create(&DEFINITIONS, "", definition.to_string().into())
        .await;
    defined.expect("defined");
    bed.cluster(Duration::ZERO);
    bed.engine();
    bed
}

fn forget_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(forget_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_rules),
        _ => {}
    }
}

fn failure(owner: &Value) -> Option<&str> {
    let mut conditions = owner["status"]["conditions"].as_array()?.iter();
    let failure = conditions.find(|it| it["type"] == "ReplicaFailure")?;
    failure["reason"].as_str()
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_means_nothing_or_others_makes_and_takes_no_pod() {
    let bed = without_rules().await;
    for name in ["bare", "web-bare"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        });
        bed.create(&PODS, &pod).await;
    }
    bed.door.reset();
    for (name, selector) in [
        ("empty", json!({})),
        ("none", json!({"matchLabels": {}, "matchExpressions": []})),
        ("other", json!({"matchLabels": {"app": "bare"}})),
        (
            "not",
            json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
        ),
        (
            "odd",
            json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
        ),
    ] {
        let mut owner = bed.owner(name, 3);
        owner["spec"]["selector"] = selector;
        bed.create_owner(&owner).await;
    }
    bed.sleep(Duration::from_mins(10)).await;
    for name in ["empty", "none", "other", "not", "odd"] {
        assert_eq!(failure(&bed.get(name).await), Some("InvalidSelector"), "{name}");
    }
    let counts = bed.door.counts();
    assert_eq!(bed.list(&PODS).await.len(), 2, "{counts:?}");
    // Each is told once.
    assert_eq!(bed.door.count(&format!("PATCH {SETS}/status")), 5, "{counts:?}");
    assert_eq!(bed.door.count("POST pods"), 0);

    // And mended.
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    bed.patch(&bed.kind.resource, "other", &selector).await;
    bed.ready("other", 3).await;
    assert_eq!(failure(&bed.get("other").await), None);
}

/// Nobody has looked into the template before: a pod of it is refused.
#[tokio::test(start_paused = true)]
async fn a_template_that_no_pod_can_be_made_of_is_tried_ever_more_slowly() {
    let bed = bed(APP_REPLICA_SET).await;
    let mut owner = bed.owner("web", 50);
    owner["spec"]["template"]["spec"]["containers"][0]["name"] = json!("Not A Name");
    bed.create_owner(&owner).await;
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(failure(&bed.get("web").await), Some("FailedCreate"));
    let posts = bed.door.count("POST pods");
    assert!((5..30).contains(&posts), "{posts}");
    assert_eq!(bed.door.count(&format!("PATCH {SETS}/status")), 1);
    let containers = json!([{"name": "main", "image": "nginx"}]);
    let mended = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": containers}}}});
    bed.patch(&bed.kind.resource, "web", &mended).await;
    bed.ready("web", 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_steady_state_costs_nothing_and_a_change_the_least() {
    let bed = bed(APP_REPLICA_SET).await;
    bed.create_owner(&bed.owner("web", 3)).await;
    bed.ready("web", 3).await;
    assert_eq!(bed.get("web").await["status"]["selector"], "app=web");
    bed.door.reset();
    bed.sleep(Duration::from_mins(10)).await;
    let status = format!("PATCH {SETS}/status");
    assert_eq!((bed.door.count(&status), bed.door.count("POST pods")), (0, 0));
    bed.scale("web", 4).await;
    bed.ready("web", 4).await;
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.door.count("POST pods"), 1, "{:?}", bed.door.counts());
    // One when it is made, one when it serves.
    assert!(bed.door.count(&status) <= 2, "{:?}", bed.door.counts());
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_its_definition_and_then_works() {
    let bed = bare(REPLICA_SET).await;
    let bed = Bed {
        kind: APP_REPLICA_SET,
        ..bed
    };
    bed.cluster(Duration::ZERO);
    bed.engine();
    bed.sleep(Duration::from_mins(10)).await;
    let definition = app_replica_set::crd().to_string();
    let defined: Result<MetaObject, _> = bed.admin.create(&DEFINITIONS, "", definition.into()).await;
    defined.expect("defined");
    bed.create_owner(&bed.owner("web", 3)).await;
    bed.ready("web", 3).await;
}

/// Its instances go with it: nothing is made for them any more, and what comes after it is served as before.
#[tokio::test(start_paused = true)]
async fn when_its_definition_goes_it_rests_until_there_is_another_one() {
    let bed = bed(APP_REPLICA_SET).await;
    bed.create_owner(&bed.owner("web", 3)).await;
    bed.ready("web", 3).await;
    let definition = Key::cluster("appreplicasets.appcontroller.k8s.io");
    let now: MetaObject = bed
        .admin
        .get(&DEFINITIONS, &definition)
        .await
        .expect("it is there");
    let delete = Delete::of(now.metadata.uid);
    bed.admin
        .delete(&DEFINITIONS, &definition, &delete)
        .await
        .expect("deleted");
    bed.sleep(Duration::from_secs(5)).await;
    bed.door.reset();
    for pod in bed.pods().await {
        bed.delete(&PODS, &pod).await;
    }
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        bed.door.counts().values().sum::<usize>(),
        0,
        "{:?}",
        bed.door.counts()
    );

    let again = app_replica_set::crd().to_string();
    let defined: Result<MetaObject, _> = bed.admin.create(&DEFINITIONS, "", again.into()).await;
    defined.expect("defined");
    bed.create_owner(&bed.owner("web", 2)).await;
    bed.ready("web", 2).await;
}

/// The same, if nobody has told that it went.
#[tokio::test(start_paused = true)]
async fn for_what_a_definition_that_went_unseen_has_left_in_the_cache_nothing_is_made() {
    let bed = bed(APP_REPLICA_SET).await;
    bed.create_owner(&bed.owner("web", 3)).await;
    bed.ready("web", 3).await;
    let held = "appreplicasets.appcontroller.k8s.io";
    bed.sleep(Duration::from_secs(10)).await;
    bed.door.silence(Some("/appreplicasets"));
    let definition = Key::cluster(held);
    let now: MetaObject = bed
        .admin
        .get(&DEFINITIONS, &definition)
        .await
        .expect("it is there");
    let delete = Delete::of(now.metadata.uid);
    bed.admin
        .delete(&DEFINITIONS, &definition, &delete)
        .await
        .expect("deleted");
    bed.door.reset();
    // As whoever collects them does it, again and again.
    for _ in 0..60 {
        for pod in bed.pods().await {
            bed.delete(&PODS, &pod).await;
        }
        bed.sleep(Duration::from_secs(1)).await;
    }
    let made = bed.door.count("POST pods");
    assert!(made <= 6, "{made} {:?}", bed.door.counts());
    bed.door.reset();
    bed.sleep(Duration::from_mins(30)).await;
    assert_eq!(
        bed.door.counts().values().sum::<usize>(),
        0,
        "{:?}",
        bed.door.counts()
    );
    assert!(bed.pods().await.is_empty());
}
