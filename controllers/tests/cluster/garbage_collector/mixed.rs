//! Several owners: one that is there keeps the object, and references to those that are not go.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::stage::{HOLD, Kind, Stage, is_marked, owners};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(one_owner_keeps_it_and_the_dead_are_forgotten),
        each!(the_order_of_owners_does_not_matter),
        each!(it_goes_with_the_last_of_them),
        each!(an_owner_that_waits_and_one_that_is_gone_is_no_owner),
        each!(an_owner_that_is_gone_and_one_that_is_there_while_one_waits),
        each!(references_to_one_owner_count_as_one),
        each!(a_thousand_owners, [ConfigMap]),
        each!(a_thousand_owners_of_which_one_lives, [Widget]),
        each!(an_owner_may_be_of_any_kind),
    ]
    .concat()
}

async fn one_owner_keeps_it_and_the_dead_are_forgotten(s: Stage) {
    let dead = s.thing("dead", &[]).await;
    let first = s.thing("first", &[]).await;
    let last = s.of(Kind::Secret, "last", &[]).await;
    let refs = [
        first.reference(),
        dead.blocking(),
        with(last.blocking(), json!({"controller": true})),
        s.never(s.kind),
    ];
    let change = json!({
        "metadata": {
            "labels": {"a": "b", "c": "d"}, "annotations": {"example.com/note": "e"},
            "finalizers": ["example.com/z", HOLD, "example.com/a"], "ownerReferences": refs,
        },
        "data": {"k": "djE="},
    });
    let mine = s.create(s.kind, &s.ns, "mine", change).await;
    let mut before = s.get(&mine).await;
    // The one that never was is forgotten at once, the other when it goes.
    s.is(&mine, "has three owners", |now| owners(now).len() == 3)
        .await;
    s.stay(&[&mine]).await;
    s.delete(&dead, "Background").await;
    let mut now = s.is(&mine, "has two owners", |now| owners(now).len() == 2).await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([refs[0], refs[2]]));
    for object in [&mut before, &mut now] {
        for field in ["ownerReferences", "resourceVersion", "managedFields"] {
            object["metadata"][field] = Value::Null;
        }
    }
    assert_eq!(now, before);
    s.stay(&[&mine, &first, &last]).await;
}

async fn the_order_of_owners_does_not_matter(s: Stage) {
    for (index, solid_at) in [0, 1, 2].into_iter().enumerate() {
        let solid = s.thing(&format!("solid-{index}"), &[]).await;
        let mut refs = vec![s.never(s.kind), s.never(Kind::Secret)];
        refs.insert(solid_at, solid.reference());
        let mine = s.thing(&format!("mine-{index}"), &refs).await;
        s.is(&mine, "has one owner", |now| owners(now) == [&*solid.uid])
            .await;
        s.stay(&[&mine]).await;
    }
}

async fn it_goes_with_the_last_of_them(s: Stage) {
    let first = s.thing("first", &[]).await;
    let last = s.of(Kind::Secret, "last", &[]).await;
    let mine = s.thing("mine", &[first.blocking(), last.blocking()]).await;
    s.seen().await;
    s.delete(&first, "Background").await;
    s.is(&mine, "has one owner", |now| owners(now) == [&*last.uid])
        .await;
    s.stay(&[&mine]).await;
    s.delete(&last, "Foreground").await;
    s.gone(&[&last, &mine]).await;
}

async fn an_owner_that_waits_and_one_that_is_gone_is_no_owner(s: Stage) {
    let waiting = s.thing("waiting", &[]).await;
    let other = s.held("other", &[waiting.blocking()]).await;
    s.seen().await;
    s.delete(&waiting, "Foreground").await;
    s.marked(&other).await;
    let refs = [s.never(s.kind), waiting.blocking()];
    let mine = s.thing("mine", &refs).await;
    s.gone(&[&mine]).await;
    s.get(&waiting).await;
    s.release(&other).await;
    s.gone(&[&other, &waiting]).await;
}

async fn an_owner_that_is_gone_and_one_that_is_there_while_one_waits(s: Stage) {
    let waiting = s.thing("waiting", &[]).await;
    let other = s.held("other", &[waiting.blocking()]).await;
    let solid = s.thing("solid", &[]).await;
    let refs = [waiting.blocking(), s.never(s.kind), solid.blocking()];
    let mine = s.thing("mine", &refs).await;
    s.seen().await;
    s.delete(&waiting, "Foreground").await;
    let now = s
        .is(&mine, "has one owner", |now| owners(now) == [&*solid.uid])
        .await;
    assert!(!is_marked(&now));
    s.marked(&other).await;
    s.release(&other).await;
    s.gone(&[&waiting]).await;
    s.stay(&[&mine, &solid]).await;
}

/// Servers take several references of one uid if they differ at all.
async fn references_to_one_owner_count_as_one(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.thing("mine", &[owner.reference(), owner.blocking()]).await;
    s.stay(&[&mine]).await;
    assert_eq!(owners(&s.get(&mine).await).len(), 2);
    s.delete(&owner, "Foreground").await;
    s.gone(&[&mine, &owner]).await;

    let never = s.never(s.kind);
    let twice = with(never.clone(), json!({"blockOwnerDeletion": true}));
    let garbage = s.thing("garbage", &[never.clone(), twice.clone()]).await;
    s.gone(&[&garbage]).await;
    let solid = s.thing("solid", &[]).await;
    let kept = s.thing("kept", &[never, solid.reference(), twice]).await;
    s.is(&kept, "has one owner", |now| owners(now) == [&*solid.uid])
        .await;
    s.stay(&[&kept]).await;
}

async fn a_thousand_owners(s: Stage) {
    let refs: Vec<Value> = (0..1000).map(|_| s.never(s.kind)).collect();
    let mine = s.thing("mine", &refs).await;
    s.gone(&[&mine]).await;
}

async fn a_thousand_owners_of_which_one_lives(s: Stage) {
    let solid = s.thing("solid", &[]).await;
    let mut refs: Vec<Value> = (0..1000).map(|_| s.never(s.kind)).collect();
    refs[500] = solid.blocking();
    let mine = s.thing("mine", &refs).await;
    let now = s.is(&mine, "has one owner", |now| owners(now).len() == 1).await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([solid.blocking()]));
    s.stay(&[&mine]).await;
    s.delete(&solid, "Background").await;
    s.gone(&[&mine]).await;
}

async fn an_owner_may_be_of_any_kind(s: Stage) {
    let mut owner = s.of(Kind::Region, "region", &[]).await;
    let mut all = vec![owner.clone()];
    for kind in [Kind::Widget, Kind::Secret, Kind::ConfigMap, Kind::Widget] {
        owner = s
            .of(kind, &format!("below-{}", all.len()), &[owner.blocking()])
            .await;
        all.push(owner.clone());
    }
    let all: Vec<_> = all.iter().collect();
    s.stay(&all).await;
    let policy = if s.kind == Kind::Widget {
        "Foreground"
    } else {
        "Background"
    };
    s.delete(all[0], policy).await;
    s.gone(&all).await;
}
