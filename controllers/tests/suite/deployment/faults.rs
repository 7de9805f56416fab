//! Answers that are lost, caches that lag, others who write: nothing is done twice.

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_makes_one_set() {
    for answer in [Answer::Lost, Answer::Broken] {
        let bed = bed();
        bed.door.judge(move |method, path, before| {
            let create = *method == Method::POST && path.ends_with("/replicasets");
            if create && before < 3 {
                answer.clone()
            } else {
                Answer::Done
            }
        });
        let deployment = bed.deploy(&web(3, "one")).await;
        assert_eq!(bed.sets().await.len(), 1);
        assert!(deployment["status"].get("collisionCount").is_none());
        assert_eq!(revision(&deployment), "1");
        assert!(bed.door.count("POST replicasets") <= 4);
    }
}

#[tokio::test(start_paused = true)]
async fn every_write_may_be_lost_once_and_the_rollout_ends() {
    for lost in 0..12 {
        for answer in [Answer::Lost, Answer::Broken] {
            let bed = bed();
            bed.deploy(&web(4, "one")).await;
            bed.door.reset();
            let door = bed.door.clone();
            bed.door.judge(move |_, _, _| {
                let sent = door.counts().values().sum::<usize>();
                if sent == lost + 1 {
                    answer.clone()
                } else {
                    Answer::Done
                }
            });
            bed.want("web", &image("two")).await;
            bed.complete("web").await;
            assert_eq!(bed.images().await, ["two"; 4], "{lost}");
            assert_eq!(bed.sets().await.len(), 2, "{lost}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_makes_nothing_happen_twice() {
    for held in ["replicasets.apps", "deployments.apps"] {
        let bed = bed();
        bed.deploy(&web(4, "one")).await;
        bed.want("web", &image("two")).await;
        bed.until(async |bed| bed.sets().await.len() == 2).await;
        bed.door.lag().hold_at(held, bed.sandbox.revision());
        bed.door.reset();
        bed.sleep(Duration::from_secs(20)).await;
        let counts = bed.door.counts();
        assert!(counts.values().sum::<usize>() <= 4, "{held} {counts:?}");
        bed.door.lag().release();
        bed.complete("web").await;
        assert_eq!(bed.images().await, ["two"; 4]);
        assert_eq!(bed.sets().await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_without_haste() {
    let bed = bed();
    bed.deploy(&web(3, "one")).await;
    bed.door.reset();
    bed.door
        .judge(|_, _, _| Answer::Refused(503, json!({"reason": "ServiceUnavailable", "message": "not now"})));
    bed.want("web", &image("two")).await;
    bed.sleep(Duration::from_mins(10)).await;
    let sent: usize = bed.door.counts().values().sum();
    assert!((5..60).contains(&sent), "{sent}");
    // No event follows: the next attempt comes from the backoff, which is 1000 s at most.
    bed.door.judge(|_, _, _| Answer::Done);
    bed.sleep(Duration::from_secs(1000)).await;
    bed.complete("web").await;
    assert_eq!(bed.images().await, ["two"; 3]);
}

#[tokio::test(start_paused = true)]
async fn another_leader_goes_on_where_the_last_one_stopped() {
    for stopped_after in [20, 200, 1500] {
        let bed = bare();
        bed.cluster(Duration::from_secs(1));
        bed.replicas();
        let stop = bed.deployments();
        bed.deploy(&web(6, "one")).await;
        bed.want("web", &image("two")).await;
        bed.sleep(Duration::from_millis(stopped_after)).await;
        stop.cancel();
        bed.sleep(Duration::from_secs(5)).await;
        bed.deployments();
        bed.complete("web").await;
        assert_eq!(bed.images().await, ["two"; 6]);
        assert_eq!(bed.sets().await.len(), 2);
    }
}

/// Nothing tells of it but the pod: its set counts it no more before the cache of pods shows that.
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_let_go_is_not_waited_for() {
    let bed = apart();
    bed.deployments();
    let mut recreate = web(1, "one");
    recreate["spec"]["strategy"] = json!({"type": "Recreate"});
    bed.deploy(&recreate).await;
    let pod = bed.list(&PODS).await.remove(0);
    let name = pod["metadata"]["name"].as_str().expect("a name");
    bed.patch(
        &PODS,
        name,
        &json!({"metadata": {"finalizers": ["example.com/theirs"]}}),
    )
    .await;
    bed.want("web", &image("two")).await;
    bed.sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.sets().await.len(), 1, "its pod is still there");
    bed.door.lag().hold_at("pods", bed.sandbox.revision());
    let let_go = json!({"metadata": {"ownerReferences": null, "labels": {"app": "none"}}});
    bed.patch(&PODS, name, &let_go).await;
    bed.sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.sets().await.len(), 1, "the cache shows it");
    bed.door.lag().release();
    bed.complete("web").await;
}

/// The cache still shows a Deployment that is gone: the write of its status answers 404, and that is the end of it.
#[tokio::test(start_paused = true)]
async fn status_of_a_deleted_deployment_is_not_retried() {
    // Without the replica engine: the status of the ReplicaSet stays as the test writes it.
    let bed = bare();
    bed.deployments();
    let deployment = bed.create(&DEPLOYMENTS, &web(3, "one")).await;
    bed.until(async |bed| bed.sets().await.len() == 1).await;
    bed.sleep(Duration::from_secs(1)).await;
    bed.door.lag().hold_at("deployments.apps", bed.sandbox.revision());
    bed.delete(&DEPLOYMENTS, &deployment).await;
    bed.door.reset();
    let set = bed.sets().await[0]["metadata"]["name"].clone();
    let key = Key::new("default", set.as_str().expect("a name"));
    let patch = json!({"status": {"replicas": 3, "readyReplicas": 1, "availableReplicas": 1}});
    let patch = Patch::merge(&patch).of("status");
    let _: Value = bed.admin.patch(&SETS, &key, patch).await.expect("patched");
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        bed.door.counts(),
        [("PATCH deployments/status".to_owned(), 1)].into()
    );
    bed.door.lag().release();
    bed.sleep(Duration::from_secs(1)).await;
    bed.door.reset();
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.door.counts(), [].into());
}

/// A scale that is refused for long: the deadline of the rollout is told on time all the same.
#[tokio::test(start_paused = true)]
async fn progress_deadline_is_told_while_scaling_fails() {
    let bed = bed();
    let mut deployment = web(3, "one");
    deployment["spec"]["progressDeadlineSeconds"] = json!(600);
    bed.deploy(&deployment).await;
    bed.door.judge(|method, path, _| {
        if *method == Method::PATCH && path.contains("/replicasets/") {
            Answer::Refused(
                403,
                json!({"reason": "Forbidden", "message": "denied by a webhook"}),
            )
        } else {
            Answer::Done
        }
    });
    bed.want("web", &image("two")).await;
    bed.sleep(Duration::from_secs(595)).await;
    assert_ne!(
        condition(&bed.get("web").await, "Progressing").1,
        "ProgressDeadlineExceeded"
    );
    bed.sleep(Duration::from_secs(10)).await;
    assert_eq!(
        condition(&bed.get("web").await, "Progressing").1,
        "ProgressDeadlineExceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_cleanup_does_not_hide_the_status() {
    for code in [403, 500] {
        let bed = bed();
        let mut deployment = web(3, "one");
        deployment["spec"]["revisionHistoryLimit"] = json!(0);
        bed.deploy(&deployment).await;
        bed.door.judge(move |method, _, _| {
            if *method == Method::DELETE {
                Answer::Refused(
                    code,
                    json!({"reason": "Forbidden", "message": "denied by a webhook"}),
                )
            } else {
                Answer::Done
            }
        });
        bed.want("web", &image("two")).await;
        bed.complete("web").await;
        bed.sleep(Duration::from_mins(10)).await;
        assert_eq!(bed.sets().await.len(), 2, "the old one stays");
        let pods = bed.list(&PODS).await;
        let key = Key::new("default", pods[0]["metadata"]["name"].as_str().expect("a name"));
        let patch = json!({"status": {"phase": "Failed"}});
        let patch = Patch::merge(&patch).of("status");
        bed.door.lag().hold_at("deployments.apps", bed.sandbox.revision());
        let _: Value = bed.admin.patch(&PODS, &key, patch).await.expect("patched");
        bed.sleep(Duration::from_millis(500)).await;
        let told = bed.get("web").await;
        assert_eq!(told["status"]["availableReplicas"], 2, "{code}");
        bed.door.lag().release();
        bed.complete("web").await;
        bed.door.reset();
        bed.sleep(Duration::from_mins(10)).await;
        let deletes = bed.door.count("DELETE replicasets");
        assert!(deletes <= 20, "{deletes}");
        // It goes as soon as it may.
        bed.door.judge(|_, _, _| Answer::Done);
        bed.sleep(Duration::from_secs(1000)).await;
        assert_eq!(bed.sets().await.len(), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_that_another_client_overwrites_is_not_raced() {
    let bed = bed();
    bed.deploy(&web(3, "one")).await;
    bed.sleep(Duration::from_secs(10)).await;
    bed.door.reset();
    for _ in 0..1200 {
        let theirs = json!({"status": {"availableReplicas": 1, "unavailableReplicas": 2}});
        let patch = Patch::merge(&theirs).of("status");
        let key = Key::new("default", "web");
        let _: Value = bed.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
        bed.sleep(Duration::from_millis(500)).await;
    }
    let written = bed.door.count("PATCH deployments/status");
    assert!((10..20).contains(&written), "{written}");
    // Another status does not wait.
    bed.want("web", &json!({"replicas": 4})).await;
    bed.sleep(Duration::from_secs(1)).await;
    let status = bed.get("web").await["status"].take();
    assert_eq!(status["observedGeneration"], 2, "{status}");
    bed.complete("web").await;
}
