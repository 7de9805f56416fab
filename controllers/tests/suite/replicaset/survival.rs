//! What is not ours survives every write; what is nobody's is taken, and what is not meant any more is let go.

use super::*;

fn pod(labels: &Value, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "loose", "labels": labels},
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
async fn an_owner_keeps_all_that_is_not_ours() {
    for kind in kinds() {
        let bed = bed(kind).await;
        let mut owner = bed.owner("web", 3);
        let foreign = json!({"labels": {"their": "label"}, "annotations": {"their": "annotation"},
                             "finalizers": ["example.com/theirs"]});
        for (key, value) in foreign.as_object().expect("an object") {
            owner["metadata"][key] = value.clone();
        }
        bed.create_owner(&owner).await;
        bed.ready("web", 3).await;
        let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = json!({"status": {"replicas": 3, "conditions": [theirs]}});
        let key = Key::new("default", "web");
        let patch = Patch::merge(&patch).of("status");
        let patched: Value = bed
            .admin
            .patch(&bed.kind.resource, &key, patch)
            .await
            .expect("patched");
        bed.scale("web", 5).await;
        bed.ready("web", 5).await;
        let after = bed.get("web").await;
        for (key, value) in foreign.as_object().expect("an object") {
            assert_eq!(after["metadata"][key], *value);
        }
        assert_eq!(after["status"]["conditions"], json!([theirs]));
        assert_eq!(after["spec"]["template"], patched["spec"]["template"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_nobodys_is_taken_and_let_go_with_all_that_it_has() {
    for kind in kinds() {
        let bed = bed(kind).await;
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x",
                           "uid": "00000000-0000-4000-8000-000000000001"});
        let foreign = json!({"annotations": {"their": "annotation"}, "finalizers": ["example.com/theirs"],
                             "ownerReferences": [other]});
        bed.create(&PODS, &pod(&json!({"app": "web", "their": "label"}), &foreign))
            .await;
        bed.create_owner(&bed.owner("web", 3)).await;
        bed.ready("web", 3).await;
        assert_eq!(bed.door.count("POST pods"), 2, "one was there");
        let find = async |bed: &Bed| {
            let pods = bed.list(&PODS).await;
            pods.into_iter().find(|it| it["metadata"]["name"] == "loose")
        };
        let taken = find(&bed).await.expect("it is there");
        assert_eq!(controller(&taken), Some("web"));
        assert_eq!(taken["metadata"]["ownerReferences"][0], other);
        let owner = format!("GET {}", bed.kind.resource.plural);
        assert_eq!(bed.door.count(&owner), 1, "the owner was looked at first");

        bed.patch(&PODS, "loose", &json!({"metadata": {"labels": {"app": "other"}}}))
            .await;
        bed.until(async |bed| bed.pods().await.len() == 4).await;
        bed.ready("web", 3).await;
        let released = find(&bed).await.expect("it is there");
        assert_eq!(controller(&released), None);
        for (key, value) in foreign.as_object().expect("an object") {
            assert_eq!(released["metadata"][key], *value);
        }
        assert_eq!(released["metadata"]["labels"]["their"], "label");
        assert_eq!(bed.door.count("DELETE pods"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_makes_and_takes_nothing() {
    let bed = bed(REPLICA_SET).await;
    let mut owner = bed.owner("web", 3);
    owner["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    let owner = bed.create_owner(&owner).await;
    bed.ready("web", 3).await;
    bed.delete(&bed.kind.resource, &owner).await;
    bed.door.reset();
    bed.create(&PODS, &pod(&json!({"app": "web"}), &json!({}))).await;
    for pod in bed
        .pods()
        .await
        .iter()
        .filter(|it| controller(it).is_some())
        .take(2)
    {
        bed.delete(&PODS, pod).await;
    }
    bed.sleep(Duration::from_mins(1)).await;
    let counts = bed.door.counts();
    assert_eq!(
        counts.keys().collect::<Vec<_>>(),
        ["PATCH replicasets/status"],
        "{counts:?}"
    );
    assert_eq!(bed.get("web").await["status"]["replicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_owner_under_an_old_name_has_pods_of_its_own() {
    let bed = bed(REPLICA_SET).await;
    let old = bed.create_owner(&bed.owner("web", 3)).await;
    bed.ready("web", 3).await;
    bed.delete(&bed.kind.resource, &old).await;
    let new = bed.create_owner(&bed.owner("web", 3)).await;
    bed.ready("web", 3).await;
    // Those of the old one are the garbage collector's.
    let pods = bed.pods().await;
    let of = |owner: &Value| {
        let uid = &owner["metadata"]["uid"];
        pods.iter()
            .filter(|it| it["metadata"]["ownerReferences"][0]["uid"] == *uid)
            .count()
    };
    assert_eq!((of(&old), of(&new)), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
    for kind in kinds() {
        let bed = bed(kind).await;
        let mut owner = bed.owner("web", 2);
        owner["spec"]["minReadySeconds"] = json!(30);
        bed.create_owner(&owner).await;
        bed.sleep(Duration::from_secs(10)).await;
        let counts = |owner: &Value| {
            let count = |field: &str| owner["status"][field].as_i64().unwrap_or(0);
            (count("readyReplicas"), count("availableReplicas"))
        };
        assert_eq!(counts(&bed.get("web").await), (2, 0));
        bed.sleep(Duration::from_secs(30)).await;
        assert_eq!(counts(&bed.get("web").await), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn the_pods_that_are_missed_least_go_first() {
    let bed = bed(REPLICA_SET).await;
    bed.create_owner(&bed.owner("web", 6)).await;
    bed.ready("web", 6).await;
    let name = |pod: &Value| pod["metadata"]["name"].as_str().expect("a name").to_owned();
    let pods = bed.pods().await;
    for pod in &pods[..2] {
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}});
        bed.patch(&PODS, &name(pod), &cost).await;
    }
    bed.sleep(Duration::from_secs(1)).await;
    bed.scale("web", 4).await;
    bed.ready("web", 4).await;
    let left: Vec<String> = bed.pods().await.iter().map(name).collect();
    assert_eq!(left, pods[2..].iter().map(name).collect::<Vec<_>>());
}
