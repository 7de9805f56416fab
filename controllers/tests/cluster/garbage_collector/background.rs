//! Background deletion.

use serde_json::{Value, json};
use std::time::Duration;
use steersman_harness::{Test, Watch};

use super::fixture::{Fixture, HOLD, Kind, Object, finalizers, text};

pub fn tests() -> Vec<Test> {
    [
        each!(background_deletion_deletes_only_dependents),
        each!(background_policies_add_no_finalizer),
        each!(tree_of_dependents_is_deleted),
        each!(diamond_of_dependents_is_deleted),
        each!(objects_with_absent_owners_are_deleted),
        each!(dependents_of_a_deleted_owner_are_deleted),
        each!(terminating_owner_keeps_its_dependents),
        each!(terminating_dependent_keeps_its_dependents),
        each!(each_dependent_is_deleted_by_one_write),
        each!(kept_objects_are_not_written),
    ]
    .concat()
}

async fn background_deletion_deletes_only_dependents(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let other = f.create("other", &[]).await;
    let mut mine = Vec::new();
    for (index, reference) in [owner.reference(), owner.blocking()].into_iter().enumerate() {
        mine.push(f.create(&format!("mine-{index}"), &[reference]).await);
    }
    mine.push(f.create_kind(Kind::Secret, "mine-2", &[owner.reference()]).await);
    let theirs = f.create("theirs", &[other.reference()]).await;
    let unowned = f.create("unowned", &[]).await;
    f.assert_kept(&mine.iter().collect::<Vec<_>>()).await;

    f.delete(&owner, "Background").await;
    assert!(f.find(&owner).await.is_none(), "not deleted at once");
    f.wait_deleted(&mine.iter().collect::<Vec<_>>()).await;
    f.assert_kept(&[&other, &theirs, &unowned]).await;
}

async fn background_policies_add_no_finalizer(f: Fixture) {
    for (index, options) in [
        json!({}),
        json!({"orphanDependents": false}),
        json!({"propagationPolicy": "Background"}),
    ]
    .into_iter()
    .enumerate()
    {
        let owner = f.create(&format!("owner-{index}"), &[]).await;
        let dependent = f.create(&format!("mine-{index}"), &[owner.blocking()]).await;
        f.wait_observed().await;
        f.delete_with(&owner, options).await;
        assert!(f.find(&owner).await.is_none(), "not deleted at once");
        f.wait_deleted(&[&dependent]).await;
    }
}

/// Creates a root with three levels of dependents.
async fn create_tree(f: &Fixture) -> Vec<Object> {
    let mut all = vec![f.create("0", &[]).await];
    for index in 1..15 {
        let parent: &Object = &all[(index - 1) / 2];
        let reference = parent.blocking();
        all.push(f.create(&index.to_string(), &[reference]).await);
    }
    all
}

async fn tree_of_dependents_is_deleted(f: Fixture) {
    let all = create_tree(&f).await;
    f.assert_kept(&all.iter().collect::<Vec<_>>()).await;
    // A branch, then the rest.
    f.delete(&all[1], "Background").await;
    let (mut branch, mut rest) = (vec![&all[1]], vec![&all[0]]);
    for index in [3, 4, 7, 8, 9, 10] {
        branch.push(&all[index]);
    }
    for index in [2, 5, 6, 11, 12, 13, 14] {
        rest.push(&all[index]);
    }
    f.wait_deleted(&branch).await;
    f.assert_kept(&rest).await;
    f.delete(&all[0], "Background").await;
    f.wait_deleted(&rest).await;
}

async fn diamond_of_dependents_is_deleted(f: Fixture) {
    let top = f.create("top", &[]).await;
    let left = f.create("left", &[top.reference()]).await;
    let right = f.create("right", &[top.reference()]).await;
    let bottom = f.create("bottom", &[left.reference(), right.reference()]).await;
    f.assert_kept(&[&bottom]).await;
    f.delete(&top, "Background").await;
    f.wait_deleted(&[&left, &right, &bottom]).await;
}

async fn objects_with_absent_owners_are_deleted(f: Fixture) {
    let (one, two) = (f.absent_owner(f.kind), f.absent_owner(Kind::Secret));
    let single = f.create("single", std::slice::from_ref(&one)).await;
    let double = f.create("double", &[one, two]).await;
    f.wait_deleted(&[&single, &double]).await;
}

async fn dependents_of_a_deleted_owner_are_deleted(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    f.delete_observed(&owner, "Background").await;
    for index in 0..3 {
        let late = f.create(&format!("late-{index}"), &[owner.blocking()]).await;
        f.wait_deleted(&[&late]).await;
    }
    // An existing object gets a reference to a deleted owner.
    let linked = f.create("linked", &[]).await;
    f.wait_observed().await;
    f.set_owners(&linked, &[owner.reference()]).await;
    f.wait_deleted(&[&linked]).await;
}

async fn terminating_owner_keeps_its_dependents(f: Fixture) {
    let owner = f.create_held("owner", &[]).await;
    let before = f.create("before", &[owner.blocking()]).await;
    f.delete_observed(&owner, "Background").await;
    let after = f.create("after", &[owner.reference()]).await;
    f.assert_kept(&[&before, &after]).await;
    assert_eq!(finalizers(&f.get(&owner).await), [HOLD]);
    f.remove_hold(&owner).await;
    f.wait_deleted(&[&owner, &before, &after]).await;
}

async fn terminating_dependent_keeps_its_dependents(f: Fixture) {
    let top = f.create("top", &[]).await;
    let middle = f.create_held("middle", &[top.reference()]).await;
    let bottom = f.create("bottom", &[middle.reference()]).await;
    f.delete_observed(&top, "Background").await;
    let now = f.wait_terminating(&middle).await;
    assert_eq!(finalizers(&now), [HOLD], "not a background deletion");
    f.assert_kept(&[&bottom]).await;
    f.remove_hold(&middle).await;
    f.wait_deleted(&[&middle, &bottom]).await;
}

/// Returns the events of a watch until it is idle for a second. The watch may be late by more than that: the event of a new
/// object shows that it has sent all others.
async fn drain(f: &Fixture, watch: &mut Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next(Duration::from_secs(1)).await {
        events.push(event);
    }
    let last = f.create("last", &[]).await;
    loop {
        let event = watch.event().await;
        if event["object"]["metadata"]["uid"] == last.uid {
            return events;
        }
        events.push(event);
    }
}

async fn each_dependent_is_deleted_by_one_write(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mut all = Vec::new();
    for index in 0..50 {
        all.push(f.create(&format!("mine-{index}"), &[owner.reference()]).await);
    }
    f.wait_observed().await;
    let mut watch = f.c.api().watch(&watch_from(&f, &f.kind.path(&f.ns)).await).await;
    f.delete(&owner, "Background").await;
    f.wait_deleted(&all.iter().collect::<Vec<_>>()).await;
    let events = drain(&f, &mut watch).await;
    let deleted = events.iter().filter(|it| it["type"] == "DELETED").count();
    assert_eq!((events.len(), deleted), (51, 51), "{events:#?}");
}

async fn kept_objects_are_not_written(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create_held("mine", &[owner.blocking()]).await;
    let before = (f.get(&owner).await, f.get(&mine).await);
    f.assert_kept(&[&owner, &mine]).await;
    assert_eq!((f.get(&owner).await, f.get(&mine).await), before);
    assert!(f.events(&mine, &f.ns).await.is_empty());
}

/// Returns the path of a watch that starts now.
async fn watch_from(f: &Fixture, collection: &str) -> String {
    let list = f.c.api().get(collection).await.expect(200);
    let version = text(&list["metadata"]["resourceVersion"]);
    format!("{collection}?watch=1&resourceVersion={version}")
}
