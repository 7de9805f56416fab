//! Objects that change between the look and the write.

use super::*;

/// A config map of a secret that goes while nobody tells the collector what becomes of config maps.
async fn behind(f: &Fixture, change: impl AsyncFn(&Fixture)) {
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.create(&SECRETS, "other", &[]).await;
    f.dependents(&MAPS, &owner, 1).await;
    f.api.reset();
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    change(f).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.api.count("DELETE configmaps") > 0).await;
    f.sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn who_was_adopted_meanwhile_stays_and_only_loses_the_owner_that_is_gone() {
    let f = fixture().await;
    behind(&f, async |f| {
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
async fn who_has_changed_in_nothing_that_matters_goes_at_its_new_version() {
    let f = fixture().await;
    behind(&f, async |f| {
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
async fn who_was_let_go_or_deleted_otherwise_meanwhile_is_left_alone() {
    for policy in [Propagation::Orphan, Propagation::Foreground] {
        let f = fixture().await;
        behind(&f, async |f| {
            // Who deletes it first has its way.
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
async fn another_one_under_the_same_name_is_not_touched() {
    let f = fixture().await;
    behind(&f, async |f| {
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
async fn a_server_that_always_sees_a_conflict_is_not_asked_all_the_time() {
    let f = fixture().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE configmaps" => Fault::Status(409, json!({"reason": "Conflict", "message": "it has changed"})),
        _ => Fault::None,
    });
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.dependents(&MAPS, &owner, 1).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.sleep(Duration::from_mins(10)).await;
    // 5 ms, doubled up to a minute: 23 tries, each a DELETE and the GET after it.
    assert!(f.api.recorded().len() <= 2 * 23, "{:?}", f.api.counts());
    assert!(
        f.api
            .recorded_of("DELETE configmaps")
            .iter()
            .all(|it| { it.body["preconditions"]["resourceVersion"].is_string() })
    );
    f.api.inject_all(|_| Fault::None);
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_as_old_as_its_question() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    for i in 0..3 {
        f.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
            .await;
    }
    f.settle().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "GET secrets" if it.by_controller && it.before == 0 => {
            Fault::SlowResponse(Duration::from_millis(1500))
        }
        _ => Fault::None,
    });
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    let newest = f.sandbox.revision();
    while f.api.count("GET secrets") == 0 {
        f.sleep(Duration::from_millis(1)).await;
    }
    // It waits in the answer that is under way. Then it lets its dependents go, which no cache shows.
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
async fn who_is_deleted_and_does_not_wait_still_owns() {
    let f = fixture().await;
    // No cache shows it.
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
async fn every_write_says_which_object_it_is_for_and_most_in_which_state() {
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
    let asked = f.api.recorded();
    let patches = asked.iter().filter(|it| it.operation.starts_with("PATCH"));
    let mut count = 0;
    for patch in patches {
        count += 1;
        let meta = &patch.body["metadata"];
        assert!(meta["uid"].is_string(), "{patch:?}");
        // References go by the owner's uid: nothing else that changes makes that wrong.
        let by_uid = patch.content_type.contains("strategic") && meta.get("finalizers").is_none();
        assert!(by_uid || meta["resourceVersion"].is_string(), "{patch:?}");
    }
    assert!(count >= 8, "{:?}", f.api.counts());
    // What the uid is there for: another object of that name is left alone.
    let patch = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000001",
                                    "ownerReferences": [{"$patch": "delete", "uid": other["metadata"]["uid"]}]}});
    let patch = Patch::strategic(&patch);
    let map = key(&MAPS, "dependent-foreground");
    let refused: Result<Value, _> = f.admin.patch(&MAPS, &map, patch).await;
    let code = refused.expect_err("another uid").code();
    assert!(code == Some(409) || code == Some(422), "{code:?}");
}
