//! Objects that change between the evaluation and the write.

use super::*;

/// Deletes the owner of a config map after `change`, which the collector's cache of config maps does not show.
async fn delete_owner_with_stale_cache(f: &Fixture, change: impl AsyncFn(&Fixture)) {
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.create(&SECRETS, "other", &[]).await;
    f.create_dependents(&MAPS, &owner, 1).await;
    f.api.reset();
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    change(f).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.api.count("DELETE configmaps") > 0).await;
    f.sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn dependent_adopted_concurrently_stays_and_loses_the_absent_owner() {
    let f = fixture().await;
    delete_owner_with_stale_cache(&f, async |f| {
        let owner = f.get(&SECRETS, "owner").await.expect("there");
        let other = f.get(&SECRETS, "other").await.expect("there");
        let both = json!({"metadata": {"ownerReferences": [reference(&owner), reference(&other)]}});
        f.patch(&MAPS, "dependent-0", &both).await;
    })
    .await;
    let counts = ["DELETE configmaps", "GET configmaps", "PATCH configmaps"].map(|it| f.api.count(it));
    assert_eq!(counts, [1, 1, 1]);
    let map = f.get(&MAPS, "dependent-0").await.expect("it stays");
    let owners = map["metadata"]["ownerReferences"]
        .as_array()
        .expect("one is left");
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["name"], "other");
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert!(f.get(&MAPS, "dependent-0").await.is_some());
    assert_eq!(f.api.recorded().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn dependent_with_unrelated_change_is_deleted_at_its_new_version() {
    let f = fixture().await;
    delete_owner_with_stale_cache(&f, async |f| {
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        f.patch(&MAPS, "dependent-0", &label).await;
    })
    .await;
    assert_eq!(f.get(&MAPS, "dependent-0").await, None);
    let deletes = f.api.recorded_of("DELETE configmaps");
    assert_eq!((deletes.len(), f.api.count("GET configmaps")), (2, 1));
    let version = |at: usize| &deletes[at].body["preconditions"]["resourceVersion"];
    assert!(version(0).is_string() && version(1).is_string() && version(0) != version(1));
}

#[tokio::test(start_paused = true)]
async fn dependent_deleted_concurrently_keeps_its_policy() {
    for policy in [Propagation::Orphan, Propagation::Foreground] {
        let f = fixture().await;
        delete_owner_with_stale_cache(&f, async |f| {
            let hold = json!({"metadata": {"finalizers": ["test.dev/hold"]}});
            let map = f.patch(&MAPS, "dependent-0", &hold).await;
            f.delete(&MAPS, &map, policy).await;
        })
        .await;
        assert_eq!(f.api.count("DELETE configmaps"), 1, "{policy:?}");
        let map = f.get(&MAPS, "dependent-0").await.expect("it is held");
        assert_eq!(map["metadata"]["finalizers"][0], "test.dev/hold");
    }
}

#[tokio::test(start_paused = true)]
async fn recreated_dependent_is_not_deleted() {
    let f = fixture().await;
    delete_owner_with_stale_cache(&f, async |f| {
        let map = f.get(&MAPS, "dependent-0").await.expect("there");
        f.delete(&MAPS, &map, Propagation::Background).await;
        let other = f.get(&SECRETS, "other").await.expect("there");
        f.create(&MAPS, "dependent-0", &[reference(&other)]).await;
    })
    .await;
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert!(f.get(&MAPS, "dependent-0").await.is_some());
    assert_eq!(f.api.count("DELETE configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn permanent_conflict_backs_off() {
    let f = fixture().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE configmaps" => status_reply(409, json!({"reason": "Conflict", "message": "conflict"})),
        _ => Effect::Pass,
    });
    let owner = f.create_owner("owner", 1).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.sleep(Duration::from_mins(10)).await;
    // 5 ms, doubled up to a minute: 23 attempts, each a DELETE and a GET. The owner is read again after its watch was idle for 150 s.
    let most = 2 * 23 + f.api.count("GET secrets");
    assert!(f.api.recorded().len() <= most, "{:?}", f.api.counts());
    assert!(f.api.count("GET secrets") <= 4);
    assert!(
        f.api
            .recorded_of("DELETE configmaps")
            .iter()
            .all(|it| { it.body["preconditions"]["resourceVersion"].is_string() })
    );
    f.api.inject_all(|_| Effect::Pass);
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn age_of_a_live_read_counts_from_its_request() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    for i in 0..3 {
        f.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
            .await;
    }
    f.settle().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "GET secrets" if it.by_controller && it.before == 0 => {
            Effect::DelayAnswer(Duration::from_millis(1500))
        }
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    let newest = f.sandbox.revision();
    while f.api.count("GET secrets") == 0 {
        f.sleep(Duration::from_millis(1)).await;
    }
    // The response in flight shows a foreground deletion. The orphan deletion after it is in no cache.
    f.api.lag().hold_at("secrets", newest);
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.sleep(Duration::from_mins(1)).await;
    assert!(f.api.count("GET secrets") > 1);
    assert_eq!((f.left(&MAPS).await, f.api.count("DELETE configmaps")), (3, 0));
    f.api.lag().release();
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    assert_eq!(f.left(&MAPS).await, 3);
}

#[tokio::test(start_paused = true)]
async fn owner_terminating_in_background_still_owns() {
    let f = fixture().await;
    // The owner is in no cache.
    f.api.lag().hold_at("secrets", f.sandbox.revision());
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let held = json!({"metadata": {"finalizers": ["test.dev/hold"]}});
    f.patch(&SECRETS, "owner", &held).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    let both = [reference(&owner), dangling(&PODS, "never")];
    f.create(&MAPS, "dependent-0", &both).await;
    f.until(async |f| f.api.writes() > 0).await;
    f.sleep(Duration::from_mins(1)).await;
    let map = f.get(&MAPS, "dependent-0").await.expect("it stays");
    assert_eq!(
        map["metadata"]["ownerReferences"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn writes_carry_the_uid_and_a_lock() {
    let f = fixture().await;
    f.define_widgets().await;
    let other = f.create(&SECRETS, "other", &[]).await;
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        for resource in [MAPS, WIDGETS] {
            let both = [blocking(&owner), reference(&other)];
            let name = format!("dependent-{policy:?}").to_lowercase();
            f.create(&resource, &name, &both).await;
            f.create(&resource, &format!("{name}-only"), &[reference(&owner)])
                .await;
        }
        f.settle().await;
        f.delete(&SECRETS, &owner, policy).await;
        f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
        f.settle().await;
    }
    let recorded = f.api.recorded();
    let patches = recorded.iter().filter(|it| it.operation.starts_with("PATCH"));
    let mut count = 0;
    for patch in patches {
        count += 1;
        let meta = &patch.body["metadata"];
        assert!(meta["uid"].is_string(), "{patch:?}");
        // A strategic merge patch deletes references by the owner's uid, so it needs no lock.
        let by_uid = patch.content_type.contains("strategic") && meta.get("finalizers").is_none();
        assert!(by_uid || meta["resourceVersion"].is_string(), "{patch:?}");
    }
    assert!(count >= 8, "{:?}", f.api.counts());
    // The uid protects another object of the same name.
    let patch = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000001",
                                    "ownerReferences": [{"$patch": "delete", "uid": other["metadata"]["uid"]}]}});
    let patch = Patch::strategic(&patch);
    let map = key(&MAPS, "dependent-foreground");
    let rejected: Result<Value, _> = f.admin.patch(&MAPS, &map, patch).await;
    let code = rejected.expect_err("another uid").code();
    assert!(code == Some(409) || code == Some(422), "{code:?}");
}
