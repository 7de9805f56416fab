//! Lost responses, lagging caches and concurrent writers.

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn create_with_a_lost_response_creates_one_set() {
    for answer in [Effect::LoseAnswer, Effect::LoseRequest] {
        let f = fixture();
        f.api.inject(move |method, path, before| {
            let create = *method == Method::POST && path.ends_with("/replicasets");
            if create && before < 3 {
                answer.clone()
            } else {
                Effect::Pass
            }
        });
        let deployment = f.deploy(&web(3, "one")).await;
        assert_eq!(f.sets().await.len(), 1);
        assert!(deployment["status"].get("collisionCount").is_none());
        assert_eq!(revision(&deployment), "1");
        assert!(f.api.count("POST replicasets") <= 4);
    }
}

#[tokio::test(start_paused = true)]
async fn rollout_completes_though_every_write_is_lost_once() {
    for lost in 0..12 {
        for answer in [Effect::LoseAnswer, Effect::LoseRequest] {
            let f = with_deployment(&web(4, "one")).await;
            f.api.reset();
            let api = f.api.clone();
            f.api.inject(move |_, _, _| {
                let sent = api.counts().values().sum::<usize>();
                if sent == lost + 1 {
                    answer.clone()
                } else {
                    Effect::Pass
                }
            });
            f.update("web", &image("two")).await;
            f.complete("web").await;
            assert_eq!(f.images().await, ["two"; 4], "{lost}");
            assert_eq!(f.sets().await.len(), 2, "{lost}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lagging_cache_does_not_repeat_writes() {
    for held in ["replicasets.apps", "deployments.apps"] {
        let f = with_deployment(&web(4, "one")).await;
        f.update("web", &image("two")).await;
        f.until(async |f| f.sets().await.len() == 2).await;
        f.api.lag().hold_at(held, f.sandbox.revision());
        f.api.reset();
        f.sleep(Duration::from_secs(20)).await;
        let counts = f.api.counts();
        assert!(counts.values().sum::<usize>() <= 4, "{held} {counts:?}");
        f.api.lag().release();
        f.complete("web").await;
        assert_eq!(f.images().await, ["two"; 4]);
        assert_eq!(f.sets().await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn outage_is_retried_with_backoff() {
    let f = with_deployment(&web(3, "one")).await;
    f.api.reset();
    f.api
        .inject(|_, _, _| status_reply(503, json!({"reason": "ServiceUnavailable", "message": "not now"})));
    f.update("web", &image("two")).await;
    f.sleep(Duration::from_mins(10)).await;
    let sent: usize = f.api.counts().values().sum();
    assert!((5..60).contains(&sent), "{sent}");
    // No event follows: the next attempt comes from the backoff, which is 1000 s at most.
    f.api.inject(|_, _, _| Effect::Pass);
    f.sleep(Duration::from_secs(1000)).await;
    f.complete("web").await;
    assert_eq!(f.images().await, ["two"; 3]);
}

#[tokio::test(start_paused = true)]
async fn new_leader_continues_the_rollout() {
    for stopped_after in [20, 200, 1500] {
        let f = bare();
        f.run_hollow_kubelet(Duration::from_secs(1));
        f.run_replicaset_controller();
        let stop = f.deployments();
        f.deploy(&web(6, "one")).await;
        f.update("web", &image("two")).await;
        f.sleep(Duration::from_millis(stopped_after)).await;
        stop.cancel();
        f.sleep(Duration::from_secs(5)).await;
        f.deployments();
        f.complete("web").await;
        assert_eq!(f.images().await, ["two"; 6]);
        assert_eq!(f.sets().await.len(), 2);
    }
}

/// Only the pod event enqueues the Deployment: the status of the `ReplicaSet` changes before the pod cache shows the
/// release.
#[tokio::test(start_paused = true)]
async fn recreate_does_not_wait_for_a_released_pod() {
    let f = without_deployments();
    f.deployments();
    let mut recreate = web(1, "one");
    recreate["spec"]["strategy"] = json!({"type": "Recreate"});
    f.deploy(&recreate).await;
    let pod = f.list(&PODS).await.remove(0);
    let name = pod["metadata"]["name"].as_str().expect("a name");
    f.patch(
        &PODS,
        name,
        &json!({"metadata": {"finalizers": ["example.com/theirs"]}}),
    )
    .await;
    f.update("web", &image("two")).await;
    f.sleep(Duration::from_secs(10)).await;
    assert_eq!(f.sets().await.len(), 1, "its pod still exists");
    f.api.lag().hold_at("pods", f.sandbox.revision());
    let let_go = json!({"metadata": {"ownerReferences": null, "labels": {"app": "none"}}});
    f.patch(&PODS, name, &let_go).await;
    f.sleep(Duration::from_secs(10)).await;
    assert_eq!(f.sets().await.len(), 1, "the cache shows it");
    f.api.lag().release();
    f.complete("web").await;
}

/// The cache still shows a deleted Deployment: the status write fails with 404, a read confirms it, and nothing is retried.
#[tokio::test(start_paused = true)]
async fn status_of_a_deleted_deployment_is_not_retried() {
    // Without the replicaset controller the status of the ReplicaSet stays as the test writes it.
    let f = bare();
    f.deployments();
    let deployment = f.create(&DEPLOYMENTS, &web(3, "one")).await;
    f.until(async |f| f.sets().await.len() == 1).await;
    f.sleep(Duration::from_secs(1)).await;
    f.api.lag().hold_at("deployments.apps", f.sandbox.revision());
    f.delete(&DEPLOYMENTS, &deployment).await;
    f.api.reset();
    let set = f.sets().await[0]["metadata"]["name"].clone();
    let key = Key::new("default", set.as_str().expect("a name"));
    let patch = json!({"status": {"replicas": 3, "readyReplicas": 1, "availableReplicas": 1}});
    let patch = Patch::merge(&patch).of("status");
    let _: Value = f.admin.patch(&SETS, &key, patch).await.expect("patched");
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        f.api.counts(),
        [
            ("GET deployments".to_owned(), 1),
            ("PATCH deployments/status".to_owned(), 1)
        ]
        .into()
    );
    f.api.lag().release();
    f.sleep(Duration::from_secs(1)).await;
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into());
}

/// A failing scale does not delay the report of the deadline.
#[tokio::test(start_paused = true)]
async fn progress_deadline_is_reported_while_scaling_fails() {
    let f = fixture();
    let mut deployment = web(3, "one");
    deployment["spec"]["progressDeadlineSeconds"] = json!(600);
    f.deploy(&deployment).await;
    f.api.inject(|method, path, _| {
        if *method == Method::PATCH && path.contains("/replicasets/") {
            status_reply(
                403,
                json!({"reason": "Forbidden", "message": "denied by a webhook"}),
            )
        } else {
            Effect::Pass
        }
    });
    f.update("web", &image("two")).await;
    f.sleep(Duration::from_secs(595)).await;
    assert_ne!(
        condition(&f.get("web").await, "Progressing").1,
        "ProgressDeadlineExceeded"
    );
    f.sleep(Duration::from_secs(10)).await;
    assert_eq!(
        condition(&f.get("web").await, "Progressing").1,
        "ProgressDeadlineExceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_cleanup_does_not_block_the_status() {
    for code in [403, 500] {
        let f = fixture();
        let mut deployment = web(3, "one");
        deployment["spec"]["revisionHistoryLimit"] = json!(0);
        f.deploy(&deployment).await;
        f.api.inject(move |method, _, _| {
            if *method == Method::DELETE {
                status_reply(
                    code,
                    json!({"reason": "Forbidden", "message": "denied by a webhook"}),
                )
            } else {
                Effect::Pass
            }
        });
        f.update("web", &image("two")).await;
        f.complete("web").await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.sets().await.len(), 2, "the old one stays");
        let pods = f.list(&PODS).await;
        let key = Key::new("default", pods[0]["metadata"]["name"].as_str().expect("a name"));
        let patch = json!({"status": {"phase": "Failed"}});
        let patch = Patch::merge(&patch).of("status");
        f.api.lag().hold_at("deployments.apps", f.sandbox.revision());
        let _: Value = f.admin.patch(&PODS, &key, patch).await.expect("patched");
        f.sleep(Duration::from_millis(500)).await;
        let reported = f.get("web").await;
        assert_eq!(reported["status"]["availableReplicas"], 2, "{code}");
        f.api.lag().release();
        f.complete("web").await;
        f.api.reset();
        f.sleep(Duration::from_mins(10)).await;
        let deletes = f.api.count("DELETE replicasets");
        assert!(deletes <= 20, "{deletes}");
        // It is deleted as soon as the API server allows it.
        f.api.inject(|_, _, _| Effect::Pass);
        f.sleep(Duration::from_secs(1000)).await;
        assert_eq!(f.sets().await.len(), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_overwritten_by_another_client_backs_off() {
    let f = with_deployment(&web(3, "one")).await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.reset();
    for _ in 0..1200 {
        let theirs = json!({"status": {"availableReplicas": 1, "unavailableReplicas": 2}});
        let patch = Patch::merge(&theirs).of("status");
        let key = Key::new("default", "web");
        let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
        f.sleep(Duration::from_millis(500)).await;
    }
    let written = f.api.count("PATCH deployments/status");
    assert!((10..20).contains(&written), "{written}");
    // Different content is written at once.
    f.update("web", &json!({"replicas": 4})).await;
    f.sleep(Duration::from_secs(1)).await;
    let status = f.get("web").await["status"].take();
    assert_eq!(status["observedGeneration"], 2, "{status}");
    f.complete("web").await;
}
