//! Orphaning: the owner goes, and those that were its own stay, as they were but for the reference.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::stage::{FOREGROUND, HOLD, Kind, Stage, Thing, finalizers, owners, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(dependents_stay_and_are_nobodys),
        each!(the_old_option_means_the_same),
        each!(nothing_else_of_a_dependent_changes),
        each!(dependents_of_dependents_are_not_touched),
        each!(dependents_that_are_going_are_let_go_as_well),
        each!(finalizers_of_others_stay_in_their_order),
        each!(none_of_many_is_lost),
        each!(none_that_came_just_before_is_lost, Ours),
        each!(those_in_other_namespaces_are_let_go, [Region, ClusterRole]),
        each!(an_owner_of_nothing_goes),
    ]
    .concat()
}

/// Waits until an object is nobody's.
async fn nobodys(s: &Stage, thing: &Thing) -> Value {
    s.is(thing, "is nobody's", |now| owners(now).is_empty()).await
}

async fn dependents_stay_and_are_nobodys(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = [
        s.thing("mine-0", &[owner.reference()]).await,
        s.thing("mine-1", &[owner.blocking()]).await,
        s.of(Kind::Secret, "mine-2", &[owner.blocking()]).await,
    ];
    s.seen().await;
    let answer = s.delete(&owner, "Orphan").await;
    assert_eq!(finalizers(&answer), ["orphan"]);
    s.gone(&[&owner]).await;
    for mine in &mine {
        let now = s.get(mine).await;
        assert!(now["metadata"]["ownerReferences"].is_null(), "{now:#}");
    }
    s.stay(&mine.iter().collect::<Vec<_>>()).await;
}

async fn the_old_option_means_the_same(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.thing("mine", &[owner.blocking()]).await;
    s.seen().await;
    s.delete_with(&owner, json!({"orphanDependents": true})).await;
    s.gone(&[&owner]).await;
    nobodys(&s, &mine).await;
    s.stay(&[&mine]).await;
}

async fn nothing_else_of_a_dependent_changes(s: Stage) {
    let (first, last) = (s.thing("first", &[]).await, s.thing("last", &[]).await);
    let owner = s.thing("owner", &[]).await;
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
    let mine = s.create(s.kind, &s.ns, "mine", change).await;
    let mut before = s.get(&mine).await;
    s.seen().await;
    s.delete(&owner, "Orphan").await;
    s.gone(&[&owner]).await;
    let mut now = s.get(&mine).await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([refs[0], refs[2]]));
    for object in [&mut before, &mut now] {
        for field in ["ownerReferences", "resourceVersion", "managedFields"] {
            object["metadata"][field] = Value::Null;
        }
    }
    assert_eq!(now, before);
    s.stay(&[&mine, &first, &last]).await;
}

async fn dependents_of_dependents_are_not_touched(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.thing("mine", &[owner.blocking()]).await;
    let below = s.thing("below", &[mine.blocking()]).await;
    let before = s.get(&below).await;
    s.seen().await;
    s.delete(&owner, "Orphan").await;
    s.gone(&[&owner]).await;
    s.stay(&[&mine, &below]).await;
    assert_eq!(s.get(&below).await, before);
}

async fn dependents_that_are_going_are_let_go_as_well(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.held("mine", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&mine, "Background").await;
    s.seen().await;
    s.delete(&owner, "Orphan").await;
    s.gone(&[&owner]).await;
    let now = nobodys(&s, &mine).await;
    assert_eq!(finalizers(&now), [HOLD]);
    s.release(&mine).await;
    s.gone(&[&mine]).await;
}

async fn finalizers_of_others_stay_in_their_order(s: Stage) {
    let all = ["example.com/z", "example.com/a", HOLD];
    let owner = s
        .create(s.kind, &s.ns, "owner", json!({"metadata": {"finalizers": all}}))
        .await;
    let mine = s.thing("mine", &[owner.blocking()]).await;
    s.seen().await;
    let answer = s.delete(&owner, "Orphan").await;
    assert_eq!(
        finalizers(&answer),
        ["example.com/z", "example.com/a", HOLD, "orphan"]
    );
    let now = s
        .is(&owner, "has only those of others", |it| finalizers(it) == all)
        .await;
    assert_eq!(owners(&s.get(&mine).await), Vec::<String>::new());
    s.stay(&[&mine]).await;
    assert_eq!(s.get(&owner).await, now, "and nobody touches it any more");
    s.change(&owner, json!({"metadata": {"finalizers": null}})).await;
    s.gone(&[&owner]).await;
    s.stay(&[&mine]).await;
}

async fn none_of_many_is_lost(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mut all = Vec::new();
    for index in 0..200 {
        let kind = if index % 2 == 0 { s.kind } else { Kind::Secret };
        all.push(s.of(kind, &format!("mine-{index}"), &[owner.blocking()]).await);
    }
    s.seen().await;
    let mut before = Vec::new();
    for kind in [s.kind, Kind::Secret] {
        let list = s.c.api().get(&kind.path(&s.ns)).await.expect(200);
        before.push(text(&list["metadata"]["resourceVersion"]));
    }
    s.delete(&owner, "Orphan").await;
    s.gone(&[&owner]).await;
    for mine in &all {
        assert_eq!(owners(&s.get(mine).await), Vec::<String>::new());
    }
    s.stay(&all.iter().collect::<Vec<_>>()).await;
    // Each took one write.
    for (kind, version) in [s.kind, Kind::Secret].into_iter().zip(before) {
        let path = format!("{}?watch=1&resourceVersion={version}", kind.path(&s.ns));
        let mut watch = s.c.api().watch(&path).await;
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

/// The collector may not have seen them when it sees that their owner is going.
async fn none_that_came_just_before_is_lost(s: Stage) {
    for round in 0..5 {
        let owner = s.thing(&format!("owner-{round}"), &[]).await;
        let mut mine = Vec::new();
        for index in 0..10 {
            let kind = if index % 2 == 0 { s.kind } else { Kind::Secret };
            let name = format!("mine-{round}-{index}");
            mine.push(s.of(kind, &name, &[owner.blocking()]).await);
        }
        s.delete(&owner, "Orphan").await;
        s.gone(&[&owner]).await;
        for mine in &mine {
            assert_eq!(owners(&s.get(mine).await), Vec::<String>::new());
        }
        s.stay(&mine.iter().collect::<Vec<_>>()).await;
    }
}

async fn those_in_other_namespaces_are_let_go(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let second = s.c.namespace().await;
    let change = json!({"metadata": {"ownerReferences": [owner.blocking()]}});
    let mut mine = vec![s.thing("mine", &[owner.blocking()]).await];
    for ns in [&s.ns, &second] {
        for kind in [Kind::ConfigMap, Kind::Widget] {
            mine.push(s.create(kind, ns, "mine", change.clone()).await);
        }
    }
    s.seen().await;
    s.delete(&owner, "Orphan").await;
    s.gone(&[&owner]).await;
    for mine in &mine {
        assert_eq!(owners(&s.get(mine).await), Vec::<String>::new());
    }
    s.stay(&mine.iter().collect::<Vec<_>>()).await;
    // They were never asked to go in any way.
    assert!(!finalizers(&s.get(&mine[0]).await).contains(&FOREGROUND.to_owned()));
}

async fn an_owner_of_nothing_goes(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    s.delete(&owner, "Orphan").await;
    s.gone(&[&owner]).await;
}
