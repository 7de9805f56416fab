//! Deletions of what is being deleted: the finalizer that comes again goes again.

use coxswain_tests::Test;
use serde_json::json;

use super::stage::{FOREGROUND, HOLD, Stage, finalizers, owners};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(twice_in_the_foreground),
        each!(twice_orphaned),
        each!(one_after_the_other),
        each!(twice_while_something_blocks),
    ]
    .concat()
}

async fn repeated(s: Stage, policies: &[&str]) {
    let owner = s.held("owner", &[]).await;
    for policy in policies {
        s.delete(&owner, policy).await;
        s.is(&owner, "is only held", |now| finalizers(now) == [HOLD])
            .await;
        s.seen().await;
    }
    s.release(&owner).await;
    s.gone(&[&owner]).await;
}

async fn twice_in_the_foreground(s: Stage) {
    repeated(s, &["Foreground", "Foreground", "Foreground"]).await;
}

async fn twice_orphaned(s: Stage) {
    repeated(s, &["Orphan", "Orphan", "Orphan"]).await;
}

async fn one_after_the_other(s: Stage) {
    repeated(s, &["Orphan", "Foreground", "Background", "Orphan", "Foreground"]).await;
}

async fn twice_while_something_blocks(s: Stage) {
    let owner = s.held("owner", &[]).await;
    let mine = s.held("mine", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.marked(&mine).await;
    let again = s.delete(&owner, "Foreground").await;
    assert_eq!(finalizers(&again), [HOLD, FOREGROUND]);
    s.seen().await;
    assert_eq!(finalizers(&s.get(&owner).await), [HOLD, FOREGROUND]);
    s.release(&mine).await;
    s.gone(&[&mine]).await;
    s.is(&owner, "is only held", |now| finalizers(now) == [HOLD])
        .await;
    // Those of a second round are nobody's in the end, as it says.
    let late = s.thing("late", &[owner.blocking()]).await;
    s.seen().await;
    s.delete_with(&owner, json!({"orphanDependents": true})).await;
    s.is(&late, "is nobody's", |now| owners(now).is_empty()).await;
    s.is(&owner, "is only held", |now| finalizers(now) == [HOLD])
        .await;
    s.release(&owner).await;
    s.gone(&[&owner]).await;
    s.stay(&[&late]).await;
}
