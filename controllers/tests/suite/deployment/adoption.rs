//! Adoption and release of `ReplicaSets`.

use super::*;

/// A `ReplicaSet` that matches the Deployment, without the hash label.
fn orphan_set(name: &str, image: &str) -> Value {
    let labels = json!({"app": "web", "their": "label"});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": labels, "annotations": {"their": "annotation"}, "finalizers": ["example.com/theirs"]},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}}},
    })
}

fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|it| it["controller"] == true)?["uid"].as_str()
}

#[tokio::test(start_paused = true)]
async fn orphan_is_adopted_unchanged() {
    let f = fixture();
    f.create(&SETS, &orphan_set("orphan", "one")).await;
    f.sleep(Duration::from_secs(5)).await;
    let deployment = f.deploy(&web(3, "one")).await;
    let sets = f.sets().await;
    assert_eq!(sets.len(), 1, "it is the one for this template");
    assert_eq!(controller(&sets[0]), deployment["metadata"]["uid"].as_str());
    assert_eq!(
        sets[0]["metadata"]["labels"],
        json!({"app": "web", "their": "label"})
    );
    assert_eq!(sets[0]["metadata"]["annotations"]["their"], "annotation");
    assert_eq!(sets[0]["metadata"]["finalizers"], json!(["example.com/theirs"]));
    assert!(
        sets[0]["spec"]["selector"]["matchLabels"]
            .get("pod-template-hash")
            .is_none()
    );
    assert_eq!(f.api.count("GET deployments"), 1, "the owner was read first");
    assert_eq!(f.images().await, ["one"; 3]);
    assert_eq!(revision(&f.get("web").await), "1");
}

#[tokio::test(start_paused = true)]
async fn released_set_keeps_its_name() {
    let f = with_deployment(&web(2, "one")).await;
    let first = f.sets().await[0]["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    f.patch(&SETS, &first, &json!({"metadata": {"labels": {"app": "other"}}}))
        .await;
    f.until(async |f| f.sets().await.len() == 2).await;
    let deployment = f.complete("web").await;
    assert_eq!(deployment["status"]["collisionCount"], 1);
    let released = f.read(&SETS, &first).await.expect("a ReplicaSet");
    assert_eq!((controller(&released), size(&released)), (None, 2));
}

#[tokio::test(start_paused = true)]
async fn terminating_deployment_adopts_and_creates_nothing() {
    let f = fixture();
    let mut deployment = web(2, "one");
    deployment["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    let deployment = f.deploy(&deployment).await;
    f.delete(&DEPLOYMENTS, &deployment).await;
    f.sleep(Duration::from_secs(5)).await;
    f.api.reset();
    f.create(&SETS, &orphan_set("orphan", "one")).await;
    f.update("web", &image("two")).await;
    f.sleep(Duration::from_mins(1)).await;
    let counts = f.api.counts();
    assert!(
        counts.keys().all(|it| it == "PATCH deployments/status"),
        "{counts:?}"
    );
    assert_eq!(f.sets().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn replaced_deployment_adopts_nothing() {
    let f = with_deployment(&web(1, "one")).await;
    f.api.lag().hold_at("deployments.apps", f.sandbox.revision());
    let old = f.get("web").await;
    f.delete(&DEPLOYMENTS, &old).await;
    f.create(&DEPLOYMENTS, &web(1, "one")).await;
    f.create(&SETS, &orphan_set("orphan", "two")).await;
    f.sleep(Duration::from_secs(20)).await;
    let set = f.read(&SETS, "orphan").await.expect("a ReplicaSet");
    assert_eq!(controller(&set), None);
    assert!(
        (2..=20).contains(&f.api.count("GET deployments")),
        "{:?}",
        f.api.counts()
    );
    assert_eq!(f.api.count("PATCH replicasets"), 0);
}

#[tokio::test(start_paused = true)]
async fn deployments_with_equal_selectors_keep_their_sets() {
    let f = with_deployment(&web(2, "one")).await;
    let mut twin = web(3, "one");
    twin["metadata"]["name"] = json!("twin");
    f.deploy(&twin).await;
    f.update("web", &image("two")).await;
    f.complete("web").await;
    f.complete("twin").await;
    assert_eq!(f.images().await, ["one", "one", "one", "two", "two"]);
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into());
}

#[tokio::test(start_paused = true)]
async fn recreated_deployment_creates_its_own_sets() {
    let f = fixture();
    let old = f.deploy(&web(2, "one")).await;
    f.delete(&DEPLOYMENTS, &old).await;
    let mut new = web(3, "one");
    new["spec"]["selector"]["matchLabels"]["more"] = json!("labels");
    new["spec"]["template"]["metadata"]["labels"]["more"] = json!("labels");
    let new = f.deploy(&new).await;
    let sets = f.sets().await;
    // The garbage collector deletes those of the old one.
    let of = |it: &Value| {
        sets.iter()
            .filter(|set| controller(set) == it["metadata"]["uid"].as_str())
            .count()
    };
    assert_eq!((of(&old), of(&new)), (1, 1));

    // Again with the same template: the name collides.
    f.delete(&DEPLOYMENTS, &new).await;
    let mut again = web(1, "one");
    again["spec"]["template"]["metadata"]["labels"]["more"] = json!("labels");
    let again = f.deploy(&again).await;
    assert_eq!(again["status"]["collisionCount"], 1);
    assert_eq!(f.sets().await.len(), 3);
}
