//! Repeated deletions of a terminating object.

use serde_json::json;
use steersman_harness::Test;

use super::fixture::{FOREGROUND, Fixture, HOLD, finalizers, owners};

pub fn tests() -> Vec<Test> {
    [
        each!(repeated_foreground_deletion_removes_the_finalizer_again),
        each!(repeated_orphan_deletion_removes_the_finalizer_again),
        each!(deletions_with_changing_policies_remove_the_finalizers),
        each!(repeated_foreground_deletion_stays_blocked),
    ]
    .concat()
}

async fn assert_finalizers_are_removed(f: Fixture, policies: &[&str]) {
    let owner = f.create_held("owner", &[]).await;
    for policy in policies {
        f.delete(&owner, policy).await;
        f.wait_for(&owner, "has only the test's finalizer", |now| {
            finalizers(now) == [HOLD]
        })
        .await;
        f.wait_observed().await;
    }
    f.remove_hold(&owner).await;
    f.wait_deleted(&[&owner]).await;
}

async fn repeated_foreground_deletion_removes_the_finalizer_again(f: Fixture) {
    assert_finalizers_are_removed(f, &["Foreground", "Foreground", "Foreground"]).await;
}

async fn repeated_orphan_deletion_removes_the_finalizer_again(f: Fixture) {
    assert_finalizers_are_removed(f, &["Orphan", "Orphan", "Orphan"]).await;
}

async fn deletions_with_changing_policies_remove_the_finalizers(f: Fixture) {
    assert_finalizers_are_removed(f, &["Orphan", "Foreground", "Background", "Orphan", "Foreground"]).await;
}

async fn repeated_foreground_deletion_stays_blocked(f: Fixture) {
    let owner = f.create_held("owner", &[]).await;
    let mine = f.create_held("mine", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_terminating(&mine).await;
    let again = f.delete(&owner, "Foreground").await;
    assert_eq!(finalizers(&again), [HOLD, FOREGROUND]);
    f.wait_observed().await;
    assert_eq!(finalizers(&f.get(&owner).await), [HOLD, FOREGROUND]);
    f.remove_hold(&mine).await;
    f.wait_deleted(&[&mine]).await;
    f.wait_for(&owner, "has only the test's finalizer", |now| {
        finalizers(now) == [HOLD]
    })
    .await;
    // A later orphan deletion orphans late dependents.
    let late = f.create("late", &[owner.blocking()]).await;
    f.wait_observed().await;
    f.delete_with(&owner, json!({"orphanDependents": true})).await;
    f.wait_for(&late, "has no owners", |now| owners(now).is_empty())
        .await;
    f.wait_for(&owner, "has only the test's finalizer", |now| {
        finalizers(now) == [HOLD]
    })
    .await;
    f.remove_hold(&owner).await;
    f.wait_deleted(&[&owner]).await;
    f.assert_kept(&[&late]).await;
}
