//! Rollouts and their requests.

use std::sync::Arc;

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn new_deployment_has_labels_annotations_and_events() {
    let f = fixture();
    let deployment = f.deploy(&web(3, "one")).await;
    let sets = f.sets().await;
    assert_eq!(sets.len(), 1);
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"]
        .as_str()
        .expect("a hash");
    assert_eq!(sets[0]["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(
        sets[0]["spec"]["selector"]["matchLabels"]["pod-template-hash"],
        hash
    );
    assert_eq!((revision(&deployment), revision(&sets[0])), ("1", "1"));
    let annotations = &sets[0]["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "4");
    assert_eq!(
        condition(&deployment, "Available"),
        ("True".to_owned(), "MinimumReplicasAvailable".to_owned())
    );
    assert_eq!(
        condition(&deployment, "Progressing"),
        ("True".to_owned(), "NewReplicaSetAvailable".to_owned())
    );
    assert_eq!(
        deployment["metadata"]["generation"], 1,
        "nothing that is written is wanted"
    );
    let name = sets[0]["metadata"]["name"].as_str().expect("a name");
    let message = format!("Scaled up replica set {name} from 0 to 3");
    assert_eq!(f.events().await, [("ScalingReplicaSet".to_owned(), message)]);
}

#[tokio::test(start_paused = true)]
async fn rollout_of_ten_pods_has_a_fixed_number_of_requests() {
    let f = with_deployment(&web(10, "one")).await;
    assert_eq!(
        f.api.counts(),
        [
            ("PATCH deployments/status".to_owned(), 3),
            ("POST replicasets".to_owned(), 1)
        ]
        .into()
    );
    f.api.reset();
    f.update("web", &image("two")).await;
    let watch = async {
        loop {
            let sets = f.sets().await;
            let total: i64 = sets.iter().map(size).sum();
            let available = |it: &Value| {
                it["status"]["availableReplicas"]
                    .as_i64()
                    .unwrap_or(0)
                    .min(size(it))
            };
            let serving: i64 = sets.iter().map(available).sum();
            assert!(total <= 13 && serving >= 8, "{total} {serving}");
            f.sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        _ = f.complete("web") => {}
        () = watch => {}
    }
    assert_eq!(f.images().await, ["two"; 10]);
    let counts = f.api.counts();
    assert_eq!(counts["POST replicasets"], 1);
    let (scales, statuses) = (counts["PATCH replicasets"], counts["PATCH deployments/status"]);
    assert_eq!(counts.len(), 3, "{counts:?}");
    assert_eq!((scales, statuses), (5, 9), "{counts:?}");

    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into(), "at rest");
}

#[tokio::test(start_paused = true)]
async fn recreate_ends_old_pods_before_it_creates_new_ones() {
    let f = fixture();
    recreate(&f).await;
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into(), "at rest");
}

#[tokio::test(start_paused = true)]
async fn recreate_notices_the_last_pod_without_terminating_replicas() {
    let f = fixture();
    f.api.transform_reads("replicasets", |set| {
        if let Some(status) = set["status"].as_object_mut() {
            status.remove("terminatingReplicas");
        }
    });
    let mut deployment = web(2, "one");
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    deployment["spec"]["template"]["metadata"]["finalizers"] = json!(["example.com/theirs"]);
    f.deploy(&deployment).await;
    f.update("web", &image("two")).await;
    f.sleep(Duration::from_secs(30)).await;
    assert_eq!(f.sets().await.len(), 1, "they are still on their way out");
    for pod in f.list(&PODS).await {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        f.patch(&PODS, name, &json!({"metadata": {"finalizers": null}}))
            .await;
    }
    f.until(async |f| f.images().await == ["two"; 2]).await;
}

async fn recreate(f: &Fixture) {
    let mut deployment = web(4, "one");
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    f.deploy(&deployment).await;
    f.update("web", &image("two")).await;
    let watch = async {
        loop {
            let pods = f.list(&PODS).await;
            let of = |image: &str| {
                pods.iter()
                    .any(|it| it["spec"]["containers"][0]["image"] == image)
            };
            assert!(!(of("one") && of("two")));
            f.sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        _ = f.complete("web") => {}
        () = watch => {}
    }
    assert_eq!(f.images().await, ["two"; 4]);
}

#[tokio::test(start_paused = true)]
async fn scaling_creates_no_set_and_annotates_active_sets() {
    let f = with_deployment(&web(2, "one")).await;
    for replicas in [5, 1, 0, 3] {
        f.update("web", &json!({"replicas": replicas})).await;
        f.complete("web").await;
        assert_eq!(f.images().await.len(), usize::try_from(replicas).expect("small"));
    }
    let sets = f.sets().await;
    assert_eq!(sets.len(), 1);
    assert_eq!(
        sets[0]["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"],
        "3"
    );
    assert_eq!(revision(&sets[0]), "1");
}

#[tokio::test(start_paused = true)]
async fn stalled_rollout_is_scaled_in_proportion() {
    let f = fixture();
    let mut deployment = web(10, "one");
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    f.deploy(&deployment).await;
    f.update("web", &image("two:404")).await;
    f.until(async |f| f.sets().await.iter().map(size).eq([8, 5]))
        .await;
    f.sleep(Duration::from_secs(30)).await;
    f.update("web", &json!({"replicas": 30})).await;
    f.until(async |f| f.sets().await.iter().map(size).eq([20, 13]))
        .await;
}

#[tokio::test(start_paused = true)]
async fn stalled_rollout_exceeds_the_deadline_and_can_be_undone() {
    let f = fixture();
    let mut deployment = web(4, "one");
    deployment["spec"]["progressDeadlineSeconds"] = json!(60);
    f.deploy(&deployment).await;
    let first = f.get("web").await["spec"]["template"].clone();
    f.update("web", &image("two:404")).await;
    f.sleep(Duration::from_secs(50)).await;
    assert_ne!(
        condition(&f.get("web").await, "Progressing").1,
        "ProgressDeadlineExceeded"
    );
    f.sleep(Duration::from_secs(20)).await;
    let late = f.get("web").await;
    assert_eq!(
        condition(&late, "Progressing"),
        ("False".to_owned(), "ProgressDeadlineExceeded".to_owned())
    );
    assert_eq!(
        condition(&late, "Available").0,
        "True",
        "the old pods are available"
    );
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into(), "reported once");

    // As kubectl rollout undo does.
    f.update("web", &json!({"template": first})).await;
    let undone = f.complete("web").await;
    f.until(async |f| condition(&f.get("web").await, "Progressing").1 == "NewReplicaSetAvailable")
        .await;
    assert_eq!(f.images().await, ["one"; 4]);
    let sets = f.sets().await;
    assert_eq!((sets.len(), revision(&undone)), (2, "3"));
    assert_eq!(
        sets[1]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"],
        "1"
    );
}

#[tokio::test(start_paused = true)]
async fn rollback_annotation_is_answered_once() {
    let f = with_deployment(&web(2, "one")).await;
    f.update("web", &image("two")).await;
    f.complete("web").await;
    let request = |to: &str| json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": to}}});
    for (to, reason, expected) in [
        ("0", "DeploymentRollback", "one"),
        ("9", "DeploymentRollbackRevisionNotFound", "one"),
        ("3", "DeploymentRollbackTemplateUnchanged", "one"),
        ("2", "DeploymentRollback", "two"),
    ] {
        f.patch(&DEPLOYMENTS, "web", &request(to)).await;
        f.until(async |f| {
            f.get("web").await["metadata"]["annotations"]
                .get("deprecated.deployment.rollback.to")
                .is_none()
        })
        .await;
        f.sleep(Duration::from_secs(1)).await;
        f.complete("web").await;
        assert_eq!(f.images().await, [expected; 2], "{to}");
        assert!(f.reasons().await.iter().any(|it| it == reason), "{to}");
    }
}

#[tokio::test(start_paused = true)]
async fn paused_deployment_is_scaled_but_not_rolled_out() {
    let f = with_deployment(&web(3, "one")).await;
    f.update("web", &json!({"paused": true})).await;
    f.update("web", &image("two")).await;
    f.update("web", &json!({"replicas": 5})).await;
    f.sleep(Duration::from_mins(1)).await;
    let paused = f.get("web").await;
    assert_eq!(
        condition(&paused, "Progressing"),
        ("Unknown".to_owned(), "DeploymentPaused".to_owned())
    );
    assert_eq!(
        paused["status"]["observedGeneration"],
        paused["metadata"]["generation"]
    );
    assert_eq!(f.images().await, ["one"; 5]);
    f.api.reset();
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.counts(), [].into(), "at rest");
    f.update("web", &json!({"paused": false})).await;
    f.complete("web").await;
    assert_eq!(f.images().await, ["two"; 5]);
}

#[tokio::test(start_paused = true)]
async fn revision_history_limit_is_enforced() {
    let f = fixture();
    let mut deployment = web(2, "one");
    deployment["spec"]["revisionHistoryLimit"] = json!(1);
    f.deploy(&deployment).await;
    for next in ["two", "three", "four"] {
        f.update("web", &image(next)).await;
        f.complete("web").await;
    }
    f.until(async |f| f.sets().await.len() == 2).await;
    assert_eq!(
        f.sets().await.iter().map(revision).collect::<Vec<_>>(),
        ["3", "4"]
    );
    let deletes = f.api.bodies("DELETE replicasets");
    assert_eq!(deletes.len(), 2);
    for delete in deletes {
        assert!(
            delete["preconditions"]["uid"].is_string()
                && delete["preconditions"]["resourceVersion"].is_string()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_and_min_ready_seconds_are_copied_to_the_set() {
    let f = with_deployment(&web(2, "one")).await;
    f.patch(
        &DEPLOYMENTS,
        "web",
        &json!({"metadata": {"annotations": {"note": "x"}}, "spec": {"minReadySeconds": 3}}),
    )
    .await;
    f.until(async |f| {
        let sets = f.sets().await;
        sets[0]["metadata"]["annotations"]["note"] == "x" && sets[0]["spec"]["minReadySeconds"] == 3
    })
    .await;
    f.complete("web").await;
    assert_eq!(f.sets().await.len(), 1, "not a rollout");
}

/// Exact to the second, in every run.
#[tokio::test(start_paused = true)]
async fn progress_deadline_is_reported_on_time() {
    for deadline in [2, 10, 60, 600] {
        let f = fixture();
        let mut deployment = web(2, "one:404");
        deployment["spec"]["progressDeadlineSeconds"] = json!(deadline);
        f.create(&DEPLOYMENTS, &deployment).await;
        f.sleep(Duration::from_millis(1900)).await;
        let progressing = f.get("web").await["status"]["conditions"].clone();
        let progressing = progressing
            .as_array()
            .expect("conditions")
            .iter()
            .find(|it| it["type"] == "Progressing");
        let since = progressing.expect("a condition")["lastUpdateTime"]
            .as_str()
            .expect("a time");
        let since: jiff::Timestamp = since.parse().expect("a time");
        loop {
            let passed = f.env.clock.wall().duration_since(since).as_millis();
            let reason = condition(&f.get("web").await, "Progressing").1;
            let due = i128::from(deadline) * 1000;
            if passed < due {
                assert_ne!(reason, "ProgressDeadlineExceeded", "after {passed} ms of {due}");
            } else if passed > due + 2000 {
                assert_eq!(reason, "ProgressDeadlineExceeded", "after {passed} ms of {due}");
                break;
            }
            f.sleep(Duration::from_millis(250)).await;
        }
    }
}

/// All new pods are created at once: one create, two scales, and a status for each stable state.
#[tokio::test(start_paused = true)]
async fn rollout_of_ten_pods_at_once_has_a_fixed_number_of_requests() {
    let f = fixture();
    let mut deployment = web(10, "one");
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}});
    f.deploy(&deployment).await;
    for image_now in ["two", "three", "four", "five"] {
        f.api.reset();
        f.update("web", &image(image_now)).await;
        f.complete("web").await;
        f.sleep(Duration::from_mins(1)).await;
        let counts = f.api.counts();
        assert_eq!(counts["POST replicasets"], 1, "{counts:?}");
        assert!(counts["PATCH replicasets"] <= 2, "{counts:?}");
        assert!(counts["PATCH deployments/status"] <= 7, "{counts:?}");
        assert_eq!(counts.len(), 3, "{counts:?}");
    }
}

/// The status was written by a controller that does not know the field, and nothing else changes it.
#[tokio::test(start_paused = true)]
async fn missing_terminating_replicas_are_written_unless_the_server_drops_them() {
    for drops in [false, true] {
        let f = without_deployments();
        let stop = f.deployments();
        f.deploy(&web(1, "one")).await;
        stop.cancel();
        f.sleep(Duration::from_secs(1)).await;
        let missing = json!({"status": {"terminatingReplicas": null}});
        let missing = Patch::merge(&missing).of("status");
        let key = Key::new("default", "web");
        let patched = f.admin.patch::<Value>(&DEPLOYMENTS, &key, missing).await;
        patched.expect("a patch");
        f.api.reset();
        if drops {
            f.api.inject(|method, path, _| {
                if *method == Method::PATCH && path.ends_with("/status") {
                    Effect::ChangeRequest(Arc::new(|body: &mut Value| {
                        let status = body["status"].as_object_mut().expect("a status");
                        status.remove("terminatingReplicas");
                    }))
                } else {
                    Effect::Pass
                }
            });
        }
        f.deployments();
        for i in 0..5 {
            f.sleep(Duration::from_mins(10)).await;
            let note = json!({"metadata": {"labels": {"wake": i.to_string()}}});
            f.patch(&DEPLOYMENTS, "web", &note).await;
        }
        assert_eq!(f.api.count("PATCH deployments/status"), 1, "drops: {drops}");
        let kept = f.get("web").await["status"]["terminatingReplicas"] == 0;
        assert_eq!(kept, !drops);
    }
}
