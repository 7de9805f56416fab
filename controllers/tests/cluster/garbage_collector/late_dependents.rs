//! Dependents that are created, or start blocking, during a foreground deletion.

use serde_json::json;
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Fixture, HOLD, Object, finalizers, is_terminating};

pub fn tests() -> Vec<Test> {
    [
        each!(late_dependent_is_deleted_at_once, Ours),
        each!(late_blocking_dependent_blocks),
        each!(dependent_that_starts_blocking_blocks),
        each!(late_blocking_reference_of_an_old_object_blocks),
        each!(late_nonblocking_dependent_does_not_block),
    ]
    .concat()
}

/// Creates an owner in foreground deletion and a dependent that blocks it.
async fn create_blocked_owner(f: &Fixture) -> (Object, Object) {
    let owner = f.create("owner", &[]).await;
    let blocker = f.create_held("blocker", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_terminating(&blocker).await;
    (owner, blocker)
}

async fn late_dependent_is_deleted_at_once(f: Fixture) {
    let (owner, blocker) = create_blocked_owner(&f).await;
    let late = f.create("late", &[owner.blocking()]).await;
    let plain = f.create("plain", &[owner.reference()]).await;
    f.wait_deleted(&[&late, &plain]).await;
    f.get(&owner).await;
    f.remove_hold(&blocker).await;
    f.wait_deleted(&[&blocker, &owner]).await;
}

async fn late_blocking_dependent_blocks(f: Fixture) {
    let (owner, blocker) = create_blocked_owner(&f).await;
    let late = f.create_held("late", &[owner.blocking()]).await;
    f.wait_observed().await;
    f.remove_hold(&blocker).await;
    f.wait_deleted(&[&blocker]).await;
    f.wait_terminating(&late).await;
    f.wait_observed().await;
    f.get(&owner).await;
    f.remove_hold(&late).await;
    f.wait_deleted(&[&late, &owner]).await;
}

async fn dependent_that_starts_blocking_blocks(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let blocker = f.create_held("blocker", &[owner.blocking()]).await;
    let mine = f.create_held("mine", &[owner.reference()]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_terminating(&blocker).await;
    f.wait_terminating(&mine).await;
    f.set_owners(&mine, &[owner.blocking()]).await;
    f.wait_observed().await;
    f.remove_hold(&blocker).await;
    f.wait_deleted(&[&blocker]).await;
    f.wait_observed().await;
    f.get(&owner).await;
    f.remove_hold(&mine).await;
    f.wait_deleted(&[&mine, &owner]).await;
}

async fn late_blocking_reference_of_an_old_object_blocks(f: Fixture) {
    let old = f.create_held("old", &[]).await;
    let (owner, blocker) = create_blocked_owner(&f).await;
    f.set_owners(&old, &[owner.blocking()]).await;
    f.wait_observed().await;
    f.remove_hold(&blocker).await;
    f.wait_deleted(&[&blocker]).await;
    let now = f.wait_terminating(&old).await;
    assert_eq!(finalizers(&now), [HOLD]);
    f.get(&owner).await;
    f.remove_hold(&old).await;
    f.wait_deleted(&[&old, &owner]).await;
}

async fn late_nonblocking_dependent_does_not_block(f: Fixture) {
    let (owner, blocker) = create_blocked_owner(&f).await;
    let explicit = with(owner.reference(), json!({"blockOwnerDeletion": false}));
    let late = f.create_held("late", &[explicit]).await;
    f.remove_hold(&blocker).await;
    f.wait_deleted(&[&blocker, &owner]).await;
    assert!(is_terminating(&f.wait_terminating(&late).await));
    f.remove_hold(&late).await;
    f.wait_deleted(&[&late]).await;
}
