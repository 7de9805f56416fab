//! Objects that change between the look and the write.

use super::*;

/// A config map of a secret that goes while nobody tells the collector what becomes of config maps.
async fn behind(bed: &Bed, change: impl AsyncFn(&Bed)) {
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.create(&SECRETS, "other", &[]).await;
    bed.dependents(&MAPS, &owner, 1).await;
    bed.door.reset();
    bed.door.lag().hold_at("configmaps", bed.sandbox.revision());
    change(bed).await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.until(async |bed| bed.door.count("DELETE configmaps") > 0)
        .await;
    bed.sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn who_was_adopted_meanwhile_stays_and_only_loses_the_owner_that_is_gone() {
    let bed = bed().await;
    behind(&bed, async |bed| {
        let owner = bed.get(&SECRETS, "owner").await.expect("there");
        let other = bed.get(&SECRETS, "other").await.expect("there");
        let both = json!({"metadata": {"ownerReferences": [reference(&owner), reference(&other)]}});
        bed.patch(&MAPS, "dependent-0", &both).await;
    })
    .await;
    let counts = ["DELETE configmaps", "GET configmaps", "PATCH configmaps"].map(|it| bed.door.count(it));
    assert_eq!(counts, [1, 1, 1]);
    let map = bed.get(&MAPS, "dependent-0").await.expect("it stays");
    let owners = map["metadata"]["ownerReferences"]
        .as_array()
        .expect("one is left");
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["name"], "other");
    bed.door.lag().release();
    bed.sleep(HOUR).await;
    assert!(bed.get(&MAPS, "dependent-0").await.is_some());
    assert_eq!(bed.door.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn who_has_changed_in_nothing_that_matters_goes_at_its_new_version() {
    let bed = bed().await;
    behind(&bed, async |bed| {
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        bed.patch(&MAPS, "dependent-0", &label).await;
    })
    .await;
    assert_eq!(bed.get(&MAPS, "dependent-0").await, None);
    let deletes = bed.door.of("DELETE configmaps");
    assert_eq!((deletes.len(), bed.door.count("GET configmaps")), (2, 1));
    let version = |at: usize| &deletes[at].body["preconditions"]["resourceVersion"];
    assert!(version(0).is_string() && version(1).is_string() && version(0) != version(1));
}

#[tokio::test(start_paused = true)]
async fn who_was_let_go_or_deleted_otherwise_meanwhile_is_left_alone() {
    for policy in [Propagation::Orphan, Propagation::Foreground] {
        let bed = bed().await;
        behind(&bed, async |bed| {
            // Who deletes it first has its way.
            let hold = json!({"metadata": {"finalizers": ["test.dev/hold"]}});
            let map = bed.patch(&MAPS, "dependent-0", &hold).await;
            bed.delete(&MAPS, &map, policy).await;
        })
        .await;
        assert_eq!(bed.door.count("DELETE configmaps"), 1, "{policy:?}");
        let map = bed.get(&MAPS, "dependent-0").await.expect("it is held");
        assert_eq!(map["metadata"]["finalizers"][0], "test.dev/hold");
    }
}

#[tokio::test(start_paused = true)]
async fn another_one_under_the_same_name_is_not_touched() {
    let bed = bed().await;
    behind(&bed, async |bed| {
        let map = bed.get(&MAPS, "dependent-0").await.expect("there");
        bed.delete(&MAPS, &map, Propagation::Background).await;
        let other = bed.get(&SECRETS, "other").await.expect("there");
        bed.create(&MAPS, "dependent-0", &[reference(&other)]).await;
    })
    .await;
    bed.door.lag().release();
    bed.sleep(HOUR).await;
    assert!(bed.get(&MAPS, "dependent-0").await.is_some());
    assert_eq!(bed.door.count("DELETE configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_sees_a_conflict_is_not_asked_all_the_time() {
    let bed = bed().await;
    bed.door.judge(|it| match it.what.as_str() {
        "DELETE configmaps" => {
            Answer::Refused(409, json!({"reason": "Conflict", "message": "it has changed"}))
        }
        _ => Answer::Done,
    });
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 1).await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.sleep(Duration::from_mins(10)).await;
    // 5 ms, doubled up to a minute: 23 tries, each a DELETE and the GET after it.
    assert!(bed.door.asked().len() <= 2 * 23, "{:?}", bed.door.counts());
    assert!(
        bed.door
            .of("DELETE configmaps")
            .iter()
            .all(|it| { it.body["preconditions"]["resourceVersion"].is_string() })
    );
    bed.door.judge(|_| Answer::Done);
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_as_old_as_its_question() {
    let bed = bed().await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    for i in 0..3 {
        bed.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
            .await;
    }
    bed.settle().await;
    bed.door.judge(|it| match it.what.as_str() {
        "GET secrets" if it.ours && it.before == 0 => Answer::Slow(Duration::from_millis(1500)),
        _ => Answer::Done,
    });
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    let newest = bed.sandbox.revision();
    while bed.door.count("GET secrets") == 0 {
        bed.sleep(Duration::from_millis(1)).await;
    }
    // It waits in the answer that is under way. Then it lets its dependents go, which no cache shows.
    bed.door.lag().hold_at("secrets", newest);
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    bed.sleep(Duration::from_mins(1)).await;
    assert!(bed.door.count("GET secrets") > 1);
    assert_eq!(
        (bed.left(&MAPS).await, bed.door.count("DELETE configmaps")),
        (3, 0)
    );
    bed.door.lag().release();
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    assert_eq!(bed.left(&MAPS).await, 3);
}

#[tokio::test(start_paused = true)]
async fn who_is_deleted_and_does_not_wait_still_owns() {
    let bed = bed().await;
    // No cache shows it.
    bed.door.lag().hold_at("secrets", bed.sandbox.revision());
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    let held = json!({"metadata": {"finalizers": ["test.dev/hold"]}});
    bed.patch(&SECRETS, "owner", &held).await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    let both = [reference(&owner), dangling(&PODS, "never")];
    bed.create(&MAPS, "dependent-0", &both).await;
    bed.until(async |bed| bed.door.writes() > 0).await;
    bed.sleep(Duration::from_mins(1)).await;
    let map = bed.get(&MAPS, "dependent-0").await.expect("it stays");
    assert_eq!(
        map["metadata"]["ownerReferences"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn every_write_says_which_object_it_is_for_and_most_in_which_state() {
    let bed = bed().await;
    bed.define_widgets().await;
    let other = bed.create(&SECRETS, "other", &[]).await;
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        for resource in [MAPS, WIDGETS] {
            let both = [blocking(&owner), reference(&other)];
            let name = format!("dependent-{policy:?}").to_lowercase();
            bed.create(&resource, &name, &both).await;
            bed.create(&resource, &format!("{name}-only"), &[reference(&owner)])
                .await;
        }
        bed.settle().await;
        bed.delete(&SECRETS, &owner, policy).await;
        bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
            .await;
        bed.settle().await;
    }
    let asked = bed.door.asked();
    let patches = asked.iter().filter(|it| it.what.starts_with("PATCH"));
    let mut count = 0;
    for patch in patches {
        count += 1;
        let meta = &patch.body["metadata"];
        assert!(meta["uid"].is_string(), "{patch:?}");
        // References go by the owner's uid: nothing else that changes makes that wrong.
        let by_uid = patch.content_type.contains("strategic") && meta.get("finalizers").is_none();
        assert!(by_uid || meta["resourceVersion"].is_string(), "{patch:?}");
    }
    assert!(count >= 8, "{:?}", bed.door.counts());
    // What the uid is there for: another object of that name is left alone.
    let patch = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000001",
                                    "ownerReferences": [{"$patch": "delete", "uid": other["metadata"]["uid"]}]}});
    let patch = Patch::strategic(&patch);
    let map = key(&MAPS, "dependent-foreground");
    let refused: Result<Value, _> = bed.admin.patch(&MAPS, &map, patch).await;
    let code = refused.expect_err("another uid").code();
    assert!(code == Some(409) || code == Some(422), "{code:?}");
}
