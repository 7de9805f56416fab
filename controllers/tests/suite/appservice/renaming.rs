//! Changes of `deploymentName`: the previous Deployment is deleted when the new one is available.

use super::*;

#[tokio::test(start_paused = true)]
async fn previous_deployment_stays_until_the_new_one_is_available() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.start_garbage_collector().await;
        f.create_ready(&shop(&json!({"ports": [{"port": 80}], "deletionPolicy": policy})))
            .await;
        f.api.reset();
        f.patch_spec("shop", &json!({"deploymentName": "next"})).await;
        f.wait_until(async |f| f.exists(&DEPLOYMENTS, "next").await).await;
        // The desired number of replicas is available at any time.
        f.wait_until(async |f| {
            let mut available = 0;
            for it in f.list(&DEPLOYMENTS).await {
                available += it["status"]["availableReplicas"].as_i64().unwrap_or(0);
            }
            assert!(available >= 2, "{available}");
            !f.exists(&DEPLOYMENTS, "web").await
        })
        .await;
        f.wait_ready("shop").await;
        let mut writes = f.api.operations();
        writes.retain(|it| it != "PATCH appservices/status");
        let mut expected = vec![
            "POST deployments",
            "GET services",
            "PATCH services",
            "PATCH services",
            "GET appservices",
            "DELETE deployments",
        ];
        if policy == "Orphan" {
            // A child without an ownerReference needs a live read of its AppService.
            expected.insert(0, "GET appservices");
        }
        assert_eq!(writes, expected);
        f.wait_until(async |f| f.list(&PODS).await.len() == 2).await;
        assert_eq!(f.names(&DEPLOYMENTS).await, ["next"]);
        let service = f.get(&SERVICES, "shop").await;
        let selector = service["spec"]["selector"].as_object().expect("a selector");
        for pod in f.list(&PODS).await {
            let labels = &pod["metadata"]["labels"];
            assert!(selector.iter().all(|(key, value)| labels[key] == *value));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn previous_deployment_stays_while_the_new_one_fails() {
    let f = with_shop().await;
    f.create(&DEPLOYMENTS, &foreign("taken")).await;
    f.patch_spec("shop", &json!({"deploymentName": "taken"})).await;
    assert_eq!(f.wait_stalled("shop").await, "ErrResourceExists");
    f.sleep(Duration::from_mins(30)).await;
    assert!(f.exists(&DEPLOYMENTS, "web").await);
    // The pods of this image never become ready.
    f.patch_spec("shop", &json!({"deploymentName": "bad", "image": "i:404"}))
        .await;
    f.wait_until(async |f| f.exists(&DEPLOYMENTS, "bad").await).await;
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Ready").0, "False");
    assert!(f.exists(&DEPLOYMENTS, "web").await);
    assert_eq!(f.api.count("DELETE deployments"), 0);
}

#[tokio::test(start_paused = true)]
async fn renaming_back_keeps_the_original_deployment() {
    let f = fixture().await;
    f.start_garbage_collector().await;
    f.create_ready(&shop(&json!({}))).await;
    let first = f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    for name in ["b", "c", "web"] {
        f.patch_spec("shop", &json!({"deploymentName": name})).await;
        f.wait_until(async |f| f.exists(&DEPLOYMENTS, name).await).await;
    }
    f.wait_ready("shop").await;
    f.wait_until(async |f| f.names(&DEPLOYMENTS).await == ["web"])
        .await;
    assert_eq!(
        f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"],
        first,
        "it was never deleted"
    );
}

/// Each request of a renaming in turn is the last one of its process: the API server executes it, and the process ends before
/// the response.
#[tokio::test(start_paused = true)]
async fn crash_at_any_request_of_a_renaming_loses_nothing() {
    let mut answered = 0;
    loop {
        let f = without_controller().await;
        f.start_garbage_collector().await;
        let first = f.start_controller_until_crash();
        f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
        f.sleep(Duration::from_secs(10)).await;
        f.api.reset();
        let api = f.api.clone();
        f.api.inject(move |_, _, _| {
            if api.operations().len() > answered {
                Effect::HangAnswer
            } else {
                Effect::Pass
            }
        });
        f.patch_spec("shop", &json!({"deploymentName": "next"})).await;
        if !f.eventually(async || f.api.operations().len() > answered).await {
            assert_eq!(f.names(&DEPLOYMENTS).await, ["next"]);
            break;
        }
        drop(first);
        let sent = f.api.operations();
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.api.operations(), sent, "crashed");
        f.api.inject(|_, _, _| Effect::Pass);
        f.start_controller();
        f.wait_until(async |f| f.names(&DEPLOYMENTS).await == ["next"])
            .await;
        f.wait_ready("shop").await;
        answered += 1;
    }
    // A create, the apply of the Service, a delete, and at least one status.
    assert!((6..20).contains(&answered), "{answered} requests");
}

#[tokio::test(start_paused = true)]
async fn copy_of_a_deployment_is_not_changed() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.create_ready(&shop(&json!({"deletionPolicy": policy}))).await;
        let web = f.get(&DEPLOYMENTS, "web").await;
        let mut copy = foreign("copy");
        for field in ["labels", "annotations", "ownerReferences"] {
            copy["metadata"][field] = web["metadata"][field].clone();
        }
        copy["spec"]["selector"] = web["spec"]["selector"].clone();
        copy["spec"]["template"] = web["spec"]["template"].clone();
        f.create(&DEPLOYMENTS, &copy).await;
        f.patch_spec("shop", &json!({"replicas": 3})).await;
        f.wait_ready("shop").await;
        f.patch_spec("shop", &json!({"deploymentName": "next"})).await;
        f.wait_until(async |f| !f.exists(&DEPLOYMENTS, "web").await).await;
        f.sleep(Duration::from_mins(5)).await;
        let after = f.get(&DEPLOYMENTS, "copy").await;
        assert_eq!(after["spec"]["replicas"], 1, "{policy}");
        assert_eq!(
            after["metadata"]["annotations"]["appcontroller.k8s.io/made-as"],
            "web"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_on_deleting_the_previous_deployment_is_retried() {
    let f = with_shop().await;
    f.api.inject(|method, path, before| {
        if *method == http::Method::DELETE && path.ends_with("/deployments/web") && before == 0 {
            status_reply(
                409,
                json!({"reason": "Conflict", "message": "the object has been modified"}),
            )
        } else {
            Effect::Pass
        }
    });
    f.patch_spec("shop", &json!({"deploymentName": "next"})).await;
    f.wait_until(async |f| f.names(&DEPLOYMENTS).await == ["next"])
        .await;
    assert_eq!(f.api.count("DELETE deployments"), 2);
    for body in f.api.bodies("DELETE deployments") {
        let preconditions = &body["preconditions"];
        assert!(preconditions["uid"].is_string() && preconditions["resourceVersion"].is_string());
    }
}

#[tokio::test(start_paused = true)]
async fn stale_cache_does_not_delete_a_deployment_that_is_named_again() {
    let f = fixture().await;
    f.start_garbage_collector().await;
    f.create_ready(&shop(&json!({}))).await;
    let first = f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    f.patch_spec("shop", &json!({"deploymentName": "next"})).await;
    f.wait_until(async |f| f.exists(&DEPLOYMENTS, "next").await).await;
    let seen = f.sandbox.revision();
    f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    f.patch_spec("shop", &json!({"deploymentName": "web"})).await;
    f.wait_until(async |f| f.get(&DEPLOYMENTS, "next").await["status"]["availableReplicas"] == 2)
        .await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"], first);
    assert_eq!(f.api.count("DELETE deployments"), 0);
    let asked = f.api.count("GET appservices");
    assert!((1..20).contains(&asked), "{asked}");
    f.api.lag().release();
    f.wait_until(async |f| f.names(&DEPLOYMENTS).await == ["web"])
        .await;
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"], first);
    f.wait_ready("shop").await;
}

/// A recreated Service would have another clusterIP.
#[tokio::test(start_paused = true)]
async fn stale_cache_does_not_delete_a_service_that_is_desired_again() {
    let f = fixture().await;
    f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
    let first = f.get(&SERVICES, "shop").await["metadata"]["uid"].clone();
    f.api.inject(|method, _, _| match *method {
        http::Method::DELETE => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.patch_spec("shop", &json!({"ports": null})).await;
    f.wait_until(async |f| f.api.count("DELETE services") > 0).await;
    // The status is written.
    f.sleep(Duration::from_mins(1)).await;
    let seen = f.sandbox.revision();
    f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    f.patch_spec("shop", &json!({"ports": [{"port": 80}]})).await;
    f.api.inject(|_, _, _| Effect::Pass);
    f.sleep(Duration::from_mins(10)).await;
    f.api.lag().release();
    f.wait_ready("shop").await;
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(f.get(&SERVICES, "shop").await["metadata"]["uid"], first);
}
