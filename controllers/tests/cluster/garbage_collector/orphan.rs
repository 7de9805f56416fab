//! Orphan deletion.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{FOREGROUND, Fixture, HOLD, Kind, Object, finalizers, owners, text};

pub fn tests() -> Vec<Test> {
    [
        each!(dependents_are_kept_without_owners),
        each!(orphan_dependents_option_orphans),
        each!(orphaning_changes_only_the_reference),
        each!(dependents_of_dependents_are_not_written),
        each!(terminating_dependents_are_orphaned),
        each!(foreign_finalizers_keep_their_order),
        each!(many_dependents_are_orphaned_by_one_write_each),
        each!(dependents_created_just_before_the_deletion_are_orphaned, Ours),
        each!(dependents_in_all_namespaces_are_orphaned, [Region, ClusterRole]),
        each!(owner_without_dependents_is_deleted),
    ]
    .concat()
}

async fn wait_unowned(f: &Fixture, thing: &Object) -> Value {
    f.wait_for(thing, "has no owners", |now| owners(now).is_empty())
        .await
}

async fn dependents_are_kept_without_owners(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = [
        f.create("mine-0", &[owner.reference()]).await,
        f.create("mine-1", &[owner.blocking()]).await,
        f.create_kind(Kind::Secret, "mine-2", &[owner.blocking()]).await,
    ];
    f.wait_observed().await;
    let deleted = f.delete(&owner, "Orphan").await;
    assert_eq!(finalizers(&deleted), ["orphan"]);
    f.wait_deleted(&[&owner]).await;
    for mine in &mine {
        let now = f.get(mine).await;
        assert!(now["metadata"]["ownerReferences"].is_null(), "{now:#}");
    }
    f.assert_kept(&mine.iter().collect::<Vec<_>>()).await;
}

async fn orphan_dependents_option_orphans(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create("mine", &[owner.blocking()]).await;
    f.wait_observed().await;
    f.delete_with(&owner, json!({"orphanDependents": true})).await;
    f.wait_deleted(&[&owner]).await;
    wait_unowned(&f, &mine).await;
    f.assert_kept(&[&mine]).await;
}

async fn orphaning_changes_only_the_reference(f: Fixture) {
    let (first, last) = (f.create("first", &[]).await, f.create("last", &[]).await);
    let owner = f.create("owner", &[]).await;
    let refs = [
        with(first.blocking(), json!({"controller": true})),
        owner.blocking(),
        last.reference(),
    ];
    let change = json!({
        "metadata": {
            "labels": {"a": "b"}, "annotations": {"example.com/note": "c"},
            "finalizers": ["example.com/z", HOLD], "ownerReferences": refs,
        },
        "data": {"k": "djE="},
    });
    let mine = f.create_with(f.kind, &f.ns, "mine", change).await;
    let mut before = f.get(&mine).await;
    f.delete_observed(&owner, "Orphan").await;
    f.wait_deleted(&[&owner]).await;
    let mut now = f.get(&mine).await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([refs[0], refs[2]]));
    for object in [&mut before, &mut now] {
        for field in ["ownerReferences", "resourceVersion", "managedFields"] {
            object["metadata"][field] = Value::Null;
        }
    }
    assert_eq!(now, before);
    f.assert_kept(&[&mine, &first, &last]).await;
}

async fn dependents_of_dependents_are_not_written(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create("mine", &[owner.blocking()]).await;
    let below = f.create("below", &[mine.blocking()]).await;
    let before = f.get(&below).await;
    f.delete_observed(&owner, "Orphan").await;
    f.wait_deleted(&[&owner]).await;
    f.assert_kept(&[&mine, &below]).await;
    assert_eq!(f.get(&below).await, before);
}

async fn terminating_dependents_are_orphaned(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create_held("mine", &[owner.blocking()]).await;
    f.delete_observed(&mine, "Background").await;
    f.delete_observed(&owner, "Orphan").await;
    f.wait_deleted(&[&owner]).await;
    let now = wait_unowned(&f, &mine).await;
    assert_eq!(finalizers(&now), [HOLD]);
    f.remove_hold(&mine).await;
    f.wait_deleted(&[&mine]).await;
}

async fn foreign_finalizers_keep_their_order(f: Fixture) {
    let all = ["example.com/z", "example.com/a", HOLD];
    let owner = f
        .create_with(f.kind, &f.ns, "owner", json!({"metadata": {"finalizers": all}}))
        .await;
    let mine = f.create("mine", &[owner.blocking()]).await;
    f.wait_observed().await;
    let deleted = f.delete(&owner, "Orphan").await;
    assert_eq!(
        finalizers(&deleted),
        ["example.com/z", "example.com/a", HOLD, "orphan"]
    );
    let now = f
        .wait_for(&owner, "has only foreign finalizers", |it| finalizers(it) == all)
        .await;
    assert_eq!(owners(&f.get(&mine).await), Vec::<String>::new());
    f.assert_kept(&[&mine]).await;
    assert_eq!(f.get(&owner).await, now, "written without need");
    f.patch_object(&owner, json!({"metadata": {"finalizers": null}}))
        .await;
    f.wait_deleted(&[&owner]).await;
    f.assert_kept(&[&mine]).await;
}

async fn many_dependents_are_orphaned_by_one_write_each(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mut all = Vec::new();
    for index in 0..200 {
        let kind = if index % 2 == 0 { f.kind } else { Kind::Secret };
        all.push(
            f.create_kind(kind, &format!("mine-{index}"), &[owner.blocking()])
                .await,
        );
    }
    f.wait_observed().await;
    let mut before = Vec::new();
    for kind in [f.kind, Kind::Secret] {
        let list = f.c.api().get(&kind.path(&f.ns)).await.expect(200);
        before.push(text(&list["metadata"]["resourceVersion"]));
    }
    f.delete(&owner, "Orphan").await;
    f.wait_deleted(&[&owner]).await;
    for mine in &all {
        assert_eq!(owners(&f.get(mine).await), Vec::<String>::new());
    }
    f.assert_kept(&all.iter().collect::<Vec<_>>()).await;
    // Each dependent takes one write.
    for (kind, version) in [f.kind, Kind::Secret].into_iter().zip(before) {
        let path = format!("{}?watch=1&resourceVersion={version}", kind.path(&f.ns));
        let mut watch = f.c.api().watch(&path).await;
        let mut writes = 0;
        while writes < 100 {
            let event = watch.event().await;
            let name = text(&event["object"]["metadata"]["name"]);
            writes += usize::from(event["type"] == "MODIFIED" && name.starts_with("mine-"));
        }
        while let Some(event) = watch.next(std::time::Duration::from_millis(200)).await {
            let name = text(&event["object"]["metadata"]["name"]);
            assert!(!name.starts_with("mine-"), "{event:#}");
        }
    }
}

/// The cache of the collector may not show them when it shows the deletion of the owner.
async fn dependents_created_just_before_the_deletion_are_orphaned(f: Fixture) {
    for round in 0..5 {
        let owner = f.create(&format!("owner-{round}"), &[]).await;
        let mut mine = Vec::new();
        for index in 0..10 {
            let kind = if index % 2 == 0 { f.kind } else { Kind::Secret };
            let name = format!("mine-{round}-{index}");
            mine.push(f.create_kind(kind, &name, &[owner.blocking()]).await);
        }
        f.delete(&owner, "Orphan").await;
        f.wait_deleted(&[&owner]).await;
        for mine in &mine {
            assert_eq!(owners(&f.get(mine).await), Vec::<String>::new());
        }
        f.assert_kept(&mine.iter().collect::<Vec<_>>()).await;
    }
}

async fn dependents_in_all_namespaces_are_orphaned(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let second = f.c.namespace().await;
    let change = json!({"metadata": {"ownerReferences": [owner.blocking()]}});
    let mut mine = vec![f.create("mine", &[owner.blocking()]).await];
    for ns in [&f.ns, &second] {
        for kind in [Kind::ConfigMap, Kind::Widget] {
            mine.push(f.create_with(kind, ns, "mine", change.clone()).await);
        }
    }
    f.delete_observed(&owner, "Orphan").await;
    f.wait_deleted(&[&owner]).await;
    for mine in &mine {
        assert_eq!(owners(&f.get(mine).await), Vec::<String>::new());
    }
    f.assert_kept(&mine.iter().collect::<Vec<_>>()).await;
    assert!(!finalizers(&f.get(&mine[0]).await).contains(&FOREGROUND.to_owned()));
}

async fn owner_without_dependents_is_deleted(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    f.delete(&owner, "Orphan").await;
    f.wait_deleted(&[&owner]).await;
}
