//! Owners that exist, or existed, and that no cache shows.

use super::*;

#[tokio::test(start_paused = true)]
async fn uncached_cluster_scoped_owner_keeps_its_dependents() {
    let f = fixture().await;
    f.api
        .lag()
        .hold_at("clusterroles.rbac.authorization.k8s.io", f.sandbox.revision());
    let owner = f.create(&ROLES, "owner", &[]).await;
    f.create_dependents(&MAPS, &owner, 3).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.left(&MAPS).await, 3);
    f.delete(&ROLES, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn deletion_of_an_owner_that_no_cache_has_shown_is_noticed() {
    let f = fixture().await;
    f.api.lag().hold_at("secrets", f.sandbox.revision());
    let owner = f.create_owner("owner", 3).await;
    f.sleep(Duration::from_secs(5)).await;
    assert_eq!(f.left(&MAPS).await, 3);
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn owner_deleted_with_its_kind_is_noticed_by_a_late_event() {
    let f = fixture().await;
    f.define_widgets().await;
    let owner = f.create(&WIDGETS, "owner", &[]).await;
    f.create_dependents(&MAPS, &owner, 3).await;
    f.settle().await;
    f.api.lag().hold_at("widgets.test.dev", f.sandbox.revision());
    f.delete(&WIDGETS, &owner, Propagation::Background).await;
    f.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    f.sleep(Duration::from_secs(3)).await;
    f.api.lag().release();
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn object_with_many_absent_owners_is_deleted_while_their_watch_fails() {
    let f = unstarted();
    f.api.inject_all(|it| match it.operation.as_str() {
        "WATCH secrets" => status_reply(500, json!({"reason": "InternalError"})),
        // The proofs have to be found again after each failure.
        "DELETE configmaps" if it.before == 0 => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.start().await;
    let owners = (0..1000).map(|i| {
        let mut owner = dangling(&SECRETS, &format!("never-{i}"));
        owner["uid"] = json!(format!("never-{i}"));
        owner
    });
    let owners: Vec<Value> = owners.collect();
    f.create(&MAPS, "dependent-0", &owners).await;
    f.sleep(Duration::from_mins(5)).await;
    let counts = f.api.counts();
    assert_eq!(f.left(&MAPS).await, 0, "{counts:?}");
    assert!(f.api.count("GET secrets") <= 3 * owners.len(), "{counts:?}");
}

/// The storage may be restored between two attempts to watch the owner's kind.
#[tokio::test(start_paused = true)]
async fn owner_is_read_again_while_the_watch_of_its_kind_waits() {
    let f = unstarted();
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST secrets" if it.before > 0 => Effect::DelayAnswer(HOUR),
        "WATCH secrets" => status_reply(410, json!({"reason": "Expired"})),
        "DELETE configmaps" => status_reply(403, json!({"reason": "Forbidden"})),
        _ => Effect::Pass,
    });
    f.start().await;
    let owner = dangling(&SECRETS, "never");
    f.create(&MAPS, "dependent-0", &[owner]).await;
    f.until(async |f| f.api.count("DELETE configmaps") > 0).await;
    f.settle().await;
    let reads = f.api.count("GET secrets");
    f.sleep(Duration::from_secs(40)).await;
    assert!(f.api.count("GET secrets") > reads + 1, "{:?}", f.api.counts());
}
