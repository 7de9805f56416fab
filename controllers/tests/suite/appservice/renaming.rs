//! Another `deploymentName`: the new one is made, and the old one goes when the new one is available.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_old_one_serves_until_the_new_one_does() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.collect().await;
        f.serve(&shop(&json!({"ports": [{"port": 80}], "deletionPolicy": policy})))
            .await;
        f.api.reset();
        f.want("shop", &json!({"deploymentName": "next"})).await;
        f.until(async |f| f.exists(&DEPLOYMENTS, "next").await).await;
        // At no time do fewer serve than are asked for.
        f.until(async |f| {
            let mut available = 0;
            for it in f.list(&DEPLOYMENTS).await {
                available += it["status"]["availableReplicas"].as_i64().unwrap_or(0);
            }
            assert!(available >= 2, "{available}");
            !f.exists(&DEPLOYMENTS, "web").await
        })
        .await;
        f.ready("shop").await;
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
            // What refers to nobody is made for one that is there.
            expected.insert(0, "GET appservices");
        }
        assert_eq!(writes, expected);
        f.until(async |f| f.list(&PODS).await.len() == 2).await;
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
async fn the_old_one_stays_while_the_new_one_cannot_be_had() {
    let f = fixture().await;
    f.serve(&shop(&json!({}))).await;
    f.create(&DEPLOYMENTS, &foreign("taken")).await;
    f.want("shop", &json!({"deploymentName": "taken"})).await;
    assert_eq!(f.stalled("shop").await, "ErrResourceExists");
    f.sleep(Duration::from_mins(30)).await;
    assert!(f.exists(&DEPLOYMENTS, "web").await);
    // A new one whose pods never become ready.
    f.want("shop", &json!({"deploymentName": "bad", "image": "i:404"}))
        .await;
    f.until(async |f| f.exists(&DEPLOYMENTS, "bad").await).await;
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Ready").0, "False");
    assert!(f.exists(&DEPLOYMENTS, "web").await);
    assert_eq!(f.api.count("DELETE deployments"), 0);
}

#[tokio::test(start_paused = true)]
async fn there_and_back_and_on() {
    let f = fixture().await;
    f.collect().await;
    f.serve(&shop(&json!({}))).await;
    let first = f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    for name in ["b", "c", "web"] {
        f.want("shop", &json!({"deploymentName": name})).await;
        f.until(async |f| f.exists(&DEPLOYMENTS, name).await).await;
    }
    f.ready("shop").await;
    f.until(async |f| f.names(&DEPLOYMENTS).await == ["web"]).await;
    assert_eq!(
        f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"],
        first,
        "it was there all the time"
    );
}

/// Each request of a renaming by turns is the last one of its process: the server applies it, and the process ends while it
/// awaits the answer.
#[tokio::test(start_paused = true)]
async fn process_that_crashes_at_any_request_loses_nothing() {
    let mut answered = 0;
    loop {
        let f = apart().await;
        f.collect().await;
        let first = f.apps_until_crash();
        f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
        f.sleep(Duration::from_secs(10)).await;
        f.api.reset();
        let api = f.api.clone();
        f.api.inject(move |_, _, _| {
            if api.operations().len() > answered {
                Fault::ResponseHangs
            } else {
                Fault::None
            }
        });
        f.want("shop", &json!({"deploymentName": "next"})).await;
        if !f.eventually(async || f.api.operations().len() > answered).await {
            assert_eq!(f.names(&DEPLOYMENTS).await, ["next"]);
            break;
        }
        drop(first);
        let sent = f.api.operations();
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.api.operations(), sent, "it is dead");
        f.api.inject(|_, _, _| Fault::None);
        f.apps();
        f.until(async |f| f.names(&DEPLOYMENTS).await == ["next"]).await;
        f.ready("shop").await;
        answered += 1;
    }
    // A create, the apply of the Service, a delete, and at least one status.
    assert!((6..20).contains(&answered), "{answered} requests");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_somebody_has_made_is_left_alone() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.serve(&shop(&json!({"deletionPolicy": policy}))).await;
        let web = f.get(&DEPLOYMENTS, "web").await;
        let mut copy = foreign("copy");
        for field in ["labels", "annotations", "ownerReferences"] {
            copy["metadata"][field] = web["metadata"][field].clone();
        }
        copy["spec"]["selector"] = web["spec"]["selector"].clone();
        copy["spec"]["template"] = web["spec"]["template"].clone();
        f.create(&DEPLOYMENTS, &copy).await;
        f.want("shop", &json!({"replicas": 3})).await;
        f.ready("shop").await;
        f.want("shop", &json!({"deploymentName": "next"})).await;
        f.until(async |f| !f.exists(&DEPLOYMENTS, "web").await).await;
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
async fn a_former_one_that_was_changed_at_the_last_moment_is_looked_at_again() {
    let f = fixture().await;
    f.serve(&shop(&json!({}))).await;
    f.api.inject(|method, path, before| {
        if *method == http::Method::DELETE && path.ends_with("/deployments/web") && before == 0 {
            Fault::Status(
                409,
                json!({"reason": "Conflict", "message": "the object has been modified"}),
            )
        } else {
            Fault::None
        }
    });
    f.want("shop", &json!({"deploymentName": "next"})).await;
    f.until(async |f| f.names(&DEPLOYMENTS).await == ["next"]).await;
    assert_eq!(f.api.count("DELETE deployments"), 2);
    for body in f.api.bodies("DELETE deployments") {
        let preconditions = &body["preconditions"];
        assert!(preconditions["uid"].is_string() && preconditions["resourceVersion"].is_string());
    }
}

/// Its cache lags: what it takes for a former one is wanted again.
#[tokio::test(start_paused = true)]
async fn one_that_is_wanted_again_is_not_removed_by_who_has_not_heard_of_it() {
    let f = fixture().await;
    f.collect().await;
    f.serve(&shop(&json!({}))).await;
    let first = f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    f.want("shop", &json!({"deploymentName": "next"})).await;
    f.until(async |f| f.exists(&DEPLOYMENTS, "next").await).await;
    let seen = f.sandbox.revision();
    f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    f.want("shop", &json!({"deploymentName": "web"})).await;
    f.until(async |f| f.get(&DEPLOYMENTS, "next").await["status"]["availableReplicas"] == 2)
        .await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"], first);
    assert_eq!(f.api.count("DELETE deployments"), 0);
    let asked = f.api.count("GET appservices");
    assert!((1..20).contains(&asked), "{asked}");
    f.api.lag().release();
    f.until(async |f| f.names(&DEPLOYMENTS).await == ["web"]).await;
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"], first);
    f.ready("shop").await;
}

/// The same for a Service: another one would have another address.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_wanted_again_is_not_removed_by_who_has_not_heard_of_it() {
    let f = fixture().await;
    f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    let first = f.get(&SERVICES, "shop").await["metadata"]["uid"].clone();
    f.api.inject(|method, _, _| match *method {
        http::Method::DELETE => Fault::Status(500, json!({"reason": "InternalError"})),
        _ => Fault::None,
    });
    f.want("shop", &json!({"ports": null})).await;
    f.until(async |f| f.api.count("DELETE services") > 0).await;
    // All that there is to say was said.
    f.sleep(Duration::from_mins(1)).await;
    let seen = f.sandbox.revision();
    f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    f.want("shop", &json!({"ports": [{"port": 80}]})).await;
    f.api.inject(|_, _, _| Fault::None);
    f.sleep(Duration::from_mins(10)).await;
    f.api.lag().release();
    f.ready("shop").await;
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(f.get(&SERVICES, "shop").await["metadata"]["uid"], first);
}
