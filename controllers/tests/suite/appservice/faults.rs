//! Answers that are lost, requests that are refused, caches that lag, leaders that change: nothing is done twice, and all
//! comes to its end.
//!
//! `FAULTS_ALL` has every request fail in every way.

use super::*;

/// All that can be asked for, one after the other.
async fn life(bed: &Bed) {
    bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    bed.want("shop", &json!({"replicas": 3, "image": "nginx:2"}))
        .await;
    bed.ready("shop").await;
    bed.want(
        "shop",
        &json!({"deletionPolicy": "Orphan", "deploymentName": "next"}),
    )
    .await;
    bed.ready("shop").await;
    bed.until(async |bed| bed.names(&DEPLOYMENTS).await == ["next"])
        .await;
    bed.want("shop", &json!({"deletionPolicy": "Delete", "ports": null}))
        .await;
    bed.ready("shop").await;
    bed.until(async |bed| {
        bed.get(&APPS, "shop").await["metadata"]
            .get("finalizers")
            .is_none()
    })
    .await;
    let next = bed.get(&DEPLOYMENTS, "next").await;
    assert_eq!(
        (owners(&next), &next["spec"]["replicas"], image(&next)),
        (1, &json!(3), "nginx:2")
    );
    assert!(!bed.exists(&SERVICES, "shop").await);
    bed.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    bed.ready("shop").await;
    bed.delete(&APPS, "shop", Propagation::Background).await;
    bed.until(async |bed| !bed.exists(&APPS, "shop").await).await;
    assert_eq!(bed.names(&DEPLOYMENTS).await, ["next"]);
    assert_eq!(owners(&bed.get(&DEPLOYMENTS, "next").await), 0);
}

#[tokio::test(start_paused = true)]
async fn each_request_may_fail_once_in_any_way() {
    let conflict = json!({"reason": "Conflict", "message": "the object has been modified"});
    let broken = json!({"reason": "InternalError", "message": "etcd"});
    let requests = {
        let bed = bed().await;
        bed.collect().await;
        life(&bed).await;
        bed.door.order().len()
    };
    assert!((15..60).contains(&requests), "{requests}");
    let answers = [
        Answer::Lost,
        Answer::Refused(409, conflict),
        Answer::Broken,
        Answer::Refused(500, broken),
    ];
    // Each in one way, by turns; in all ways if that is asked for.
    let all = std::env::var_os("FAULTS_ALL").is_some();
    for nth in 0..requests {
        for (at, answer) in answers.iter().enumerate() {
            if !all && at != nth % answers.len() {
                continue;
            }
            let bed = bed().await;
            bed.collect().await;
            let door = bed.door.clone();
            let failing = answer.clone();
            bed.door.judge(move |_, _, _| {
                if door.order().len() == nth + 1 {
                    failing.clone()
                } else {
                    Answer::Done
                }
            });
            life(&bed).await;
            let sent = bed.door.order().len();
            assert!(sent <= requests + 25, "{nth} {answer:?}: {sent}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_makes_one() {
    for answer in [Answer::Lost, Answer::Broken, Answer::Hung] {
        let bed = bed().await;
        let failing = answer.clone();
        bed.door.judge(move |method, _, before| {
            if *method == http::Method::POST && before < 3 {
                failing.clone()
            } else {
                Answer::Done
            }
        });
        bed.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
        bed.sleep(Duration::from_mins(3)).await;
        bed.ready("shop").await;
        assert_eq!(bed.names(&DEPLOYMENTS).await, ["web"]);
        assert_eq!(bed.told_of("ErrResourceExists").await, 0, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_makes_nothing_happen_twice() {
    for held in ["deployments.apps", "services", "appservices.appcontroller.k8s.io"] {
        let bed = bed().await;
        bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
        bed.want("shop", &json!({"replicas": 3})).await;
        bed.until(async |bed| bed.get(&DEPLOYMENTS, "web").await["spec"]["replicas"] == 3)
            .await;
        bed.door.lag().hold_at(held, bed.sandbox.revision());
        bed.door.reset();
        bed.sleep(Duration::from_secs(20)).await;
        let sent = bed.door.order();
        assert!(sent.len() <= 5, "{held} {sent:?}");
        assert!(!sent.iter().any(|it| it.starts_with("POST")), "{held} {sent:?}");
        bed.door.lag().release();
        bed.ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_leader_goes_on_where_the_first_has_ended() {
    let bed = apart().await;
    bed.collect().await;
    let first = bed.apps();
    bed.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    bed.until(async |bed| bed.exists(&DEPLOYMENTS, "web").await).await;
    first.cancel();
    bed.want("shop", &json!({"replicas": 3})).await;
    bed.sleep(Duration::from_mins(1)).await;
    bed.apps();
    let it = bed.ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_when_something_has_failed_too() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.door.judge(|method, path, _| {
        if *method == http::Method::PATCH && path.ends_with("/deployments/web") {
            Answer::Refused(403, json!({"reason": "Forbidden", "message": "not you"}))
        } else {
            Answer::Done
        }
    });
    bed.want("shop", &json!({"replicas": 3})).await;
    assert_eq!(bed.stalled("shop").await, "FailedUpdate");
    let it = bed.get(&APPS, "shop").await;
    assert_eq!(
        (
            &it["status"]["observedGeneration"],
            &it["status"]["availableReplicas"]
        ),
        (&json!(2), &json!(2))
    );
    bed.sleep(Duration::from_mins(20)).await;
    let patches = bed.door.count("PATCH deployments");
    assert!((5..30).contains(&patches), "{patches}");
    assert_eq!(bed.told_of("FailedUpdate").await, 1);
    // No event follows: the next attempt comes from the backoff.
    bed.door.judge(|_, _, _| Answer::Done);
    bed.sleep(BACKOFF_MAX).await;
    let it = bed.ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
}
