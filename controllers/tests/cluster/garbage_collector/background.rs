//! Owners that are gone: what was theirs goes after them, and nothing else.

use coxswain_tests::{Test, Watch};
use serde_json::{Value, json};
use std::time::Duration;

use super::stage::{HOLD, Kind, Stage, Thing, finalizers, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(dependents_go_after_their_owner),
        each!(policies_that_say_so_leave_no_finalizer),
        each!(a_tree_goes),
        each!(a_diamond_goes),
        each!(what_never_had_a_living_owner_goes),
        each!(what_comes_after_its_owner_went_goes),
        each!(an_owner_that_is_only_going_keeps_its_dependents),
        each!(a_dependent_that_is_held_keeps_its_own),
        each!(many_go_and_each_in_one_write),
        each!(what_it_leaves_alone_is_not_written),
    ]
    .concat()
}

async fn dependents_go_after_their_owner(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let other = s.thing("other", &[]).await;
    let mut mine = Vec::new();
    for (index, reference) in [owner.reference(), owner.blocking()].into_iter().enumerate() {
        mine.push(s.thing(&format!("mine-{index}"), &[reference]).await);
    }
    mine.push(s.of(Kind::Secret, "mine-2", &[owner.reference()]).await);
    let theirs = s.thing("theirs", &[other.reference()]).await;
    let nobodys = s.thing("nobodys", &[]).await;
    s.stay(&mine.iter().collect::<Vec<_>>()).await;

    s.delete(&owner, "Background").await;
    assert!(s.find(&owner).await.is_none(), "it goes at once");
    s.gone(&mine.iter().collect::<Vec<_>>()).await;
    s.stay(&[&other, &theirs, &nobodys]).await;
}

/// Three ways to say the same.
async fn policies_that_say_so_leave_no_finalizer(s: Stage) {
    for (index, options) in [
        json!({}),
        json!({"orphanDependents": false}),
        json!({"propagationPolicy": "Background"}),
    ]
    .into_iter()
    .enumerate()
    {
        let owner = s.thing(&format!("owner-{index}"), &[]).await;
        let dependent = s.thing(&format!("mine-{index}"), &[owner.blocking()]).await;
        s.seen().await;
        s.delete_with(&owner, options).await;
        assert!(s.find(&owner).await.is_none(), "it goes at once");
        s.gone(&[&dependent]).await;
    }
}

/// Three levels of these below a root.
async fn tree(s: &Stage) -> Vec<Thing> {
    let mut all = vec![s.thing("0", &[]).await];
    for index in 1..15 {
        let parent: &Thing = &all[(index - 1) / 2];
        let reference = parent.blocking();
        all.push(s.thing(&index.to_string(), &[reference]).await);
    }
    all
}

async fn a_tree_goes(s: Stage) {
    let all = tree(&s).await;
    s.stay(&all.iter().collect::<Vec<_>>()).await;
    // A branch, and then what is left.
    s.delete(&all[1], "Background").await;
    let (mut branch, mut rest) = (vec![&all[1]], vec![&all[0]]);
    for index in [3, 4, 7, 8, 9, 10] {
        branch.push(&all[index]);
    }
    for index in [2, 5, 6, 11, 12, 13, 14] {
        rest.push(&all[index]);
    }
    s.gone(&branch).await;
    s.stay(&rest).await;
    s.delete(&all[0], "Background").await;
    s.gone(&rest).await;
}

async fn a_diamond_goes(s: Stage) {
    let top = s.thing("top", &[]).await;
    let left = s.thing("left", &[top.reference()]).await;
    let right = s.thing("right", &[top.reference()]).await;
    let bottom = s.thing("bottom", &[left.reference(), right.reference()]).await;
    s.stay(&[&bottom]).await;
    s.delete(&top, "Background").await;
    s.gone(&[&left, &right, &bottom]).await;
}

async fn what_never_had_a_living_owner_goes(s: Stage) {
    let (one, two) = (s.never(s.kind), s.never(Kind::Secret));
    let single = s.thing("single", std::slice::from_ref(&one)).await;
    let double = s.thing("double", &[one, two]).await;
    s.gone(&[&single, &double]).await;
}

async fn what_comes_after_its_owner_went_goes(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    s.seen().await;
    s.delete(&owner, "Background").await;
    for index in 0..3 {
        let late = s.thing(&format!("late-{index}"), &[owner.blocking()]).await;
        s.gone(&[&late]).await;
    }
    // An object that is nobody's becomes one of an owner that went.
    let linked = s.thing("linked", &[]).await;
    s.seen().await;
    s.own(&linked, &[owner.reference()]).await;
    s.gone(&[&linked]).await;
}

/// For its dependents it is there until it is not.
async fn an_owner_that_is_only_going_keeps_its_dependents(s: Stage) {
    let owner = s.held("owner", &[]).await;
    let before = s.thing("before", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Background").await;
    let after = s.thing("after", &[owner.reference()]).await;
    s.stay(&[&before, &after]).await;
    assert_eq!(finalizers(&s.get(&owner).await), [HOLD]);
    s.release(&owner).await;
    s.gone(&[&owner, &before, &after]).await;
}

async fn a_dependent_that_is_held_keeps_its_own(s: Stage) {
    let top = s.thing("top", &[]).await;
    let middle = s.held("middle", &[top.reference()]).await;
    let bottom = s.thing("bottom", &[middle.reference()]).await;
    s.seen().await;
    s.delete(&top, "Background").await;
    let now = s.marked(&middle).await;
    assert_eq!(finalizers(&now), [HOLD], "in the background as well");
    s.stay(&[&bottom]).await;
    s.release(&middle).await;
    s.gone(&[&middle, &bottom]).await;
}

/// All events of a kind until nothing has happened for a while.
async fn drain(watch: &mut Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next(Duration::from_secs(1)).await {
        events.push(event);
    }
    events
}

async fn many_go_and_each_in_one_write(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mut all = Vec::new();
    for index in 0..50 {
        all.push(s.thing(&format!("mine-{index}"), &[owner.reference()]).await);
    }
    s.seen().await;
    let mut watch = s.c.api().watch(&watch_from(&s, &s.kind.path(&s.ns)).await).await;
    s.delete(&owner, "Background").await;
    s.gone(&all.iter().collect::<Vec<_>>()).await;
    let events = drain(&mut watch).await;
    let deleted = events.iter().filter(|it| it["type"] == "DELETED").count();
    assert_eq!((events.len(), deleted), (51, 51), "{events:#?}");
}

async fn what_it_leaves_alone_is_not_written(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.held("mine", &[owner.blocking()]).await;
    let before = (s.get(&owner).await, s.get(&mine).await);
    s.stay(&[&owner, &mine]).await;
    assert_eq!((s.get(&owner).await, s.get(&mine).await), before);
    assert!(s.events(&mine, &s.ns).await.is_empty());
}

/// The path of a watch of all that happens from now on.
async fn watch_from(s: &Stage, collection: &str) -> String {
    let list = s.c.api().get(collection).await.expect(200);
    let version = text(&list["metadata"]["resourceVersion"]);
    format!("{collection}?watch=1&resourceVersion={version}")
}
