//! Requests that fail, and responses that do not prove the absence of an owner.

use super::*;

/// Creates a config map whose owner never existed.
async fn create_garbage(f: &Fixture) {
    f.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
}

fn not_found(details: &Value) -> Effect {
    status_reply(404, json!({"reason": "NotFound", "details": details}))
}

#[tokio::test(start_paused = true)]
async fn response_without_proof_of_absence_deletes_nothing_and_backs_off() {
    for fault in [
        text_reply(404, "404 page not found\n"),
        text_reply(404, "{}"),
        text_reply(200, "{}"),
        text_reply(
            200,
            r#"{"kind":"PartialObjectMetadata","metadata":{"name":"other","namespace":"default","uid":"x"}}"#,
        ),
        not_found(&Value::Null),
        not_found(&json!({"name": "other"})),
        status_reply(404, json!({"reason": "Other", "details": {"name": "never"}})),
        status_reply(403, json!({"reason": "Forbidden"})),
        status_reply(410, json!({"reason": "Gone"})),
        status_reply(
            429,
            json!({"reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}}),
        ),
        status_reply(500, json!({"reason": "InternalError"})),
        Effect::LoseRequest,
        Effect::Hang,
    ] {
        let f = fixture().await;
        let injected = fault.clone();
        f.api.inject_all(move |it| match it.operation.as_str() {
            "GET secrets" => injected.clone(),
            _ => Effect::Pass,
        });
        create_garbage(&f).await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.left(&MAPS).await, 1, "{fault:?}");
        assert_eq!(f.api.writes(), 0, "{fault:?}");
        let gets = f.api.count("GET secrets");
        assert!((1..=25).contains(&gets), "{gets} {fault:?}");
        f.api.inject_all(|_| Effect::Pass);
        f.sleep(HOUR).await;
        assert_eq!(f.left(&MAPS).await, 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn delete_answered_by_404_without_a_status_is_retried() {
    let f = fixture().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE configmaps" if it.before < 3 => text_reply(404, "404 page not found\n"),
        _ => Effect::Pass,
    });
    let owner = f.create_owner("owner", 1).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    assert_eq!(f.api.count("DELETE configmaps"), 4);
}

#[tokio::test(start_paused = true)]
async fn failed_writes_cost_few_retries_and_lose_nothing() {
    for policy in [
        Propagation::Background,
        Propagation::Foreground,
        Propagation::Orphan,
    ] {
        for fault in [
            Effect::LoseAnswer,
            Effect::LoseRequest,
            status_reply(500, json!({"reason": "InternalError"})),
        ] {
            let f = fixture().await;
            let injected = fault.clone();
            f.api.inject_all(move |it| {
                let write = it.operation.starts_with("DELETE") || it.operation.starts_with("PATCH");
                if it.by_controller && write && it.before % 3 == 0 {
                    injected.clone()
                } else {
                    Effect::Pass
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
            assert_eq!(f.left(&MAPS).await, left, "{policy:?} {fault:?}");
            let recorded = f.api.recorded();
            let writes = f.api.writes();
            assert!(writes <= 31 + 31, "{writes} {policy:?} {fault:?}");
            assert!(
                recorded.len() <= 31 + 2 * 31 + 10,
                "{:?} {policy:?} {fault:?}",
                f.api.counts()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resource_without_strategic_merge_patch_is_tried_once() {
    let f = unstarted();
    let options = Options {
        workers: 1,
        dry_run: false,
    };
    f.run(f.build(options, Scope::default()));
    f.sleep(Duration::from_secs(2)).await;
    f.api.inject_all(|it| match it.content_type.as_str() {
        "application/strategic-merge-patch+json" => {
            status_reply(415, json!({"reason": "UnsupportedMediaType"}))
        }
        _ => Effect::Pass,
    });
    let owner = f.create_owner("owner", 10).await;
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
async fn unlistable_resource_does_not_delay_other_resources() {
    for code in [500, 403, 404] {
        let f = unstarted();
        f.api.inject_all(move |it| match it.operation.as_str() {
            "LIST pods" => text_reply(code, "no"),
            _ => Effect::Pass,
        });
        f.start().await;
        let owner = f.create_owner("owner", 10).await;
        let start = f.env.clock.now();
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.until(async |f| f.left(&MAPS).await == 0).await;
        assert!(f.env.clock.now() - start < Duration::from_secs(1));
        // The finalizer waits: an unlisted pod may block the owner.
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.delete(&SECRETS, &owner, Propagation::Foreground).await;
        f.sleep(Duration::from_secs(10)).await;
        assert!(f.get(&SECRETS, "owner").await.is_some());
        f.sleep(Duration::from_secs(25)).await;
        assert!(f.get(&SECRETS, "owner").await.is_none(), "{code}");
        let series = "steersman_garbage_collector_unsynced{resource=\"pods\"}";
        assert_eq!(f.metric(series), Some(1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_delete_is_honoured() {
    let f = fixture().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE configmaps" if it.before == 0 => {
            let details = json!({"retryAfterSeconds": 20});
            status_reply(429, json!({"reason": "TooManyRequests", "details": details}))
        }
        _ => Effect::Pass,
    });
    let owner = f.create_owner("owner", 1).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    let deletes = f.api.recorded_of("DELETE configmaps");
    assert_eq!(deletes.len(), 2);
    assert!(deletes[1].at - deletes[0].at >= Duration::from_secs(20));
}
