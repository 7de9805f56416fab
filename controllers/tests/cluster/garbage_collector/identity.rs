//! Who an owner is: all of apiVersion, kind, name and uid, in the namespace of the dependent. What cannot be looked up is
//! not the same as what is not there.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::json;

use super::stage::{GROUP, Kind, Stage, finalizers, owners};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(an_owner_made_again_is_another),
        each!(an_owner_made_again_while_many_go),
        each!(another_uid_is_another_owner),
        each!(another_name_is_another_owner),
        each!(another_kind_is_another_owner),
        each!(a_version_that_is_served_is_the_same_owner, [Widget]),
        each!(a_version_that_is_not_served_proves_nothing, [Widget]),
        each!(a_kind_that_is_not_known_proves_nothing),
        each!(what_proves_nothing_keeps_the_rest_as_it_is),
        each!(a_bad_dependent_does_no_harm_to_a_good_one),
        each!(a_second_reference_with_another_name_does_no_harm),
        each!(a_uid_need_not_look_like_one),
        each!(names_may_have_colons_and_dots, [ClusterRole]),
    ]
    .concat()
}

async fn an_owner_made_again_is_another(s: Stage) {
    let first = s.thing("owner", &[]).await;
    let of_first = s.thing("of-first", &[first.blocking()]).await;
    s.seen().await;
    s.delete(&first, "Background").await;
    let second = s.thing("owner", &[]).await;
    let of_second = s.thing("of-second", &[second.blocking()]).await;
    let late = s.thing("late", &[first.blocking()]).await;
    s.gone(&[&of_first, &late]).await;
    s.stay(&[&second, &of_second]).await;
}

/// By the time the last of them is looked at, their owner's name is another's.
async fn an_owner_made_again_while_many_go(s: Stage) {
    let mut owner = s.thing("owner", &[]).await;
    let mut went = Vec::new();
    for round in 0..5 {
        for index in 0..10 {
            let name = format!("mine-{round}-{index}");
            went.push(s.thing(&name, &[owner.blocking()]).await);
        }
        s.delete(&owner, "Background").await;
        owner = s.thing("owner", &[]).await;
    }
    let mine = s.thing("mine", &[owner.blocking()]).await;
    s.gone(&went.iter().collect::<Vec<_>>()).await;
    s.stay(&[&owner, &mine]).await;
}

async fn another_uid_is_another_owner(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let good = s.thing("good", &[owner.reference()]).await;
    let other = with(owner.reference(), json!({"uid": s.uid()}));
    let bad = s.thing("bad", std::slice::from_ref(&other)).await;
    let half = s.thing("half", &[other, owner.reference()]).await;
    s.gone(&[&bad]).await;
    s.is(&half, "has one owner", |now| owners(now) == [&*owner.uid])
        .await;
    s.stay(&[&owner, &good, &half]).await;
}

async fn another_name_is_another_owner(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let good = s.thing("good", &[owner.reference()]).await;
    let bad = s
        .thing("bad", &[with(owner.reference(), json!({"name": "other"}))])
        .await;
    s.gone(&[&bad]).await;
    s.stay(&[&owner, &good]).await;
}

async fn another_kind_is_another_owner(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let good = s.thing("good", &[owner.reference()]).await;
    let change = json!({"apiVersion": "v1", "kind": "Secret"});
    let bad = s.thing("bad", &[with(owner.reference(), change)]).await;
    s.gone(&[&bad]).await;
    s.stay(&[&owner, &good]).await;
}

/// Though it is not the version by which the collector knows the owner.
async fn a_version_that_is_served_is_the_same_owner(s: Stage) {
    let beta = json!({"apiVersion": format!("{GROUP}/v1beta1")});
    for policy in ["Background", "Foreground", "Orphan"] {
        let name = policy.to_lowercase();
        let owner = s.thing(&format!("owner-{name}"), &[]).await;
        let mine = [
            s.thing(&format!("new-{name}"), &[owner.blocking()]).await,
            s.thing(&format!("old-{name}"), &[with(owner.blocking(), beta.clone())])
                .await,
        ];
        let both: Vec<_> = mine.iter().collect();
        s.stay(&both).await;
        s.delete(&owner, policy).await;
        s.gone(&[&owner]).await;
        if policy == "Orphan" {
            s.stay(&both).await;
            for mine in both {
                assert!(owners(&s.get(mine).await).is_empty());
            }
        } else {
            s.gone(&both).await;
        }
    }
}

async fn a_version_that_is_not_served_proves_nothing(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    for (index, version) in ["v1alpha1", "v2"].into_iter().enumerate() {
        let change = json!({"apiVersion": format!("{GROUP}/{version}")});
        let living = with(owner.reference(), change.clone());
        let living = s.thing(&format!("living-{index}"), &[living]).await;
        let dead = s
            .thing(&format!("dead-{index}"), &[with(s.never(s.kind), change)])
            .await;
        let map = s
            .of(
                Kind::ConfigMap,
                &format!("map-{index}"),
                &[with(
                    owner.reference(),
                    json!({"apiVersion": format!("{GROUP}/{version}")}),
                )],
            )
            .await;
        s.stay(&[&living, &dead, &map]).await;
        if version == "v2" {
            // Not even when the owner of that uid is gone: nobody can tell that it is the one.
            s.delete(&owner, "Background").await;
            s.stay(&[&living, &dead, &map]).await;
        }
    }
}

async fn a_kind_that_is_not_known_proves_nothing(s: Stage) {
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
        let owner = with(s.never(s.kind), json!({"apiVersion": version, "kind": kind}));
        all.push(s.thing(&format!("mine-{index}"), &[owner]).await);
    }
    s.stay(&all.iter().collect::<Vec<_>>()).await;
}

/// Neither is it deleted for its other owners, which are gone.
async fn what_proves_nothing_keeps_the_rest_as_it_is(s: Stage) {
    let unknown = with(s.never(s.kind), json!({"apiVersion": "nowhere.example.com/v1"}));
    let first = s.thing("first", &[unknown.clone(), s.never(s.kind)]).await;
    let last = s.thing("last", &[s.never(s.kind), unknown.clone()]).await;
    s.stay(&[&first, &last]).await;
    // It does go once it has no such owner.
    s.own(&first, &[s.never(s.kind)]).await;
    s.gone(&[&first]).await;
    // Whoever deletes it by hand is not held up.
    s.delete(&last, "Foreground").await;
    s.gone(&[&last]).await;
}

/// Whatever is wrong with it, and whether it comes before or after.
async fn a_bad_dependent_does_no_harm_to_a_good_one(s: Stage) {
    let second = s.c.namespace().await;
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
        let owner = s.thing(&format!("owner-{index}"), &[]).await;
        let before = s.thing(&format!("before-{index}"), &[owner.blocking()]).await;
        let ns = if elsewhere { &second } else { &s.ns };
        let change = json!({"metadata": {"ownerReferences": [with(owner.blocking(), change)]}});
        let bad = s.create(s.kind, ns, &format!("bad-{index}"), change).await;
        let after = s.thing(&format!("after-{index}"), &[owner.blocking()]).await;
        if unknown {
            s.stay(&[&bad]).await;
        } else {
            s.gone(&[&bad]).await;
        }
        s.stay(&[&owner, &before, &after]).await;
        let late = s.thing(&format!("late-{index}"), &[owner.blocking()]).await;
        s.stay(&[&before, &after, &late]).await;
        s.delete(&owner, "Background").await;
        s.gone(&[&before, &after, &late]).await;
    }
}

async fn a_second_reference_with_another_name_does_no_harm(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let wrong = with(owner.reference(), json!({"name": "other"}));
    let first = s.thing("first", &[wrong.clone(), owner.reference()]).await;
    let last = s.thing("last", &[owner.reference(), wrong]).await;
    s.stay(&[&first, &last]).await;
}

async fn a_uid_need_not_look_like_one(s: Stage) {
    let solid = s.thing("solid", &[]).await;
    let upper = solid.uid.to_uppercase();
    for (index, uid) in ["x", "not-a-uid", &upper, "ffffffff-ffff-ffff-ffff-ffffffffffff"]
        .into_iter()
        .enumerate()
    {
        // Unique, as a uid is the same wherever it is.
        let uid = if uid.len() < 12 {
            format!("{uid}-{}", s.ns)
        } else {
            uid.to_owned()
        };
        let reference = with(solid.reference(), json!({"uid": uid}));
        let bad = s
            .thing(&format!("bad-{index}"), std::slice::from_ref(&reference))
            .await;
        s.gone(&[&bad]).await;
        let half = s
            .thing(&format!("half-{index}"), &[reference, solid.reference()])
            .await;
        s.is(&half, "has one owner", |now| owners(now) == [&*solid.uid])
            .await;
        assert!(finalizers(&s.get(&half).await).is_empty());
    }
}

async fn names_may_have_colons_and_dots(s: Stage) {
    let owner = s.thing("system:owner.with:all", &[]).await;
    let mine = s.thing("system:mine.with:all", &[owner.blocking()]).await;
    s.stay(&[&mine]).await;
    s.delete(&owner, "Foreground").await;
    s.gone(&[&mine, &owner]).await;
}
