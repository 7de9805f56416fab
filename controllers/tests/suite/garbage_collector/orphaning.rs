//! Orphan deletion loses no dependents.

use http::Method;
use steersman_sandbox::faults::Matcher;

use super::*;

#[tokio::test(start_paused = true)]
async fn uncached_dependents_are_orphaned() {
    let f = fixture().await;
    f.define_widgets().await;
    for resource in [MAPS, WIDGETS] {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.settle().await;
        let plural = if resource == MAPS {
            "configmaps"
        } else {
            "widgets.test.dev"
        };
        f.api.lag().hold_at(plural, f.sandbox.revision());
        f.create_dependents(&resource, &owner, 600).await;
        f.delete(&SECRETS, &owner, Propagation::Orphan).await;
        f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
        f.api.lag().release();
        f.sleep(HOUR).await;
        assert_eq!(f.left(&resource).await, 600);
        for object in f.list(&resource).await {
            assert_eq!(object["metadata"].get("ownerReferences"), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_owner_waits_until_all_caches_are_current() {
    let f = fixture().await;
    let owner = f.create(&ROLES, "owner", &[]).await;
    f.settle().await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.create_dependents(&MAPS, &owner, 20).await;
    f.api.reset();
    f.delete(&ROLES, &owner, Propagation::Orphan).await;
    f.until(async |f| f.get(&ROLES, "owner").await.is_none()).await;
    for kind in [
        "configmaps",
        "secrets",
        "pods",
        "nodes",
        "clusterroles",
        "replicasets",
    ] {
        let lists = f.api.recorded_of(&format!("LIST {kind}"));
        assert_eq!(lists.len(), 1, "{kind}");
        assert!(lists[0].query.contains("limit=1") && !lists[0].path.contains("/namespaces/"));
    }
    assert_eq!(f.api.count("PATCH configmaps"), 20);
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 20);
    assert_eq!(f.api.writes(), 21);
}

/// Some aggregated API servers have versions that are not numbers.
#[tokio::test(start_paused = true)]
async fn version_that_cannot_be_compared_does_not_delay_orphaning() {
    let f = fixture().await;
    let owner = f.create(&ROLES, "owner", &[]).await;
    f.settle().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" => Effect::ChangeAnswer(Arc::new(|list: &mut Value| {
            list["metadata"]["resourceVersion"] = json!("1234/5678");
        })),
        _ => Effect::Pass,
    });
    f.delete(&ROLES, &owner, Propagation::Orphan).await;
    f.sleep(Duration::from_secs(20)).await;
    assert!(f.get(&ROLES, "owner").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn unlistable_resource_delays_orphaning_for_a_bounded_time_and_loses_nothing() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.settle().await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.create_dependents(&MAPS, &owner, 5).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" if it.by_controller => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.sleep(Duration::from_secs(29)).await;
    assert!(f.get(&SECRETS, "owner").await.is_some());
    f.sleep(Duration::from_secs(5)).await;
    assert!(f.get(&SECRETS, "owner").await.is_none());
    assert!(f.api.count("LIST configmaps") <= 5);
    let series = "steersman_garbage_collector_unlisted_total{resource=\"configmaps\"}";
    assert_eq!(f.metric(series), Some(1.0));
    // The cache shows the dependents after their owner is deleted.
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 5);
    for object in f.list(&MAPS).await {
        assert_eq!(object["metadata"].get("ownerReferences"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn dependent_created_during_orphaning_is_orphaned() {
    let f = fixture().await;
    let owner = f.create_owner("owner", 5).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "PATCH configmaps" if it.by_controller => Effect::DelayAnswer(Duration::from_secs(2)),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.sleep(Duration::from_secs(1)).await;
    f.create(&MAPS, "dependent-late", &[reference(&owner)]).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 6);
    assert_eq!(f.api.count("PATCH configmaps"), 6);
    assert_eq!(f.api.count("PATCH secrets"), 1);
}

#[tokio::test(start_paused = true)]
async fn dependents_are_listed_again_if_the_owner_is_orphaned_twice() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let hold = json!({"metadata": {"finalizers": ["test.dev/hold"]}});
    f.patch(&SECRETS, "owner", &hold).await;
    f.settle().await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.api.inject_all(|it| match it.operation.as_str() {
        "PATCH secrets" if it.by_controller && it.before == 0 => Effect::DelayAnswer(Duration::from_secs(2)),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.api.count("PATCH secrets") == 1).await;
    f.create_dependents(&MAPS, &owner, 1).await;
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.api.count("PATCH secrets") == 2).await;
    f.settle().await;
    let none = json!({"metadata": {"finalizers": null}});
    f.patch(&SECRETS, "owner", &none).await;
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert!(f.get(&SECRETS, "owner").await.is_none());
    assert_eq!(f.left(&MAPS).await, 1);
}

#[tokio::test(start_paused = true)]
async fn dependents_are_listed_again_if_the_finalizer_is_removed_and_set_again() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    f.patch(&SECRETS, "owner", &hold(json!(["test.dev/hold"]))).await;
    f.settle().await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.api.inject(|method, path, before| match *method {
        Method::PATCH if path.ends_with("owner") && before < 10 => {
            status_reply(403, json!({"reason": "Forbidden"}))
        }
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.api.count("PATCH secrets") >= 8).await;
    f.patch(&SECRETS, "owner", &hold(json!(["test.dev/hold"]))).await;
    f.create_dependents(&MAPS, &owner, 1).await;
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.api.count("PATCH configmaps") == 1).await;
    f.patch(&SECRETS, "owner", &hold(Value::Null)).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 1);
}

#[tokio::test(start_paused = true)]
async fn failing_webhook_of_the_owner_costs_one_list() {
    let f = fixture().await;
    f.api.inject(|method, path, before| match *method {
        Method::PATCH if path.ends_with("owner-0") && before < 10 => {
            status_reply(500, json!({"reason": "InternalError"}))
        }
        _ => Effect::Pass,
    });
    let owner = f.create(&SECRETS, "owner-0", &[]).await;
    f.create_dependents(&MAPS, &owner, 3).await;
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.get(&SECRETS, "owner-0").await.is_none())
        .await;
    assert_eq!(f.api.count("PATCH secrets"), 11);
    assert_eq!(f.api.count("LIST configmaps"), 1);
}

/// The response to the removal is lost, and only a live read shows the owner afterwards.
#[tokio::test(start_paused = true)]
async fn dependents_are_listed_again_if_the_finalizer_may_have_been_removed() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    f.patch(&SECRETS, "owner", &hold(json!(["test.dev/hold"]))).await;
    f.api.inject(|method, path, before| match *method {
        Method::PATCH if path.ends_with("owner") => match before {
            0 => Effect::DeliverLate(Duration::from_secs(2)),
            1..11 => status_reply(429, json!({"reason": "TooManyRequests"})),
            _ => Effect::Pass,
        },
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.settle().await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.api.lag().hold_at("secrets", f.sandbox.revision());
    let finalizers = async |f: &Fixture| {
        f.get(&SECRETS, "owner")
            .await
            .map(|it| it["metadata"]["finalizers"].clone())
    };
    f.until(async |f| finalizers(f).await == Some(json!(["test.dev/hold"])))
        .await;
    f.create_dependents(&MAPS, &owner, 1).await;
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| finalizers(f).await == Some(json!(["test.dev/hold"])))
        .await;
    f.patch(&SECRETS, "owner", &hold(Value::Null)).await;
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert!(f.get(&SECRETS, "owner").await.is_none());
    assert_eq!(f.left(&MAPS).await, 1);
}

#[tokio::test(start_paused = true)]
async fn dependent_created_during_a_list_costs_no_other_list() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.settle().await;
    f.api.inject(|method, path, _| match *method {
        Method::GET if path.ends_with("/configmaps") => Effect::DelayAnswer(Duration::from_secs(2)),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.api.count("LIST configmaps") == 1).await;
    f.create_dependents(&MAPS, &owner, 3).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 3);
    assert_eq!(f.api.count("LIST configmaps"), 1);
    assert_eq!(f.api.count("PATCH configmaps"), 3);
}

/// A webhook sets the finalizer again in the same request, so that nothing changes.
#[tokio::test(start_paused = true)]
async fn finalizer_without_change_is_removed_again() {
    for (policy, finalizer) in [
        (Propagation::Orphan, "orphan"),
        (Propagation::Foreground, "foregroundDeletion"),
    ] {
        let f = fixture().await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.settle().await;
        f.api.inject_all(move |it| match it.operation.as_str() {
            "PATCH secrets" if it.before < 3 => {
                let mut unchanged = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"});
                unchanged["metadata"] = json!({
                    "namespace": "default", "name": "owner", "deletionTimestamp": "2026-01-01T00:00:00Z",
                    "uid": it.body["metadata"]["uid"], "resourceVersion": it.body["metadata"]["resourceVersion"],
                    "finalizers": [finalizer],
                });
                Effect::reply(200, unchanged.to_string())
            }
            _ => Effect::Pass,
        });
        f.delete(&SECRETS, &owner, policy).await;
        f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
        assert_eq!(f.api.count("PATCH secrets"), 4, "{finalizer}");
    }
}

/// The watch of the dependents fails during the read, as in a restore of the storage: the 404 is not a proof.
#[tokio::test(start_paused = true)]
async fn dependent_that_is_not_proven_absent_is_patched_again() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.settle().await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.api.inject(|method, path, before| {
        let absent = status_reply(
            404,
            json!({"reason": "NotFound", "details": {"name": "dependent-0"}}),
        );
        match *method {
            Method::PATCH if path.contains("configmaps") && before == 0 => absent,
            Method::GET if path.ends_with("dependent-0") && before == 0 => {
                Effect::All(vec![Effect::Delay(Duration::from_secs(2)), absent])
            }
            _ => Effect::Pass,
        }
    });
    f.create_dependents(&MAPS, &owner, 1).await;
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.api.count("GET configmaps") == 1).await;
    let watches = Matcher::verb("watch").when(|it| it.path.ends_with("/configmaps"));
    assert_eq!(f.api.executed().reset_watches(&watches), 1);
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 1);
    assert_eq!(f.api.count("PATCH configmaps"), 2);
}

#[tokio::test(start_paused = true)]
async fn owner_deleted_during_a_list_waits_for_the_next_list() {
    let f = fixture().await;
    let first = f.create(&SECRETS, "first", &[]).await;
    let second = f.create(&SECRETS, "second", &[]).await;
    f.settle().await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" if it.by_controller => Effect::DelayAnswer(Duration::from_secs(2)),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &first, Propagation::Orphan).await;
    f.until(async |f| f.api.count("LIST configmaps") == 1).await;
    f.create_dependents(&MAPS, &second, 3).await;
    f.delete(&SECRETS, &second, Propagation::Orphan).await;
    f.until(async |f| f.list(&SECRETS).await.is_empty()).await;
    assert_eq!(f.api.count("LIST configmaps"), 2);
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 3);
}

#[tokio::test(start_paused = true)]
async fn dependent_created_during_a_rate_limiter_wait_is_orphaned() {
    let f = unstarted();
    let limit = steersman_manager::client::RateLimit { qps: 1.0, burst: 1 };
    let client = f.transport.reader("generic-garbage-collector", Some(limit));
    f.run(f.build_with(client, Options::default(), Scope::default()));
    let owner = f.create(&SECRETS, "owner", &[]).await;
    // These deletions use the tokens of the next seconds. Live lists have their own rate limiter.
    let other = f.create(&SECRETS, "other", &[]).await;
    for n in 0..6 {
        f.create(&MAPS, &format!("other-{n}"), &[reference(&other)]).await;
    }
    f.sleep(Duration::from_secs(5)).await;
    f.delete(&SECRETS, &other, Propagation::Background).await;
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    let lists = |f: &Fixture| {
        let recorded = f.api.recorded();
        recorded
            .iter()
            .filter(|it| it.operation.starts_with("LIST"))
            .count()
    };
    f.until(async |f| lists(f) == 4).await;
    f.sleep(Duration::from_millis(300)).await;
    assert_eq!(
        f.api.count("PATCH secrets"),
        0,
        "all lists are read, and the owner exists"
    );
    f.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 1);
}

#[tokio::test(start_paused = true)]
async fn uncached_dependent_that_changes_constantly_is_orphaned() {
    let f = fixture().await;
    f.define_widgets().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.settle().await;
    f.api.lag().hold_at("widgets.test.dev", f.sandbox.revision());
    f.create_dependents(&WIDGETS, &owner, 1).await;
    // Every read is outdated by the time of the write.
    f.api.inject_all(|it| match it.operation.as_str() {
        "GET widgets" | "LIST widgets" if it.by_controller => Effect::DelayAnswer(Duration::from_millis(50)),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    let mut changes = 0;
    while f.api.count("PATCH widgets") < 8 && f.get(&SECRETS, "owner").await.is_some() {
        changes += 1;
        let label = json!({"metadata": {"labels": {"a": changes.to_string()}}});
        f.patch(&WIDGETS, "dependent-0", &label).await;
        f.sleep(Duration::from_millis(10)).await;
    }
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert_eq!(f.left(&WIDGETS).await, 1);
}

#[tokio::test(start_paused = true)]
async fn late_dependents_are_orphaned_in_later_terms() {
    let f = unstarted();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.create_dependents(&PODS, &owner, 5).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST pods" => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    let collector = f.build(Options::default(), Scope::default());
    let fence = Fence::new(f.env.clock.clone());
    let run = async |time: Duration| {
        let (term, stop) = (fence.open_forever(), CancellationToken::new());
        let run = collector.run(&fence, term, stop.clone());
        let end = async {
            f.sleep(time).await;
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(run, end);
        ended.expect("no error");
        fence.close();
    };
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    run(Duration::from_mins(3)).await;
    assert!(f.get(&SECRETS, "owner").await.is_none());
    f.api.inject_all(|_| Effect::Pass);
    run(HOUR).await;
    assert_eq!(f.left(&PODS).await, 5);
    for object in f.list(&PODS).await {
        assert_eq!(object["metadata"].get("ownerReferences"), None);
    }
}

/// The checks for failing watches leave enough time for a list.
#[tokio::test(start_paused = true)]
async fn slow_list_counts_while_the_watch_of_the_owners_kind_fails() {
    let f = fixture().await;
    let owner = f.create_owner("owner", 3).await;
    f.settle().await;
    f.api.reset();
    f.api.inject_all(|it| match it.operation.as_str() {
        "WATCH secrets" => status_reply(500, json!({"reason": "InternalError"})),
        "LIST configmaps" => Effect::DelayAnswer(Duration::from_secs(20)),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.api.count("LIST configmaps") > 0).await;
    f.api.executed().reset_watches(&Matcher::any());
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    assert_eq!(f.left(&MAPS).await, 3);
    let lists = f.api.count("LIST configmaps");
    assert!((2..=4).contains(&lists), "{:?}", f.api.counts());
}
