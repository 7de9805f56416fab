//! Names that are taken: what is another one's is never touched, and looked at again when it goes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_not_its_own_is_not_touched() {
    let bed = bed().await;
    let theirs = bed.create(&DEPLOYMENTS, &foreign("web")).await;
    bed.create(&APPS, &shop(&json!({"replicas": 3, "image": "ours"})))
        .await;
    assert_eq!(bed.stalled("shop").await, "ErrResourceExists");
    bed.sleep(Duration::from_hours(1)).await;
    let it = bed.get(&APPS, "shop").await;
    assert_eq!(
        condition(&it, "Ready"),
        ("False".to_owned(), "ErrResourceExists".to_owned())
    );
    assert_eq!(it["status"]["observedGeneration"], 1);
    let after = bed.get(&DEPLOYMENTS, "web").await;
    assert_eq!(
        (&after["spec"], &after["metadata"]["generation"]),
        (&theirs["spec"], &theirs["metadata"]["generation"])
    );
    assert_eq!(after["metadata"].get("labels"), theirs["metadata"].get("labels"));
    assert_eq!(bed.told_of("ErrResourceExists").await, 1, "it is said once");
    assert_eq!(
        bed.door.order(),
        ["PATCH appservices/status"],
        "and nothing is asked for"
    );
    // It wakes when that one goes, not by its backoff.
    bed.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    bed.sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.door.count("POST deployments"), 1);
    bed.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_its_own_is_not_touched_and_the_deployment_is_made() {
    let bed = bed().await;
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}, "spec": {"ports": [{"port": 9}]}});
    let before = bed.create(&SERVICES, &theirs).await;
    bed.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    assert_eq!(bed.stalled("shop").await, "ErrResourceExists");
    bed.until(async |bed| bed.get(&APPS, "shop").await["status"]["availableReplicas"] == 2)
        .await;
    let after = bed.get(&SERVICES, "shop").await;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    bed.delete(&SERVICES, "shop", Propagation::Background).await;
    bed.ready("shop").await;
    // Without ports a Service of that name is nobody's business.
    bed.want("shop", &json!({"ports": null})).await;
    bed.ready("shop").await;
    let before = bed.create(&SERVICES, &theirs).await;
    bed.sleep(Duration::from_mins(1)).await;
    let after = bed.get(&SERVICES, "shop").await;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    assert_eq!(condition(&bed.get(&APPS, "shop").await, "Ready").0, "True");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_claim_one_deployment_the_first_keeps_it() {
    for policy in ["Delete", "Orphan"] {
        let bed = bed().await;
        bed.collect().await;
        let policy = json!({"deletionPolicy": policy, "image": "first"});
        bed.serve(&app("first", "web", &policy)).await;
        bed.create(
            &APPS,
            &app(
                "second",
                "web",
                &json!({"image": "second", "deletionPolicy": policy["deletionPolicy"]}),
            ),
        )
        .await;
        assert_eq!(bed.stalled("second").await, "ErrResourceExists");
        bed.sleep(Duration::from_mins(10)).await;
        assert_eq!(image(&bed.get(&DEPLOYMENTS, "web").await), "first");
        assert_eq!(condition(&bed.get(&APPS, "first").await, "Ready").0, "True");
        // It gets it when the first wants another one.
        bed.want("first", &json!({"deploymentName": "other"})).await;
        bed.ready("second").await;
        assert_eq!(image(&bed.get(&DEPLOYMENTS, "web").await), "second");
        bed.ready("first").await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_that_are_made_at_once_do_not_share() {
    let bed = apart().await;
    bed.create(&APPS, &app("first", "web", &json!({"image": "first"})))
        .await;
    bed.create(&APPS, &app("second", "web", &json!({"image": "second"})))
        .await;
    bed.apps();
    bed.until(async |bed| {
        let state = async |name: &str| condition(&bed.get(&APPS, name).await, "Ready");
        let (first, second) = (state("first").await, state("second").await);
        let taken = ("False".to_owned(), "ErrResourceExists".to_owned());
        (first.0 == "True" && second == taken) || (second.0 == "True" && first == taken)
    })
    .await;
    assert_eq!(bed.names(&DEPLOYMENTS).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_appservice_of_that_name_has_left_is_waited_for() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    // Nobody collects yet.
    bed.delete(&APPS, "shop", Propagation::Background).await;
    bed.create(&APPS, &shop(&json!({"image": "second"}))).await;
    bed.until(async |bed| condition(&bed.get(&APPS, "shop").await, "Progressing").1 == "WaitingForDeletion")
        .await;
    assert_eq!(image(&bed.get(&DEPLOYMENTS, "web").await), "nginx");
    bed.collect().await;
    bed.ready("shop").await;
    assert_eq!(image(&bed.get(&DEPLOYMENTS, "web").await), "second");
    assert_eq!(bed.told_of("ErrResourceExists").await, 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_handed_over_is_taken() {
    let bed = bed().await;
    bed.create(&APPS, &shop(&json!({}))).await;
    bed.ready("shop").await;
    let uid = bed.get(&APPS, "shop").await["metadata"]["uid"].clone();
    bed.create(&APPS, &app("second", "theirs", &json!({}))).await;
    bed.create(&DEPLOYMENTS, &foreign("old")).await;
    // It says that it is the shop's, under its own name.
    let mark = json!({"metadata": {"labels": {"appcontroller.k8s.io/appservice-uid": uid},
                                   "annotations": {"appcontroller.k8s.io/made-as": "old"}}});
    bed.patch(&DEPLOYMENTS, "old", &mark).await;
    // So it is a former one, and is removed.
    bed.want("shop", &json!({"replicas": 1})).await;
    bed.until(async |bed| !bed.exists(&DEPLOYMENTS, "old").await)
        .await;
}
