//! The first seconds, in which not everything is known.

use super::*;

/// Secrets are not told before so many seconds have passed.
fn secrets_come_late(bed: &Bed, seconds: u64) {
    let (clock, begin) = (bed.env.clock.clone(), bed.env.clock.now());
    bed.door.judge(move |it| {
        let late = clock.now() - begin < Duration::from_secs(seconds);
        match it.what.as_str() {
            "LIST secrets" if late && !it.ours => Answer::Refused(500, json!({"reason": "InternalError"})),
            _ => Answer::Done,
        }
    });
}

#[tokio::test(start_paused = true)]
async fn owners_of_a_kind_that_has_not_synced_are_waited_for_and_not_asked_for_one_by_one() {
    let bed = bare();
    for i in 0..50 {
        let owner = bed.create(&SECRETS, &format!("owner-{i}"), &[]).await;
        bed.create(&MAPS, &format!("dependent-{i}"), &[reference(&owner)])
            .await;
    }
    secrets_come_late(&bed, 15);
    bed.collect().await;
    bed.sleep(HOUR).await;
    assert_eq!(bed.door.counts().len(), 0, "{:?}", bed.door.counts());
    assert_eq!(bed.left(&MAPS).await, 50);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_never_comes_is_asked_for_after_a_while() {
    let bed = bare();
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
    bed.create(&MAPS, "dependent-1", &[dangling(&SECRETS, "never")])
        .await;
    secrets_come_late(&bed, 1_000_000);
    bed.collect().await;
    bed.sleep(Duration::from_secs(25)).await;
    assert_eq!(bed.door.asked().len(), 0);
    bed.sleep(Duration::from_secs(10)).await;
    assert!(bed.get(&MAPS, "dependent-0").await.is_some());
    assert!(bed.get(&MAPS, "dependent-1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn no_finalizer_is_removed_before_all_kinds_have_synced() {
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let bed = bare();
        let owner = bed.create(&MAPS, "owner", &[]).await;
        bed.create(&SECRETS, "dependent-0", &[blocking(&owner)]).await;
        bed.delete(&MAPS, &owner, policy).await;
        secrets_come_late(&bed, 15);
        bed.collect().await;
        bed.sleep(Duration::from_secs(5)).await;
        assert_eq!(bed.door.asked().len(), 0, "{policy:?}");
        bed.until(async |bed| bed.get(&MAPS, "owner").await.is_none())
            .await;
        let left = bed.left(&SECRETS).await;
        assert_eq!(left, usize::from(policy == Propagation::Orphan), "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_before_the_kinds_are_known() {
    let bed = bare();
    let kinds = bed.kinds.send_replace(None);
    bed.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
    let collector = bed.build(Options::default(), Scope::default());
    assert_eq!(collector.unsynced().len(), 1);
    bed.run(collector);
    bed.sleep(HOUR).await;
    assert_eq!(bed.door.asked().len(), 0);
    bed.kinds.send_replace(kinds);
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn who_was_dead_and_is_restored_from_a_backup_keeps_its_dependents() {
    let bed = bare();
    let live = async |bed: &Bed| {
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.dependents(&MAPS, &owner, 5).await;
        owner
    };
    let owner = live(&bed).await;
    bed.collect().await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
    // It is long ago, and the watches are at versions that the backup has never seen.
    for i in 0..50 {
        bed.create(&SECRETS, &format!("later-{i}"), &[]).await;
    }
    bed.settle().await;
    bed.door.reset();
    let (_, backup) = sandbox();
    bed.door.switch(backup.door());
    let again = live(&bed).await;
    assert_eq!(
        again["metadata"]["uid"], owner["metadata"]["uid"],
        "it is the same one"
    );
    bed.sleep(HOUR).await;
    assert_eq!((bed.left(&MAPS).await, bed.door.writes()), (5, 0));
    bed.delete(&SECRETS, &again, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_cache_that_has_not_noticed_a_restore_saw_go_is_asked_for() {
    let bed = bare();
    // Config maps are the first that notice.
    bed.door.judge(|it| match it.what.as_str() {
        "WATCH configmaps" => Answer::Refused(500, json!({"reason": "InternalError"})),
        _ => Answer::Done,
    });
    let live = async |bed: &Bed| {
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        for i in 0..5 {
            bed.create(&MAPS, &format!("dependent-{i}"), &[reference(&owner)])
                .await;
        }
        owner
    };
    let owner = live(&bed).await;
    for i in 0..50 {
        bed.create(&SECRETS, &format!("later-{i}"), &[]).await;
    }
    bed.collect().await;
    bed.door.lag().hold_at("secrets", bed.sandbox.revision());
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    let (_, backup) = sandbox();
    bed.door.switch(backup.door());
    let again = live(&bed).await;
    assert_eq!(
        again["metadata"]["uid"], owner["metadata"]["uid"],
        "it is the same one"
    );
    bed.until(async |bed| restarts(bed, "configmaps") == Some(1.0))
        .await;
    assert_eq!(restarts(&bed, "secrets"), Some(0.0));
    // Only now the cache of secrets learns what became of it in the store of before.
    bed.door.lag().release();
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!((bed.left(&MAPS).await, bed.door.writes()), (5, 0));
    bed.sleep(HOUR).await;
    assert_eq!((bed.left(&MAPS).await, bed.door.writes()), (5, 0));
    bed.door.judge(|_| Answer::Done);
    bed.delete(&SECRETS, &again, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
}

/// How often a cache has noticed a restore.
fn restarts(bed: &Bed, plural: &str) -> Option<f64> {
    bed.metric(&format!(
        "coxswain_cache_restarts_total{{group=\"\",name=\"coxswain\",resource=\"{plural}\",version=\"v1\"}}"
    ))
}
