//! Writes keep the fields of other clients; pods are adopted and released.

use super::*;

fn pod(labels: &Value, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "orphan", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        pod["metadata"][key] = value.clone();
    }
    pod
}

fn controller(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|it| it["controller"] == true)?["name"].as_str()
}

#[tokio::test(start_paused = true)]
async fn status_writes_keep_fields_of_other_clients() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let mut owner = f.owner("web", 3);
        let foreign = json!({"labels": {"their": "label"}, "annotations": {"their": "annotation"},
                             "finalizers": ["example.com/theirs"]});
        for (key, value) in foreign.as_object().expect("an object") {
            owner["metadata"][key] = value.clone();
        }
        f.create_owner(&owner).await;
        f.ready("web", 3).await;
        let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = json!({"status": {"replicas": 3, "conditions": [theirs]}});
        let key = Key::new("default", "web");
        let patch = Patch::merge(&patch).of("status");
        let patched: Value = f
            .admin
            .patch(&f.kind.resource, &key, patch)
            .await
            .expect("patched");
        f.scale_ready("web", 5).await;
        let after = f.get("web").await;
        for (key, value) in foreign.as_object().expect("an object") {
            assert_eq!(after["metadata"][key], *value);
        }
        assert_eq!(after["status"]["conditions"], json!([theirs]));
        assert_eq!(after["spec"]["template"], patched["spec"]["template"]);
    }
}

#[tokio::test(start_paused = true)]
async fn adopted_and_released_pod_keeps_fields_of_other_clients() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x",
                           "uid": "00000000-0000-4000-8000-000000000001"});
        let foreign = json!({"annotations": {"their": "annotation"}, "finalizers": ["example.com/theirs"],
                             "ownerReferences": [other]});
        f.create(&PODS, &pod(&json!({"app": "web", "their": "label"}), &foreign))
            .await;
        f.create_ready("web", 3).await;
        assert_eq!(f.api.count("POST pods"), 2, "one pod was adopted");
        let find = async |f: &Fixture| {
            let pods = f.list(&PODS).await;
            pods.into_iter().find(|it| it["metadata"]["name"] == "orphan")
        };
        let adopted = find(&f).await.expect("the pod exists");
        assert_eq!(controller(&adopted), Some("web"));
        assert_eq!(adopted["metadata"]["ownerReferences"][0], other);
        let owner = format!("GET {}", f.kind.resource.plural);
        assert_eq!(f.api.count(&owner), 1, "the owner was read live");

        f.patch(
            &PODS,
            "orphan",
            &json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
        f.until(async |f| f.pods().await.len() == 4).await;
        f.ready("web", 3).await;
        let released = find(&f).await.expect("the pod exists");
        assert_eq!(controller(&released), None);
        for (key, value) in foreign.as_object().expect("an object") {
            assert_eq!(released["metadata"][key], *value);
        }
        assert_eq!(released["metadata"]["labels"]["their"], "label");
        assert_eq!(f.api.count("DELETE pods"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_owner_creates_and_adopts_no_pods() {
    let f = fixture(REPLICA_SET).await;
    let mut owner = f.owner("web", 3);
    owner["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    let owner = f.create_owner(&owner).await;
    f.ready("web", 3).await;
    f.delete(&f.kind.resource, &owner).await;
    f.api.reset();
    f.create(&PODS, &pod(&json!({"app": "web"}), &json!({}))).await;
    for pod in f
        .pods()
        .await
        .iter()
        .filter(|it| controller(it).is_some())
        .take(2)
    {
        f.delete(&PODS, pod).await;
    }
    f.sleep(Duration::from_mins(1)).await;
    let counts = f.api.counts();
    assert_eq!(
        counts.keys().collect::<Vec<_>>(),
        ["PATCH replicasets/status"],
        "{counts:?}"
    );
    assert_eq!(f.get("web").await["status"]["replicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn recreated_owner_creates_its_own_pods() {
    let f = fixture(REPLICA_SET).await;
    let old = f.create_ready("web", 3).await;
    f.delete(&f.kind.resource, &old).await;
    let new = f.create_ready("web", 3).await;
    // The garbage collector deletes the pods of the old owner.
    let pods = f.pods().await;
    let of = |owner: &Value| {
        let uid = &owner["metadata"]["uid"];
        pods.iter()
            .filter(|it| it["metadata"]["ownerReferences"][0]["uid"] == *uid)
            .count()
    };
    assert_eq!((of(&old), of(&new)), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn pod_is_available_after_min_ready_seconds() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let mut owner = f.owner("web", 2);
        owner["spec"]["minReadySeconds"] = json!(30);
        f.create_owner(&owner).await;
        f.sleep(Duration::from_secs(10)).await;
        let counts = |owner: &Value| {
            let count = |field: &str| owner["status"][field].as_i64().unwrap_or(0);
            (count("readyReplicas"), count("availableReplicas"))
        };
        assert_eq!(counts(&f.get("web").await), (2, 0));
        f.sleep(Duration::from_secs(30)).await;
        assert_eq!(counts(&f.get("web").await), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn pods_with_lower_deletion_cost_are_deleted_first() {
    let f = fixture(REPLICA_SET).await;
    f.create_ready("web", 6).await;
    let name = |pod: &Value| pod["metadata"]["name"].as_str().expect("a name").to_owned();
    let pods = f.pods().await;
    for pod in &pods[..2] {
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}});
        f.patch(&PODS, &name(pod), &cost).await;
    }
    f.sleep(Duration::from_secs(1)).await;
    f.scale_ready("web", 4).await;
    let left: Vec<String> = f.pods().await.iter().map(name).collect();
    assert_eq!(left, pods[2..].iter().map(name).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn pod_whose_reference_has_another_name_is_replaced() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 2).await;
        let pod = f.pods().await.remove(0);
        let mut references = pod["metadata"]["ownerReferences"].clone();
        references[0]["name"] = json!("another");
        let name = pod["metadata"]["name"].as_str().expect("a name");
        f.patch(&PODS, name, &json!({"metadata": {"ownerReferences": references}}))
            .await;
        f.sleep(Duration::from_secs(1)).await;
        f.delete(&PODS, &pod).await;
        f.sleep(Duration::from_secs(10)).await;
        let pods = f.pods().await;
        assert_eq!(pods.len(), 2, "{pods:?}");
        assert!(
            pods.iter()
                .all(|it| it["metadata"]["uid"] != pod["metadata"]["uid"])
        );
    }
}
