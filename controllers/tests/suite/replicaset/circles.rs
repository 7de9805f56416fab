//! Whatever is asked for, ten minutes of it cost a number of requests that can be told beforehand, it is said once, and
//! nobody else waits for it.

use futures_util::future::BoxFuture;
use http::Method;

use super::*;

/// What is wrong, and what may become of it.
struct Case {
    what: &'static str,
    cause: for<'a> fn(&'a Bed) -> BoxFuture<'a, ()>,
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

async fn bad(bed: &Bed, replicas: i64) -> Value {
    bed.create_owner(&bed.owner("bad", replicas)).await
}

/// The engine sees another owner than the server has: one that lets more through than it should.
async fn shown(bed: &Bed, written: &str, shown: &str) {
    bed.door.garble(written, shown);
    bad(bed, 7).await;
}

async fn refused(bed: &Bed, code: u16, reason: &str, message: &str) {
    let status = json!({"reason": reason, "message": message});
    bed.door.refuse(r#""generateName":"bad-""#, code, &status);
    bad(bed, 50).await;
}

/// A pod that has two controllers, of which the first is ours or is not.
async fn two_controllers(bed: &Bed, ours_first: bool) {
    let owner = bad(bed, 3).await;
    let ours = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bad",
                      "uid": owner["metadata"]["uid"], "controller": ours_first});
    let other = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "other",
                       "uid": "00000000-0000-4000-8000-000000000009", "controller": !ours_first});
    let owners = if ours_first { [ours, other] } else { [other, ours] };
    bed.door.garble(r#""controller":false"#, r#""controller":true"#);
    loose(bed, &json!(owners)).await;
}

async fn loose(bed: &Bed, owners: &Value) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "loose", "labels": {"app": "bad"}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    bed.create(&PODS, &pod).await;
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
            |bed| {
                Box::pin(shown(
                    bed,
                    r#""matchLabels":{"app":"bad"}"#,
                    r#""matchLabels":{}"#,
                ))
            },
        ),
        case(
            "a selector that makes no sense",
            HEALTHY + 1,
            Some("InvalidSelector"),
            3,
            |bed| {
                let odd = r#""matchExpressions":[{"key":"a","operator":"Near"}]"#;
                Box::pin(shown(bed, r#""matchLabels":{"app":"bad"}"#, odd))
            },
        ),
        case(
            "a selector that does not match the template",
            HEALTHY + 1,
            Some("InvalidSelector"),
            3,
            |bed| {
                Box::pin(shown(
                    bed,
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
            |bed| Box::pin(shown(bed, r#""replicas":7"#, r#""replicas":-7"#)),
        ),
        case(
            "a template that is refused",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |bed| {
                let message = r#"Pod "NAME" is invalid: spec.containers: Required value"#;
                Box::pin(refused(bed, 422, "Invalid", message))
            },
        ),
        case(
            "a quota that is used up",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |bed| {
                let message =
                    r#"pods "NAME" is forbidden: exceeded quota: few, requested: pods=1, used: pods=0"#;
                Box::pin(refused(bed, 403, "Forbidden", message))
            },
        ),
        case(
            "admission that says no",
            HEALTHY + REFUSED,
            Some("FailedCreate"),
            3,
            |bed| {
                let message = "admission webhook \"no.example.com\" denied the request: NAME";
                Box::pin(refused(bed, 400, "BadRequest", message))
            },
        ),
        // Whether it was made is not known: it is looked for before the next try.
        case(
            "admission that is broken",
            HEALTHY + TRIES + REFUSED,
            Some("FailedCreate"),
            3,
            |bed| {
                let message = "Internal error occurred: failed calling webhook for NAME";
                Box::pin(refused(bed, 500, "InternalError", message))
            },
        ),
        case(
            "two owners with one selector",
            HEALTHY + 2 * (3 + 2),
            None,
            9,
            |bed| {
                Box::pin(async {
                    bad(bed, 3).await;
                    let mut twin = bed.owner("bad", 3);
                    twin["metadata"]["name"] = json!("twin");
                    bed.create_owner(&twin).await;
                })
            },
        ),
        case(
            "a pod with two controllers, ours first",
            HEALTHY + 3 + 4,
            None,
            6,
            |bed| Box::pin(two_controllers(bed, true)),
        ),
        case(
            "a pod with two controllers, ours second",
            HEALTHY + 3 + 2,
            None,
            7,
            |bed| Box::pin(two_controllers(bed, false)),
        ),
        // Each try looks at the owner and at the pod. The status of the others is written once.
        case(
            "a pod that may not be adopted",
            HEALTHY + 2 * TRIES + 1,
            None,
            4,
            |bed| {
                bed.door.judge(|method, path, _| {
                    let adopted = *method == Method::PATCH && path.ends_with("/pods/loose");
                    let status =
                        json!({"reason": "Invalid", "message": "only one reference can have controller set"});
                    if adopted {
                        Answer::Refused(422, status)
                    } else {
                        Answer::Done
                    }
                });
                Box::pin(async {
                    loose(bed, &json!([])).await;
                    bad(bed, 3).await;
                })
            },
        ),
        // Each of them makes its pods and says so.
        case(
            "an owner that is made again and again",
            HEALTHY + 20 * (3 + 2),
            None,
            3 + 20 * 3,
            |bed| {
                Box::pin(async {
                    for i in 0..20 {
                        let owner = bad(bed, 3).await;
                        bed.sleep(Duration::from_secs(1)).await;
                        if i < 19 {
                            bed.delete(&bed.kind.resource, &owner).await;
                        }
                    }
                })
            },
        ),
        case("no pods at all", HEALTHY + 1, None, 3, |bed| {
            Box::pin(async { drop(bad(bed, 0).await) })
        }),
        case("five thousand", HEALTHY + 5000 + 10, None, 5003, |bed| {
            Box::pin(async { drop(bad(bed, 5000).await) })
        }),
    ]
}

/// Scales the healthy owner, and answers how long it took.
async fn healthy(bed: &Bed, replicas: usize) -> Duration {
    let start = bed.env.clock.now();
    bed.scale("fine", i64::try_from(replicas).expect("few")).await;
    bed.until(async |bed| {
        let pods = bed.pods().await;
        let fine = pods.iter().filter(|it| it["metadata"]["generateName"] == "fine-");
        fine.count() == replicas
    })
    .await;
    bed.env.clock.now() - start
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
        let bed = bare(REPLICA_SET).await;
        bed.door.slow(Duration::from_millis(100));
        bed.engine();
        bed.create_owner(&bed.owner("fine", 1)).await;
        bed.sleep(Duration::from_mins(1)).await;
        bed.door.reset();
        let adds = || {
            bed.metric(r#"workqueue_adds_total{name="replicaset"}"#)
                .expect("a series")
        };
        let before = adds();
        cause(&bed).await;
        let second = Duration::from_secs(1);
        let took = healthy(&bed, 2).await;
        assert!(took <= second, "{what}: {took:?}");
        bed.sleep(Duration::from_mins(10)).await;
        let took = healthy(&bed, 3).await;
        assert!(took <= second, "{what}: {took:?}");
        bed.sleep(10 * second).await;

        let counts = bed.door.counts();
        let total: usize = counts.values().sum();
        assert!(total <= requests, "{what}: {total} requests: {counts:#?}");
        // Looks that lead to nothing: one for each answer that a cache shows, and some for what others have done.
        let most = u32::try_from(2 * requests + 60).expect("few");
        let looks = adds() - before;
        assert!(looks <= f64::from(most), "{what}: {looks} looks");
        assert_eq!(bed.pods().await.len(), pods, "{what}");
        let owner = bed.get("bad").await;
        let conditions = owner["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let said: Vec<_> = conditions.iter().map(|it| it["reason"].as_str()).collect();
        assert_eq!(said, Vec::from_iter(reason.map(Some)), "{what}");
        let mut events = bed.list(&EVENTS).await;
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
    let bed = bare(REPLICA_SET).await;
    bed.door.slow(Duration::from_millis(100));
    bed.engine();
    bed.door.judge(|method, path, before| {
        if *method == Method::POST && path.ends_with("/pods") {
            let message = format!("denied, see request {before}");
            Answer::Refused(403, json!({"reason": "Forbidden", "message": message}))
        } else {
            Answer::Done
        }
    });
    bad(&bed, 3).await;
    bed.sleep(Duration::from_mins(10)).await;
    let counts = bed.door.counts();
    assert!(counts.values().sum::<usize>() <= REFUSED, "{counts:#?}");
    assert_eq!(bed.reasons().await, vec!["FailedCreate"; 10]);
    let message = async |bed: &Bed| bed.get("bad").await["status"]["conditions"][0]["message"].clone();
    assert_eq!(message(&bed).await, "denied, see request 0");
    // What is asked for now is something else, and so is the answer.
    bed.scale("bad", 5).await;
    bed.sleep(Duration::from_secs(1)).await;
    assert_ne!(message(&bed).await, "denied, see request 0");
}
