//! Replacement of pods that ended: pods that ran come back at once, pods that never ran are limited.

use http::Method;
use jiff::SignedDuration;
use steersman_manager::time::rfc3339;
use tokio::time::Instant;

use super::*;

/// The maximum number of replacements that the backoff allows in this time.
fn allowed(time: Duration) -> usize {
    10 + usize::try_from(time.as_millis() / 1200).expect("few")
}

impl Fixture {
    /// The wall clock of a node that is ahead of the controller by `ahead`.
    fn node_time(&self, ahead: SignedDuration) -> String {
        rfc3339(self.env.clock.wall() + ahead)
    }

    async fn set_pod_status(&self, pod: &Value, status: &Value) {
        let key = Key::new("default", pod["metadata"]["name"].as_str().expect("a name"));
        let patch = json!({"status": status});
        let patch = Patch::merge(&patch).of("status");
        let _: Value = self.admin.patch(&PODS, &key, patch).await.expect("patched");
    }

    /// Creates pods and returns them after they have been Ready for a minute.
    async fn running(&self, count: i64) -> Vec<Value> {
        self.create_owner(&self.owner("web", count)).await;
        self.ready("web", count).await;
        self.sleep(Duration::from_mins(1)).await;
        self.api.reset();
        self.pods().await
    }

    /// Asserts that all replacements are sent at the same instant, without waiting for a token.
    async fn replaced_at_once(&self, count: usize, variant: &str) {
        self.sleep(Duration::from_millis(100)).await;
        let times = self.api.times("POST pods");
        assert_eq!(times.len(), count, "{variant}");
        assert_eq!(times.first(), times.last(), "{variant}");
    }
}

/// Statuses of a pod that ended after it ran: of a kubelet that shuts down its node, of a writer that changes the phase
/// alone, and of a kubelet that rejects the pod when it starts again, without the conditions of the pod.
fn ended(f: &Fixture, variant: &str, ahead: SignedDuration) -> Value {
    let now = f.node_time(ahead);
    match variant {
        "node shutdown" => json!({
            "phase": "Failed", "reason": "Terminated",
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": now}],
        }),
        "no condition of the end" => json!({"phase": "Failed", "reason": "Evicted"}),
        "rejected at restart" => json!({
            "phase": "Failed", "reason": "NodeAffinity", "conditions": null, "containerStatuses": null,
        }),
        "completed" => json!({
            "phase": "Succeeded",
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": now}],
        }),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn pods_failed_after_running_are_replaced_in_one_burst() {
    let variants = [
        ("node shutdown", 300),
        ("no condition of the end", 100),
        ("rejected at restart", 100),
        ("completed", 100),
    ];
    for (variant, count) in variants {
        let f = fixture(REPLICA_SET).await;
        for pod in f.running(count).await {
            let status = ended(&f, variant, SignedDuration::ZERO);
            f.set_pod_status(&pod, &status).await;
        }
        let count = usize::try_from(count).expect("few");
        f.replaced_at_once(count, variant).await;
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.api.count("POST pods"), count, "{variant}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_failed_while_the_controller_was_down_are_replaced_in_one_burst() {
    for variant in ["node shutdown", "no condition of the end"] {
        let f = bare(REPLICA_SET).await;
        f.run_hollow_kubelet(Duration::from_secs(1));
        let stop = f.run(f.build(Scope::default()));
        let pods = f.running(100).await;
        stop.cancel();
        f.sleep(Duration::from_secs(1)).await;
        for pod in pods {
            let status = ended(&f, variant, SignedDuration::ZERO);
            f.set_pod_status(&pod, &status).await;
        }
        let f = Fixture {
            registry: Registry::new("steersman"),
            ..f
        };
        f.start();
        f.replaced_at_once(100, variant).await;
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_pods_that_ran_are_replaced_in_one_burst() {
    for failed in [false, true] {
        let f = fixture(REPLICA_SET).await;
        for pod in f.running(100).await {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
            f.patch(&PODS, name, &held).await;
            f.delete(&PODS, &pod).await;
            if failed {
                // As the pod garbage collector does for a node that is gone.
                f.set_pod_status(&pod, &json!({"phase": "Failed"})).await;
            }
        }
        f.replaced_at_once(100, if failed { "failed" } else { "running" })
            .await;
    }
}

/// The status of a pod that ended at this time.
type EndedAt = dyn Fn(&str) -> Value;

/// Ends each pod as soon as it exists, for 80 s, as a kubelet whose clock is `ahead`. Returns the times of replacements.
async fn end_at_once(f: &Fixture, ahead: SignedDuration, status: impl Fn(&str) -> Value) -> Vec<Instant> {
    f.create_owner(&f.owner("web", 70)).await;
    for _ in 0..160 {
        f.sleep(Duration::from_millis(500)).await;
        for pod in f.pods().await {
            let status = status(&f.node_time(ahead));
            f.set_pod_status(&pod, &status).await;
        }
    }
    f.api.times("POST pods").split_off(70)
}

#[tokio::test(start_paused = true)]
async fn pods_that_never_ran_are_replaced_sixty_times_a_minute_at_most() {
    let hour = SignedDuration::from_hours(1);
    for ahead in [SignedDuration::ZERO, hour, -hour] {
        let rejected = |now: &str| json!({"phase": "Failed", "reason": "OutOfcpu", "startTime": now});
        let evicted = |now: &str| json!({"phase": "Failed", "reason": "Evicted", "startTime": now});
        let no_start = |_: &str| json!({"phase": "Failed"});
        let never_ready = |now: &str| {
            json!({"phase": "Failed", "startTime": now, "conditions": [
                {"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": now}]})
        };
        let malformed = |_: &str| {
            json!({"phase": "Failed", "startTime": null, "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": null}]})
        };
        let statuses: [(&str, &EndedAt); 5] = [
            ("rejected", &rejected),
            ("never Ready", &never_ready),
            ("evicted at admission", &evicted),
            ("without a start time", &no_start),
            ("without times", &malformed),
        ];
        // The others have no times that a wrong clock could change.
        let skewed = if ahead.is_zero() { 5 } else { 2 };
        for (variant, status) in statuses.into_iter().take(skewed) {
            let f = bare(REPLICA_SET).await;
            f.start();
            let times = end_at_once(&f, ahead, status).await;
            assert!(
                times.len() > 60,
                "{variant}: replacements continue: {}",
                times.len()
            );
            let most = most_in_a_minute(&times);
            assert!(most <= 60, "{variant}, {ahead}: {most}");
        }
    }
}

/// The pods become Ready and end 5 s after their start.
#[tokio::test(start_paused = true)]
async fn pods_that_end_within_ten_seconds_are_replaced_sixty_times_a_minute_at_most() {
    for variant in ["node shutdown", "no condition of the end"] {
        let f = fixture(REPLICA_SET).await;
        f.create_owner(&f.owner("web", 100)).await;
        for _ in 0..24 {
            f.sleep(Duration::from_secs(5)).await;
            for pod in f.pods().await {
                if pod["status"]["phase"] == "Running" {
                    let status = ended(&f, variant, SignedDuration::ZERO);
                    f.set_pod_status(&pod, &status).await;
                }
            }
        }
        let times = f.api.times("POST pods").split_off(100);
        assert!(
            times.len() > 60,
            "{variant}: replacements continue: {}",
            times.len()
        );
        let most = most_in_a_minute(&times);
        assert!(most <= 60, "{variant}: {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_fail_at_once_are_replaced_sixty_times_a_minute_at_most() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::ZERO);
    f.start();
    let mut owner = f.owner("bad", 20);
    owner["spec"]["template"]["metadata"]["annotations"] = json!({hollow_kubelet::FAIL: "true"});
    f.create_owner(&owner).await;
    f.sleep(Duration::from_mins(10)).await;
    let times = f.api.times("POST pods");
    assert!(times.len() > 200, "replacements continue: {}", times.len());
    // The first 20 are not replacements.
    assert!(most_in_a_minute(&times[20..]) <= 60);
}

fn most_in_a_minute(times: &[Instant]) -> usize {
    let minute = |first: usize| {
        let since = times[first..].iter();
        since
            .take_while(|it| it.duration_since(times[first]) < Duration::from_mins(1))
            .count()
    };
    (0..times.len()).map(minute).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn new_process_starts_with_one_burst_of_replacements() {
    let mut f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::ZERO);
    let mut owner = f.owner("bad", 20);
    owner["spec"]["template"]["metadata"]["annotations"] = json!({hollow_kubelet::FAIL: "true"});
    f.create_owner(&owner).await;
    for process in 0..4 {
        let tasks = TaskSet::new();
        let env = Env {
            tasks: tasks.handle(),
            ..f.env.clone()
        };
        f.registry = Registry::new("steersman");
        f.api.reset();
        let (controller, _caches) = f.build_in(&env, Scope::default());
        let fence = Fence::new(env.clock.clone());
        let term = fence.open_forever();
        drop(
            env.tasks
                .spawn(async move { controller.run(&fence, term, CancellationToken::new()).await }),
        );
        let life = Duration::from_secs(20);
        f.sleep(life).await;
        drop(tasks);
        // The first process creates the first 20.
        let replaced = f.api.count("POST pods") - if process == 0 { 20 } else { 0 };
        if process > 0 {
            // Pods of the previous process have failed: a new process starts with all tokens.
            let times = f.api.times("POST pods");
            assert_eq!(times[0], times[9], "{process}");
        }
        assert!((10..=allowed(life)).contains(&replaced), "{process}: {replaced}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_deleted_before_ready_are_replaced_sixty_times_a_minute_at_most() {
    for lost in [false, true] {
        // Without a kubelet the pods never become Ready.
        let f = bare(REPLICA_SET).await;
        f.start();
        f.api.inject(move |method, path, before| {
            let answer = lost && *method == Method::POST && path.ends_with("/pods") && before >= 10;
            if answer { Effect::LoseAnswer } else { Effect::Pass }
        });
        f.create_owner(&f.owner("web", 10)).await;
        // Another client deletes them: for a taint, a quota that is enforced late, or a policy.
        for _ in 0..75 {
            f.sleep(Duration::from_secs(1)).await;
            for pod in f.pods().await {
                f.delete(&PODS, &pod).await;
            }
        }
        let times = f.api.times("POST pods");
        assert!(times.len() > 60, "replacements continue: {}", times.len());
        let most = most_in_a_minute(&times[10..]);
        assert!(most <= 60, "lost: {lost}, {most}");
    }
}
