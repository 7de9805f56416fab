//! Answers that are lost, refused, or prove nothing.

use super::*;

/// A config map whose owner, a secret, no cache has shown. It exists nowhere.
async fn unseen(f: &Fixture) {
    f.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
}

fn not_found(details: &Value) -> Fault {
    Fault::Status(404, json!({"reason": "NotFound", "details": details}))
}

#[tokio::test(start_paused = true)]
async fn what_does_not_say_that_the_owner_is_gone_deletes_nothing_and_is_not_asked_for_all_the_time() {
    for answer in [
        Fault::Text(404, "404 page not found\n"),
        Fault::Text(404, "{}"),
        Fault::Text(200, "{}"),
        Fault::Text(
            200,
            r#"{"kind":"PartialObjectMetadata","metadata":{"name":"other","namespace":"default","uid":"x"}}"#,
        ),
        not_found(&Value::Null),
        not_found(&json!({"name": "somebody"})),
        Fault::Status(404, json!({"reason": "Other", "details": {"name": "never"}})),
        Fault::Status(403, json!({"reason": "Forbidden"})),
        Fault::Status(410, json!({"reason": "Gone"})),
        Fault::Status(
            429,
            json!({"reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}}),
        ),
        Fault::Status(500, json!({"reason": "InternalError"})),
        Fault::RequestLost,
        Fault::RequestHangs,
    ] {
        let f = fixture().await;
        let refused = answer.clone();
        f.api.inject_all(move |it| match it.operation.as_str() {
            "GET secrets" => refused.clone(),
            _ => Fault::None,
        });
        unseen(&f).await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.left(&MAPS).await, 1, "{answer:?}");
        assert_eq!(f.api.writes(), 0, "{answer:?}");
        let asked = f.api.count("GET secrets");
        assert!((1..=25).contains(&asked), "{asked} {answer:?}");
        // And then it does.
        f.api.inject_all(|_| Fault::None);
        f.sleep(HOUR).await;
        assert_eq!(f.left(&MAPS).await, 0, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_404_to_a_delete_proves_nothing() {
    let f = fixture().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE configmaps" if it.before < 3 => Fault::Text(404, "404 page not found\n"),
        _ => Fault::None,
    });
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.dependents(&MAPS, &owner, 1).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    assert_eq!(f.api.count("DELETE configmaps"), 4);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_cost_little_and_lose_nothing() {
    for policy in [
        Propagation::Background,
        Propagation::Foreground,
        Propagation::Orphan,
    ] {
        for answer in [
            Fault::ResponseLost,
            Fault::RequestLost,
            Fault::Status(500, json!({"reason": "InternalError"})),
        ] {
            let f = fixture().await;
            let broken = answer.clone();
            f.api.inject_all(move |it| {
                let write = it.operation.starts_with("DELETE") || it.operation.starts_with("PATCH");
                if it.by_controller && write && it.before % 3 == 0 {
                    broken.clone()
                } else {
                    Fault::None
                }
            });
            let owner = f.create(&SECRETS, "owner", &[]).await;
            for i in 0..30 {
                f.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
                    .await;
            }
            f.settle().await;
            f.api.reset();
            f.delete(&SECRETS, &owner, policy).await;
            let left = if policy == Propagation::Orphan { 30 } else { 0 };
            f.until(async |f| f.get(&SECRETS, "owner").await.is_none() && f.left(&MAPS).await == left)
                .await;
            f.sleep(HOUR).await;
            assert_eq!(f.left(&MAPS).await, left, "{policy:?} {answer:?}");
            let asked = f.api.recorded();
            let writes = f.api.writes();
            assert!(writes <= 31 + 31, "{writes} {policy:?} {answer:?}");
            assert!(
                asked.len() <= 31 + 2 * 31 + 10,
                "{:?} {policy:?} {answer:?}",
                f.api.counts()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_takes_no_strategic_merge_is_asked_once() {
    let f = bare();
    let options = Options {
        workers: 1,
        dry_run: false,
    };
    f.run(f.build(options, Scope::default()));
    f.sleep(Duration::from_secs(2)).await;
    f.api.inject_all(|it| match it.content_type.as_str() {
        "application/strategic-merge-patch+json" => {
            Fault::Status(415, json!({"reason": "UnsupportedMediaType"}))
        }
        _ => Fault::None,
    });
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.dependents(&MAPS, &owner, 10).await;
    f.api.reset();
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    assert_eq!(f.left(&MAPS).await, 10);
    let patches = f.api.recorded_of("PATCH configmaps");
    let strategic = patches.iter().filter(|it| it.content_type.contains("strategic"));
    assert_eq!((strategic.count(), patches.len()), (1, 11));
    assert!(patches.iter().skip(1).all(|it| {
        it.body["metadata"]["resourceVersion"].is_string() && it.body["metadata"]["uid"].is_string()
    }));
}

#[tokio::test(start_paused = true)]
async fn one_broken_kind_delays_no_other() {
    for code in [500, 403, 404] {
        let f = bare();
        f.api.inject_all(move |it| match it.operation.as_str() {
            "LIST pods" => Fault::Text(code, "no"),
            _ => Fault::None,
        });
        f.collect().await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.dependents(&MAPS, &owner, 10).await;
        let start = f.env.clock.now();
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.until(async |f| f.left(&MAPS).await == 0).await;
        assert!(f.env.clock.now() - start < Duration::from_secs(1));
        // A finalizer has to wait: one of its pods may block the owner.
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.delete(&SECRETS, &owner, Propagation::Foreground).await;
        f.sleep(Duration::from_secs(10)).await;
        assert!(f.get(&SECRETS, "owner").await.is_some());
        f.sleep(Duration::from_secs(25)).await;
        assert!(f.get(&SECRETS, "owner").await.is_none(), "{code}");
        let series = "coxswain_garbage_collector_unsynced{resource=\"pods\"}";
        assert_eq!(f.metric(series), Some(1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_patience_gets_it() {
    let f = fixture().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE configmaps" if it.before == 0 => {
            let details = json!({"retryAfterSeconds": 20});
            Fault::Status(429, json!({"reason": "TooManyRequests", "details": details}))
        }
        _ => Fault::None,
    });
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.dependents(&MAPS, &owner, 1).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    let deletes = f.api.recorded_of("DELETE configmaps");
    assert_eq!(deletes.len(), 2);
    assert!(deletes[1].at - deletes[0].at >= Duration::from_secs(20));
}
