//! Dependents that come, or begin to block, while their owner is going.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::json;

use super::stage::{HOLD, Stage, Thing, finalizers, is_marked};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(a_late_dependent_is_deleted_at_once, Ours),
        each!(a_late_dependent_blocks),
        each!(a_dependent_that_begins_to_block_blocks),
        each!(a_late_reference_of_an_old_object_blocks),
        each!(a_late_dependent_that_does_not_block_goes_with_the_owner),
    ]
    .concat()
}

/// An owner that is going, and what holds it up.
async fn going(s: &Stage) -> (Thing, Thing) {
    let owner = s.thing("owner", &[]).await;
    let blocker = s.held("blocker", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.marked(&blocker).await;
    (owner, blocker)
}

/// It does not wait until the others are gone.
async fn a_late_dependent_is_deleted_at_once(s: Stage) {
    let (owner, blocker) = going(&s).await;
    let late = s.thing("late", &[owner.blocking()]).await;
    let plain = s.thing("plain", &[owner.reference()]).await;
    s.gone(&[&late, &plain]).await;
    s.get(&owner).await;
    s.release(&blocker).await;
    s.gone(&[&blocker, &owner]).await;
}

async fn a_late_dependent_blocks(s: Stage) {
    let (owner, blocker) = going(&s).await;
    let late = s.held("late", &[owner.blocking()]).await;
    s.seen().await;
    s.release(&blocker).await;
    s.gone(&[&blocker]).await;
    s.marked(&late).await;
    s.seen().await;
    s.get(&owner).await;
    s.release(&late).await;
    s.gone(&[&late, &owner]).await;
}

async fn a_dependent_that_begins_to_block_blocks(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let blocker = s.held("blocker", &[owner.blocking()]).await;
    let mine = s.held("mine", &[owner.reference()]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.marked(&blocker).await;
    s.marked(&mine).await;
    s.own(&mine, &[owner.blocking()]).await;
    s.seen().await;
    s.release(&blocker).await;
    s.gone(&[&blocker]).await;
    s.seen().await;
    s.get(&owner).await;
    s.release(&mine).await;
    s.gone(&[&mine, &owner]).await;
}

async fn a_late_reference_of_an_old_object_blocks(s: Stage) {
    let old = s.held("old", &[]).await;
    let (owner, blocker) = going(&s).await;
    s.own(&old, &[owner.blocking()]).await;
    s.seen().await;
    s.release(&blocker).await;
    s.gone(&[&blocker]).await;
    let now = s.marked(&old).await;
    assert_eq!(finalizers(&now), [HOLD]);
    s.get(&owner).await;
    s.release(&old).await;
    s.gone(&[&old, &owner]).await;
}

async fn a_late_dependent_that_does_not_block_goes_with_the_owner(s: Stage) {
    let (owner, blocker) = going(&s).await;
    let said = with(owner.reference(), json!({"blockOwnerDeletion": false}));
    let late = s.held("late", &[said]).await;
    s.release(&blocker).await;
    s.gone(&[&blocker, &owner]).await;
    assert!(is_marked(&s.marked(&late).await));
    s.release(&late).await;
    s.gone(&[&late]).await;
}
