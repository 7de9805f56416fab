//! Who lets its dependents go loses none of them.

use super::*;

#[tokio::test(start_paused = true)]
async fn dependents_that_no_cache_has_shown_are_let_go() {
    let bed = bed().await;
    bed.define_widgets().await;
    for resource in [MAPS, WIDGETS] {
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.settle().await;
        let plural = if resource == MAPS {
            "configmaps"
        } else {
            "widgets.test.dev"
        };
        bed.door.lag().hold_at(plural, bed.sandbox.revision());
        bed.dependents(&resource, &owner, 600).await;
        bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
        bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
            .await;
        bed.door.lag().release();
        bed.sleep(HOUR).await;
        assert_eq!(bed.left(&resource).await, 600);
        for object in bed.list(&resource).await {
            assert_eq!(object["metadata"].get("ownerReferences"), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_waits_until_the_graph_knows_all() {
    let bed = bed().await;
    let owner = bed.create(&ROLES, "owner", &[]).await;
    bed.settle().await;
    bed.door.lag().hold_at("configmaps", bed.sandbox.revision());
    bed.dependents(&MAPS, &owner, 20).await;
    bed.door.reset();
    bed.delete(&ROLES, &owner, Propagation::Orphan).await;
    bed.until(async |bed| bed.get(&ROLES, "owner").await.is_none())
        .await;
    for kind in [
        "configmaps",
        "secrets",
        "pods",
        "nodes",
        "clusterroles",
        "replicasets",
    ] {
        let lists = bed.door.of(&format!("LIST {kind}"));
        assert_eq!(lists.len(), 1, "{kind}");
        assert!(lists[0].query.contains("limit=1") && !lists[0].path.contains("/namespaces/"));
    }
    assert_eq!(bed.door.count("PATCH configmaps"), 20);
    bed.door.lag().release();
    bed.sleep(HOUR).await;
    assert_eq!(bed.left(&MAPS).await, 20);
    assert_eq!(bed.door.writes(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_holds_it_up_for_a_while_and_loses_nothing() {
    let bed = bed().await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.settle().await;
    bed.door.lag().hold_at("configmaps", bed.sandbox.revision());
    bed.dependents(&MAPS, &owner, 5).await;
    bed.door.judge(|it| match it.what.as_str() {
        "LIST configmaps" if it.ours => Answer::Refused(500, json!({"reason": "InternalError"})),
        _ => Answer::Done,
    });
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    bed.sleep(Duration::from_secs(29)).await;
    assert!(bed.get(&SECRETS, "owner").await.is_some());
    bed.sleep(Duration::from_secs(5)).await;
    assert!(bed.get(&SECRETS, "owner").await.is_none());
    assert!(bed.door.count("LIST configmaps") <= 5);
    let series = "coxswain_garbage_collector_unlisted_total{resource=\"configmaps\"}";
    assert_eq!(bed.metric(series), Some(1.0));
    // Now they are seen, late, and their owner is gone.
    bed.door.lag().release();
    bed.sleep(HOUR).await;
    assert_eq!(bed.left(&MAPS).await, 5);
    for object in bed.list(&MAPS).await {
        assert_eq!(object["metadata"].get("ownerReferences"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_the_owner_lets_go_is_let_go_too() {
    let bed = bed().await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 5).await;
    bed.door.judge(|it| match it.what.as_str() {
        "PATCH configmaps" if it.ours => Answer::Slow(Duration::from_secs(2)),
        _ => Answer::Done,
    });
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    bed.sleep(Duration::from_secs(1)).await;
    bed.create(&MAPS, "dependent-late", &[reference(&owner)]).await;
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    bed.sleep(HOUR).await;
    assert_eq!(bed.left(&MAPS).await, 6);
    assert_eq!(bed.door.count("PATCH configmaps"), 6);
    assert_eq!(bed.door.count("PATCH secrets"), 1);
}

#[tokio::test(start_paused = true)]
async fn owner_that_is_deleted_during_a_list_waits_for_the_next_one() {
    let bed = bed().await;
    let first = bed.create(&SECRETS, "first", &[]).await;
    let second = bed.create(&SECRETS, "second", &[]).await;
    bed.settle().await;
    bed.door.lag().hold_at("configmaps", bed.sandbox.revision());
    bed.door.judge(|it| match it.what.as_str() {
        "LIST configmaps" if it.ours => Answer::Slow(Duration::from_secs(2)),
        _ => Answer::Done,
    });
    bed.delete(&SECRETS, &first, Propagation::Orphan).await;
    bed.until(async |bed| bed.door.count("LIST configmaps") == 1)
        .await;
    bed.dependents(&MAPS, &second, 3).await;
    bed.delete(&SECRETS, &second, Propagation::Orphan).await;
    bed.until(async |bed| bed.list(&SECRETS).await.is_empty()).await;
    assert_eq!(bed.door.count("LIST configmaps"), 2);
    bed.door.lag().release();
    bed.sleep(HOUR).await;
    assert_eq!(bed.left(&MAPS).await, 3);
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_the_last_token_is_waited_for_is_let_go_too() {
    let bed = bare();
    let limit = coxswain_manager::client::Limit { qps: 1.0, burst: 1 };
    let client = bed.transport.client("generic-garbage-collector", Some(limit));
    bed.run(bed.build_with(client, Options::default(), Scope::default()));
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    // The deletion of these takes the tokens of the next seconds. Live lists have tokens of their own.
    let other = bed.create(&SECRETS, "other", &[]).await;
    for n in 0..6 {
        bed.create(&MAPS, &format!("other-{n}"), &[reference(&other)])
            .await;
    }
    bed.sleep(Duration::from_secs(5)).await;
    bed.delete(&SECRETS, &other, Propagation::Background).await;
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    let lists = |bed: &Bed| {
        let asked = bed.door.asked();
        asked.iter().filter(|it| it.what.starts_with("LIST")).count()
    };
    bed.until(async |bed| lists(bed) == 4).await;
    bed.sleep(Duration::from_millis(300)).await;
    assert_eq!(
        bed.door.count("PATCH secrets"),
        0,
        "all lists are read, and the owner is still there"
    );
    bed.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    bed.sleep(HOUR).await;
    assert_eq!(bed.left(&MAPS).await, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_changes_all_the_time_and_that_no_cache_has_shown_is_not_given_up() {
    let bed = bed().await;
    bed.define_widgets().await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.settle().await;
    bed.door.lag().hold_at("widgets.test.dev", bed.sandbox.revision());
    bed.dependents(&WIDGETS, &owner, 1).await;
    // Whoever reads it has read what is over when they write.
    bed.door.judge(|it| match it.what.as_str() {
        "GET widgets" | "LIST widgets" if it.ours => Answer::Slow(Duration::from_millis(50)),
        _ => Answer::Done,
    });
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    let mut changes = 0;
    while bed.door.count("PATCH widgets") < 8 && bed.get(&SECRETS, "owner").await.is_some() {
        changes += 1;
        let label = json!({"metadata": {"labels": {"a": changes.to_string()}}});
        bed.patch(&WIDGETS, "dependent-0", &label).await;
        bed.sleep(Duration::from_millis(10)).await;
    }
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    bed.door.lag().release();
    bed.sleep(HOUR).await;
    assert_eq!(bed.left(&WIDGETS).await, 1);
}

#[tokio::test(start_paused = true)]
async fn late_dependents_are_orphaned_in_later_terms_too() {
    let bed = bare();
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&PODS, &owner, 5).await;
    bed.door.judge(|it| match it.what.as_str() {
        "LIST pods" => Answer::Refused(500, json!({"reason": "InternalError"})),
        _ => Answer::Done,
    });
    let collector = bed.build(Options::default(), Scope::default());
    let fence = Fence::new(bed.env.clock.clone());
    let run = async |time: Duration| {
        let (term, stop) = (fence.open_for_ever(), CancellationToken::new());
        let run = collector.run(&fence, term, stop.clone());
        let end = async {
            bed.sleep(time).await;
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(run, end);
        ended.expect("in order");
        fence.close();
    };
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    run(Duration::from_mins(3)).await;
    assert!(bed.get(&SECRETS, "owner").await.is_none());
    bed.door.judge(|_| Answer::Done);
    run(HOUR).await;
    assert_eq!(bed.left(&PODS).await, 5);
    for object in bed.list(&PODS).await {
        assert_eq!(object["metadata"].get("ownerReferences"), None);
    }
}
