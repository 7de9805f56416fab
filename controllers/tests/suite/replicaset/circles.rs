//! Whatever is asked for, ten minutes of it cost a number of requests that can be told beforehand, it is said once, and
//! nobody else waits for it.

use futures_util::future::BoxFuture;
use http::Method;

use super::*;

/// What is wrong, and what may become of it.
struct Case {
    what: &'static str,
    cause: for<'a> fn(&'a Fixture) -> BoxFuture<'a, ()>,
    /// The most requests of the engine, among them those for the healthy owner: two pods and two status writes.
    requests: usize,
    /// What the condition and the one warning say.
    reason: Option<&'static str>,
    /// How many pods there are in the end, with the three of the healthy owner.
    pods: usize,
}

/// Tries come after 5 ms, 10 ms, 20 ms and so on: 17 in ten minutes, and one because the status has changed.
const TRIES: usize = 17 + 1;
/// A try is one create, and the first one is told.
const REFUSED: usize = TRIES + 1;
const HEALTHY: usize = 4;

async fn bad(f: &Fixture, replicas: i64) -> Value {
    f.create_owner(&f.owner("bad", replicas)).await
}

/// The engine sees another owner than the server has: one that lets more through than it should.
async fn shown(f: &Fixture, written: &str, shown: &str) {
    f.api.replace_in_reads(written, shown);
    bad(f, 7).await;
}

async fn refused(f: &Fixture, code: u16, reason: &str, message: &str) {
    let status = json!({"reason": reason, "message": message});
    f.api.reject(r#""generateName":"bad-""#, code, &status);
    bad(f, 50).await;
}

/// A pod that has two controllers, of which the first is ours or is not.
async fn two_controllers(f: &Fixture, ours_first: bool) {
    let owner = bad(f, 3).await;
    let ours = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bad",
                      "uid": owner["metadata"]["uid"], "controller": ours_first});
    let other = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "other",
                       "uid": "00000000-0000-4000-8000-000000000009", "controller": !ours_first});
    let owners = if ours_first { [ours, other] } else { [other, ours] };
    f.api
        .replace_in_reads(r#""controller":false"#, r#""controller":true"#);
    loose(f, &json!(owners)).await;
}

async fn loose(f: &Fixture, owners: &Value) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "loose", "labels": {"app": "bad"}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    f.create(&PODS, &pod).await;
}

fn cases() -> Vec<Case> {
    let case = |what, requests, reason, pods, cause| Case {
        what,
        cause,
        requests,
        reason,
        pods,
    };
    vec![
        case(
            "an empty selector",
            HEALTHY + 1,
            Some("InvalidSelector"),
            3,
            |f| Box::pin(shown(f, r#""matchLabels":{"app":"bad"}"#, r#""matchLabels":{}"#)),
        ),
        case(
            "a selector that makes no sense",
            HEALTHY + 1,
            Some("InvalidSelector"),
            3,
            |f| {
                let odd = r#""matchExpressions":[{"key":"a","operator":"Near"}]"#;
                Box::pin(shown(f, r#""matchLabels":{"app":"bad"}"#, odd))
            },
        ),
        case(
            "a selector that does not match the template",
            HEALTHY + 1,
            Some("InvalidSelector"),
            3,
            |f| {
                Box::pin(shown(
                    f,
                    r#""matchLabels":{"app":"bad"}"#,
                    r#""matchLabels":{"app":"other"}"#,
                ))
            },
        ),
        case(
            "fewer than no pods",
            HEALTHY + 1,
            Some("InvalidReplicas"),
            3,
            |f| Box::pin(shown(f, r#""replicas":7"#, r#""replicas":-7"#)),
        ),
        case(
            "a template that is refused",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |f| {
                let message = r#"Pod "NAME" is invalid: spec.containers: Required value"#;
                Box::pin(refused(f, 422, "Invalid", message))
            },
        ),
        case(
            "a quota that is used up",
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
            "admission that says no",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |f| {
                let message = "admission webhook \"no.example.com\" denied the request: NAME";
                Box::pin(refused(f, 400, "BadRequest", message))
            },
        ),
        // Whether it was made is not known: it is looked for before the next try.
        case(
            "admission that is broken",
            HEALTHY + TRIES + REFUSED,
            Some("FailedCreate"),
            3,
            |f| {
                let message = "Internal error occurred: failed calling webhook for NAME";
                Box::pin(refused(f, 500, "InternalError", message))
            },
        ),
        case(
            "two owners with one selector",
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
            "a pod with two controllers, ours first",
            HEALTHY + 3 + 4,
            None,
            6,
            |f| Box::pin(two_controllers(f, true)),
        ),
        case(
            "a pod with two controllers, ours second",
            HEALTHY + 3 + 2,
            None,
            7,
            |f| Box::pin(two_controllers(f, false)),
        ),
        // Each try looks at the owner and at the pod. The status of the others is written once.
        case(
            "a pod that may not be adopted",
            HEALTHY + 2 * TRIES + 1,
            None,
            4,
            |f| {
                f.api.inject(|method, path, _| {
                    let adopted = *method == Method::PATCH && path.ends_with("/pods/loose");
                    let status =
                        json!({"reason": "Invalid", "message": "only one reference can have controller set"});
                    if adopted {
                        Fault::Status(422, status)
                    } else {
                        Fault::None
                    }
                });
                Box::pin(async {
                    loose(f, &json!([])).await;
                    bad(f, 3).await;
                })
            },
        ),
        // Each of them makes its pods and says so.
        case(
            "an owner that is made again and again",
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
        case("no pods at all", HEALTHY + 1, None, 3, |f| {
            Box::pin(async { drop(bad(f, 0).await) })
        }),
        case("five thousand", HEALTHY + 5000 + 10, None, 5003, |f| {
            Box::pin(async { drop(bad(f, 5000).await) })
        }),
    ]
}

/// Scales the healthy owner, and answers how long it took.
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
async fn nothing_that_is_asked_for_makes_anybody_run_in_circles() {
    for Case {
        what,
        cause,
        requests,
        reason,
        pods,
    } in cases()
    {
        // Without a cluster: no pod ever serves, and nobody but the engine changes any.
        let f = bare(REPLICA_SET).await;
        f.api.slow_rejections(Duration::from_millis(100));
        f.engine();
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
        assert!(took <= second, "{what}: {took:?}");
        f.sleep(Duration::from_mins(10)).await;
        let took = healthy(&f, 3).await;
        assert!(took <= second, "{what}: {took:?}");
        f.sleep(10 * second).await;

        let counts = f.api.counts();
        let total: usize = counts.values().sum();
        assert!(total <= requests, "{what}: {total} requests: {counts:#?}");
        // Looks that lead to nothing: one for each answer that a cache shows, and some for what others have done.
        let most = u32::try_from(2 * requests + 60).expect("few");
        let looks = adds() - before;
        assert!(looks <= f64::from(most), "{what}: {looks} looks");
        assert_eq!(f.pods().await.len(), pods, "{what}");
        let owner = f.get("bad").await;
        let conditions = owner["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let said: Vec<_> = conditions.iter().map(|it| it["reason"].as_str()).collect();
        assert_eq!(said, Vec::from_iter(reason.map(Some)), "{what}");
        let mut events = f.list(&EVENTS).await;
        let per_owner = if what.contains("again and again") { 20 } else { 3 };
        assert!(events.len() <= 10 * per_owner, "{what}: {} events", events.len());
        events.retain(|it| it["type"] == "Warning");
        let warnings: Vec<_> = events.iter().map(|it| it["reason"].as_str()).collect();
        assert_eq!(warnings, Vec::from_iter(reason.map(Some)), "{what}: {events:#?}");
        if reason == Some("FailedCreate") {
            assert_eq!(events[0]["count"], TRIES, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_other_words_each_time_is_no_news() {
    let f = bare(REPLICA_SET).await;
    f.api.slow_rejections(Duration::from_millis(100));
    f.engine();
    f.api.inject(|method, path, before| {
        if *method == Method::POST && path.ends_with("/pods") {
            let message = format!("denied, see request {before}");
            Fault::Status(403, json!({"reason": "Forbidden", "message": message}))
        } else {
            Fault::None
        }
    });
    bad(&f, 3).await;
    f.sleep(Duration::from_mins(10)).await;
    let counts = f.api.counts();
    assert!(counts.values().sum::<usize>() <= REFUSED, "{counts:#?}");
    assert_eq!(f.reasons().await, vec!["FailedCreate"; 10]);
    let message = async |f: &Fixture| f.get("bad").await["status"]["conditions"][0]["message"].clone();
    assert_eq!(message(&f).await, "denied, see request 0");
    // What is asked for now is something else, and so is the answer.
    f.scale("bad", 5).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_ne!(message(&f).await, "denied, see request 0");
}
