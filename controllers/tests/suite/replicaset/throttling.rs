//! Requests that the API server postpones, and a client that waits for its own rate limiter.

use http::Method;
use steersman_manager::client::RateLimit;
use steersman_sandbox::faults::Refusal;

use super::*;

const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The answers that postpone a request.
fn answers() -> [Effect; 2] {
    let seconds = RETRY_AFTER.as_secs().try_into().expect("seconds");
    [429, 503].map(|code| Effect::Refuse(Refusal::new(code).retry_after(seconds)))
}

impl Fixture {
    /// Runs the controller with a rate limit, in requests per second.
    fn start_limited(&self, qps: f64, workers: usize) {
        let limit = RateLimit { qps, burst: 1 };
        let client = self.transport.reader("controller", Some(limit));
        self.run(self.build_with(&self.env, Scope::default(), client, workers).0);
    }

    /// Postpones the first `count` requests of this method with this end of the path.
    fn postpone(&self, method: Method, path: &'static str, count: usize, answer: &Effect) {
        let answer = answer.clone();
        self.api.inject(move |it, at, before| {
            if *it == method && at.ends_with(path) && before < count {
                answer.clone()
            } else {
                Effect::Pass
            }
        });
    }

    fn waits(&self, operation: &str) -> Vec<Duration> {
        let times = self.api.times(operation);
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn postponed_create_is_neither_a_failure_nor_repeated_early() {
    for kind in kinds() {
        for answer in answers() {
            let f = fixture(kind.clone()).await;
            f.postpone(Method::POST, "/pods", 1, &answer);
            f.create_ready("web", 3).await;
            assert!(f.waits("POST pods")[0] >= RETRY_AFTER, "{answer:?}");
            assert_eq!(f.reasons().await, ["SuccessfulCreate"; 3], "{answer:?}");
            let status = format!("PATCH {}/status", f.kind.resource.plural);
            let conditions = |it: &Value| it["status"]["conditions"].is_array();
            assert!(!f.api.bodies(&status).iter().any(conditions), "{answer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn event_does_not_repeat_a_postponed_create_early() {
    let f = fixture(REPLICA_SET).await;
    // The events of the other pods enqueue the owner.
    let [answer, _] = answers();
    f.api.inject(move |method, path, before| {
        if *method == Method::POST && path.ends_with("/pods") && before == 2 {
            answer.clone()
        } else {
            Effect::Pass
        }
    });
    f.create_ready("web", 3).await;
    let waits = f.waits("POST pods");
    assert_eq!(waits.len(), 3);
    assert!(waits[2] >= RETRY_AFTER, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn postponed_delete_is_neither_a_failure_nor_repeated_early() {
    for answer in answers() {
        let f = fixture(REPLICA_SET).await;
        f.create_ready("web", 3).await;
        f.api.inject({
            let answer = answer.clone();
            move |method, _, before| match *method {
                Method::DELETE if before == 0 => answer.clone(),
                _ => Effect::Pass,
            }
        });
        f.scale_ready("web", 2).await;
        assert!(f.waits("DELETE pods")[0] >= RETRY_AFTER, "{answer:?}");
        let reasons = f.reasons().await;
        assert!(!reasons.iter().any(|it| it == "FailedDelete"), "{reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn postponed_delete_stops_its_batch() {
    let f = fixture(REPLICA_SET).await;
    f.create_ready("web", 400).await;
    let [answer, _] = answers();
    f.api.reset();
    f.api.inject(move |method, _, _| match *method {
        Method::DELETE => answer.clone(),
        _ => Effect::Pass,
    });
    f.scale("web", 0).await;
    f.sleep(RETRY_AFTER / 2).await;
    let deletes = f.api.count("DELETE pods");
    assert!((1..=100).contains(&deletes), "{deletes}");
}

#[tokio::test(start_paused = true)]
async fn postponed_status_is_written_after_retry_after_without_a_read() {
    for kind in kinds() {
        for answer in answers() {
            let f = fixture(kind.clone()).await;
            f.postpone(Method::PATCH, "/status", 1, &answer);
            f.create_ready("web", 3).await;
            let plural = &f.kind.resource.plural;
            let waits = f.waits(&format!("PATCH {plural}/status"));
            assert!(waits[0] >= RETRY_AFTER, "{answer:?} {waits:?}");
            assert_eq!(f.api.count(&format!("GET {plural}")), 0, "{answer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pod_that_changes_during_the_wait_for_the_rate_limiter_is_deleted_once() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::from_secs(1));
    f.start_limited(1.0, 5);
    f.create_ready("web", 10).await;
    f.api.reset();
    f.scale("web", 0).await;
    for version in 0..40 {
        for pod in f.pods().await {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let change = json!({"metadata": {"annotations": {"version": version.to_string()}}});
            f.patch(&PODS, name, &change).await;
        }
        f.sleep(Duration::from_millis(500)).await;
    }
    assert!(f.list(&PODS).await.is_empty());
    assert_eq!((f.api.count("DELETE pods"), f.api.count("GET pods")), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn pod_released_during_the_wait_for_the_rate_limiter_is_not_deleted() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::from_secs(1));
    f.start_limited(0.5, 5);
    f.create_ready("web", 4).await;
    f.sleep(Duration::from_mins(1)).await;
    f.api.reset();
    f.scale("web", 0).await;
    f.until(async |f| f.api.count("DELETE pods") > 0).await;
    let free = json!({"metadata": {"ownerReferences": null, "labels": {"app": "other"}}});
    let pods = f.pods().await;
    for pod in &pods {
        f.patch(&PODS, pod["metadata"]["name"].as_str().expect("a name"), &free)
            .await;
    }
    f.sleep(Duration::from_mins(2)).await;
    assert_eq!(f.api.count("DELETE pods"), 4 - pods.len());
    assert_eq!(f.pods().await.len(), pods.len());
}

#[tokio::test(start_paused = true)]
async fn sync_at_its_timeout_reads_no_unsent_creates() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::from_secs(1));
    // A sync sends 30 requests before its timeout of five minutes.
    f.start_limited(0.1, 5);
    f.create_owner(&f.owner("web", 60)).await;
    f.sleep(Duration::from_mins(20)).await;
    assert_eq!(f.pods().await.len(), 60);
    assert!(f.api.count("GET pods") <= 2, "{:?}", f.api.counts());
    let timeouts =
        f.metric("controller_runtime_reconcile_timeouts_total{controller=\"replicaset-controller\"}");
    assert!(timeouts > Some(0.0), "{timeouts:?}");
}

#[tokio::test(start_paused = true)]
async fn sync_of_many_workers_has_a_longer_timeout() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::from_secs(1));
    f.start_limited(0.1, 30);
    f.create_owner(&f.owner("web", 60)).await;
    f.sleep(Duration::from_mins(20)).await;
    let timeouts =
        f.metric("controller_runtime_reconcile_timeouts_total{controller=\"replicaset-controller\"}");
    assert_eq!((f.pods().await.len(), timeouts), (60, Some(0.0)));
}
