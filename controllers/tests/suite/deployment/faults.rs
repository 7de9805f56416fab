//! Answers that are lost, caches that lag, others who write: nothing is done twice.

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_makes_one_set() {
    for answer in [Fault::ResponseLost, Fault::RequestLost] {
        let f = fixture();
        f.api.inject(move |method, path, before| {
            let create = *method == Method::POST && path.ends_with("/replicasets");
            if create && before < 3 {
                answer.clone()
            } else {
                Fault::None
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
async fn every_write_may_be_lost_once_and_the_rollout_ends() {
    for lost in 0..12 {
        for answer in [Fault::ResponseLost, Fault::RequestLost] {
            let f = fixture();
            f.deploy(&web(4, "one")).await;
            f.api.reset();
            let api = f.api.clone();
            f.api.inject(move |_, _, _| {
                let sent = api.counts().values().sum::<usize>();
                if sent == lost + 1 {
                    answer.clone()
                } else {
                    Fault::None
                }
            });
            f.want("web", &image("two")).await;
            f.complete("web").await;
            assert_eq!(f.images().await, ["two"; 4], "{lost}");
            assert_eq!(f.sets().await.len(), 2, "{lost}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_makes_nothing_happen_twice() {
    for held in ["replicasets.apps", "deployments.apps"] {
        let f = fixture();
        f.deploy(&web(4, "one")).await;
        f.want("web", &image("two")).await;
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
async fn an_outage_is_waited_out_without_haste() {
    let f = fixture();
    f.deploy(&web(3, "one")).await;
    f.api.reset();
    f.api
        .inject(|_, _, _| Fault::Status(503, json!({"reason": "ServiceUnavailable", "message": "not now"})));
    f.want("web", &image("two")).await;
    f.sleep(Duration::from_mins(10)).await;
    let sent: usize = f.api.counts().values().sum();
    assert!((5..60).contains(&sent), "{sent}");
    // No event follows: the next attempt comes from the backoff, which is 1000 s at most.
    f.api.inject(|_, _, _| Fault::None);
    f.sleep(Duration::from_secs(1000)).await;
    f.complete("web").await;
    assert_eq!(f.images().await, ["two"; 3]);
}

#[tokio::test(start_paused = true)]
async fn another_leader_goes_on_where_the_last_one_stopped() {
    for stopped_after in [20, 200, 1500] {
        let f = bare();
        f.run_hollow_kubelet(Duration::from_secs(1));
        f.run_replicaset_controller();
        let stop = f.deployments();
        f.deploy(&web(6, "one")).await;
        f.want("web", &image("two")).await;
        f.sleep(Duration::from_millis(stopped_after)).await;
        stop.cancel();
        f.sleep(Duration::from_secs(5)).await;
        f.deployments();
        f.complete("web").await;
        assert_eq!(f.images().await, ["two"; 6]);
        assert_eq!(f.sets().await.len(), 2);
    }
}

/// Nothing tells of it but the pod: its set counts it no more before the cache of pods shows that.
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_let_go_is_not_waited_for() {
    let f = apart();
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
    f.want("web", &image("two")).await;
    f.sleep(Duration::from_secs(10)).await;
    assert_eq!(f.sets().await.len(), 1, "its pod is still there");
    f.api.lag().hold_at("pods", f.sandbox.revision());
    let let_go = json!({"metadata": {"ownerReferences": null, "labels": {"app": "none"}}});
    f.patch(&PODS, name, &let_go).await;
    f.sleep(Duration::from_secs(10)).await;
    assert_eq!(f.sets().await.len(), 1, "the cache shows it");
    f.api.lag().release();
    f.complete("web").await;
}

/// The cache still shows a Deployment that is gone: the write of its status answers 404, and that is the end of it.
#[tokio::test(start_paused = true)]
async fn status_of_a_deleted_deployment_is_not_retried() {
    // Without the replica engine: the status of the ReplicaSet stays as the test writes it.
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
        [("PATCH deployments/status".to_owned(), 1)].into()
    );
    f.api.lag().release();
    f.sleep(Duration::from_secs(1)).await;
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into());
}

/// A scale that is refused for long: the deadline of the rollout is told on time all the same.
#[tokio::test(start_paused = true)]
async fn progress_deadline_is_told_while_scaling_fails() {
    let f = fixture();
    let mut deployment = web(3, "one");
    deployment["spec"]["progressDeadlineSeconds"] = json!(600);
    f.deploy(&deployment).await;
    f.api.inject(|method, path, _| {
        if *method == Method::PATCH && path.contains("/replicasets/") {
            Fault::Status(
                403,
                json!({"reason": "Forbidden", "message": "denied by a webhook"}),
            )
        } else {
            Fault::None
        }
    });
    f.want("web", &image("two")).await;
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
async fn refused_cleanup_does_not_hide_the_status() {
    for code in [403, 500] {
        let f = fixture();
        let mut deployment = web(3, "one");
        deployment["spec"]["revisionHistoryLimit"] = json!(0);
        f.deploy(&deployment).await;
        f.api.inject(move |method, _, _| {
            if *method == Method::DELETE {
                Fault::Status(
                    code,
                    json!({"reason": "Forbidden", "message": "denied by a webhook"}),
                )
            } else {
                Fault::None
            }
        });
        f.want("web", &image("two")).await;
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
        let told = f.get("web").await;
        assert_eq!(told["status"]["availableReplicas"], 2, "{code}");
        f.api.lag().release();
        f.complete("web").await;
        f.api.reset();
        f.sleep(Duration::from_mins(10)).await;
        let deletes = f.api.count("DELETE replicasets");
        assert!(deletes <= 20, "{deletes}");
        // It goes as soon as it may.
        f.api.inject(|_, _, _| Fault::None);
        f.sleep(Duration::from_secs(1000)).await;
        assert_eq!(f.sets().await.len(), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_that_another_client_overwrites_is_not_raced() {
    let f = fixture();
    f.deploy(&web(3, "one")).await;
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
    // Another status does not wait.
    f.want("web", &json!({"replicas": 4})).await;
    f.sleep(Duration::from_secs(1)).await;
    let status = f.get("web").await["status"].take();
    assert_eq!(status["observedGeneration"], 2, "{status}");
    f.complete("web").await;
}
