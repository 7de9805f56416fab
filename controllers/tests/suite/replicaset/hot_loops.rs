//! Invalid or failing owners do not cause hot loops: ten minutes cost a bounded number of requests, one condition and one
//! warning, and other owners are not delayed.

use futures_util::future::BoxFuture;
use http::Method;

use super::*;

struct Case {
    name: &'static str,
    cause: for<'a> fn(&'a Fixture) -> BoxFuture<'a, ()>,
    /// The maximum number of requests, including two creates and two status writes for the healthy owner.
    requests: usize,
    /// The reason of the condition and of the warning.
    reason: Option<&'static str>,
    /// The final number of pods, including three of the healthy owner.
    pods: usize,
}

/// Retries come after 5 ms, 10 ms, 20 ms and so on: 17 in ten minutes, and one because the status has changed.
const ATTEMPTS: usize = 17 + 1;
/// The creates of all attempts and one status write.
const REFUSED: usize = ATTEMPTS + 1;
const HEALTHY: usize = 4;

async fn bad(f: &Fixture, replicas: i64) -> Value {
    f.create_owner(&f.owner("bad", replicas)).await
}

/// Lets the controller read an owner that the API server would have rejected.
async fn read_as(f: &Fixture, written: &str, read: &str) {
    f.api.replace_in_reads(written, read);
    bad(f, 7).await;
}

async fn refused(f: &Fixture, code: u16, reason: &str, message: &str) {
    let status = json!({"reason": reason, "message": message});
    f.api.reject(r#""generateName":"bad-""#, code, &status);
    bad(f, 50).await;
}

/// Creates a pod with two controllers. `ours_first` puts the owner under test first.
async fn two_controllers(f: &Fixture, ours_first: bool) {
    let owner = bad(f, 3).await;
    let ours = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bad",
                      "uid": owner["metadata"]["uid"], "controller": ours_first});
    let other = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "other",
                       "uid": "00000000-0000-4000-8000-000000000009", "controller": !ours_first});
    let owners = if ours_first { [ours, other] } else { [other, ours] };
    f.api
        .replace_in_reads(r#""controller":false"#, r#""controller":true"#);
    create_orphan(f, &json!(owners)).await;
}

async fn create_orphan(f: &Fixture, owners: &Value) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "orphan", "labels": {"app": "bad"}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    f.create(&PODS, &pod).await;
}

fn cases() -> Vec<Case> {
    let case = |name, requests, reason, pods, cause| Case {
        name,
        cause,
        requests,
        reason,
        pods,
    };
    vec![
        case("empty selector", HEALTHY + 1, Some("InvalidSelector"), 3, |f| {
            Box::pin(read_as(
                f,
                r#""matchLabels":{"app":"bad"}"#,
                r#""matchLabels":{}"#,
            ))
        }),
        case(
            "selector with an unknown operator",
            HEALTHY + 1,
            Some("InvalidSelector"),
            3,
            |f| {
                let odd = r#""matchExpressions":[{"key":"a","operator":"Near"}]"#;
                Box::pin(read_as(f, r#""matchLabels":{"app":"bad"}"#, odd))
            },
        ),
        case(
            "selector that does not match the template",
            HEALTHY + 1,
            Some("InvalidSelector"),
            3,
            |f| {
                Box::pin(read_as(
                    f,
                    r#""matchLabels":{"app":"bad"}"#,
                    r#""matchLabels":{"app":"other"}"#,
                ))
            },
        ),
        case(
            "negative replicas",
            HEALTHY + 1,
            Some("InvalidReplicas"),
            3,
            |f| Box::pin(read_as(f, r#""replicas":7"#, r#""replicas":-7"#)),
        ),
        case(
            "rejected template",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |f| {
                let message = r#"Pod "NAME" is invalid: spec.containers: Required value"#;
                Box::pin(refused(f, 422, "Invalid", message))
            },
        ),
        case(
            "exhausted quota",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |f| {
                let message =
                    r#"pods "NAME" is forbidden: exceeded quota: few, requested: pods=1, used: pods=0"#;
                Box::pin(refused(f, 403, "Forbidden", message))
            },
        ),
        case(
            "denied by a webhook",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |f| {
                let message = "admission webhook \"no.example.com\" denied the request: NAME";
                Box::pin(refused(f, 400, "BadRequest", message))
            },
        ),
        // The outcome is unknown: a live read resolves it before the next attempt.
        case(
            "failing webhook",
            HEALTHY + ATTEMPTS + REFUSED,
            Some("FailedCreate"),
            3,
            |f| {
                let message = "Internal error occurred: failed calling webhook for NAME";
                Box::pin(refused(f, 500, "InternalError", message))
            },
        ),
        case(
            "two owners with the same selector",
            HEALTHY + 2 * (3 + 2),
            None,
            9,
            |f| {
                Box::pin(async {
                    bad(f, 3).await;
                    let mut twin = f.owner("bad", 3);
                    twin["metadata"]["name"] = json!("twin");
                    f.create_owner(&twin).await;
                })
            },
        ),
        case(
            "pod with two controllers, ours first",
            HEALTHY + 3 + 4,
            None,
            6,
            |f| Box::pin(two_controllers(f, true)),
        ),
        case(
            "pod with two controllers, ours second",
            HEALTHY + 3 + 2,
            None,
            7,
            |f| Box::pin(two_controllers(f, false)),
        ),
        // Each attempt reads the owner and patches the pod. The status is written once.
        case("rejected adoption", HEALTHY + 2 * ATTEMPTS + 1, None, 4, |f| {
            f.api.inject(|method, path, _| {
                let adopted = *method == Method::PATCH && path.ends_with("/pods/orphan");
                let status =
                    json!({"reason": "Invalid", "message": "only one reference can have controller set"});
                if adopted {
                    status_reply(422, status)
                } else {
                    Effect::Pass
                }
            });
            Box::pin(async {
                create_orphan(f, &json!([])).await;
                bad(f, 3).await;
            })
        }),
        // Each attempt writes the status, reads the owner, and writes again if it has changed.
        case("refused status", HEALTHY + 3 + 3 * ATTEMPTS, None, 6, |f| {
            f.api.inject(|method, path, _| {
                if *method == Method::PATCH && path.ends_with("/bad/status") {
                    status_reply(
                        503,
                        json!({"reason": "ServiceUnavailable", "message": "overloaded"}),
                    )
                } else {
                    Effect::Pass
                }
            });
            Box::pin(async { drop(bad(f, 3).await) })
        }),
        // Each owner creates its pods and writes its status.
        case(
            "repeatedly recreated owner",
            HEALTHY + 20 * (3 + 2),
            None,
            3 + 20 * 3,
            |f| {
                Box::pin(async {
                    for i in 0..20 {
                        let owner = bad(f, 3).await;
                        f.sleep(Duration::from_secs(1)).await;
                        if i < 19 {
                            f.delete(&f.kind.resource, &owner).await;
                        }
                    }
                })
            },
        ),
        case("zero replicas", HEALTHY + 1, None, 3, |f| {
            Box::pin(async { drop(bad(f, 0).await) })
        }),
        case("five thousand replicas", HEALTHY + 5000 + 10, None, 5003, |f| {
            Box::pin(async { drop(bad(f, 5000).await) })
        }),
    ]
}

/// Scales the healthy owner and returns the time until all its pods exist.
async fn healthy(f: &Fixture, replicas: usize) -> Duration {
    let start = f.env.clock.now();
    f.scale("fine", i64::try_from(replicas).expect("few")).await;
    f.until(async |f| {
        let pods = f.pods().await;
        let fine = pods.iter().filter(|it| it["metadata"]["generateName"] == "fine-");
        fine.count() == replicas
    })
    .await;
    f.env.clock.now() - start
}

#[tokio::test(start_paused = true)]
async fn invalid_or_failing_owner_does_not_cause_a_hot_loop() {
    for Case {
        name,
        cause,
        requests,
        reason,
        pods,
    } in cases()
    {
        // Without a kubelet: no pod becomes Ready, and only the controller changes pods.
        let f = bare(REPLICA_SET).await;
        f.api.slow_rejections(Duration::from_millis(100));
        f.start();
        f.create_owner(&f.owner("fine", 1)).await;
        f.sleep(Duration::from_mins(1)).await;
        f.api.reset();
        let adds = || {
            f.metric(r#"workqueue_adds_total{name="replicaset"}"#)
                .expect("a series")
        };
        let before = adds();
        cause(&f).await;
        let second = Duration::from_secs(1);
        let took = healthy(&f, 2).await;
        assert!(took <= second, "{name}: {took:?}");
        f.sleep(Duration::from_mins(10)).await;
        let took = healthy(&f, 3).await;
        assert!(took <= second, "{name}: {took:?}");
        f.sleep(10 * second).await;

        let counts = f.api.counts();
        let total: usize = counts.values().sum();
        assert!(total <= requests, "{name}: {total} requests: {counts:#?}");
        // Syncs without a request: one for each own write that the cache shows, and some for writes of other clients.
        let syncs_max = u32::try_from(2 * requests + 60).expect("few");
        let syncs = adds() - before;
        assert!(syncs <= f64::from(syncs_max), "{name}: {syncs} syncs");
        assert_eq!(f.pods().await.len(), pods, "{name}");
        let owner = f.get("bad").await;
        let conditions = owner["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let reasons: Vec<_> = conditions.iter().map(|it| it["reason"].as_str()).collect();
        assert_eq!(reasons, Vec::from_iter(reason.map(Some)), "{name}");
        let mut events = f.list(&EVENTS).await;
        let per_owner = if name.contains("recreated") { 20 } else { 3 };
        assert!(events.len() <= 10 * per_owner, "{name}: {} events", events.len());
        events.retain(|it| it["type"] == "Warning");
        let warnings: Vec<_> = events.iter().map(|it| it["reason"].as_str()).collect();
        assert_eq!(warnings, Vec::from_iter(reason.map(Some)), "{name}: {events:#?}");
        if reason == Some("FailedCreate") {
            assert_eq!(events[0]["count"], ATTEMPTS, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn new_message_of_the_same_rejection_is_not_written() {
    let f = bare(REPLICA_SET).await;
    f.api.slow_rejections(Duration::from_millis(100));
    f.start();
    f.api.inject(|method, path, before| {
        if *method == Method::POST && path.ends_with("/pods") {
            let message = format!("denied, see request {before}");
            status_reply(403, json!({"reason": "Forbidden", "message": message}))
        } else {
            Effect::Pass
        }
    });
    bad(&f, 3).await;
    f.sleep(Duration::from_mins(10)).await;
    let counts = f.api.counts();
    assert!(counts.values().sum::<usize>() <= REFUSED, "{counts:#?}");
    assert_eq!(f.reasons().await, vec!["FailedCreate"; 10]);
    let message = async |f: &Fixture| f.get("bad").await["status"]["conditions"][0]["message"].clone();
    assert_eq!(message(&f).await, "denied, see request 0");
    // A new generation gets a new message.
    f.scale("bad", 5).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_ne!(message(&f).await, "denied, see request 0");
}
