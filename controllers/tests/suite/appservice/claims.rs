//! Names that are taken: what is another one's is never touched, and looked at again when it goes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_not_its_own_is_not_touched() {
    let f = fixture().await;
    let theirs = f.create(&DEPLOYMENTS, &foreign("web")).await;
    f.create(&APPS, &shop(&json!({"replicas": 3, "image": "ours"})))
        .await;
    assert_eq!(f.stalled("shop").await, "ErrResourceExists");
    f.sleep(Duration::from_hours(1)).await;
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
    assert_eq!(f.told_of("ErrResourceExists").await, 1, "it is said once");
    assert_eq!(
        f.api.operations(),
        ["PATCH appservices/status"],
        "and nothing is asked for"
    );
    // It wakes when that one goes, not by its backoff.
    f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.api.count("POST deployments"), 1);
    f.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_its_own_is_not_touched_and_the_deployment_is_made() {
    let f = fixture().await;
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}, "spec": {"ports": [{"port": 9}]}});
    let before = f.create(&SERVICES, &theirs).await;
    f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    assert_eq!(f.stalled("shop").await, "ErrResourceExists");
    f.until(async |f| f.get(&APPS, "shop").await["status"]["availableReplicas"] == 2)
        .await;
    let after = f.get(&SERVICES, "shop").await;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    f.delete(&SERVICES, "shop", Propagation::Background).await;
    f.ready("shop").await;
    // Without ports a Service of that name is nobody's business.
    f.want("shop", &json!({"ports": null})).await;
    f.ready("shop").await;
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
async fn of_two_that_claim_one_deployment_the_first_keeps_it() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.collect().await;
        let policy = json!({"deletionPolicy": policy, "image": "first"});
        f.serve(&app("first", "web", &policy)).await;
        f.create(
            &APPS,
            &app(
                "second",
                "web",
                &json!({"image": "second", "deletionPolicy": policy["deletionPolicy"]}),
            ),
        )
        .await;
        assert_eq!(f.stalled("second").await, "ErrResourceExists");
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "first");
        assert_eq!(condition(&f.get(&APPS, "first").await, "Ready").0, "True");
        // It gets it when the first wants another one.
        f.want("first", &json!({"deploymentName": "other"})).await;
        f.ready("second").await;
        assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "second");
        f.ready("first").await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_that_are_made_at_once_do_not_share() {
    let f = apart().await;
    f.create(&APPS, &app("first", "web", &json!({"image": "first"})))
        .await;
    f.create(&APPS, &app("second", "web", &json!({"image": "second"})))
        .await;
    f.apps();
    f.until(async |f| {
        let state = async |name: &str| condition(&f.get(&APPS, name).await, "Ready");
        let (first, second) = (state("first").await, state("second").await);
        let taken = ("False".to_owned(), "ErrResourceExists".to_owned());
        (first.0 == "True" && second == taken) || (second.0 == "True" && first == taken)
    })
    .await;
    assert_eq!(f.names(&DEPLOYMENTS).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_appservice_of_that_name_has_left_is_waited_for() {
    let f = fixture().await;
    f.serve(&shop(&json!({}))).await;
    // Nobody collects yet.
    f.delete(&APPS, "shop", Propagation::Background).await;
    f.create(&APPS, &shop(&json!({"image": "second"}))).await;
    f.until(async |f| condition(&f.get(&APPS, "shop").await, "Progressing").1 == "WaitingForDeletion")
        .await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "nginx");
    f.collect().await;
    f.ready("shop").await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "second");
    assert_eq!(f.told_of("ErrResourceExists").await, 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_handed_over_is_taken() {
    let f = fixture().await;
    f.create(&APPS, &shop(&json!({}))).await;
    f.ready("shop").await;
    let uid = f.get(&APPS, "shop").await["metadata"]["uid"].clone();
    f.create(&APPS, &app("second", "theirs", &json!({}))).await;
    f.create(&DEPLOYMENTS, &foreign("old")).await;
    // It says that it is the shop's, under its own name.
    let mark = json!({"metadata": {"labels": {"appcontroller.k8s.io/appservice-uid": uid},
                                   "annotations": {"appcontroller.k8s.io/made-as": "old"}}});
    f.patch(&DEPLOYMENTS, "old", &mark).await;
    // So it is a former one, and is removed.
    f.want("shop", &json!({"replicas": 1})).await;
    f.until(async |f| !f.exists(&DEPLOYMENTS, "old").await).await;
}
