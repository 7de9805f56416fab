//! Changes of the propagation policy during a deletion: the last one counts.

use steersman_harness::Test;

use super::fixture::{FOREGROUND, Fixture, HOLD, finalizers, is_terminating, owners};

pub fn tests() -> Vec<Test> {
    [
        each!(foreground_then_orphan_orphans),
        each!(foreground_then_background_deletes_at_once),
        each!(foreground_then_background_with_finalizer_keeps_late_dependents),
        each!(orphan_then_foreground_keeps_orphans),
        each!(orphan_deletion_of_a_dependent_is_kept),
        each!(dependent_is_deleted_by_the_policy_of_its_finalizer),
    ]
    .concat()
}

async fn foreground_then_orphan_orphans(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create_held("mine", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_terminating(&mine).await;
    let deleted = f.delete(&owner, "Orphan").await;
    assert_eq!(finalizers(&deleted), ["orphan"]);
    f.wait_deleted(&[&owner]).await;
    let now = f.get(&mine).await;
    assert_eq!((finalizers(&now), owners(&now)), (vec![HOLD.to_owned()], vec![]));
    f.remove_hold(&mine).await;
    f.wait_deleted(&[&mine]).await;
}

async fn foreground_then_background_deletes_at_once(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create_held("mine", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_terminating(&mine).await;
    f.delete(&owner, "Background").await;
    assert!(f.find(&owner).await.is_none(), "not deleted at once");
    f.remove_hold(&mine).await;
    f.wait_deleted(&[&mine]).await;
}

async fn foreground_then_background_with_finalizer_keeps_late_dependents(f: Fixture) {
    let owner = f.create_held("owner", &[]).await;
    let mine = f.create_held("mine", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_terminating(&mine).await;
    let deleted = f.delete(&owner, "Background").await;
    assert_eq!(finalizers(&deleted), [HOLD]);
    f.wait_observed().await;
    let late = f.create("late", &[owner.blocking()]).await;
    f.assert_kept(&[&late]).await;
    f.remove_hold(&mine).await;
    f.wait_deleted(&[&mine]).await;
    f.assert_kept(&[&late]).await;
    f.remove_hold(&owner).await;
    f.wait_deleted(&[&owner, &late]).await;
}

async fn orphan_then_foreground_keeps_orphans(f: Fixture) {
    let owner = f.create_held("owner", &[]).await;
    let kept = f.create("kept", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Orphan").await;
    f.wait_for(&owner, "has only the test's finalizer", |now| {
        finalizers(now) == [HOLD]
    })
    .await;
    assert!(owners(&f.get(&kept).await).is_empty());
    let mine = f.create_held("mine", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_terminating(&mine).await;
    assert_eq!(finalizers(&f.get(&owner).await), [HOLD, FOREGROUND]);
    f.remove_hold(&mine).await;
    f.wait_for(&owner, "has only the test's finalizer", |now| {
        finalizers(now) == [HOLD]
    })
    .await;
    f.remove_hold(&owner).await;
    f.wait_deleted(&[&owner, &mine]).await;
    f.assert_kept(&[&kept]).await;
}

/// The deletion of its owner does not change the policy.
async fn orphan_deletion_of_a_dependent_is_kept(f: Fixture) {
    let top = f.create("top", &[]).await;
    let middle = f.create_held("middle", &[top.blocking()]).await;
    let bottom = f.create("bottom", &[middle.blocking()]).await;
    f.delete_observed(&middle, "Orphan").await;
    f.wait_for(&middle, "has only the test's finalizer", |now| {
        finalizers(now) == [HOLD]
    })
    .await;
    f.delete(&top, "Background").await;
    f.wait_observed().await;
    f.remove_hold(&middle).await;
    f.wait_deleted(&[&middle]).await;
    f.assert_kept(&[&bottom]).await;
}

async fn dependent_is_deleted_by_the_policy_of_its_finalizer(f: Fixture) {
    let top = f.create("top", &[]).await;
    for (index, (finalizer, kept)) in [("orphan", true), (FOREGROUND, false)].into_iter().enumerate() {
        let change = serde_json::json!({"metadata": {
            "finalizers": [finalizer], "ownerReferences": [top.reference()],
        }});
        let middle = f
            .create_with(f.kind, &f.ns, &format!("middle-{index}"), change)
            .await;
        let bottom = f.create(&format!("bottom-{index}"), &[middle.blocking()]).await;
        f.assert_kept(&[&middle, &bottom]).await;
        assert!(!is_terminating(&f.get(&middle).await));
        // With an absent owner it is garbage.
        f.set_owners(&middle, &[f.absent_owner(f.kind)]).await;
        f.wait_deleted(&[&middle]).await;
        if kept {
            f.assert_kept(&[&bottom]).await;
            assert!(owners(&f.get(&bottom).await).is_empty());
        } else {
            f.wait_deleted(&[&bottom]).await;
        }
    }
}
