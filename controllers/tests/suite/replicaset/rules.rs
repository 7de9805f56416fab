//! Rules that show only in how often, and under which name, something is asked.

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn slow_start_doubles_and_ends_with_the_lot_that_fails() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let full = json!({"reason": "Forbidden", "message": "exceeded quota"});
        f.api.inject(move |method, path, before| {
            // The fourth is the first of the third lot.
            if *method == Method::POST && path.ends_with("/pods") && before == 3 {
                Fault::Status(403, full.clone())
            } else {
                Fault::None
            }
        });
        f.create_owner(&f.owner("web", 20)).await;
        f.ready("web", 20).await;
        let order = f.api.operations();
        let before_it_is_said = order.iter().take_while(|it| *it == "POST pods").count();
        assert_eq!(before_it_is_said, 1 + 2 + 4, "{order:#?}");
        assert_eq!(f.api.count("POST pods"), 21, "the one that failed is made later");
    }
}

#[tokio::test(start_paused = true)]
async fn queues_and_events_have_the_names_that_dashboards_know() {
    let names = [
        ("replicaset", "replicaset-controller"),
        ("replicationmanager", "replication-controller"),
        ("appreplicaset", "appreplicaset-controller"),
    ];
    for (kind, (queue, source)) in kinds().into_iter().zip(names) {
        let f = fixture(kind).await;
        let adds = format!("workqueue_adds_total{{name=\"{queue}\"}}");
        assert_eq!(f.metric(&adds), Some(0.0), "there from the start");
        f.create_owner(&f.owner("web", 2)).await;
        f.ready("web", 2).await;
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
async fn what_was_deleted_is_not_deleted_again_while_the_cache_shows_it() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_owner(&f.owner("web", 5)).await;
        f.ready("web", 5).await;
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
async fn a_sync_whose_cache_is_behind_its_own_writes_is_put_back_and_counted() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_owner(&f.owner("web", 1)).await;
        f.ready("web", 1).await;
        f.api.reset();
        f.hold_pods();
        f.scale("web", 3).await;
        for i in 0..10 {
            let note = json!({"metadata": {"annotations": {"wake": i.to_string()}}});
            f.patch(&f.kind.resource, "web", &note).await;
            f.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(f.api.count("POST pods"), 2, "{:#?}", f.api.counts());
        let skips = r#"replicaset_controller_stale_sync_skips_total{group="",resource="pods"}"#;
        assert!(f.metric(skips) >= Some(1.0), "{:?}", f.metric(skips));
        f.api.lag().release();
        f.ready("web", 3).await;
        assert_eq!(f.api.count("POST pods"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_always_refused_costs_two_writes_and_a_read_each_time() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let conflict = json!({"reason": "Conflict", "message": "it has changed"});
        f.api.inject(move |method, path, _| {
            if *method == Method::PATCH && path.ends_with("/status") {
                Fault::Status(409, conflict.clone())
            } else {
                Fault::None
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
        assert!((2..60).contains(&reads), "{reads} tries in ten minutes");
        assert_eq!(f.api.count("POST pods"), 2, "its pods are there all the same");
    }
}

#[tokio::test(start_paused = true)]
async fn the_age_of_what_goes_is_measured() {
    let f = fixture(REPLICA_SET).await;
    f.create_owner(&f.owner("web", 4)).await;
    f.ready("web", 4).await;
    f.sleep(Duration::from_mins(1)).await;
    let count = "replicaset_controller_sorting_deletion_age_ratio_count";
    assert_eq!(f.metric(count), Some(0.0));
    f.scale("web", 1).await;
    f.ready("web", 1).await;
    assert_eq!(f.metric(count), Some(3.0));
}

/// The first change of a pod is refused in this way.
fn refuse_the_first_patch(f: &Fixture, code: u16, status: Value) {
    f.api.inject(move |method, path, before| {
        if *method == Method::PATCH && path.contains("/pods/") && before == 0 {
            Fault::Status(code, status.clone())
        } else {
            Fault::None
        }
    });
}

fn errors(f: &Fixture) -> Option<f64> {
    let name = f.kind.name;
    f.metric(&format!(
        "controller_runtime_reconcile_errors_total{{controller=\"{name}\"}}"
    ))
}

fn loose() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_before_it_is_taken_is_nothing() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let gone = json!({"reason": "NotFound", "message": "gone", "details": {"name": "loose"}});
        refuse_the_first_patch(&f, 404, gone);
        f.create(&PODS, &loose()).await;
        f.create_owner(&f.owner("web", 2)).await;
        f.ready("web", 2).await;
        assert_eq!(errors(&f), Some(0.0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_ours_any_more_is_let_go_already() {
    for (code, reason) in [(404, "NotFound"), (422, "Invalid")] {
        for kind in kinds() {
            let f = fixture(kind).await;
            f.create_owner(&f.owner("web", 1)).await;
            f.ready("web", 1).await;
            let name = f.pods().await[0]["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned();
            f.api.reset();
            refuse_the_first_patch(
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
async fn an_owner_that_is_another_one_by_now_takes_nothing() {
    for kind in kinds() {
        let f = fixture(kind).await;
        let mut owner = f.owner("web", 0);
        owner["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000009");
        f.create_owner(&f.owner("web", 1)).await;
        f.ready("web", 1).await;
        f.api.reset();
        let plural = f.kind.resource.plural.to_string();
        f.api.inject(move |method, path, _| {
            if *method == Method::GET && path.contains(&format!("/{plural}/")) {
                Fault::Status(200, owner.clone())
            } else {
                Fault::None
            }
        });
        f.create(&PODS, &loose()).await;
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.api.count("PATCH pods"), 0);
        assert_eq!(f.api.count("DELETE pods"), 0);
        assert!(errors(&f) > Some(0.0), "it is tried again");
    }
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_it_leaves_the_rest_of_a_long_sync() {
    // As it is with kube-controller-manager: it comes back, its Lease is seen, and the term of the process goes on.
    for (what, from, to) in [("POST pods", 0, 400), ("DELETE pods", 400, 0)] {
        let f = bare(REPLICA_SET).await;
        let engine = f.build(Scope::default());
        let fence = Fence::new(f.env.clock.clone());
        let term = fence.open_forever();
        f.create_owner(&f.owner("web", from)).await;
        let run = async |stop: CancellationToken| {
            let ended = engine.run(&fence, term, stop);
            f.env.clock.timeout(Duration::from_secs(10), ended).await
        };
        assert!(
            run(CancellationToken::new()).await.is_none(),
            "it goes on until it is cut off"
        );
        f.api.reset();
        f.scale("web", to).await;
        let stop = CancellationToken::new();
        f.api.inject({
            let stop = stop.clone();
            move |method, _, before| {
                if what.starts_with(method.as_str()) && before == 100 {
                    stop.cancel();
                }
                Fault::None
            }
        });
        assert!(run(stop).await.is_some_and(|ended| ended.is_ok()), "it has ended");
        let sent = f.api.count(what);
        assert!((100..=100 + 32).contains(&sent), "{what}: {sent}");
        assert_eq!(f.api.counts().len(), 1, "nothing else: {:?}", f.api.counts());
        // What was left is done when it goes on, in the same term, and nothing is done twice.
        assert!(run(CancellationToken::new()).await.is_none());
        assert_eq!(f.api.count(what), 400, "{:?}", f.api.counts());
        assert_eq!(f.pods().await.len(), usize::try_from(to).expect("few"));
    }
}
