//! Owners whose writes keep failing: their status follows the pods, and no wake-up is lost.

use http::Method;

use super::*;

/// The time after which the backoff of an owner that keeps failing is minutes long.
const LONG_OUTAGE: Duration = Duration::from_mins(10);

impl Fixture {
    async fn set_ready(&self, pod: &Value, ready: bool) {
        let since = steersman_manager::time::rfc3339(self.env.clock.wall());
        let status = if ready { "True" } else { "False" };
        let ready = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
        let key = Key::new("default", pod["metadata"]["name"].as_str().expect("a name"));
        let patch = json!({"status": {"phase": "Running", "conditions": ready}});
        let patch = Patch::merge(&patch).of("status");
        let _: Value = self.admin.patch(&PODS, &key, patch).await.expect("patched");
    }

    /// An owner that wants five pods and has three: each further create is refused.
    async fn at_quota(&self, min_ready_seconds: i64) -> Vec<Value> {
        self.api.inject(|method, path, before| {
            if *method == Method::POST && path.ends_with("/pods") && before >= 3 {
                status_reply(
                    403,
                    json!({"reason": "Forbidden", "message": "exceeded quota: few"}),
                )
            } else {
                Effect::Pass
            }
        });
        let mut owner = self.owner("web", 5);
        owner["spec"]["minReadySeconds"] = json!(min_ready_seconds);
        self.create_owner(&owner).await;
        self.sleep(LONG_OUTAGE).await;
        let pods = self.pods().await;
        assert_eq!(pods.len(), 3);
        pods
    }

    /// Returns the ready and available replicas of the status one second from now.
    async fn counted(&self) -> (i64, i64) {
        self.sleep(Duration::from_secs(1)).await;
        let owner = self.get("web").await;
        let count = |field: &str| owner["status"][field].as_i64().unwrap_or(0);
        (count("readyReplicas"), count("availableReplicas"))
    }
}

#[tokio::test(start_paused = true)]
async fn owner_at_quota_shows_readiness_within_a_second() {
    for kind in kinds() {
        let f = bare(kind).await;
        f.start();
        let pods = f.at_quota(0).await;
        let before = f.api.count("POST pods");
        for (pod, ready) in pods.iter().zip(1..) {
            f.set_ready(pod, true).await;
            assert_eq!(f.counted().await, (ready, ready));
        }
        f.set_ready(&pods[0], false).await;
        assert_eq!(f.counted().await, (2, 2));
        let posts = f.api.count("POST pods") - before;
        assert!(posts <= 2 * 4, "{posts} creates for four events");
        let owner = f.get("web").await;
        assert_eq!(owner["status"]["conditions"][0]["reason"], "FailedCreate");
    }
}

#[tokio::test(start_paused = true)]
async fn owner_at_quota_shows_availability_on_time() {
    for kind in kinds() {
        let f = bare(kind).await;
        f.start();
        let pods = f.at_quota(30).await;
        for pod in &pods[..2] {
            f.set_ready(pod, true).await;
            f.sleep(Duration::from_secs(10)).await;
        }
        assert_eq!(f.counted().await, (2, 0));
        // The first is due 30 s after it became Ready, the second 10 s later.
        f.sleep(Duration::from_secs(8)).await;
        assert_eq!(f.counted().await, (2, 1));
        f.sleep(Duration::from_secs(9)).await;
        assert_eq!(f.counted().await, (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn status_is_written_while_adoption_fails() {
    for kind in kinds() {
        let f = bare(kind).await;
        f.start();
        f.create_owner(&f.owner("web", 2)).await;
        f.until(async |f| f.pods().await.len() == 2).await;
        let pods = f.pods().await;
        f.api.inject(|method, path, _| {
            if *method == Method::PATCH && path.ends_with("/pods/orphan") {
                status_reply(
                    403,
                    json!({"reason": "Forbidden", "message": "denied by a webhook"}),
                )
            } else {
                Effect::Pass
            }
        });
        let orphan = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        });
        f.create(&PODS, &orphan).await;
        f.sleep(LONG_OUTAGE).await;
        assert_eq!(f.api.count("DELETE pods"), 0);
        for (pod, ready) in pods.iter().zip(1..) {
            f.set_ready(pod, true).await;
            assert_eq!(f.counted().await, (ready, ready));
        }
        assert_eq!(
            f.get("web").await["status"]["replicas"],
            2,
            "the orphan is not owned"
        );
        assert_eq!(f.api.count("DELETE pods"), 0);
    }
}

/// Tokens of the replacement backoff come back while creates fail: the retries stay on the backoff of the queue.
#[tokio::test(start_paused = true)]
async fn failing_creates_do_not_retry_with_every_token() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::ZERO);
    f.start();
    let mut owner = f.owner("web", 40);
    owner["spec"]["template"]["metadata"]["annotations"] = json!({hollow_kubelet::FAIL: "true"});
    f.create_owner(&owner).await;
    f.sleep(Duration::from_mins(1)).await;
    f.api.inject(|method, path, _| {
        if *method == Method::POST && path.ends_with("/pods") {
            status_reply(403, json!({"reason": "Forbidden", "message": "exceeded quota"}))
        } else {
            Effect::Pass
        }
    });
    f.api.reset();
    f.sleep(LONG_OUTAGE).await;
    let posts = f.api.count("POST pods");
    assert!((10..45).contains(&posts), "{posts}");
    f.api.inject(|_, _, _| Effect::Pass);
    f.api.reset();
    for _ in 0..100 {
        if f.api.count("POST pods") > 10 {
            return;
        }
        f.sleep(Duration::from_secs(10)).await;
    }
    panic!("the controller does not recover");
}
