//! The desired number of pods with the minimum number of requests.

use super::*;

#[tokio::test(start_paused = true)]
async fn scale_up_costs_one_create_per_pod_and_two_status_writes() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 60).await;
        f.sleep(Duration::from_mins(2)).await;
        let status = format!("PATCH {}/status", f.kind.resource.plural);
        let mut counts = f.api.counts();
        assert_eq!(counts.remove("POST pods"), Some(60));
        assert!(
            counts.remove(&status).is_some_and(|it| it <= 2),
            "{:?}",
            f.api.counts()
        );
        assert!(counts.is_empty(), "no other requests: {counts:?}");
        for pod in f.pods().await {
            let owners = &pod["metadata"]["ownerReferences"];
            assert_eq!(owners[0]["kind"], json!(f.kind.resource.kind));
            assert_eq!(owners.as_array().map(Vec::len), Some(1));
            assert_eq!(pod["metadata"]["generateName"], "web-");
        }
        let created = f.reasons().await;
        assert_eq!(
            created,
            vec!["SuccessfulCreate"; 10],
            "nine events, and one aggregated event"
        );
        let limited = format!(
            r#"steersman_events_dropped_total{{component="{}",reason="limited"}}"#,
            f.kind.component
        );
        assert_eq!(f.metric(&limited), Some(60.0 - 25.0), "25 writes");
    }
}

#[tokio::test(start_paused = true)]
async fn scale_down_costs_one_delete_per_pod() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 40).await;
        f.api.reset();
        f.scale_ready("web", 15).await;
        f.sleep(Duration::from_mins(2)).await;
        let status = format!("PATCH {}/status", f.kind.resource.plural);
        let mut counts = f.api.counts();
        assert_eq!(counts.remove("DELETE pods"), Some(25));
        assert!(
            counts.remove(&status).is_some_and(|it| it <= 2),
            "{:?}",
            f.api.counts()
        );
        assert!(counts.is_empty(), "no other requests: {counts:?}");
        for body in f.api.bodies("DELETE pods") {
            let only = &body["preconditions"];
            assert!(
                only["uid"].is_string() && only["resourceVersion"].is_string(),
                "{body}"
            );
        }
        f.scale_ready("web", 0).await;
        f.until(async |f| f.list(&PODS).await.is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_are_replaced_at_once() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 20).await;
        for pod in f.pods().await {
            f.delete(&PODS, &pod).await;
        }
        f.until(async |f| f.pods().await.len() == 20).await;
        f.ready("web", 20).await;
        assert_eq!(f.api.count("POST pods"), 40);
    }
}

#[tokio::test(start_paused = true)]
async fn five_thousand_pods_are_created_in_bursts() {
    let f = bare(REPLICA_SET).await;
    f.start();
    f.create_owner(&f.owner("big", 5000)).await;
    f.until(async |f| f.get("big").await["status"]["replicas"] == 5000)
        .await;
    assert_eq!(f.api.count("POST pods"), 5000);
    assert_eq!(f.pods().await.len(), 5000);
}

#[tokio::test(start_paused = true)]
async fn two_owners_with_the_same_selector_keep_separate_pods() {
    let f = fixture(REPLICA_SET).await;
    let mut twin = f.owner("web", 3);
    f.create_owner(&twin).await;
    twin["metadata"]["name"] = json!("twin");
    f.create_owner(&twin).await;
    f.ready("web", 3).await;
    f.ready("twin", 3).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.pods().await.len(), 6);
    assert_eq!(f.api.count("DELETE pods"), 0);
}

/// Availability needs no event.
#[tokio::test(start_paused = true)]
async fn pod_becomes_available_on_time() {
    for kind in kinds() {
        for (seconds, delay) in [(1, 0), (10, 1), (30, 7), (600, 0)] {
            let f = bare(kind.clone()).await;
            f.run_hollow_kubelet(Duration::from_secs(delay));
            f.start();
            let mut owner = f.owner("web", 3);
            owner["spec"]["minReadySeconds"] = json!(seconds);
            f.create_owner(&owner).await;
            let count = async |field: &str| f.get("web").await["status"][field].as_i64().unwrap_or(0);
            f.until(async |_| count("readyReplicas").await == 3).await;
            let ready = &f.pods().await[0]["status"]["conditions"];
            let ready = ready
                .as_array()
                .expect("conditions")
                .iter()
                .find(|it| it["type"] == "Ready");
            let since = ready.expect("the pod is Ready")["lastTransitionTime"]
                .as_str()
                .expect("a time");
            let since: jiff::Timestamp = since.parse().expect("a time");
            loop {
                let passed = f.env.clock.wall().duration_since(since).as_millis();
                let available = count("availableReplicas").await;
                let due = i128::from(seconds) * 1000;
                if passed < due {
                    assert_eq!(available, 0, "after {passed} ms of {due}");
                } else if passed > due + 1000 {
                    assert_eq!(available, 3, "after {passed} ms of {due}");
                    break;
                }
                f.sleep(Duration::from_millis(250)).await;
            }
        }
    }
}
