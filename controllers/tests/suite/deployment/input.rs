//! Invalid specs and manual changes are reported without hot loops.

use http::Method;

use super::*;
use crate::fixture::merge;

#[tokio::test(start_paused = true)]
async fn rejected_set_is_reported_once_and_retried_with_backoff() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid"), (500, "InternalError")] {
        let f = fixture();
        f.api.inject(move |method, path, _| {
            if *method == Method::POST && path.ends_with("/replicasets") {
                status_reply(code, json!({"reason": reason, "message": "exceeded quota"}))
            } else {
                Effect::Pass
            }
        });
        f.create(&DEPLOYMENTS, &web(3, "one")).await;
        // Beyond the progress deadline of 10 minutes, which does not replace the reason.
        f.sleep(Duration::from_mins(30)).await;
        let deployment = f.get("web").await;
        assert_eq!(
            condition(&deployment, "Progressing"),
            ("False".to_owned(), "ReplicaSetCreateError".to_owned())
        );
        assert_eq!(deployment["status"]["observedGeneration"], 1);
        let posts = f.api.count("POST replicasets");
        assert!((5..30).contains(&posts), "{posts}");
        assert_eq!(f.api.count("PATCH deployments/status"), 1);
        assert!(f.reasons().await.iter().all(|it| it == "ReplicaSetCreateError"));
        // No event follows: the next attempt comes from the backoff, which is 1000 s at most.
        f.api.inject(|_, _, _| Effect::Pass);
        f.sleep(Duration::from_secs(1000)).await;
        f.complete("web").await;
        f.until(async |f| condition(&f.get("web").await, "Progressing").1 == "NewReplicaSetAvailable")
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn old_set_is_kept_while_the_new_one_cannot_be_created() {
    let f = with_deployment(&web(4, "one")).await;
    f.api.inject(|method, path, _| {
        if *method == Method::POST && path.ends_with("/replicasets") {
            status_reply(403, json!({"reason": "Forbidden", "message": "exceeded quota"}))
        } else {
            Effect::Pass
        }
    });
    f.update("web", &image("two")).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.images().await, ["one"; 4]);
}

#[tokio::test(start_paused = true)]
async fn terminating_namespace_gets_one_create_in_minutes_and_no_event() {
    let f = with_deployment(&web(3, "one")).await;
    let before = f.reasons().await;
    f.api.inject(|method, path, _| {
        let causes =
            json!([{"reason": "NamespaceTerminating", "message": "terminating", "field": "metadata.namespace"}]);
        if *method == Method::POST && path.ends_with("/replicasets") {
            status_reply(
                403,
                json!({"reason": "Forbidden", "message": "terminating", "details": {"causes": causes}}),
            )
        } else {
            Effect::Pass
        }
    });
    f.api.reset();
    f.delete(&SETS, &f.sets().await[0]).await;
    for i in 0..30 {
        let note = json!({"metadata": {"annotations": {"wake": i.to_string()}}});
        f.patch(&DEPLOYMENTS, "web", &note).await;
        f.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(f.api.count("POST replicasets"), 1);
    let deployment = f.get("web").await;
    assert_eq!(
        deployment["status"]["observedGeneration"], deployment["metadata"]["generation"],
        "its status is written"
    );
    f.sleep(Duration::from_mins(10)).await;
    let posts = f.api.count("POST replicasets");
    assert!((2..=4).contains(&posts), "{posts} in ten minutes");
    assert_eq!(f.reasons().await, before);
}

/// The backoff of creates is at most a minute.
#[tokio::test(start_paused = true)]
async fn repeatedly_deleted_set_is_created_within_a_minute_and_reported() {
    let f = with_deployment(&web(2, "one")).await;
    let backoff = ("False".to_owned(), "ReplicaSetCreateBackOff".to_owned());
    let mut waits = Vec::new();
    for _ in 0..12 {
        f.delete(&SETS, &f.sets().await[0]).await;
        let start = f.env.clock.now();
        f.sleep(Duration::from_secs(1)).await;
        if f.sets().await.is_empty() {
            let deployment = f.get("web").await;
            assert_eq!(condition(&deployment, "Progressing"), backoff, "{waits:?}");
            let reported = f.reasons().await;
            assert!(reported.contains(&backoff.1), "{reported:?}");
        }
        f.until(async |f| !f.sets().await.is_empty()).await;
        waits.push((f.env.clock.now() - start).as_secs());
    }
    assert!(waits.iter().all(|it| *it <= 61), "{waits:?}");
    assert!(waits[..2].iter().all(|it| *it <= 1), "{waits:?}");
    assert!(waits[6..].iter().all(|it| *it >= 50), "it is limited: {waits:?}");
    let reported = f.events().await;
    let reported = reported.iter().filter(|(reason, _)| *reason == backoff.1).count();
    assert!((1..=12).contains(&reported), "{reported} events");
    let deployment = f.complete("web").await;
    f.until(async |f| condition(&f.get("web").await, "Progressing").1 == "NewReplicaSetAvailable")
        .await;
    assert_eq!(deployment["spec"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn replica_failure_during_a_rollout_is_reported() {
    let f = bare();
    f.deployments();
    f.create(&DEPLOYMENTS, &web(4, "one")).await;
    f.until(async |f| f.sets().await.len() == 1).await;
    let first = f.sets().await[0]["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    // As the replicaset controller would at a quota.
    let failing = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota",
                          "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let key = Key::new("default", first);
    let patch = json!({"status": {"replicas": 0, "conditions": failing}});
    let patch = Patch::merge(&patch).of("status");
    let _: Value = f.admin.patch(&SETS, &key, patch).await.expect("patched");
    f.until(async |f| condition(&f.get("web").await, "ReplicaFailure").1 == "FailedCreate")
        .await;
}

#[tokio::test(start_paused = true)]
async fn invalid_spec_is_reported_once() {
    // The API server rejects these specs, so the test injects them into responses.
    for (spec, reason) in [
        (json!({"selector": null}), "SelectingAll"),
        (json!({"replicas": -3}), "InvalidReplicas"),
        (json!({"strategy": {"type": "Sideways"}}), "InvalidStrategy"),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": "-5%"}}}),
            "InvalidStrategy",
        ),
        (
            json!({"template": {"metadata": {"labels": {"app": "other"}}}}),
            "InvalidSelector",
        ),
    ] {
        let f = bare();
        f.run_hollow_kubelet(Duration::from_secs(1));
        f.run_replicaset_controller();
        f.api
            .transform_reads("deployments", move |object| merge(&mut object["spec"], &spec));
        f.deployments();
        f.create(&DEPLOYMENTS, &web(3, "one")).await;
        f.sleep(Duration::from_mins(10)).await;
        let deployment = f.get("web").await;
        assert_eq!(
            condition(&deployment, "Progressing"),
            ("False".to_owned(), reason.to_owned())
        );
        assert_eq!(
            f.api.counts(),
            [("PATCH deployments/status".to_owned(), 1)].into(),
            "{reason}"
        );
        assert_eq!(f.reasons().await, [reason]);
    }
}

#[tokio::test(start_paused = true)]
async fn limits_above_replicas_are_accepted() {
    let f = fixture();
    let mut deployment = web(4, "one");
    deployment["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": "300%", "maxUnavailable": "100%"});
    f.deploy(&deployment).await;
    f.update("web", &image("two")).await;
    f.complete("web").await;
    assert_eq!(f.images().await, ["two"; 4]);
}

#[tokio::test(start_paused = true)]
async fn rollout_of_zero_replicas_completes_at_once() {
    let f = with_deployment(&web(0, "one")).await;
    f.update("web", &image("two")).await;
    let deployment = f.complete("web").await;
    assert_eq!(condition(&deployment, "Progressing").1, "NewReplicaSetAvailable");
    assert_eq!((f.sets().await.len(), revision(&deployment)), (2, "2"));
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into());
    f.update("web", &json!({"replicas": 2})).await;
    f.complete("web").await;
    assert_eq!(f.images().await, ["two"; 2]);
}

#[tokio::test(start_paused = true)]
async fn manually_changed_sets_are_corrected() {
    let f = with_deployment(&web(4, "one")).await;
    f.update("web", &image("two:404")).await;
    f.sleep(Duration::from_secs(20)).await;
    let names: Vec<String> = f
        .sets()
        .await
        .iter()
        .map(|it| it["metadata"]["name"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(names.len(), 2);
    for (name, size) in [(&names[0], 9), (&names[1], 9), (&names[0], 0)] {
        f.patch(&SETS, name, &json!({"spec": {"replicas": size}})).await;
        f.sleep(Duration::from_secs(20)).await;
        let counts: usize = f.api.counts().values().sum();
        assert!(counts < 60, "{:?}", f.api.counts());
    }
    f.update("web", &image("three")).await;
    f.complete("web").await;
    assert_eq!(f.images().await, ["three"; 4]);
}

#[tokio::test(start_paused = true)]
async fn manually_deleted_set_is_created_again() {
    let f = with_deployment(&web(3, "one")).await;
    f.update("web", &image("two")).await;
    f.until(async |f| f.sets().await.len() == 2).await;
    let new = f.sets().await[1].clone();
    f.delete(&SETS, &new).await;
    f.until(async |f| {
        let sets = f.sets().await;
        sets.len() == 2 && sets[1]["metadata"]["uid"] != new["metadata"]["uid"]
    })
    .await;
    f.until(async |f| f.sets().await.iter().map(size).eq([0, 3]))
        .await;
    assert_eq!(f.sets().await[1]["metadata"]["name"], new["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn unavailable_new_pods_keep_the_old_ones() {
    let f = with_deployment(&web(4, "one")).await;
    f.update("web", &image("two:404")).await;
    f.sleep(Duration::from_mins(30)).await;
    let sets = f.sets().await;
    assert_eq!(sets.iter().map(size).collect::<Vec<_>>(), [3, 2]);
    let counts: usize = f.api.counts().values().sum();
    assert!(counts <= 15, "{:?}", f.api.counts());
}
