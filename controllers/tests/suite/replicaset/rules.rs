//! The number, order and names of requests, events and metrics.

use std::sync::Arc;

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn slow_start_doubles_until_a_batch_fails() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let full = json!({"reason": "Forbidden", "message": "exceeded quota"});
        f.api.inject(move |method, path, before| {
            // The fourth create is the first of the third batch.
            if *method == Method::POST && path.ends_with("/pods") && before == 3 {
                status_reply(403, full.clone())
            } else {
                Effect::Pass
            }
        });
        f.create_ready("web", 20).await;
        let order = f.api.operations();
        let before_status = order.iter().take_while(|it| *it == "POST pods").count();
        assert_eq!(before_status, 1 + 2 + 4, "{order:#?}");
        assert_eq!(f.api.count("POST pods"), 21, "the failed create is retried");
    }
}

#[tokio::test(start_paused = true)]
async fn queues_and_events_have_the_names_of_kube_controller_manager() {
    let names = [
        ("replicaset", "replicaset-controller"),
        ("replicationmanager", "replication-controller"),
        ("appreplicaset", "appreplicaset-controller"),
    ];
    for (kind, (queue, source)) in kinds().into_iter().zip(names) {
        let f = fixture(kind).await;
        let adds = format!("workqueue_adds_total{{name=\"{queue}\"}}");
        assert_eq!(f.metric(&adds), Some(0.0), "exported from the start");
        f.create_ready("web", 2).await;
        f.sleep(Duration::from_secs(1)).await;
        assert!(f.metric(&adds) > Some(0.0));
        let events = f.list(&EVENTS).await;
        assert!(!events.is_empty());
        for event in events {
            assert_eq!(event["source"]["component"], source);
            assert_eq!(event["involvedObject"]["kind"], *f.kind.resource.kind);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_pod_in_a_stale_cache_is_not_deleted_again() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 5).await;
        f.api.reset();
        f.hold_pods();
        f.scale("web", 3).await;
        for i in 0..20 {
            let note = json!({"metadata": {"annotations": {"wake": i.to_string()}}});
            f.patch(&f.kind.resource, "web", &note).await;
            f.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(f.api.count("DELETE pods"), 2, "{:#?}", f.api.counts());
        f.api.lag().release();
        f.ready("web", 3).await;
        assert_eq!(f.api.count("DELETE pods"), 2);
        assert_eq!(f.api.count("POST pods"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn sync_with_a_stale_cache_is_skipped_and_counted() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let skips = r#"replicaset_controller_stale_sync_skips_total{group="",resource="pods"}"#;
        assert_eq!(f.metric(skips), Some(0.0));
        f.create_ready("web", 1).await;
        f.api.reset();
        f.hold_pods();
        f.scale("web", 3).await;
        for i in 0..10 {
            let note = json!({"metadata": {"annotations": {"wake": i.to_string()}}});
            f.patch(&f.kind.resource, "web", &note).await;
            f.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(f.api.count("POST pods"), 2, "{:#?}", f.api.counts());
        assert!(f.metric(skips) >= Some(1.0), "{:?}", f.metric(skips));
        f.api.lag().release();
        f.ready("web", 3).await;
        assert_eq!(f.api.count("POST pods"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_status_costs_two_writes_and_a_read_per_attempt() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let conflict = json!({"reason": "Conflict", "message": "it has changed"});
        f.api.inject(move |method, path, _| {
            if *method == Method::PATCH && path.ends_with("/status") {
                status_reply(409, conflict.clone())
            } else {
                Effect::Pass
            }
        });
        f.create_owner(&f.owner("web", 2)).await;
        f.sleep(Duration::from_mins(10)).await;
        let plural = &f.kind.resource.plural;
        let (writes, reads) = (
            f.api.count(&format!("PATCH {plural}/status")),
            f.api.count(&format!("GET {plural}")),
        );
        assert_eq!(writes, 2 * reads, "{:#?}", f.api.counts());
        assert!((2..60).contains(&reads), "{reads} attempts in ten minutes");
        assert_eq!(f.api.count("POST pods"), 2, "its pods are created");
    }
}

#[tokio::test(start_paused = true)]
async fn age_of_deleted_pods_is_observed() {
    let f = fixture(REPLICA_SET).await;
    f.create_ready("web", 4).await;
    f.sleep(Duration::from_mins(1)).await;
    let count = "replicaset_controller_sorting_deletion_age_ratio_count";
    assert_eq!(f.metric(count), Some(0.0));
    f.scale_ready("web", 1).await;
    assert_eq!(f.metric(count), Some(3.0));
}

/// Rejects the first patch of a pod.
fn reject_first_patch(f: &Fixture, code: u16, status: Value) {
    f.api.inject(move |method, path, before| {
        if *method == Method::PATCH && path.contains("/pods/") && before == 0 {
            status_reply(code, status.clone())
        } else {
            Effect::Pass
        }
    });
}

fn errors(f: &Fixture) -> Option<f64> {
    let name = f.kind.name;
    f.metric(&format!(
        "controller_runtime_reconcile_errors_total{{controller=\"{name}\"}}"
    ))
}

fn orphan() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn pod_deleted_before_adoption_is_not_an_error() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let gone = json!({"reason": "NotFound", "message": "gone", "details": {"name": "orphan"}});
        reject_first_patch(&f, 404, gone);
        f.create(&PODS, &orphan()).await;
        f.create_ready("web", 2).await;
        assert_eq!(errors(&f), Some(0.0));
    }
}

#[tokio::test(start_paused = true)]
async fn pod_without_the_owner_reference_is_released_already() {
    for (code, reason) in [(404, "NotFound"), (422, "Invalid")] {
        for kind in kinds() {
            let f = fixture(kind).await;
            f.create_ready("web", 1).await;
            let name = f.pods().await[0]["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned();
            f.api.reset();
            reject_first_patch(
                &f,
                code,
                json!({"reason": reason, "message": "no", "details": {"name": name}}),
            );
            f.patch(&PODS, &name, &json!({"metadata": {"labels": {"app": "other"}}}))
                .await;
            f.ready("web", 1).await;
            assert_eq!(errors(&f), Some(0.0), "{code}");
            assert_eq!(f.api.count("DELETE pods"), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_owner_adopts_no_pods() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let mut owner = f.owner("web", 0);
        owner["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000009");
        f.create_ready("web", 1).await;
        f.api.reset();
        let plural = f.kind.resource.plural.to_string();
        f.api.inject(move |method, path, _| {
            if *method == Method::GET && path.contains(&format!("/{plural}/")) {
                status_reply(200, owner.clone())
            } else {
                Effect::Pass
            }
        });
        f.create(&PODS, &orphan()).await;
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.api.count("PATCH pods"), 0);
        assert_eq!(f.api.count("DELETE pods"), 0);
        assert!(errors(&f) > Some(0.0), "the sync is retried");
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_controller_ends_a_long_sync_early() {
    // As when kube-controller-manager returns: the controller yields to its Lease, and the term of the process continues.
    for (operation, from, to) in [("POST pods", 0, 400), ("DELETE pods", 400, 0)] {
        let f = bare(REPLICA_SET).await;
        let controller = f.build(Scope::default());
        let fence = Fence::new(f.env.clock.clone());
        let term = fence.open_forever();
        f.create_owner(&f.owner("web", from)).await;
        let run = async |stop: CancellationToken| {
            let ended = controller.run(&fence, term, stop);
            f.env.clock.timeout(Duration::from_secs(10), ended).await
        };
        assert!(
            run(CancellationToken::new()).await.is_none(),
            "the controller runs until the timeout"
        );
        f.api.reset();
        f.scale("web", to).await;
        let stop = CancellationToken::new();
        f.api.inject({
            let stop = stop.clone();
            move |method, _, before| {
                if operation.starts_with(method.as_str()) && before == 100 {
                    stop.cancel();
                }
                Effect::Pass
            }
        });
        assert!(
            run(stop).await.is_some_and(|ended| ended.is_ok()),
            "the controller has stopped"
        );
        let sent = f.api.count(operation);
        assert!((100..=100 + 32).contains(&sent), "{operation}: {sent}");
        assert_eq!(f.api.counts().len(), 1, "nothing else: {:?}", f.api.counts());
        // The next run in the same term sends the remaining requests, and none twice.
        assert!(run(CancellationToken::new()).await.is_none());
        assert_eq!(f.api.count(operation), 400, "{:?}", f.api.counts());
        assert_eq!(f.pods().await.len(), usize::try_from(to).expect("few"));
    }
}

/// The status was written by a controller that does not know the field, and nothing else changes it.
#[tokio::test(start_paused = true)]
async fn missing_terminating_replicas_are_written_unless_the_server_drops_them() {
    for drops in [false, true] {
        let f = bare(REPLICA_SET).await;
        for i in 0..20 {
            let name = format!("old-{i}");
            f.create_owner(&f.owner(&name, 0)).await;
            let status = json!({"status": {"replicas": 0, "observedGeneration": 1}});
            let (resource, key) = (&f.kind.resource, Key::new("default", name));
            let patched = f
                .admin
                .patch::<Value>(resource, &key, Patch::merge(&status).of("status"));
            patched.await.expect("a patch");
        }
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
        f.start();
        f.sleep(Duration::from_mins(10)).await;
        for i in 0..20 {
            let note = json!({"metadata": {"annotations": {"wake": "up"}}});
            f.patch(&f.kind.resource, &format!("old-{i}"), &note).await;
        }
        f.sleep(Duration::from_mins(10)).await;
        let writes = f.api.count("PATCH replicasets/status");
        let written = f.list(&f.kind.resource).await;
        let written = written
            .iter()
            .filter(|it| it["status"]["terminatingReplicas"] == 0);
        if drops {
            assert!((1..=5).contains(&writes), "{writes}, at most one of each worker");
        } else {
            assert_eq!((writes, written.count()), (20, 20));
        }
    }
}
