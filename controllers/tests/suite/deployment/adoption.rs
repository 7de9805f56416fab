//! Whose a set is: what is nobody's is taken, what is not meant any more is let go, and what is another's stays that.

use super::*;

/// A set as the Deployment would have made it, but for the label that tells sets apart.
fn loose(name: &str, image: &str) -> Value {
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
async fn a_set_that_is_nobodys_is_taken_as_it_is() {
    let f = fixture();
    f.create(&SETS, &loose("loose", "one")).await;
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
    assert_eq!(f.api.count("GET deployments"), 1, "the owner was looked at first");
    assert_eq!(f.images().await, ["one"; 3]);
    assert_eq!(revision(&f.get("web").await), "1");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_not_meant_any_more_is_let_go_and_its_name_is_not_ours() {
    let f = fixture();
    f.deploy(&web(2, "one")).await;
    let first = f.sets().await[0]["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    f.patch(&SETS, &first, &json!({"metadata": {"labels": {"app": "other"}}}))
        .await;
    f.until(async |f| f.sets().await.len() == 2).await;
    let deployment = f.complete("web").await;
    assert_eq!(deployment["status"]["collisionCount"], 1);
    let released = f.read(&SETS, &first).await.expect("it is there");
    assert_eq!((controller(&released), size(&released)), (None, 2));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_goes_takes_and_makes_nothing() {
    let f = fixture();
    let mut deployment = web(2, "one");
    deployment["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    let deployment = f.deploy(&deployment).await;
    f.delete(&DEPLOYMENTS, &deployment).await;
    f.sleep(Duration::from_secs(5)).await;
    f.api.reset();
    f.create(&SETS, &loose("loose", "one")).await;
    f.want("web", &image("two")).await;
    f.sleep(Duration::from_mins(1)).await;
    let counts = f.api.counts();
    assert!(
        counts.keys().all(|it| it == "PATCH deployments/status"),
        "{counts:?}"
    );
    assert_eq!(f.sets().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_replaced_in_between_adopts_nothing() {
    let f = fixture();
    f.deploy(&web(1, "one")).await;
    f.api.lag().hold_at("deployments.apps", f.sandbox.revision());
    let old = f.get("web").await;
    f.delete(&DEPLOYMENTS, &old).await;
    f.create(&DEPLOYMENTS, &web(1, "one")).await;
    f.create(&SETS, &loose("loose", "two")).await;
    f.sleep(Duration::from_secs(20)).await;
    let set = f.read(&SETS, "loose").await.expect("it is there");
    assert_eq!(controller(&set), None);
    assert!(
        (2..=20).contains(&f.api.count("GET deployments")),
        "{:?}",
        f.api.counts()
    );
    assert_eq!(f.api.count("PATCH replicasets"), 0);
}

#[tokio::test(start_paused = true)]
async fn two_deployments_with_one_selector_keep_to_their_own() {
    let f = fixture();
    f.deploy(&web(2, "one")).await;
    let mut twin = web(3, "one");
    twin["metadata"]["name"] = json!("twin");
    f.deploy(&twin).await;
    f.want("web", &image("two")).await;
    f.complete("web").await;
    f.complete("twin").await;
    assert_eq!(f.images().await, ["one", "one", "one", "two", "two"]);
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into());
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_under_an_old_name_has_sets_of_its_own() {
    let f = fixture();
    let old = f.deploy(&web(2, "one")).await;
    f.delete(&DEPLOYMENTS, &old).await;
    let mut new = web(3, "one");
    new["spec"]["selector"]["matchLabels"]["more"] = json!("labels");
    new["spec"]["template"]["metadata"]["labels"]["more"] = json!("labels");
    let new = f.deploy(&new).await;
    let sets = f.sets().await;
    // Those of the old one are the garbage collector's.
    let of = |it: &Value| {
        sets.iter()
            .filter(|set| controller(set) == it["metadata"]["uid"].as_str())
            .count()
    };
    assert_eq!((of(&old), of(&new)), (1, 1));

    // The same once more, with the same template: the name is taken.
    f.delete(&DEPLOYMENTS, &new).await;
    let mut again = web(1, "one");
    again["spec"]["template"]["metadata"]["labels"]["more"] = json!("labels");
    let again = f.deploy(&again).await;
    assert_eq!(again["status"]["collisionCount"], 1);
    assert_eq!(f.sets().await.len(), 3);
}
