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
        f.scale("web", 5).await;
        f.ready("web", 5).await;
        let after = f.get("web").await;
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
        let f = fixture(kind).await;
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x",
                           "uid": "00000000-0000-4000-8000-000000000001"});
        let foreign = json!({"annotations": {"their": "annotation"}, "finalizers": ["example.com/theirs"],
                             "ownerReferences": [other]});
        f.create(&PODS, &pod(&json!({"app": "web", "their": "label"}), &foreign))
            .await;
        f.create_owner(&f.owner("web", 3)).await;
        f.ready("web", 3).await;
        assert_eq!(f.api.count("POST pods"), 2, "one was there");
        let find = async |f: &Fixture| {
            let pods = f.list(&PODS).await;
            pods.into_iter().find(|it| it["metadata"]["name"] == "loose")
        };
        let taken = find(&f).await.expect("it is there");
        assert_eq!(controller(&taken), Some("web"));
        assert_eq!(taken["metadata"]["ownerReferences"][0], other);
        let owner = format!("GET {}", f.kind.resource.plural);
        assert_eq!(f.api.count(&owner), 1, "the owner was looked at first");

        f.patch(&PODS, "loose", &json!({"metadata": {"labels": {"app": "other"}}}))
            .await;
        f.until(async |f| f.pods().await.len() == 4).await;
        f.ready("web", 3).await;
        let released = find(&f).await.expect("it is there");
        assert_eq!(controller(&released), None);
        for (key, value) in foreign.as_object().expect("an object") {
            assert_eq!(released["metadata"][key], *value);
        }
        assert_eq!(released["metadata"]["labels"]["their"], "label");
        assert_eq!(f.api.count("DELETE pods"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_makes_and_takes_nothing() {
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
async fn a_new_owner_under_an_old_name_has_pods_of_its_own() {
    let f = fixture(REPLICA_SET).await;
    let old = f.create_owner(&f.owner("web", 3)).await;
    f.ready("web", 3).await;
    f.delete(&f.kind.resource, &old).await;
    let new = f.create_owner(&f.owner("web", 3)).await;
    f.ready("web", 3).await;
    // Those of the old one are the garbage collector's.
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
async fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
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
async fn the_pods_that_are_missed_least_go_first() {
    let f = fixture(REPLICA_SET).await;
    f.create_owner(&f.owner("web", 6)).await;
    f.ready("web", 6).await;
    let name = |pod: &Value| pod["metadata"]["name"].as_str().expect("a name").to_owned();
    let pods = f.pods().await;
    for pod in &pods[..2] {
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}});
        f.patch(&PODS, &name(pod), &cost).await;
    }
    f.sleep(Duration::from_secs(1)).await;
    f.scale("web", 4).await;
    f.ready("web", 4).await;
    let left: Vec<String> = f.pods().await.iter().map(name).collect();
    assert_eq!(left, pods[2..].iter().map(name).collect::<Vec<_>>());
}
