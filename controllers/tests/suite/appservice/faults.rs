//! Lost responses, refused requests, stale caches, changes of the leader: no write is repeated, and every `AppService` becomes
//! ready.
//!
//! With the environment variable `FAULTS_ALL` every request fails with every fault.

use super::*;

/// Runs an `AppService` through every kind of change.
async fn lifecycle(f: &Fixture) {
    f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.patch_spec("shop", &json!({"replicas": 3, "image": "nginx:2"}))
        .await;
    f.wait_ready("shop").await;
    f.patch_spec(
        "shop",
        &json!({"deletionPolicy": "Orphan", "deploymentName": "next"}),
    )
    .await;
    f.wait_ready("shop").await;
    f.wait_until(async |f| f.names(&DEPLOYMENTS).await == ["next"])
        .await;
    f.patch_spec("shop", &json!({"deletionPolicy": "Delete", "ports": null}))
        .await;
    f.wait_ready("shop").await;
    f.wait_until(async |f| f.get(&APPS, "shop").await["metadata"].get("finalizers").is_none())
        .await;
    let next = f.get(&DEPLOYMENTS, "next").await;
    assert_eq!(
        (owners(&next), &next["spec"]["replicas"], image(&next)),
        (1, &json!(3), "nginx:2")
    );
    assert!(!f.exists(&SERVICES, "shop").await);
    f.patch_spec("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.wait_ready("shop").await;
    f.delete(&APPS, "shop", Propagation::Background).await;
    f.wait_until(async |f| !f.exists(&APPS, "shop").await).await;
    assert_eq!(f.names(&DEPLOYMENTS).await, ["next"]);
    assert_eq!(owners(&f.get(&DEPLOYMENTS, "next").await), 0);
}

#[tokio::test(start_paused = true)]
async fn every_request_may_fail_once() {
    let conflict = json!({"reason": "Conflict", "message": "the object has been modified"});
    let broken = json!({"reason": "InternalError", "message": "etcd"});
    let requests = {
        let f = fixture().await;
        f.start_garbage_collector().await;
        lifecycle(&f).await;
        f.api.operations().len()
    };
    assert!((15..60).contains(&requests), "{requests}");
    let answers = [
        Effect::LoseAnswer,
        status_reply(409, conflict),
        Effect::LoseRequest,
        status_reply(500, broken),
    ];
    // Each request fails with one fault in turn, or with all of them.
    let all = std::env::var_os("FAULTS_ALL").is_some();
    for nth in 0..requests {
        for (at, answer) in answers.iter().enumerate() {
            if !all && at != nth % answers.len() {
                continue;
            }
            let f = fixture().await;
            f.start_garbage_collector().await;
            let api = f.api.clone();
            let failing = answer.clone();
            f.api.inject(move |_, _, _| {
                if api.operations().len() == nth + 1 {
                    failing.clone()
                } else {
                    Effect::Pass
                }
            });
            lifecycle(&f).await;
            let sent = f.api.operations().len();
            assert!(sent <= requests + 25, "{nth} {answer:?}: {sent}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn create_with_a_lost_response_creates_one_child() {
    for answer in [Effect::LoseAnswer, Effect::LoseRequest, Effect::HangAnswer] {
        let f = fixture().await;
        let failing = answer.clone();
        f.api.inject(move |method, _, before| {
            if *method == http::Method::POST && before < 3 {
                failing.clone()
            } else {
                Effect::Pass
            }
        });
        f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
        f.sleep(Duration::from_mins(3)).await;
        f.wait_ready("shop").await;
        assert_eq!(f.names(&DEPLOYMENTS).await, ["web"]);
        assert_eq!(f.event_count("ErrResourceExists").await, 0, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stale_cache_repeats_no_write() {
    for held in ["deployments.apps", "services", "appservices.appcontroller.k8s.io"] {
        let f = fixture().await;
        f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
        f.patch_spec("shop", &json!({"replicas": 3})).await;
        f.wait_until(async |f| f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"] == 3)
            .await;
        f.api.lag().hold_at(held, f.sandbox.revision());
        f.api.reset();
        f.sleep(Duration::from_secs(20)).await;
        let sent = f.api.operations();
        assert!(sent.len() <= 5, "{held} {sent:?}");
        assert!(!sent.iter().any(|it| it.starts_with("POST")), "{held} {sent:?}");
        f.api.lag().release();
        f.wait_ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn next_leader_continues_the_rollout() {
    let f = without_controller().await;
    f.start_garbage_collector().await;
    let first = f.start_controller();
    f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    f.wait_until(async |f| f.exists(&DEPLOYMENTS, "web").await).await;
    first.cancel();
    f.patch_spec("shop", &json!({"replicas": 3})).await;
    f.sleep(Duration::from_mins(1)).await;
    f.start_controller();
    let it = f.wait_ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn status_is_written_after_a_failure() {
    let f = with_shop().await;
    f.api.inject(|method, path, _| {
        if *method == http::Method::PATCH && path.ends_with("/deployments/web") {
            status_reply(403, json!({"reason": "Forbidden", "message": "not you"}))
        } else {
            Effect::Pass
        }
    });
    f.patch_spec("shop", &json!({"replicas": 3})).await;
    assert_eq!(f.wait_stalled("shop").await, "FailedUpdate");
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
    assert_eq!(f.event_count("FailedUpdate").await, 1);
    // No event follows: the next attempt comes from the backoff.
    f.api.inject(|_, _, _| Effect::Pass);
    f.sleep(BACKOFF_MAX).await;
    let it = f.wait_ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
}

/// A write of the status that conflicts ends the sync, but not the wait.
#[tokio::test(start_paused = true)]
async fn retry_after_of_a_child_is_kept_if_the_status_conflicts() {
    let f = without_controller().await;
    f.api.inject(|method, path, _| {
        if *method == http::Method::POST && path.ends_with("/deployments") {
            Effect::Refuse(Refusal::new(429).retry_after(30))
        } else if path.ends_with("/status") {
            status_reply(409, json!({"reason": "Conflict", "message": "changed"}))
        } else {
            Effect::Pass
        }
    });
    f.start_controller();
    f.create(&APPS, &shop(&json!({}))).await;
    f.sleep(Duration::from_secs(100)).await;
    let creates = f.api.count("POST deployments");
    assert!((2..=4).contains(&creates), "{creates}");
}
