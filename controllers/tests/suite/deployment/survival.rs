//! Fields of other clients are kept.

use super::*;

#[tokio::test(start_paused = true)]
async fn foreign_fields_of_a_deployment_and_its_sets_are_kept() {
    let f = fixture();
    let mut deployment = web(3, "one");
    let foreign = json!({"labels": {"their": "label"}, "annotations": {"their": "annotation"}, "finalizers": ["example.com/theirs"]});
    for (key, value) in foreign.as_object().expect("an object") {
        deployment["metadata"][key] = value.clone();
    }
    f.deploy(&deployment).await;
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions = f.get("web").await["status"]["conditions"].clone();
    conditions
        .as_array_mut()
        .expect("conditions")
        .push(theirs.clone());
    let patch = json!({"status": {"conditions": conditions}});
    let key = Key::new("default", "web");
    let patch = Patch::merge(&patch).of("status");
    let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
    let first = f.sets().await[0]["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let set = json!({"metadata": {"labels": {"their": "label"}, "annotations": {"set": "theirs"}, "finalizers": ["example.com/theirs"]}});
    f.patch(&SETS, &first, &set).await;

    f.update("web", &image("two")).await;
    f.update("web", &json!({"replicas": 6})).await;
    let after = f.complete("web").await;
    assert_eq!(after["metadata"]["labels"], foreign["labels"]);
    assert_eq!(after["metadata"]["finalizers"], foreign["finalizers"]);
    assert_eq!(after["metadata"]["annotations"]["their"], "annotation");
    assert!(
        after["status"]["conditions"]
            .as_array()
            .expect("conditions")
            .contains(&theirs)
    );
    let old = f.read(&SETS, &first).await.expect("a ReplicaSet");
    assert_eq!(size(&old), 0);
    assert_eq!(old["metadata"]["labels"]["their"], "label");
    assert_eq!(old["metadata"]["annotations"]["set"], "theirs");
    assert_eq!(old["metadata"]["finalizers"], json!(["example.com/theirs"]));

    // A rollback replaces the whole template.
    let request = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}});
    f.patch(&DEPLOYMENTS, "web", &request).await;
    f.until(async |f| f.images().await == ["one"; 6]).await;
    let back = f.complete("web").await;
    assert_eq!(back["metadata"]["labels"], foreign["labels"]);
    assert_eq!(back["metadata"]["finalizers"], foreign["finalizers"]);
    let template = &back["spec"]["template"]["metadata"]["labels"];
    assert_eq!(*template, json!({"app": "web"}), "without the label of the set");
    for what in [
        "PATCH replicasets",
        "PATCH deployments",
        "PATCH deployments/status",
    ] {
        for body in f.api.bodies(what) {
            let metadata = &body["metadata"];
            assert!(
                metadata["uid"].is_string() && metadata["resourceVersion"].is_string(),
                "{what} {body}"
            );
        }
    }
}
