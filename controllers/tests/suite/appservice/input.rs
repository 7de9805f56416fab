//! Invalid and rejected input is reported, and does not hot-loop.

use http::Method;

use super::*;

/// Returns a sandbox whose CRD has no schema.
async fn lenient() -> Fixture {
    let f = sandbox_only();
    let mut definition = app_service::crd();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    // The scale subresource validates replicas regardless of the schema.
    let subresources = &mut definition["spec"]["versions"][0]["subresources"];
    subresources
        .as_object_mut()
        .expect("subresources")
        .remove("scale");
    f.create_crd(&definition).await;
    f.start_workload_controllers();
    f.start_controller();
    f
}

#[tokio::test(start_paused = true)]
async fn invalid_spec_is_reported_without_a_schema() {
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
        assert_eq!(f.wait_stalled("shop").await, "InvalidSpec", "{spec}");
        f.sleep(Duration::from_mins(10)).await;
        assert!(f.names(&DEPLOYMENTS).await.is_empty());
        assert_eq!(f.event_count("InvalidSpec").await, 1);
        assert_eq!(f.api.count("PATCH appservices/status"), 1);
        let valid = json!({"deploymentName": "web", "replicas": 1, "image": "nginx", "ports": null, "deletionPolicy": "Delete"});
        f.patch_spec("shop", &valid).await;
        f.wait_ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_appservice_does_not_block_others() {
    let f = lenient().await;
    f.create(&APPS, &app("odd", "odd", &json!({"replicas": "two"})))
        .await;
    f.create_ready(&shop(&json!({}))).await;
    assert_eq!(f.names(&DEPLOYMENTS).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn minimal_manifest_works_without_a_schema() {
    let f = lenient().await;
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "shop"},
                      "spec": {"deploymentName": "web", "image": "nginx"}});
    let it = f.create_ready(&body).await;
    assert_eq!(it["status"]["availableReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn rejected_child_is_reported_once_and_retried_with_backoff() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid")] {
        let f = fixture().await;
        f.api.inject(move |method, path, _| {
            if *method == Method::POST && path.ends_with("/deployments") {
                status_reply(code, json!({"reason": reason, "message": "exceeded quota: few"}))
            } else {
                Effect::Pass
            }
        });
        f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
        assert_eq!(f.wait_stalled("shop").await, "FailedCreate");
        f.sleep(Duration::from_mins(20)).await;
        let posts = f.api.count("POST deployments");
        assert!((5..30).contains(&posts), "{posts}");
        assert_eq!(f.api.count("PATCH appservices/status"), 1);
        assert_eq!(f.event_count("FailedCreate").await, 1);
        let it = f.get(&APPS, "shop").await;
        let stalled = it["status"]["conditions"]
            .as_array()
            .expect("conditions")
            .iter()
            .find(|it| it["type"] == "Stalled");
        let message = stalled.and_then(|it| it["message"].as_str()).expect("a message");
        assert!(message.contains("exceeded quota"), "{message}");
        assert!(f.exists(&SERVICES, "shop").await, "other children are created");
        // No event follows: the next attempt comes from the backoff.
        f.api.inject(|_, _, _| Effect::Pass);
        f.sleep(BACKOFF_MAX).await;
        f.wait_ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_namespace_gets_no_children_and_no_events() {
    let f = fixture().await;
    f.api.inject(|method, _, _| {
        let causes =
            json!([{"reason": "NamespaceTerminating", "message": "terminating", "field": "metadata.namespace"}]);
        if *method == Method::POST {
            status_reply(403, json!({"reason": "Forbidden", "details": {"causes": causes}}))
        } else {
            Effect::Pass
        }
    });
    f.create(&APPS, &shop(&json!({}))).await;
    assert_eq!(f.wait_stalled("shop").await, "NamespaceTerminating");
    f.sleep(Duration::from_hours(1)).await;
    let posts = f.api.count("POST deployments");
    assert!((11..=13).contains(&posts), "once in five minutes: {posts}");
    assert_eq!(f.api.count("PATCH appservices/status"), 1);
    assert_eq!(f.events().await, []);
    // An API server with a stale cache refuses creates in a new namespace of the same name for a while.
    f.api.inject(|_, _, _| Effect::Pass);
    f.sleep(Duration::from_mins(6)).await;
    f.wait_ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn appservice_can_be_deleted_during_a_rollout() {
    for way in [Propagation::Background, Propagation::Foreground] {
        let f = fixture().await;
        f.start_garbage_collector().await;
        f.create_ready(&shop(&json!({"replicas": 6}))).await;
        f.patch_spec("shop", &json!({"image": "nginx:2"})).await;
        f.wait_until(async |f| image(&f.get(&DEPLOYMENTS, "web").await) == "nginx:2")
            .await;
        f.delete(&APPS, "shop", way).await;
        f.wait_until(async |f| !f.exists(&APPS, "shop").await && f.list(&PODS).await.is_empty())
            .await;
        f.sleep(Duration::from_mins(5)).await;
        assert!(f.names(&DEPLOYMENTS).await.is_empty());
    }
}

/// Writes a condition `Progressing=False` of the Deployment web.
async fn stop_deployment(f: &Fixture, reason: &str, observed: i64) {
    let conditions =
        json!([{"type": "Progressing", "status": "False", "reason": reason, "message": "exceeded quota"}]);
    let status = json!({"status": {"observedGeneration": observed, "conditions": conditions}});
    let key = Key::new("default", "web");
    let patch = Patch::merge(&status).of("status");
    let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
}

#[tokio::test(start_paused = true)]
async fn refused_replicaset_stalls_the_appservice_steadily() {
    for (reason, reported) in [
        ("ReplicaSetCreateError", "ReplicaSetCreateError"),
        ("ReplicaSetCreateBackOff", "ReplicaSetCreateBackOff"),
        ("Of another controller", "DeploymentStalled"),
    ] {
        let f = controller_only(&json!({})).await;
        stop_deployment(&f, reason, 1).await;
        assert_eq!(f.wait_stalled("shop").await, reported);
        f.sleep(Duration::from_secs(1)).await;
        f.api.reset();
        for nth in 0..60 {
            let status = json!({"status": {"unavailableReplicas": nth}});
            let key = Key::new("default", "web");
            let patch = Patch::merge(&status).of("status");
            let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
            f.sleep(Duration::from_mins(1)).await;
        }
        assert_eq!(f.api.operations(), Vec::<String>::new(), "steady");
    }
}

/// kube-controller-manager does not observe a generation before its `ReplicaSet` exists.
#[tokio::test(start_paused = true)]
async fn refused_replicaset_of_an_unobserved_generation_stalls_after_a_delay() {
    let f = controller_only(&json!({})).await;
    stop_deployment(&f, "ReplicaSetCreateError", 0).await;
    assert_eq!(f.wait_stalled("shop").await, "ReplicaSetCreateError");
    f.sleep(Duration::from_mins(1)).await;
    f.api.reset();
    // The failure may be corrected by a new spec.
    f.patch_spec("shop", &json!({"image": "nginx:2"})).await;
    f.sleep(Duration::from_secs(5)).await;
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Stalled").0, "False");
    f.sleep(Duration::from_secs(10)).await;
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Stalled").0, "True");
    assert_eq!(f.api.count("PATCH appservices/status"), 2);
}

#[tokio::test(start_paused = true)]
async fn failure_of_the_deployment_stalls_the_appservice() {
    let f = sandbox_only();
    f.create_crd(&app_service::crd()).await;
    f.start_controller();
    f.create(&APPS, &shop(&json!({}))).await;
    f.wait_until(async |f| f.exists(&DEPLOYMENTS, "web").await).await;
    let write_condition = async |type_: &str, status: &str, reason: &str| {
        let conditions =
            json!([{"type": type_, "status": status, "reason": reason, "message": "exceeded quota: pods"}]);
        let status = json!({"status": {"observedGeneration": 1, "conditions": conditions}});
        let key = Key::new("default", "web");
        let patch = Patch::merge(&status).of("status");
        let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
    };
    write_condition("ReplicaFailure", "True", "FailedCreate").await;
    assert_eq!(f.wait_stalled("shop").await, "ReplicaFailure");
    write_condition("Progressing", "True", "ReplicaSetUpdated").await;
    f.wait_until(async |f| condition(&f.get(&APPS, "shop").await, "Stalled").0 == "False")
        .await;
    assert_eq!(
        condition(&f.get(&APPS, "shop").await, "Progressing").1,
        "RollingOut"
    );
    write_condition("Progressing", "False", "ProgressDeadlineExceeded").await;
    assert_eq!(f.wait_stalled("shop").await, "ProgressDeadlineExceeded");
    assert_eq!(
        f.events().await,
        [("SuccessfulCreate".to_owned(), 1)],
        "the Deployment controller records its own events"
    );
}
