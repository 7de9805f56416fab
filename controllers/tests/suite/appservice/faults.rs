//! Answers that are lost, requests that are refused, caches that lag, leaders that change: nothing is done twice, and all
//! comes to its end.
//!
//! `FAULTS_ALL` has every request fail in every way.

use super::*;

/// All that can be asked for, one after the other.
async fn life(f: &Fixture) {
    f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.want("shop", &json!({"replicas": 3, "image": "nginx:2"})).await;
    f.ready("shop").await;
    f.want(
        "shop",
        &json!({"deletionPolicy": "Orphan", "deploymentName": "next"}),
    )
    .await;
    f.ready("shop").await;
    f.until(async |f| f.names(&DEPLOYMENTS).await == ["next"]).await;
    f.want("shop", &json!({"deletionPolicy": "Delete", "ports": null}))
        .await;
    f.ready("shop").await;
    f.until(async |f| f.get(&APPS, "shop").await["metadata"].get("finalizers").is_none())
        .await;
    let next = f.get(&DEPLOYMENTS, "next").await;
    assert_eq!(
        (owners(&next), &next["spec"]["replicas"], image(&next)),
        (1, &json!(3), "nginx:2")
    );
    assert!(!f.exists(&SERVICES, "shop").await);
    f.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.ready("shop").await;
    f.delete(&APPS, "shop", Propagation::Background).await;
    f.until(async |f| !f.exists(&APPS, "shop").await).await;
    assert_eq!(f.names(&DEPLOYMENTS).await, ["next"]);
    assert_eq!(owners(&f.get(&DEPLOYMENTS, "next").await), 0);
}

#[tokio::test(start_paused = true)]
async fn each_request_may_fail_once_in_any_way() {
    let conflict = json!({"reason": "Conflict", "message": "the object has been modified"});
    let broken = json!({"reason": "InternalError", "message": "etcd"});
    let requests = {
        let f = fixture().await;
        f.collect().await;
        life(&f).await;
        f.api.operations().len()
    };
    assert!((15..60).contains(&requests), "{requests}");
    let answers = [
        Fault::ResponseLost,
        Fault::Status(409, conflict),
        Fault::RequestLost,
        Fault::Status(500, broken),
    ];
    // Each in one way, by turns; in all ways if that is asked for.
    let all = std::env::var_os("FAULTS_ALL").is_some();
    for nth in 0..requests {
        for (at, answer) in answers.iter().enumerate() {
            if !all && at != nth % answers.len() {
                continue;
            }
            let f = fixture().await;
            f.collect().await;
            let api = f.api.clone();
            let failing = answer.clone();
            f.api.inject(move |_, _, _| {
                if api.operations().len() == nth + 1 {
                    failing.clone()
                } else {
                    Fault::None
                }
            });
            life(&f).await;
            let sent = f.api.operations().len();
            assert!(sent <= requests + 25, "{nth} {answer:?}: {sent}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_makes_one() {
    for answer in [Fault::ResponseLost, Fault::RequestLost, Fault::ResponseHangs] {
        let f = fixture().await;
        let failing = answer.clone();
        f.api.inject(move |method, _, before| {
            if *method == http::Method::POST && before < 3 {
                failing.clone()
            } else {
                Fault::None
            }
        });
        f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
        f.sleep(Duration::from_mins(3)).await;
        f.ready("shop").await;
        assert_eq!(f.names(&DEPLOYMENTS).await, ["web"]);
        assert_eq!(f.told_of("ErrResourceExists").await, 0, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_makes_nothing_happen_twice() {
    for held in ["deployments.apps", "services", "appservices.appcontroller.k8s.io"] {
        let f = fixture().await;
        f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
        f.want("shop", &json!({"replicas": 3})).await;
        f.until(async |f| f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"] == 3)
            .await;
        f.api.lag().hold_at(held, f.sandbox.revision());
        f.api.reset();
        f.sleep(Duration::from_secs(20)).await;
        let sent = f.api.operations();
        assert!(sent.len() <= 5, "{held} {sent:?}");
        assert!(!sent.iter().any(|it| it.starts_with("POST")), "{held} {sent:?}");
        f.api.lag().release();
        f.ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_leader_goes_on_where_the_first_has_ended() {
    let f = apart().await;
    f.collect().await;
    let first = f.apps();
    f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    f.until(async |f| f.exists(&DEPLOYMENTS, "web").await).await;
    first.cancel();
    f.want("shop", &json!({"replicas": 3})).await;
    f.sleep(Duration::from_mins(1)).await;
    f.apps();
    let it = f.ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_when_something_has_failed_too() {
    let f = fixture().await;
    f.serve(&shop(&json!({}))).await;
    f.api.inject(|method, path, _| {
        if *method == http::Method::PATCH && path.ends_with("/deployments/web") {
            Fault::Status(403, json!({"reason": "Forbidden", "message": "not you"}))
        } else {
            Fault::None
        }
    });
    f.want("shop", &json!({"replicas": 3})).await;
    assert_eq!(f.stalled("shop").await, "FailedUpdate");
    let it = f.get(&APPS, "shop").await;
    assert_eq!(
        (
            &it["status"]["observedGeneration"],
            &it["status"]["availableReplicas"]
        ),
        (&json!(2), &json!(2))
    );
    f.sleep(Duration::from_mins(20)).await;
    let patches = f.api.count("PATCH deployments");
    assert!((5..30).contains(&patches), "{patches}");
    assert_eq!(f.told_of("FailedUpdate").await, 1);
    // No event follows: the next attempt comes from the backoff.
    f.api.inject(|_, _, _| Fault::None);
    f.sleep(BACKOFF_MAX).await;
    let it = f.ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
}
