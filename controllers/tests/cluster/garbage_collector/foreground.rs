//! Deletion in the foreground: the owner goes last, after those that block it.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::stage::{FOREGROUND, HOLD, Kind, Stage, Thing, finalizers, is_marked, owners, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(an_owner_waits_for_those_that_block_it),
        each!(an_owner_does_not_wait_for_the_others),
        each!(an_owner_of_nothing_goes),
        each!(a_tree_goes_from_its_leaves),
        each!(dependents_with_their_own_are_deleted_in_the_foreground_too),
        each!(finalizers_of_others_stay_in_their_order),
        each!(stopping_to_block_lets_the_owner_go),
        each!(what_has_another_owner_is_let_go),
        each!(a_diamond_goes),
        each!(many_go),
    ]
    .concat()
}

async fn an_owner_waits_for_those_that_block_it(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let held = [
        s.held("held-0", &[owner.blocking()]).await,
        s.held("held-1", &[owner.blocking()]).await,
    ];
    let free = s.thing("free", &[owner.blocking()]).await;
    s.seen().await;
    let answer = s.delete(&owner, "Foreground").await;
    assert_eq!(finalizers(&answer), [FOREGROUND]);
    s.gone(&[&free]).await;
    for held in &held {
        let now = s.marked(held).await;
        assert_eq!(owners(&now), [&*owner.uid], "{now:#}");
    }
    for held in &held {
        s.seen().await;
        let now = s.get(&owner).await;
        assert_eq!(finalizers(&now), [FOREGROUND], "{now:#}");
        s.release(held).await;
        s.gone(&[held]).await;
    }
    s.gone(&[&owner]).await;
}

async fn an_owner_does_not_wait_for_the_others(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let plain = s.held("plain", &[owner.reference()]).await;
    let said = s.held("said", &[not_blocking(&owner)]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.gone(&[&owner]).await;
    for held in [&plain, &said] {
        s.marked(held).await;
        s.release(held).await;
    }
    s.gone(&[&plain, &said]).await;
}

/// A reference that says that it does not block.
fn not_blocking(owner: &Thing) -> Value {
    with(owner.reference(), json!({"blockOwnerDeletion": false}))
}

async fn an_owner_of_nothing_goes(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    s.delete(&owner, "Foreground").await;
    s.gone(&[&owner]).await;
}

async fn a_tree_goes_from_its_leaves(s: Stage) {
    let root = s.thing("0-root", &[]).await;
    let middle = s.thing("1-middle", &[root.blocking()]).await;
    let leaf = s.thing("2-leaf", &[middle.blocking()]).await;
    s.seen().await;
    let collection = s.kind.path(&s.ns);
    let list = s.c.api().get(&collection).await.expect(200);
    let version = text(&list["metadata"]["resourceVersion"]);
    let path = format!("{collection}?watch=1&resourceVersion={version}");
    let mut watch = s.c.api().watch(&path).await;
    s.delete(&root, "Foreground").await;
    s.gone(&[&root, &middle, &leaf]).await;
    let mut gone = Vec::new();
    while gone.len() < 3 {
        let event = watch.event().await;
        if event["type"] == "DELETED" {
            gone.push(text(&event["object"]["metadata"]["name"]));
        }
    }
    assert_eq!(gone, ["2-leaf", "1-middle", "0-root"]);
}

async fn dependents_with_their_own_are_deleted_in_the_foreground_too(s: Stage) {
    let root = s.thing("root", &[]).await;
    let middle = s.thing("middle", &[root.blocking()]).await;
    let leaf = s.held("leaf", &[middle.blocking()]).await;
    let alone = s.held("alone", &[root.blocking()]).await;
    s.seen().await;
    s.delete(&root, "Foreground").await;
    s.marked(&leaf).await;
    assert_eq!(finalizers(&s.marked(&middle).await), [FOREGROUND]);
    assert_eq!(finalizers(&s.marked(&alone).await), [HOLD]);
    s.release(&alone).await;
    s.gone(&[&alone]).await;
    s.seen().await;
    assert!(is_marked(&s.get(&root).await));
    s.release(&leaf).await;
    s.gone(&[&leaf, &middle, &root]).await;
}

async fn finalizers_of_others_stay_in_their_order(s: Stage) {
    let all = ["example.com/z", "example.com/a", HOLD];
    let change = json!({"metadata": {"finalizers": all}});
    let owner = s.create(s.kind, &s.ns, "owner", change.clone()).await;
    let mine = json!({"metadata": {"finalizers": all, "ownerReferences": [owner.blocking()]}});
    let mine = s.create(s.kind, &s.ns, "mine", mine).await;
    s.seen().await;
    let answer = s.delete(&owner, "Foreground").await;
    assert_eq!(
        finalizers(&answer),
        ["example.com/z", "example.com/a", HOLD, FOREGROUND]
    );
    assert_eq!(finalizers(&s.marked(&mine).await), all);
    s.change(&mine, json!({"metadata": {"finalizers": null}})).await;
    s.gone(&[&mine]).await;
    let now = s
        .is(&owner, "has only those of others", |it| {
            !finalizers(it).iter().any(|it| it == FOREGROUND)
        })
        .await;
    assert_eq!(finalizers(&now), all);
    s.seen().await;
    assert_eq!(s.get(&owner).await, now, "and nobody touches it any more");
    s.change(&owner, json!({"metadata": {"finalizers": null}})).await;
    s.gone(&[&owner]).await;
}

/// By another value, by none, and by another owner.
async fn stopping_to_block_lets_the_owner_go(s: Stage) {
    let other = s.thing("other", &[]).await;
    for (index, how) in ["false", "unset", "removed", "swapped"].into_iter().enumerate() {
        let owner = s.thing(&format!("owner-{index}"), &[]).await;
        let mine = s.held(&format!("mine-{index}"), &[owner.blocking()]).await;
        s.seen().await;
        s.delete(&owner, "Foreground").await;
        s.marked(&mine).await;
        s.seen().await;
        s.get(&owner).await;
        let owners = match how {
            "false" => vec![not_blocking(&owner)],
            "unset" => vec![owner.reference()],
            "removed" => vec![],
            _ => vec![other.blocking()],
        };
        s.own(&mine, &owners).await;
        s.gone(&[&owner]).await;
        s.release(&mine).await;
        s.gone(&[&mine]).await;
    }
}

async fn what_has_another_owner_is_let_go(s: Stage) {
    let going = s.thing("going", &[]).await;
    let solid = s.thing("solid", &[]).await;
    let both = s.thing("both", &[going.blocking(), solid.blocking()]).await;
    let below = s.thing("below", &[both.blocking()]).await;
    s.seen().await;
    s.delete(&going, "Foreground").await;
    s.gone(&[&going]).await;
    let now = s
        .is(&both, "has one owner", |it| owners(it) == [&*solid.uid])
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([solid.blocking()]));
    s.stay(&[&solid, &both, &below]).await;
}

async fn a_diamond_goes(s: Stage) {
    let top = s.thing("top", &[]).await;
    let left = s.thing("left", &[top.blocking()]).await;
    let right = s.of(Kind::Secret, "right", &[top.blocking()]).await;
    let bottom = s.thing("bottom", &[left.blocking(), right.blocking()]).await;
    s.seen().await;
    s.delete(&top, "Foreground").await;
    s.gone(&[&bottom, &left, &right, &top]).await;
}

async fn many_go(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mut all = vec![owner.clone()];
    for index in 0..50 {
        all.push(s.thing(&format!("mine-{index}"), &[owner.blocking()]).await);
    }
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.gone(&all.iter().collect::<Vec<_>>()).await;
}
