//! Child names that are taken: foreign objects are never changed, and their deletion frees the name.

use super::*;

#[tokio::test(start_paused = true)]
async fn foreign_deployment_is_not_changed() {
    let f = fixture().await;
    let theirs = f.create(&DEPLOYMENTS, &foreign("web")).await;
    f.create(&APPS, &shop(&json!({"replicas": 3, "image": "ours"})))
        .await;
    assert_eq!(f.wait_stalled("shop").await, "ErrResourceExists");
    // Less than an hour: the API server removes events after that.
    f.sleep(Duration::from_mins(50)).await;
    let it = f.get(&APPS, "shop").await;
    assert_eq!(
        condition(&it, "Ready"),
        ("False".to_owned(), "ErrResourceExists".to_owned())
    );
    assert_eq!(it["status"]["observedGeneration"], 1);
    let after = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(
        (&after["spec"], &after["metadata"]["generation"]),
        (&theirs["spec"], &theirs["metadata"]["generation"])
    );
    assert_eq!(after["metadata"].get("labels"), theirs["metadata"].get("labels"));
    assert_eq!(f.event_count("ErrResourceExists").await, 1, "one event");
    assert_eq!(
        f.api.operations(),
        ["PATCH appservices/status"],
        "no other requests"
    );
    // The delete event triggers the sync, not the backoff.
    f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.api.count("POST deployments"), 1);
    f.wait_ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn foreign_service_is_not_changed_and_the_deployment_is_created() {
    let f = fixture().await;
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}, "spec": {"ports": [{"port": 9}]}});
    let before = f.create(&SERVICES, &theirs).await;
    f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    assert_eq!(f.wait_stalled("shop").await, "ErrResourceExists");
    f.wait_until(async |f| f.get(&APPS, "shop").await["status"]["availableReplicas"] == 2)
        .await;
    let after = f.get(&SERVICES, "shop").await;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    f.delete(&SERVICES, "shop", Propagation::Background).await;
    f.wait_ready("shop").await;
    // Without ports the AppService does not claim a Service.
    f.patch_spec("shop", &json!({"ports": null})).await;
    f.wait_ready("shop").await;
    let before = f.create(&SERVICES, &theirs).await;
    f.sleep(Duration::from_mins(1)).await;
    let after = f.get(&SERVICES, "shop").await;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Ready").0, "True");
}

#[tokio::test(start_paused = true)]
async fn first_appservice_keeps_a_deployment_name() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.start_garbage_collector().await;
        let policy = json!({"deletionPolicy": policy, "image": "first"});
        f.create_ready(&app("first", "web", &policy)).await;
        f.create(
            &APPS,
            &app(
                "second",
                "web",
                &json!({"image": "second", "deletionPolicy": policy["deletionPolicy"]}),
            ),
        )
        .await;
        assert_eq!(f.wait_stalled("second").await, "ErrResourceExists");
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "first");
        assert_eq!(condition(&f.get(&APPS, "first").await, "Ready").0, "True");
        // The second gets it when the first names another Deployment.
        f.patch_spec("first", &json!({"deploymentName": "other"})).await;
        f.wait_ready("second").await;
        assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "second");
        f.wait_ready("first").await;
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_appservices_do_not_share_a_deployment() {
    let f = without_controller().await;
    f.create(&APPS, &app("first", "web", &json!({"image": "first"})))
        .await;
    f.create(&APPS, &app("second", "web", &json!({"image": "second"})))
        .await;
    f.start_controller();
    f.wait_until(async |f| {
        let state = async |name: &str| condition(&f.get(&APPS, name).await, "Ready");
        let (first, second) = (state("first").await, state("second").await);
        let taken = ("False".to_owned(), "ErrResourceExists".to_owned());
        (first.0 == "True" && second == taken) || (second.0 == "True" && first == taken)
    })
    .await;
    assert_eq!(f.names(&DEPLOYMENTS).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn children_of_a_deleted_appservice_are_awaited() {
    let f = with_shop().await;
    // The garbage collector does not run yet.
    f.delete(&APPS, "shop", Propagation::Background).await;
    f.create(&APPS, &shop(&json!({"image": "second"}))).await;
    f.wait_until(async |f| condition(&f.get(&APPS, "shop").await, "Progressing").1 == "WaitingForDeletion")
        .await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "nginx");
    f.start_garbage_collector().await;
    f.wait_ready("shop").await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "second");
    assert_eq!(f.event_count("ErrResourceExists").await, 0);
}

#[tokio::test(start_paused = true)]
async fn deployment_labelled_as_owned_is_deleted_as_a_previous_one() {
    let f = fixture().await;
    f.create(&APPS, &shop(&json!({}))).await;
    f.wait_ready("shop").await;
    let uid = f.get(&APPS, "shop").await["metadata"]["uid"].clone();
    f.create(&APPS, &app("second", "theirs", &json!({}))).await;
    f.create(&DEPLOYMENTS, &foreign("old")).await;
    // Label and annotation make it owned by the AppService.
    let mark = json!({"metadata": {"labels": {"appcontroller.k8s.io/appservice-uid": uid},
                                   "annotations": {"appcontroller.k8s.io/made-as": "old"}}});
    f.patch(&DEPLOYMENTS, "old", &mark).await;
    // So it counts as a previous Deployment.
    f.patch_spec("shop", &json!({"replicas": 1})).await;
    f.wait_until(async |f| !f.exists(&DEPLOYMENTS, "old").await).await;
}
