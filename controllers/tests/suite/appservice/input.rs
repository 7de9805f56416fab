//! What people ask for and cannot have: it is said, and nobody runs in circles.

use http::Method;

use super::*;

/// A server that takes anything: without the schema.
async fn lenient() -> Fixture {
    let f = bare();
    let mut definition = app_service::crd();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    // A server looks at the size of what can be scaled, whatever the schema says.
    let subresources = &mut definition["spec"]["versions"][0]["subresources"];
    subresources
        .as_object_mut()
        .expect("subresources")
        .remove("scale");
    f.define(&definition).await;
    f.workloads();
    f.apps();
    f
}

#[tokio::test(start_paused = true)]
async fn without_a_schema_what_makes_no_sense_is_refused_by_the_controller() {
    for spec in [
        json!({"deploymentName": null}),
        json!({"deploymentName": "Not A Name"}),
        json!({"replicas": -1}),
        json!({"image": "a b"}),
        json!({"ports": [{"port": 0}]}),
        json!({"ports": [{"port": 80}, {"port": 80}]}),
        json!({"deletionPolicy": "Perhaps"}),
    ] {
        let f = lenient().await;
        f.create(&APPS, &shop(&spec)).await;
        assert_eq!(f.stalled("shop").await, "InvalidSpec", "{spec}");
        f.sleep(Duration::from_mins(10)).await;
        assert!(f.names(&DEPLOYMENTS).await.is_empty());
        assert_eq!(f.told_of("InvalidSpec").await, 1);
        assert_eq!(f.api.count("PATCH appservices/status"), 1);
        // When it makes sense, it is done.
        let fine = json!({"deploymentName": "web", "replicas": 1, "image": "nginx", "ports": null, "deletionPolicy": "Delete"});
        f.want("shop", &fine).await;
        f.ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_stops_nobody_else() {
    let f = lenient().await;
    f.create(&APPS, &app("odd", "odd", &json!({"replicas": "two"})))
        .await;
    f.serve(&shop(&json!({}))).await;
    assert_eq!(f.names(&DEPLOYMENTS).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn the_smallest_manifest_works_without_a_schema_too() {
    let f = lenient().await;
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "shop"},
                      "spec": {"deploymentName": "web", "image": "nginx"}});
    let it = f.serve(&body).await;
    assert_eq!(it["status"]["availableReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_refused_is_said_once_and_tried_ever_more_slowly() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid")] {
        let f = fixture().await;
        f.api.inject(move |method, path, _| {
            if *method == Method::POST && path.ends_with("/deployments") {
                Fault::Status(code, json!({"reason": reason, "message": "exceeded quota: few"}))
            } else {
                Fault::None
            }
        });
        f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
        assert_eq!(f.stalled("shop").await, "FailedCreate");
        f.sleep(Duration::from_mins(20)).await;
        let posts = f.api.count("POST deployments");
        assert!((5..30).contains(&posts), "{posts}");
        assert_eq!(f.api.count("PATCH appservices/status"), 1);
        assert_eq!(f.told_of("FailedCreate").await, 1);
        let it = f.get(&APPS, "shop").await;
        let stalled = it["status"]["conditions"]
            .as_array()
            .expect("conditions")
            .iter()
            .find(|it| it["type"] == "Stalled");
        let message = stalled.and_then(|it| it["message"].as_str()).expect("it is said");
        assert!(message.contains("exceeded quota"), "{message}");
        assert!(f.exists(&SERVICES, "shop").await, "the rest is made");
        // No event follows: the next attempt comes from the backoff.
        f.api.inject(|_, _, _| Fault::None);
        f.sleep(BACKOFF_MAX).await;
        f.ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_namespace_that_goes_nothing_is_made_and_nothing_is_told() {
    let f = fixture().await;
    f.api.inject(|method, _, _| {
        let causes =
            json!([{"reason": "NamespaceTerminating", "message": "it goes", "field": "metadata.namespace"}]);
        if *method == Method::POST {
            Fault::Status(403, json!({"reason": "Forbidden", "details": {"causes": causes}}))
        } else {
            Fault::None
        }
    });
    f.create(&APPS, &shop(&json!({}))).await;
    assert_eq!(f.stalled("shop").await, "NamespaceTerminating");
    f.sleep(Duration::from_hours(1)).await;
    let posts = f.api.count("POST deployments");
    assert!(posts <= 2, "{posts}");
    assert_eq!(f.told().await, []);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_while_it_rolls_out_is_let_go() {
    for way in [Propagation::Background, Propagation::Foreground] {
        let f = fixture().await;
        f.collect().await;
        f.serve(&shop(&json!({"replicas": 6}))).await;
        f.want("shop", &json!({"image": "nginx:2"})).await;
        f.until(async |f| image(&f.get(&DEPLOYMENTS, "web").await) == "nginx:2")
            .await;
        f.delete(&APPS, "shop", way).await;
        f.until(async |f| !f.exists(&APPS, "shop").await && f.list(&PODS).await.is_empty())
            .await;
        f.sleep(Duration::from_mins(5)).await;
        assert!(f.names(&DEPLOYMENTS).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_stops_its_deployment_stops_it() {
    let f = bare();
    f.define(&app_service::crd()).await;
    f.apps();
    f.create(&APPS, &shop(&json!({}))).await;
    f.until(async |f| f.exists(&DEPLOYMENTS, "web").await).await;
    let say = async |type_: &str, status: &str, reason: &str| {
        let conditions =
            json!([{"type": type_, "status": status, "reason": reason, "message": "exceeded quota: pods"}]);
        let status = json!({"status": {"observedGeneration": 1, "conditions": conditions}});
        let key = Key::new("default", "web");
        let patch = Patch::merge(&status).of("status");
        let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
    };
    say("ReplicaFailure", "True", "FailedCreate").await;
    assert_eq!(f.stalled("shop").await, "ReplicaFailure");
    say("Progressing", "True", "ReplicaSetUpdated").await;
    f.until(async |f| condition(&f.get(&APPS, "shop").await, "Stalled").0 == "False")
        .await;
    assert_eq!(
        condition(&f.get(&APPS, "shop").await, "Progressing").1,
        "RollingOut"
    );
    say("Progressing", "False", "ProgressDeadlineExceeded").await;
    assert_eq!(f.stalled("shop").await, "ProgressDeadlineExceeded");
    assert_eq!(
        f.told().await,
        [("SuccessfulCreate".to_owned(), 1)],
        "that is its Deployment's to tell"
    );
}
