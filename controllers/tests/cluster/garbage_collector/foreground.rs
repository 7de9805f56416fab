//! Foreground deletion.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{FOREGROUND, Fixture, HOLD, Kind, Object, finalizers, is_terminating, owners, text};

pub fn tests() -> Vec<Test> {
    [
        each!(owner_is_deleted_after_blocking_dependents),
        each!(owner_is_not_blocked_by_other_dependents),
        each!(owner_without_dependents_is_deleted),
        each!(tree_is_deleted_from_its_leaves),
        each!(dependents_with_dependents_are_deleted_in_foreground),
        each!(foreign_finalizers_keep_their_order),
        each!(owner_is_deleted_when_dependents_stop_blocking),
        each!(dependent_with_another_owner_is_kept),
        each!(diamond_of_dependents_is_deleted),
        each!(many_dependents_are_deleted),
    ]
    .concat()
}

async fn owner_is_deleted_after_blocking_dependents(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let held = [
        f.create_held("held-0", &[owner.blocking()]).await,
        f.create_held("held-1", &[owner.blocking()]).await,
    ];
    let free = f.create("free", &[owner.blocking()]).await;
    f.wait_observed().await;
    let deleted = f.delete(&owner, "Foreground").await;
    assert_eq!(finalizers(&deleted), [FOREGROUND]);
    f.wait_deleted(&[&free]).await;
    for held in &held {
        let now = f.wait_terminating(held).await;
        assert_eq!(owners(&now), [&*owner.uid], "{now:#}");
    }
    for held in &held {
        f.wait_observed().await;
        let now = f.get(&owner).await;
        assert_eq!(finalizers(&now), [FOREGROUND], "{now:#}");
        f.remove_hold(held).await;
        f.wait_deleted(&[held]).await;
    }
    f.wait_deleted(&[&owner]).await;
}

async fn owner_is_not_blocked_by_other_dependents(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let plain = f.create_held("plain", &[owner.reference()]).await;
    let explicit = f.create_held("explicit", &[not_blocking(&owner)]).await;
    f.delete_observed(&owner, "Foreground").await;
    f.wait_deleted(&[&owner]).await;
    for held in [&plain, &explicit] {
        f.wait_terminating(held).await;
        f.remove_hold(held).await;
    }
    f.wait_deleted(&[&plain, &explicit]).await;
}

/// Returns a reference with `blockOwnerDeletion: false`.
fn not_blocking(owner: &Object) -> Value {
    with(owner.reference(), json!({"blockOwnerDeletion": false}))
}

async fn owner_without_dependents_is_deleted(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    f.delete(&owner, "Foreground").await;
    f.wait_deleted(&[&owner]).await;
}

async fn tree_is_deleted_from_its_leaves(f: Fixture) {
    let root = f.create("0-root", &[]).await;
    let middle = f.create("1-middle", &[root.blocking()]).await;
    let leaf = f.create("2-leaf", &[middle.blocking()]).await;
    f.wait_observed().await;
    let collection = f.kind.path(&f.ns);
    let list = f.c.api().get(&collection).await.expect(200);
    let version = text(&list["metadata"]["resourceVersion"]);
    let path = format!("{collection}?watch=1&resourceVersion={version}");
    let mut watch = f.c.api().watch(&path).await;
    f.delete(&root, "Foreground").await;
    f.wait_deleted(&[&root, &middle, &leaf]).await;
    let mut gone = Vec::new();
    while gone.len() < 3 {
        let event = watch.event().await;
        if event["type"] == "DELETED" {
            gone.push(text(&event["object"]["metadata"]["name"]));
        }
    }
    assert_eq!(gone, ["2-leaf", "1-middle", "0-root"]);
}

async fn dependents_with_dependents_are_deleted_in_foreground(f: Fixture) {
    let root = f.create("root", &[]).await;
    let middle = f.create("middle", &[root.blocking()]).await;
    let leaf = f.create_held("leaf", &[middle.blocking()]).await;
    let alone = f.create_held("alone", &[root.blocking()]).await;
    f.delete_observed(&root, "Foreground").await;
    f.wait_terminating(&leaf).await;
    assert_eq!(finalizers(&f.wait_terminating(&middle).await), [FOREGROUND]);
    assert_eq!(finalizers(&f.wait_terminating(&alone).await), [HOLD]);
    f.remove_hold(&alone).await;
    f.wait_deleted(&[&alone]).await;
    f.wait_observed().await;
    assert!(is_terminating(&f.get(&root).await));
    f.remove_hold(&leaf).await;
    f.wait_deleted(&[&leaf, &middle, &root]).await;
}

async fn foreign_finalizers_keep_their_order(f: Fixture) {
    let all = ["example.com/z", "example.com/a", HOLD];
    let change = json!({"metadata": {"finalizers": all}});
    let owner = f.create_with(f.kind, &f.ns, "owner", change.clone()).await;
    let mine = json!({"metadata": {"finalizers": all, "ownerReferences": [owner.blocking()]}});
    let mine = f.create_with(f.kind, &f.ns, "mine", mine).await;
    f.wait_observed().await;
    let deleted = f.delete(&owner, "Foreground").await;
    assert_eq!(
        finalizers(&deleted),
        ["example.com/z", "example.com/a", HOLD, FOREGROUND]
    );
    assert_eq!(finalizers(&f.wait_terminating(&mine).await), all);
    f.patch_object(&mine, json!({"metadata": {"finalizers": null}}))
        .await;
    f.wait_deleted(&[&mine]).await;
    let now = f
        .wait_for(&owner, "has only foreign finalizers", |it| {
            !finalizers(it).iter().any(|it| it == FOREGROUND)
        })
        .await;
    assert_eq!(finalizers(&now), all);
    f.wait_observed().await;
    assert_eq!(f.get(&owner).await, now, "written without need");
    f.patch_object(&owner, json!({"metadata": {"finalizers": null}}))
        .await;
    f.wait_deleted(&[&owner]).await;
}

async fn owner_is_deleted_when_dependents_stop_blocking(f: Fixture) {
    let other = f.create("other", &[]).await;
    for (index, how) in ["false", "unset", "removed", "swapped"].into_iter().enumerate() {
        let owner = f.create(&format!("owner-{index}"), &[]).await;
        let mine = f.create_held(&format!("mine-{index}"), &[owner.blocking()]).await;
        f.delete_observed(&owner, "Foreground").await;
        f.wait_terminating(&mine).await;
        f.wait_observed().await;
        f.get(&owner).await;
        let owners = match how {
            "false" => vec![not_blocking(&owner)],
            "unset" => vec![owner.reference()],
            "removed" => vec![],
            _ => vec![other.blocking()],
        };
        f.set_owners(&mine, &owners).await;
        f.wait_deleted(&[&owner]).await;
        f.remove_hold(&mine).await;
        f.wait_deleted(&[&mine]).await;
    }
}

async fn dependent_with_another_owner_is_kept(f: Fixture) {
    let deleted_owner = f.create("deleted-owner", &[]).await;
    let solid = f.create("solid", &[]).await;
    let both = f
        .create("both", &[deleted_owner.blocking(), solid.blocking()])
        .await;
    let below = f.create("below", &[both.blocking()]).await;
    f.delete_observed(&deleted_owner, "Foreground").await;
    f.wait_deleted(&[&deleted_owner]).await;
    let now = f
        .wait_for(&both, "has one owner", |it| owners(it) == [&*solid.uid])
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([solid.blocking()]));
    f.assert_kept(&[&solid, &both, &below]).await;
}

async fn diamond_of_dependents_is_deleted(f: Fixture) {
    let top = f.create("top", &[]).await;
    let left = f.create("left", &[top.blocking()]).await;
    let right = f.create_kind(Kind::Secret, "right", &[top.blocking()]).await;
    let bottom = f.create("bottom", &[left.blocking(), right.blocking()]).await;
    f.delete_observed(&top, "Foreground").await;
    f.wait_deleted(&[&bottom, &left, &right, &top]).await;
}

async fn many_dependents_are_deleted(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mut all = vec![owner.clone()];
    for index in 0..50 {
        all.push(f.create(&format!("mine-{index}"), &[owner.blocking()]).await);
    }
    f.delete_observed(&owner, "Foreground").await;
    f.wait_deleted(&all.iter().collect::<Vec<_>>()).await;
}
