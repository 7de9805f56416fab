//! Startup: caches that have not synced, and restores from a backup.

use http::Method;
use steersman_sandbox::faults::Matcher;

use super::*;

fn fail_lists_of_secrets_for(f: &Fixture, seconds: u64) {
    let (clock, begin) = (f.env.clock.clone(), f.env.clock.now());
    f.api.inject_all(move |it| {
        let late = clock.now() - begin < Duration::from_secs(seconds);
        match it.operation.as_str() {
            "LIST secrets" if late && !it.by_controller => {
                status_reply(500, json!({"reason": "InternalError"}))
            }
            _ => Effect::Pass,
        }
    });
}

#[tokio::test(start_paused = true)]
async fn owners_of_an_unsynced_resource_are_not_read_one_by_one() {
    let f = unstarted();
    for i in 0..50 {
        let owner = f.create(&SECRETS, &format!("owner-{i}"), &[]).await;
        f.create(&MAPS, &format!("dependent-{i}"), &[reference(&owner)])
            .await;
    }
    fail_lists_of_secrets_for(&f, 15);
    f.start().await;
    f.sleep(HOUR).await;
    assert_eq!(f.api.counts().len(), 0, "{:?}", f.api.counts());
    assert_eq!(f.left(&MAPS).await, 50);
}

#[tokio::test(start_paused = true)]
async fn owners_of_a_resource_that_never_syncs_are_read_after_a_delay() {
    let f = unstarted();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
    f.create(&MAPS, "dependent-1", &[dangling(&SECRETS, "never")])
        .await;
    fail_lists_of_secrets_for(&f, 1_000_000);
    f.start().await;
    f.sleep(Duration::from_secs(25)).await;
    assert_eq!(f.api.recorded().len(), 0);
    f.sleep(Duration::from_secs(10)).await;
    assert!(f.get(&MAPS, "dependent-0").await.is_some());
    assert!(f.get(&MAPS, "dependent-1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn unsynced_resource_delays_finalizers() {
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let f = unstarted();
        let owner = f.create(&MAPS, "owner", &[]).await;
        f.create(&SECRETS, "dependent-0", &[blocking(&owner)]).await;
        f.delete(&MAPS, &owner, policy).await;
        fail_lists_of_secrets_for(&f, 15);
        f.start().await;
        f.sleep(Duration::from_secs(5)).await;
        assert_eq!(f.api.recorded().len(), 0, "{policy:?}");
        f.until(async |f| f.get(&MAPS, "owner").await.is_none()).await;
        let left = f.left(&SECRETS).await;
        assert_eq!(left, usize::from(policy == Propagation::Orphan), "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn collector_without_kinds_sends_nothing() {
    let f = unstarted();
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
async fn owner_restored_from_a_backup_keeps_its_dependents() {
    let f = unstarted();
    let live = async |f: &Fixture| f.create_owner("owner", 5).await;
    let owner = live(&f).await;
    f.start().await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    // The watches are at resourceVersions that are newer than the backup.
    for i in 0..50 {
        f.create(&SECRETS, &format!("later-{i}"), &[]).await;
    }
    f.settle().await;
    f.api.reset();
    let (_, backup) = sandbox();
    f.api.switch(backup.service());
    let again = live(&f).await;
    assert_eq!(
        again["metadata"]["uid"], owner["metadata"]["uid"],
        "the sandboxes assign the same uids"
    );
    f.sleep(HOUR).await;
    assert_eq!((f.left(&MAPS).await, f.api.writes()), (5, 0));
    f.delete(&SECRETS, &again, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn deletion_event_from_before_a_restore_is_verified_by_a_live_read() {
    let f = unstarted();
    // The cache of config maps relists first.
    f.api.inject_all(|it| match it.operation.as_str() {
        "WATCH configmaps" => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
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
    f.start().await;
    f.api.lag().hold_at("secrets", f.sandbox.revision());
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    let (_, backup) = sandbox();
    f.api.switch(backup.service());
    let again = live(&f).await;
    assert_eq!(
        again["metadata"]["uid"], owner["metadata"]["uid"],
        "the sandboxes assign the same uids"
    );
    f.until(async |f| restarts(f, "configmaps") == Some(1.0)).await;
    assert_eq!(restarts(&f, "secrets"), Some(0.0));
    // The cache of secrets receives the deletion event of the old store.
    f.api.lag().release();
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!((f.left(&MAPS).await, f.api.writes()), (5, 0));
    f.sleep(HOUR).await;
    assert_eq!((f.left(&MAPS).await, f.api.writes()), (5, 0));
    f.api.inject_all(|_| Effect::Pass);
    f.delete(&SECRETS, &again, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

/// The restored owner has the version that the collector knows, and a dependent that only a list shows.
#[tokio::test(start_paused = true)]
async fn orphaned_dependents_are_listed_again_after_a_restore() {
    let f = unstarted();
    let terminating = async |f: &Fixture| {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.delete(&SECRETS, &owner, Propagation::Orphan).await;
        owner
    };
    terminating(&f).await;
    for i in 0..50 {
        f.create(&SECRETS, &format!("later-{i}"), &[]).await;
    }
    f.api.inject(|method, _, _| match *method {
        Method::PATCH => status_reply(403, json!({"reason": "Forbidden"})),
        _ => Effect::Pass,
    });
    f.start().await;
    f.until(async |f| f.api.count("PATCH secrets") > 3).await;
    assert_eq!(
        f.api.count("LIST configmaps"),
        1,
        "a rejected patch costs no list"
    );
    let (_, backup) = sandbox();
    f.api.switch(backup.service());
    let owner = terminating(&f).await;
    f.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
    f.api.executed().reset_watches(&Matcher::any());
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" if !it.by_controller => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.until(async |f| restarts(f, "secrets") == Some(1.0)).await;
    f.api.inject_all(|_| Effect::Pass);
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 1);
}

/// The graph shows the dependent without its reference, because it was patched before the restore.
#[tokio::test(start_paused = true)]
async fn dependents_that_a_restore_attaches_again_are_orphaned() {
    let f = unstarted();
    let terminating = async |f: &Fixture| {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
        f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    };
    terminating(&f).await;
    for i in 0..50 {
        f.create(&SECRETS, &format!("later-{i}"), &[]).await;
    }
    f.api.inject(|method, path, _| match *method {
        Method::PATCH if path.ends_with("owner") => status_reply(403, json!({"reason": "Forbidden"})),
        _ => Effect::Pass,
    });
    f.start().await;
    f.until(async |f| f.api.count("PATCH secrets") > 3).await;
    let (_, backup) = sandbox();
    f.api.switch(backup.service());
    terminating(&f).await;
    f.api.executed().reset_watches(&Matcher::any());
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" if !it.by_controller => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.until(async |f| restarts(f, "secrets") == Some(1.0)).await;
    f.api.inject_all(|_| Effect::Pass);
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 1);
}

/// A cache that is newer than the restored storage does not show which objects refer to the owner.
#[tokio::test(start_paused = true)]
async fn cluster_scoped_owner_waits_until_the_caches_show_the_restored_storage() {
    let f = unstarted();
    let terminating = async |f: &Fixture| {
        let owner = f.create(&ROLES, "owner", &[]).await;
        f.delete(&ROLES, &owner, Propagation::Orphan).await;
        owner
    };
    terminating(&f).await;
    for i in 0..50 {
        f.create(&MAPS, &format!("later-{i}"), &[]).await;
    }
    f.api.inject(|method, _, _| match *method {
        Method::PATCH => status_reply(403, json!({"reason": "Forbidden"})),
        _ => Effect::Pass,
    });
    f.start().await;
    f.until(async |f| f.api.count("PATCH clusterroles") > 3).await;
    let (_, backup) = sandbox();
    f.api.switch(backup.service());
    let owner = terminating(&f).await;
    f.create(&MAPS, "dependent-0", &[reference(&owner)]).await;
    f.api.executed().reset_watches(&Matcher::any());
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" if !it.by_controller => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.until(async |f| restarts(f, "clusterroles") == Some(1.0)).await;
    f.settle().await;
    f.api.inject_all(|_| Effect::Pass);
    f.sleep(HOUR).await;
    assert!(f.get(&ROLES, "owner").await.is_none());
    assert_eq!(f.left(&MAPS).await, 1);
}

/// The objects have the versions of the backup, and the revision of the storage is higher than before.
#[tokio::test(start_paused = true)]
async fn objects_that_were_changed_after_the_backup_are_deleted_with_their_owner() {
    let f = fixture().await;
    let owner = f.create_owner("owner", 3).await;
    let backup = f.sandbox.export();
    for object in f.list(&MAPS).await {
        let name = object["metadata"]["name"].as_str().expect("a name");
        f.patch(&MAPS, name, &json!({"data": {"changed": "true"}})).await;
    }
    f.settle().await;
    let mut backup: Value = serde_json::from_str(&backup).expect("JSON");
    backup["revision"] = (f.sandbox.revision() + 1000).into();
    f.sandbox.import(&backup.to_string()).expect("an export");
    f.api.executed().reset_watches(&Matcher::any());
    f.settle().await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

/// Returns the number of restores that a cache has detected.
fn restarts(f: &Fixture, plural: &str) -> Option<f64> {
    let group = if plural == ROLES.plural { &*ROLES.group } else { "" };
    f.metric(&format!(
        "steersman_cache_restarts_total{{group=\"{group}\",name=\"\",resource=\"{plural}\",version=\"v1\"}}"
    ))
}
