//! A kind that is not there: the controller waits for it, and goes on when it comes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_late_is_waited_for() {
    let bed = bare();
    bed.cluster();
    bed.apps();
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.door.order(), Vec::<String>::new());
    bed.define(&appservice::definition()).await;
    bed.create(&APPS, &shop(&json!({}))).await;
    bed.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_takes_nothing_with_it_that_is_not_its_own_and_may_come_back() {
    let bed = bed().await;
    bed.collect().await;
    bed.serve(&shop(&json!({}))).await;
    bed.serve(&app("kept", "kept", &json!({"deletionPolicy": "Orphan"})))
        .await;
    let definition: Value = bed
        .admin
        .get(&CRDS, &Key::cluster("appservices.appcontroller.k8s.io"))
        .await
        .expect("it is there");
    let uid = Uid::from(definition["metadata"]["uid"].as_str().expect("a uid"));
    bed.admin
        .delete(
            &CRDS,
            &Key::cluster("appservices.appcontroller.k8s.io"),
            &Delete::of(uid),
        )
        .await
        .expect("deleted");
    bed.sleep(Duration::from_mins(5)).await;
    bed.door.reset();
    // Whatever happens to what is left of it.
    if bed.exists(&DEPLOYMENTS, "web").await {
        bed.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    }
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        bed.door.order(),
        Vec::<String>::new(),
        "nothing is made for what is gone"
    );
    assert!(!bed.exists(&DEPLOYMENTS, "web").await);
    assert!(bed.exists(&DEPLOYMENTS, "kept").await);
    bed.define(&appservice::definition()).await;
    bed.create(&APPS, &app("again", "again", &json!({}))).await;
    bed.ready("again").await;
}
