//! Answers that are lost, refused, or prove nothing.

use super::*;

/// A config map whose owner, a secret, no cache has shown. It exists nowhere.
async fn unseen(bed: &Bed) {
    bed.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
}

fn not_found(details: &Value) -> Answer {
    Answer::Refused(404, json!({"reason": "NotFound", "details": details}))
}

#[tokio::test(start_paused = true)]
async fn what_does_not_say_that_the_owner_is_gone_deletes_nothing_and_is_not_asked_for_all_the_time() {
    for answer in [
        Answer::Plain(404, "404 page not found\n"),
        Answer::Plain(404, "{}"),
        Answer::Plain(200, "{}"),
        Answer::Plain(
            200,
            r#"{"kind":"PartialObjectMetadata","metadata":{"name":"other","namespace":"default","uid":"x"}}"#,
        ),
        not_found(&Value::Null),
        not_found(&json!({"name": "somebody"})),
        Answer::Refused(404, json!({"reason": "Other", "details": {"name": "never"}})),
        Answer::Refused(403, json!({"reason": "Forbidden"})),
        Answer::Refused(410, json!({"reason": "Gone"})),
        Answer::Refused(
            429,
            json!({"reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}}),
        ),
        Answer::Refused(500, json!({"reason": "InternalError"})),
        Answer::Broken,
        Answer::Hangs,
    ] {
        let bed = bed().await;
        let refused = answer.clone();
        bed.door.judge(move |it| match it.what.as_str() {
            "GET secrets" => refused.clone(),
            _ => Answer::Done,
        });
        unseen(&bed).await;
        bed.sleep(Duration::from_mins(10)).await;
        assert_eq!(bed.left(&MAPS).await, 1, "{answer:?}");
        assert_eq!(bed.door.writes(), 0, "{answer:?}");
        let asked = bed.door.count("GET secrets");
        assert!((1..=25).contains(&asked), "{asked} {answer:?}");
        // And then it does.
        bed.door.judge(|_| Answer::Done);
        bed.sleep(HOUR).await;
        assert_eq!(bed.left(&MAPS).await, 0, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_404_to_a_delete_proves_nothing() {
    let bed = bed().await;
    bed.door.judge(|it| match it.what.as_str() {
        "DELETE configmaps" if it.before < 3 => Answer::Plain(404, "404 page not found\n"),
        _ => Answer::Done,
    });
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 1).await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
    assert_eq!(bed.door.count("DELETE configmaps"), 4);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_cost_little_and_lose_nothing() {
    for policy in [
        Propagation::Background,
        Propagation::Foreground,
        Propagation::Orphan,
    ] {
        for answer in [
            Answer::Lost,
            Answer::Broken,
            Answer::Refused(500, json!({"reason": "InternalError"})),
        ] {
            let bed = bed().await;
            let broken = answer.clone();
            bed.door.judge(move |it| {
                let write = it.what.starts_with("DELETE") || it.what.starts_with("PATCH");
                if it.ours && write && it.before % 3 == 0 {
                    broken.clone()
                } else {
                    Answer::Done
                }
            });
            let owner = bed.create(&SECRETS, "owner", &[]).await;
            for i in 0..30 {
                bed.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
                    .await;
            }
            bed.settle().await;
            bed.door.reset();
            bed.delete(&SECRETS, &owner, policy).await;
            let left = if policy == Propagation::Orphan { 30 } else { 0 };
            bed.until(async |bed| {
                bed.get(&SECRETS, "owner").await.is_none() && bed.left(&MAPS).await == left
            })
            .await;
            bed.sleep(HOUR).await;
            assert_eq!(bed.left(&MAPS).await, left, "{policy:?} {answer:?}");
            let asked = bed.door.asked();
            let writes = bed.door.writes();
            assert!(writes <= 31 + 31, "{writes} {policy:?} {answer:?}");
            assert!(
                asked.len() <= 31 + 2 * 31 + 10,
                "{:?} {policy:?} {answer:?}",
                bed.door.counts()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_takes_no_strategic_merge_is_asked_once() {
    let bed = bare();
    let options = Options {
        workers: 1,
        dry_run: false,
    };
    bed.run(bed.build(options, Scope::default()));
    bed.sleep(Duration::from_secs(2)).await;
    bed.door.judge(|it| match it.content_type.as_str() {
        "application/strategic-merge-patch+json" => {
            Answer::Refused(415, json!({"reason": "UnsupportedMediaType"}))
        }
        _ => Answer::Done,
    });
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 10).await;
    bed.door.reset();
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    assert_eq!(bed.left(&MAPS).await, 10);
    let patches = bed.door.of("PATCH configmaps");
    let strategic = patches.iter().filter(|it| it.content_type.contains("strategic"));
    assert_eq!((strategic.count(), patches.len()), (1, 11));
    assert!(patches.iter().skip(1).all(|it| {
        it.body["metadata"]["resourceVersion"].is_string() && it.body["metadata"]["uid"].is_string()
    }));
}

#[tokio::test(start_paused = true)]
async fn one_broken_kind_delays_no_other() {
    for code in [500, 403, 404] {
        let bed = bare();
        bed.door.judge(move |it| match it.what.as_str() {
            "LIST pods" => Answer::Plain(code, "no"),
            _ => Answer::Done,
        });
        bed.collect().await;
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.dependents(&MAPS, &owner, 10).await;
        let start = bed.env.clock.now();
        bed.delete(&SECRETS, &owner, Propagation::Background).await;
        bed.until(async |bed| bed.left(&MAPS).await == 0).await;
        assert!(bed.env.clock.now() - start < Duration::from_secs(1));
        // A finalizer has to wait: one of its pods may block the owner.
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
        bed.sleep(Duration::from_secs(10)).await;
        assert!(bed.get(&SECRETS, "owner").await.is_some());
        bed.sleep(Duration::from_secs(25)).await;
        assert!(bed.get(&SECRETS, "owner").await.is_none(), "{code}");
        let series = "coxswain_garbage_collector_unsynced{resource=\"pods\"}";
        assert_eq!(bed.metric(series), Some(1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_patience_gets_it() {
    let bed = bed().await;
    bed.door.judge(|it| match it.what.as_str() {
        "DELETE configmaps" if it.before == 0 => {
            let details = json!({"retryAfterSeconds": 20});
            Answer::Refused(429, json!({"reason": "TooManyRequests", "details": details}))
        }
        _ => Answer::Done,
    });
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 1).await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
    let deletes = bed.door.of("DELETE configmaps");
    assert_eq!(deletes.len(), 2);
    assert!(deletes[1].at - deletes[0].at >= Duration::from_secs(20));
}
