//! Dependents with several owners.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Fixture, HOLD, Kind, is_terminating, owners};

pub fn tests() -> Vec<Test> {
    [
        each!(live_owner_keeps_the_dependent_and_absent_owners_are_removed),
        each!(order_of_owners_does_not_matter),
        each!(dependent_is_deleted_with_its_last_owner),
        each!(absent_and_foreground_owners_delete_the_dependent),
        each!(live_owner_keeps_the_dependent_of_absent_and_foreground_owners),
        each!(references_to_one_owner_count_once),
        each!(thousand_absent_owners_delete_the_dependent, [ConfigMap]),
        each!(one_live_owner_of_a_thousand_keeps_the_dependent, [Widget]),
        each!(chain_of_owners_of_different_kinds_is_deleted),
    ]
    .concat()
}

async fn live_owner_keeps_the_dependent_and_absent_owners_are_removed(f: Fixture) {
    let doomed = f.create("doomed", &[]).await;
    let first = f.create("first", &[]).await;
    let last = f.create_kind(Kind::Secret, "last", &[]).await;
    let refs = [
        first.reference(),
        doomed.blocking(),
        with(last.blocking(), json!({"controller": true})),
        f.absent_owner(f.kind),
    ];
    let change = json!({
        "metadata": {
            "labels": {"a": "b", "c": "d"}, "annotations": {"example.com/note": "e"},
            "finalizers": ["example.com/z", HOLD, "example.com/a"], "ownerReferences": refs,
        },
        "data": {"k": "djE="},
    });
    let mine = f.create_with(f.kind, &f.ns, "mine", change).await;
    let mut before = f.get(&mine).await;
    // The reference to the absent owner is removed at once, the other one after the deletion.
    f.wait_for(&mine, "has three owners", |now| owners(now).len() == 3)
        .await;
    f.assert_kept(&[&mine]).await;
    f.delete(&doomed, "Background").await;
    let mut now = f
        .wait_for(&mine, "has two owners", |now| owners(now).len() == 2)
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([refs[0], refs[2]]));
    for object in [&mut before, &mut now] {
        for field in ["ownerReferences", "resourceVersion", "managedFields"] {
            object["metadata"][field] = Value::Null;
        }
    }
    assert_eq!(now, before);
    f.assert_kept(&[&mine, &first, &last]).await;
}

async fn order_of_owners_does_not_matter(f: Fixture) {
    for (index, solid_at) in [0, 1, 2].into_iter().enumerate() {
        let solid = f.create(&format!("solid-{index}"), &[]).await;
        let mut refs = vec![f.absent_owner(f.kind), f.absent_owner(Kind::Secret)];
        refs.insert(solid_at, solid.reference());
        let mine = f.create(&format!("mine-{index}"), &refs).await;
        f.wait_for(&mine, "has one owner", |now| owners(now) == [&*solid.uid])
            .await;
        f.assert_kept(&[&mine]).await;
    }
}

async fn dependent_is_deleted_with_its_last_owner(f: Fixture) {
    let first = f.create("first", &[]).await;
    let last = f.create_kind(Kind::Secret, "last", &[]).await;
    let mine = f.create("mine", &[first.blocking(), last.blocking()]).await;
    f.delete_observed(&first, "Background").await;
    f.wait_for(&mine, "has one owner", |now| owners(now) == [&*last.uid])
        .await;
    f.assert_kept(&[&mine]).await;
    f.delete(&last, "Foreground").await;
    f.wait_deleted(&[&last, &mine]).await;
}

async fn absent_and_foreground_owners_delete_the_dependent(f: Fixture) {
    let foreground = f.create("foreground", &[]).await;
    let other = f.create_held("other", &[foreground.blocking()]).await;
    f.delete_observed(&foreground, "Foreground").await;
    f.wait_terminating(&other).await;
    let refs = [f.absent_owner(f.kind), foreground.blocking()];
    let mine = f.create("mine", &refs).await;
    f.wait_deleted(&[&mine]).await;
    f.get(&foreground).await;
    f.remove_hold(&other).await;
    f.wait_deleted(&[&other, &foreground]).await;
}

async fn live_owner_keeps_the_dependent_of_absent_and_foreground_owners(f: Fixture) {
    let foreground = f.create("foreground", &[]).await;
    let other = f.create_held("other", &[foreground.blocking()]).await;
    let solid = f.create("solid", &[]).await;
    let refs = [foreground.blocking(), f.absent_owner(f.kind), solid.blocking()];
    let mine = f.create("mine", &refs).await;
    f.delete_observed(&foreground, "Foreground").await;
    let now = f
        .wait_for(&mine, "has one owner", |now| owners(now) == [&*solid.uid])
        .await;
    assert!(!is_terminating(&now));
    f.wait_terminating(&other).await;
    f.remove_hold(&other).await;
    f.wait_deleted(&[&foreground]).await;
    f.assert_kept(&[&mine, &solid]).await;
}

/// The API server accepts different references with the same uid.
async fn references_to_one_owner_count_once(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create("mine", &[owner.reference(), owner.blocking()]).await;
    f.assert_kept(&[&mine]).await;
    assert_eq!(owners(&f.get(&mine).await).len(), 2);
    f.delete(&owner, "Foreground").await;
    f.wait_deleted(&[&mine, &owner]).await;

    let never = f.absent_owner(f.kind);
    let twice = with(never.clone(), json!({"blockOwnerDeletion": true}));
    let garbage = f.create("garbage", &[never.clone(), twice.clone()]).await;
    f.wait_deleted(&[&garbage]).await;
    let solid = f.create("solid", &[]).await;
    let kept = f.create("kept", &[never, solid.reference(), twice]).await;
    f.wait_for(&kept, "has one owner", |now| owners(now) == [&*solid.uid])
        .await;
    f.assert_kept(&[&kept]).await;
}

async fn thousand_absent_owners_delete_the_dependent(f: Fixture) {
    let refs: Vec<Value> = (0..1000).map(|_| f.absent_owner(f.kind)).collect();
    let mine = f.create("mine", &refs).await;
    f.wait_deleted(&[&mine]).await;
}

async fn one_live_owner_of_a_thousand_keeps_the_dependent(f: Fixture) {
    let solid = f.create("solid", &[]).await;
    let mut refs: Vec<Value> = (0..1000).map(|_| f.absent_owner(f.kind)).collect();
    refs[500] = solid.blocking();
    let mine = f.create("mine", &refs).await;
    let now = f
        .wait_for(&mine, "has one owner", |now| owners(now).len() == 1)
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([solid.blocking()]));
    f.assert_kept(&[&mine]).await;
    f.delete(&solid, "Background").await;
    f.wait_deleted(&[&mine]).await;
}

async fn chain_of_owners_of_different_kinds_is_deleted(f: Fixture) {
    let mut owner = f.create_kind(Kind::Region, "region", &[]).await;
    let mut all = vec![owner.clone()];
    for kind in [Kind::Widget, Kind::Secret, Kind::ConfigMap, Kind::Widget] {
        owner = f
            .create_kind(kind, &format!("below-{}", all.len()), &[owner.blocking()])
            .await;
        all.push(owner.clone());
    }
    let all: Vec<_> = all.iter().collect();
    f.assert_kept(&all).await;
    let policy = if f.kind == Kind::Widget {
        "Foreground"
    } else {
        "Background"
    };
    f.delete(all[0], policy).await;
    f.wait_deleted(&all).await;
}
