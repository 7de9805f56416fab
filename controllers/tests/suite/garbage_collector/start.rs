//! The first seconds, in which not everything is known.

use super::*;

/// Secrets are not told before so many seconds have passed.
fn secrets_come_late(f: &Fixture, seconds: u64) {
    let (clock, begin) = (f.env.clock.clone(), f.env.clock.now());
    f.api.inject_all(move |it| {
        let late = clock.now() - begin < Duration::from_secs(seconds);
        match it.operation.as_str() {
            "LIST secrets" if late && !it.by_controller => {
                Fault::Status(500, json!({"reason": "InternalError"}))
            }
            _ => Fault::None,
        }
    });
}

#[tokio::test(start_paused = true)]
async fn owners_of_a_kind_that_has_not_synced_are_waited_for_and_not_asked_for_one_by_one() {
    let f = bare();
    for i in 0..50 {
        let owner = f.create(&SECRETS, &format!("owner-{i}"), &[]).await;
        f.create(&MAPS, &format!("dependent-{i}"), &[reference(&owner)])
            .await;
    }
    secrets_come_late(&f, 15);
    f.collect().await;
    f.sleep(HOUR).await;
    assert_eq!(f.api.counts().len(), 0, "{:?}", f.api.counts());
    assert_eq!(f.left(&MAPS).await, 50);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_never_comes_is_asked_for_after_a_while() {
    let f = bare();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
    f.create(&MAPS, "dependent-1", &[dangling(&SECRETS, "never")])
        .await;
    secrets_come_late(&f, 1_000_000);
    f.collect().await;
    f.sleep(Duration::from_secs(25)).await;
    assert_eq!(f.api.recorded().len(), 0);
    f.sleep(Duration::from_secs(10)).await;
    assert!(f.get(&MAPS, "dependent-0").await.is_some());
    assert!(f.get(&MAPS, "dependent-1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn no_finalizer_is_removed_before_all_kinds_have_synced() {
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let f = bare();
        let owner = f.create(&MAPS, "owner", &[]).await;
        f.create(&SECRETS, "dependent-0", &[blocking(&owner)]).await;
        f.delete(&MAPS, &owner, policy).await;
        secrets_come_late(&f, 15);
        f.collect().await;
        f.sleep(Duration::from_secs(5)).await;
        assert_eq!(f.api.recorded().len(), 0, "{policy:?}");
        f.until(async |f| f.get(&MAPS, "owner").await.is_none()).await;
        let left = f.left(&SECRETS).await;
        assert_eq!(left, usize::from(policy == Propagation::Orphan), "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_before_the_kinds_are_known() {
    let f = bare();
    let kinds = f.kinds.send_replace(None);
    f.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
    let collector = f.build(Options::default(), Scope::default());
    assert_eq!(collector.unsynced().len(), 1);
    f.run(collector);
    f.sleep(HOUR).await;
    assert_eq!(f.api.recorded().len(), 0);
    f.kinds.send_replace(kinds);
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn who_was_dead_and_is_restored_from_a_backup_keeps_its_dependents() {
    let f = bare();
    let live = async |f: &Fixture| {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.dependents(&MAPS, &owner, 5).await;
        owner
    };
    let owner = live(&f).await;
    f.collect().await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    // It is long ago, and the watches are at versions that the backup has never seen.
    for i in 0..50 {
        f.create(&SECRETS, &format!("later-{i}"), &[]).await;
    }
    f.settle().await;
    f.api.reset();
    let (_, backup) = sandbox();
    f.api.switch(backup.door());
    let again = live(&f).await;
    assert_eq!(
        again["metadata"]["uid"], owner["metadata"]["uid"],
        "it is the same one"
    );
    f.sleep(HOUR).await;
    assert_eq!((f.left(&MAPS).await, f.api.writes()), (5, 0));
    f.delete(&SECRETS, &again, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_cache_that_has_not_noticed_a_restore_saw_go_is_asked_for() {
    let f = bare();
    // Config maps are the first that notice.
    f.api.inject_all(|it| match it.operation.as_str() {
        "WATCH configmaps" => Fault::Status(500, json!({"reason": "InternalError"})),
        _ => Fault::None,
    });
    let live = async |f: &Fixture| {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        for i in 0..5 {
            f.create(&MAPS, &format!("dependent-{i}"), &[reference(&owner)])
                .await;
        }
        owner
    };
    let owner = live(&f).await;
    for i in 0..50 {
        f.create(&SECRETS, &format!("later-{i}"), &[]).await;
    }
    f.collect().await;
    f.api.lag().hold_at("secrets", f.sandbox.revision());
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    let (_, backup) = sandbox();
    f.api.switch(backup.door());
    let again = live(&f).await;
    assert_eq!(
        again["metadata"]["uid"], owner["metadata"]["uid"],
        "it is the same one"
    );
    f.until(async |f| restarts(f, "configmaps") == Some(1.0)).await;
    assert_eq!(restarts(&f, "secrets"), Some(0.0));
    // Only now the cache of secrets learns what became of it in the store of before.
    f.api.lag().release();
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!((f.left(&MAPS).await, f.api.writes()), (5, 0));
    f.sleep(HOUR).await;
    assert_eq!((f.left(&MAPS).await, f.api.writes()), (5, 0));
    f.api.inject_all(|_| Fault::None);
    f.delete(&SECRETS, &again, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

/// How often a cache has noticed a restore.
fn restarts(f: &Fixture, plural: &str) -> Option<f64> {
    f.metric(&format!(
        "coxswain_cache_restarts_total{{group=\"\",name=\"coxswain\",resource=\"{plural}\",version=\"v1\"}}"
    ))
}
