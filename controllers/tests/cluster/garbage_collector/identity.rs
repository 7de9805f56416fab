//! Identity of owners: apiVersion, kind, name and uid, in the namespace of the dependent. An owner that cannot be looked up
//! is not absent.

use serde_json::json;
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Fixture, GROUP, Kind, finalizers, owners};

pub fn tests() -> Vec<Test> {
    [
        each!(recreated_owner_is_another_owner),
        each!(owner_recreated_during_deletion_keeps_its_dependents),
        each!(owner_with_another_uid_is_absent),
        each!(owner_with_another_name_is_absent),
        each!(owner_of_another_kind_is_absent),
        each!(owner_of_any_served_version_is_resolved, [Widget]),
        each!(owner_of_an_unserved_version_is_unresolved, [Widget]),
        each!(owner_of_an_unknown_kind_is_unresolved),
        each!(unresolved_owner_keeps_dependents_of_absent_owners),
        each!(invalid_reference_does_not_affect_other_dependents),
        each!(second_reference_with_another_name_deletes_nothing),
        each!(malformed_uid_is_an_absent_owner),
        each!(names_with_colons_and_dots_are_resolved, [ClusterRole]),
    ]
    .concat()
}

async fn recreated_owner_is_another_owner(f: Fixture) {
    let first = f.create("owner", &[]).await;
    let of_first = f.create("of-first", &[first.blocking()]).await;
    f.delete_observed(&first, "Background").await;
    let second = f.create("owner", &[]).await;
    let of_second = f.create("of-second", &[second.blocking()]).await;
    let late = f.create("late", &[first.blocking()]).await;
    f.wait_deleted(&[&of_first, &late]).await;
    f.assert_kept(&[&second, &of_second]).await;
}

/// The last dependents are evaluated after the owner's name is reused.
async fn owner_recreated_during_deletion_keeps_its_dependents(f: Fixture) {
    let mut owner = f.create("owner", &[]).await;
    let mut deleted = Vec::new();
    for round in 0..5 {
        for index in 0..10 {
            let name = format!("mine-{round}-{index}");
            deleted.push(f.create(&name, &[owner.blocking()]).await);
        }
        f.delete(&owner, "Background").await;
        owner = f.create("owner", &[]).await;
    }
    let mine = f.create("mine", &[owner.blocking()]).await;
    f.wait_deleted(&deleted.iter().collect::<Vec<_>>()).await;
    f.assert_kept(&[&owner, &mine]).await;
}

async fn owner_with_another_uid_is_absent(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let good = f.create("good", &[owner.reference()]).await;
    let other = with(owner.reference(), json!({"uid": f.uid()}));
    let bad = f.create("bad", std::slice::from_ref(&other)).await;
    let half = f.create("half", &[other, owner.reference()]).await;
    f.wait_deleted(&[&bad]).await;
    f.wait_for(&half, "has one owner", |now| owners(now) == [&*owner.uid])
        .await;
    f.assert_kept(&[&owner, &good, &half]).await;
}

async fn owner_with_another_name_is_absent(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let good = f.create("good", &[owner.reference()]).await;
    let bad = f
        .create("bad", &[with(owner.reference(), json!({"name": "other"}))])
        .await;
    f.wait_deleted(&[&bad]).await;
    f.assert_kept(&[&owner, &good]).await;
}

async fn owner_of_another_kind_is_absent(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let good = f.create("good", &[owner.reference()]).await;
    let change = json!({"apiVersion": "v1", "kind": "Secret"});
    let bad = f.create("bad", &[with(owner.reference(), change)]).await;
    f.wait_deleted(&[&bad]).await;
    f.assert_kept(&[&owner, &good]).await;
}

/// The collector watches another version of the owner.
async fn owner_of_any_served_version_is_resolved(f: Fixture) {
    let beta = json!({"apiVersion": format!("{GROUP}/v1beta1")});
    for policy in ["Background", "Foreground", "Orphan"] {
        let name = policy.to_lowercase();
        let owner = f.create(&format!("owner-{name}"), &[]).await;
        let mine = [
            f.create(&format!("new-{name}"), &[owner.blocking()]).await,
            f.create(&format!("old-{name}"), &[with(owner.blocking(), beta.clone())])
                .await,
        ];
        let both: Vec<_> = mine.iter().collect();
        f.assert_kept(&both).await;
        f.delete(&owner, policy).await;
        f.wait_deleted(&[&owner]).await;
        if policy == "Orphan" {
            f.assert_kept(&both).await;
            for mine in both {
                assert!(owners(&f.get(mine).await).is_empty());
            }
        } else {
            f.wait_deleted(&both).await;
        }
    }
}

async fn owner_of_an_unserved_version_is_unresolved(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    for (index, version) in ["v1alpha1", "v2"].into_iter().enumerate() {
        let change = json!({"apiVersion": format!("{GROUP}/{version}")});
        let living = with(owner.reference(), change.clone());
        let living = f.create(&format!("living-{index}"), &[living]).await;
        let dead = f
            .create(&format!("dead-{index}"), &[with(f.absent_owner(f.kind), change)])
            .await;
        let map = f
            .create_kind(
                Kind::ConfigMap,
                &format!("map-{index}"),
                &[with(
                    owner.reference(),
                    json!({"apiVersion": format!("{GROUP}/{version}")}),
                )],
            )
            .await;
        f.assert_kept(&[&living, &dead, &map]).await;
        if version == "v2" {
            // The deletion of the object with that uid does not prove the absence either.
            f.delete(&owner, "Background").await;
            f.assert_kept(&[&living, &dead, &map]).await;
        }
    }
}

async fn owner_of_an_unknown_kind_is_unresolved(f: Fixture) {
    let mut all = Vec::new();
    for (index, (version, kind)) in [
        ("v1", "Gadget"),
        ("apps/v1", "ConfigMap"),
        ("nowhere.example.com/v1", "Gadget"),
        (&*format!("{GROUP}/v1"), "Gadget"),
        ("v1", "configmaps"),
    ]
    .into_iter()
    .enumerate()
    {
        let owner = with(
            f.absent_owner(f.kind),
            json!({"apiVersion": version, "kind": kind}),
        );
        all.push(f.create(&format!("mine-{index}"), &[owner]).await);
    }
    f.assert_kept(&all.iter().collect::<Vec<_>>()).await;
}

async fn unresolved_owner_keeps_dependents_of_absent_owners(f: Fixture) {
    let unknown = with(
        f.absent_owner(f.kind),
        json!({"apiVersion": "nowhere.example.com/v1"}),
    );
    let first = f
        .create("first", &[unknown.clone(), f.absent_owner(f.kind)])
        .await;
    let last = f.create("last", &[f.absent_owner(f.kind), unknown.clone()]).await;
    f.assert_kept(&[&first, &last]).await;
    // Without the unresolved owner it is garbage.
    f.set_owners(&first, &[f.absent_owner(f.kind)]).await;
    f.wait_deleted(&[&first]).await;
    // A foreground deletion by a client is not blocked.
    f.delete(&last, "Foreground").await;
    f.wait_deleted(&[&last]).await;
}

async fn invalid_reference_does_not_affect_other_dependents(f: Fixture) {
    let second = f.c.namespace().await;
    for (index, change) in [
        json!({"name": "other"}),
        json!({"apiVersion": "v1", "kind": "Secret"}),
        json!({"apiVersion": "v1", "kind": "Namespace"}),
        json!({"apiVersion": "nowhere.example.com/v1"}),
        json!({}),
    ]
    .into_iter()
    .enumerate()
    {
        let elsewhere = change == json!({});
        let unknown = change["apiVersion"] == "nowhere.example.com/v1";
        let owner = f.create(&format!("owner-{index}"), &[]).await;
        let before = f.create(&format!("before-{index}"), &[owner.blocking()]).await;
        let ns = if elsewhere { &second } else { &f.ns };
        // OwnerReferencesPermissionEnforcement rejects a blocking reference to an unknown kind.
        let reference = if unknown {
            owner.reference()
        } else {
            owner.blocking()
        };
        let change = json!({"metadata": {"ownerReferences": [with(reference, change)]}});
        let bad = f.create_with(f.kind, ns, &format!("bad-{index}"), change).await;
        let after = f.create(&format!("after-{index}"), &[owner.blocking()]).await;
        if unknown {
            f.assert_kept(&[&bad]).await;
        } else {
            f.wait_deleted(&[&bad]).await;
        }
        f.assert_kept(&[&owner, &before, &after]).await;
        let late = f.create(&format!("late-{index}"), &[owner.blocking()]).await;
        f.assert_kept(&[&before, &after, &late]).await;
        f.delete(&owner, "Background").await;
        f.wait_deleted(&[&before, &after, &late]).await;
    }
}

async fn second_reference_with_another_name_deletes_nothing(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let wrong = with(owner.reference(), json!({"name": "other"}));
    let first = f.create("first", &[wrong.clone(), owner.reference()]).await;
    let last = f.create("last", &[owner.reference(), wrong]).await;
    f.assert_kept(&[&first, &last]).await;
}

async fn malformed_uid_is_an_absent_owner(f: Fixture) {
    let solid = f.create("solid", &[]).await;
    let upper = solid.uid.to_uppercase();
    for (index, uid) in ["x", "not-a-uid", &upper, "ffffffff-ffff-ffff-ffff-ffffffffffff"]
        .into_iter()
        .enumerate()
    {
        // Uids are unique in the cluster, so tests must not share them.
        let uid = if uid.len() < 12 {
            format!("{uid}-{}", f.ns)
        } else {
            uid.to_owned()
        };
        let reference = with(solid.reference(), json!({"uid": uid}));
        let bad = f
            .create(&format!("bad-{index}"), std::slice::from_ref(&reference))
            .await;
        f.wait_deleted(&[&bad]).await;
        let half = f
            .create(&format!("half-{index}"), &[reference, solid.reference()])
            .await;
        f.wait_for(&half, "has one owner", |now| owners(now) == [&*solid.uid])
            .await;
        assert!(finalizers(&f.get(&half).await).is_empty());
    }
}

async fn names_with_colons_and_dots_are_resolved(f: Fixture) {
    let owner = f.create("system:owner.with:all", &[]).await;
    let mine = f.create("system:mine.with:all", &[owner.blocking()]).await;
    f.assert_kept(&[&mine]).await;
    f.delete(&owner, "Foreground").await;
    f.wait_deleted(&[&mine, &owner]).await;
}
