//! `AppReplicaSets` whose CRD is missing, deleted, or has no validation rules.

use super::*;

use steersman_manager::object::MetaObject;

const SETS: &str = "appreplicasets";

/// A sandbox whose CRD has no CEL rules: it accepts invalid objects.
async fn without_rules() -> Fixture {
    let f = bare(REPLICA_SET).await;
    let mut definition = app_replica_set::crd();
    remove_rules(&mut definition);
    let f = Fixture {
        kind: APP_REPLICA_SET,
        ..f
    };
    let defined: Result<MetaObject, _> = f.admin.create(&CRDS, "", definition.to_string().into()).await;
    defined.expect("defined");
    f.run_hollow_kubelet(Duration::ZERO);
    f.start();
    f
}

fn remove_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(remove_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_rules),
        _ => {}
    }
}

async fn delete_crd(f: &Fixture) {
    let definition = Key::cluster("appreplicasets.appcontroller.k8s.io");
    let now: MetaObject = f.admin.get(&CRDS, &definition).await.expect("the CRD exists");
    let delete = Delete::of(now.metadata.uid);
    f.admin
        .delete(&CRDS, &definition, &delete)
        .await
        .expect("deleted");
}

fn failure(owner: &Value) -> Option<&str> {
    let mut conditions = owner["status"]["conditions"].as_array()?.iter();
    let failure = conditions.find(|it| it["type"] == "ReplicaFailure")?;
    failure["reason"].as_str()
}

#[tokio::test(start_paused = true)]
async fn invalid_selector_creates_and_adopts_no_pods() {
    let f = without_rules().await;
    for name in ["bare", "web-bare"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        });
        f.create(&PODS, &pod).await;
    }
    f.api.reset();
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
        let mut owner = f.owner(name, 3);
        owner["spec"]["selector"] = selector;
        f.create_owner(&owner).await;
    }
    f.sleep(Duration::from_mins(10)).await;
    for name in ["empty", "none", "other", "not", "odd"] {
        assert_eq!(failure(&f.get(name).await), Some("InvalidSelector"), "{name}");
    }
    let counts = f.api.counts();
    assert_eq!(f.list(&PODS).await.len(), 2, "{counts:?}");
    // One condition for each owner.
    assert_eq!(f.api.count(&format!("PATCH {SETS}/status")), 5, "{counts:?}");
    assert_eq!(f.api.count("POST pods"), 0);

    // After a fix the pods are created.
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    f.patch(&f.kind.resource, "other", &selector).await;
    f.ready("other", 3).await;
    assert_eq!(failure(&f.get("other").await), None);
}

/// The CRD does not validate the template.
#[tokio::test(start_paused = true)]
async fn invalid_template_is_retried_with_backoff() {
    let f = fixture(APP_REPLICA_SET).await;
    let mut owner = f.owner("web", 50);
    owner["spec"]["template"]["spec"]["containers"][0]["name"] = json!("Not A Name");
    f.create_owner(&owner).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(failure(&f.get("web").await), Some("FailedCreate"));
    let posts = f.api.count("POST pods");
    assert!((5..30).contains(&posts), "{posts}");
    assert_eq!(f.api.count(&format!("PATCH {SETS}/status")), 1);
    let containers = json!([{"name": "main", "image": "nginx"}]);
    let fixed = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": containers}}}});
    f.patch(&f.kind.resource, "web", &fixed).await;
    f.ready("web", 2).await;
}

#[tokio::test(start_paused = true)]
async fn steady_state_sends_no_requests() {
    let f = fixture(APP_REPLICA_SET).await;
    f.create_ready("web", 3).await;
    assert_eq!(f.get("web").await["status"]["selector"], "app=web");
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    let status = format!("PATCH {SETS}/status");
    assert_eq!((f.api.count(&status), f.api.count("POST pods")), (0, 0));
    f.scale_ready("web", 4).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.count("POST pods"), 1, "{:?}", f.api.counts());
    // One after the create, one after the pod becomes available.
    assert!(f.api.count(&status) <= 2, "{:?}", f.api.counts());
}

#[tokio::test(start_paused = true)]
async fn controller_waits_for_its_crd() {
    let f = bare(REPLICA_SET).await;
    let f = Fixture {
        kind: APP_REPLICA_SET,
        ..f
    };
    f.run_hollow_kubelet(Duration::ZERO);
    f.start();
    f.sleep(Duration::from_mins(10)).await;
    let definition = app_replica_set::crd().to_string();
    let defined: Result<MetaObject, _> = f.admin.create(&CRDS, "", definition.into()).await;
    defined.expect("defined");
    f.create_ready("web", 3).await;
}

/// The instances are deleted with the CRD.
#[tokio::test(start_paused = true)]
async fn controller_is_idle_without_crd_and_resumes_with_a_new_one() {
    let f = fixture(APP_REPLICA_SET).await;
    f.create_ready("web", 3).await;
    delete_crd(&f).await;
    f.sleep(Duration::from_secs(5)).await;
    f.api.reset();
    for pod in f.pods().await {
        f.delete(&PODS, &pod).await;
    }
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts().values().sum::<usize>(), 0, "{:?}", f.api.counts());

    let again = app_replica_set::crd().to_string();
    let defined: Result<MetaObject, _> = f.admin.create(&CRDS, "", again.into()).await;
    defined.expect("defined");
    f.create_ready("web", 2).await;
}

/// The watch does not report that the instances are gone.
#[tokio::test(start_paused = true)]
async fn stale_cache_of_a_deleted_crd_creates_no_pods() {
    let f = fixture(APP_REPLICA_SET).await;
    f.create_ready("web", 3).await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.stall_watches(Some("/appreplicasets"));
    delete_crd(&f).await;
    f.api.reset();
    // The garbage collector deletes the pods repeatedly.
    for _ in 0..60 {
        for pod in f.pods().await {
            f.delete(&PODS, &pod).await;
        }
        f.sleep(Duration::from_secs(1)).await;
    }
    let creates = f.api.count("POST pods");
    assert!(creates <= 6, "{creates} {:?}", f.api.counts());
    f.api.reset();
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.counts().values().sum::<usize>(), 0, "{:?}", f.api.counts());
    assert!(f.pods().await.is_empty());
}
