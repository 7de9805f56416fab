//! Another `deploymentName`: the new one is made, and the old one goes when the new one is available.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_old_one_serves_until_the_new_one_does() {
    for policy in ["Delete", "Orphan"] {
        let bed = bed().await;
        bed.collect().await;
        bed.serve(&shop(&json!({"ports": [{"port": 80}], "deletionPolicy": policy})))
            .await;
        bed.door.reset();
        bed.want("shop", &json!({"deploymentName": "next"})).await;
        bed.until(async |bed| bed.exists(&DEPLOYMENTS, "next").await)
            .await;
        // At no time do fewer serve than are asked for.
        bed.until(async |bed| {
            let mut available = 0;
            for it in bed.list(&DEPLOYMENTS).await {
                available += it["status"]["availableReplicas"].as_i64().unwrap_or(0);
            }
            assert!(available >= 2, "{available}");
            !bed.exists(&DEPLOYMENTS, "web").await
        })
        .await;
        bed.ready("shop").await;
        let mut writes = bed.door.order();
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
        bed.until(async |bed| bed.list(&PODS).await.len() == 2).await;
        assert_eq!(bed.names(&DEPLOYMENTS).await, ["next"]);
        let service = bed.get(&SERVICES, "shop").await;
        let selector = service["spec"]["selector"].as_object().expect("a selector");
        for pod in bed.list(&PODS).await {
            let labels = &pod["metadata"]["labels"];
            assert!(selector.iter().all(|(key, value)| labels[key] == *value));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_old_one_stays_while_the_new_one_cannot_be_had() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.create(&DEPLOYMENTS, &foreign("taken")).await;
    bed.want("shop", &json!({"deploymentName": "taken"})).await;
    assert_eq!(bed.stalled("shop").await, "ErrResourceExists");
    bed.sleep(Duration::from_mins(30)).await;
    assert!(bed.exists(&DEPLOYMENTS, "web").await);
    // A new one whose pods never become ready.
    bed.want("shop", &json!({"deploymentName": "bad", "image": "i:404"}))
        .await;
    bed.until(async |bed| bed.exists(&DEPLOYMENTS, "bad").await).await;
    bed.sleep(Duration::from_mins(30)).await;
    assert_eq!(condition(&bed.get(&APPS, "shop").await, "Ready").0, "False");
    assert!(bed.exists(&DEPLOYMENTS, "web").await);
    assert_eq!(bed.door.count("DELETE deployments"), 0);
}

#[tokio::test(start_paused = true)]
async fn there_and_back_and_on() {
    let bed = bed().await;
    bed.collect().await;
    bed.serve(&shop(&json!({}))).await;
    let first = bed.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    for name in ["b", "c", "web"] {
        bed.want("shop", &json!({"deploymentName": name})).await;
        bed.until(async |bed| bed.exists(&DEPLOYMENTS, name).await).await;
    }
    bed.ready("shop").await;
    bed.until(async |bed| bed.names(&DEPLOYMENTS).await == ["web"])
        .await;
    assert_eq!(
        bed.get(&DEPLOYMENTS, "web").await["metadata"]["uid"],
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
        let bed = apart().await;
        bed.collect().await;
        let first = bed.apps_until_crash();
        bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
        bed.sleep(Duration::from_secs(10)).await;
        bed.door.reset();
        let door = bed.door.clone();
        bed.door.judge(move |_, _, _| {
            if door.order().len() > answered {
                Answer::Hung
            } else {
                Answer::Done
            }
        });
        bed.want("shop", &json!({"deploymentName": "next"})).await;
        if !bed.comes_true(async || bed.door.order().len() > answered).await {
            assert_eq!(bed.names(&DEPLOYMENTS).await, ["next"]);
            break;
        }
        drop(first);
        let sent = bed.door.order();
        bed.sleep(Duration::from_mins(1)).await;
        assert_eq!(bed.door.order(), sent, "it is dead");
        bed.door.judge(|_, _, _| Answer::Done);
        bed.apps();
        bed.until(async |bed| bed.names(&DEPLOYMENTS).await == ["next"])
            .await;
        bed.ready("shop").await;
        answered += 1;
    }
    // A create, the apply of the Service, a delete, and at least one status.
    assert!((6..20).contains(&answered), "{answered} requests");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_somebody_has_made_is_left_alone() {
    for policy in ["Delete", "Orphan"] {
        let bed = bed().await;
        bed.serve(&shop(&json!({"deletionPolicy": policy}))).await;
        let web = bed.get(&DEPLOYMENTS, "web").await;
        let mut copy = foreign("copy");
        for field in ["labels", "annotations", "ownerReferences"] {
            copy["metadata"][field] = web["metadata"][field].clone();
        }
        copy["spec"]["selector"] = web["spec"]["selector"].clone();
        copy["spec"]["template"] = web["spec"]["template"].clone();
        bed.create(&DEPLOYMENTS, &copy).await;
        bed.want("shop", &json!({"replicas": 3})).await;
        bed.ready("shop").await;
        bed.want("shop", &json!({"deploymentName": "next"})).await;
        bed.until(async |bed| !bed.exists(&DEPLOYMENTS, "web").await)
            .await;
        bed.sleep(Duration::from_mins(5)).await;
        let after = bed.get(&DEPLOYMENTS, "copy").await;
        assert_eq!(after["spec"]["replicas"], 1, "{policy}");
        assert_eq!(
            after["metadata"]["annotations"]["appcontroller.k8s.io/made-as"],
            "web"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_former_one_that_was_changed_at_the_last_moment_is_looked_at_again() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.door.judge(|method, path, before| {
        if *method == http::Method::DELETE && path.ends_with("/deployments/web") && before == 0 {
            Answer::Refused(
                409,
                json!({"reason": "Conflict", "message": "the object has been modified"}),
            )
        } else {
            Answer::Done
        }
    });
    bed.want("shop", &json!({"deploymentName": "next"})).await;
    bed.until(async |bed| bed.names(&DEPLOYMENTS).await == ["next"])
        .await;
    assert_eq!(bed.door.count("DELETE deployments"), 2);
    for body in bed.door.bodies("DELETE deployments") {
        let preconditions = &body["preconditions"];
        assert!(preconditions["uid"].is_string() && preconditions["resourceVersion"].is_string());
    }
}

/// Its cache lags: what it takes for a former one is wanted again.
#[tokio::test(start_paused = true)]
async fn one_that_is_wanted_again_is_not_removed_by_who_has_not_heard_of_it() {
    let bed = bed().await;
    bed.collect().await;
    bed.serve(&shop(&json!({}))).await;
    let first = bed.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    bed.want("shop", &json!({"deploymentName": "next"})).await;
    bed.until(async |bed| bed.exists(&DEPLOYMENTS, "next").await)
        .await;
    let seen = bed.sandbox.revision();
    bed.door.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    bed.want("shop", &json!({"deploymentName": "web"})).await;
    bed.until(async |bed| bed.get(&DEPLOYMENTS, "next").await["status"]["availableReplicas"] == 2)
        .await;
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.get(&DEPLOYMENTS, "web").await["metadata"]["uid"], first);
    assert_eq!(bed.door.count("DELETE deployments"), 0);
    let asked = bed.door.count("GET appservices");
    assert!((1..20).contains(&asked), "{asked}");
    bed.door.lag().release();
    bed.until(async |bed| bed.names(&DEPLOYMENTS).await == ["web"])
        .await;
    assert_eq!(bed.get(&DEPLOYMENTS, "web").await["metadata"]["uid"], first);
    bed.ready("shop").await;
}

/// The same for a Service: another one would have another address.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_wanted_again_is_not_removed_by_who_has_not_heard_of_it() {
    let bed = bed().await;
    bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    let first = bed.get(&SERVICES, "shop").await["metadata"]["uid"].clone();
    bed.door.judge(|method, _, _| match *method {
        http::Method::DELETE => Answer::Refused(500, json!({"reason": "InternalError"})),
        _ => Answer::Done,
    });
    bed.want("shop", &json!({"ports": null})).await;
    bed.until(async |bed| bed.door.count("DELETE services") > 0).await;
    // All that there is to say was said.
    bed.sleep(Duration::from_mins(1)).await;
    let seen = bed.sandbox.revision();
    bed.door.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    bed.want("shop", &json!({"ports": [{"port": 80}]})).await;
    bed.door.judge(|_, _, _| Answer::Done);
    bed.sleep(Duration::from_mins(10)).await;
    bed.door.lag().release();
    bed.ready("shop").await;
    bed.sleep(Duration::from_mins(5)).await;
    assert_eq!(bed.get(&SERVICES, "shop").await["metadata"]["uid"], first);
}
