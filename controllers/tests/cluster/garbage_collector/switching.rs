//! Another policy while a deletion is under way: the last one counts.

use coxswain_tests::Test;

use super::stage::{FOREGROUND, HOLD, Stage, finalizers, is_marked, owners};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(from_foreground_to_orphan),
        each!(from_foreground_to_background),
        each!(from_foreground_to_background_and_held),
        each!(from_orphan_to_foreground),
        each!(what_was_asked_of_a_dependent_itself_counts),
        each!(an_orphaning_dependent_keeps_its_policy),
    ]
    .concat()
}

async fn from_foreground_to_orphan(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.held("mine", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.marked(&mine).await;
    let answer = s.delete(&owner, "Orphan").await;
    assert_eq!(finalizers(&answer), ["orphan"]);
    s.gone(&[&owner]).await;
    let now = s.get(&mine).await;
    assert_eq!((finalizers(&now), owners(&now)), (vec![HOLD.to_owned()], vec![]));
    s.release(&mine).await;
    s.gone(&[&mine]).await;
}

async fn from_foreground_to_background(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.held("mine", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.marked(&mine).await;
    s.delete(&owner, "Background").await;
    assert!(s.find(&owner).await.is_none(), "it goes at once");
    s.release(&mine).await;
    s.gone(&[&mine]).await;
}

/// It waits for nobody any more, so it is an owner like any other that is held.
async fn from_foreground_to_background_and_held(s: Stage) {
    let owner = s.held("owner", &[]).await;
    let mine = s.held("mine", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.marked(&mine).await;
    let answer = s.delete(&owner, "Background").await;
    assert_eq!(finalizers(&answer), [HOLD]);
    s.seen().await;
    let late = s.thing("late", &[owner.blocking()]).await;
    s.stay(&[&late]).await;
    s.release(&mine).await;
    s.gone(&[&mine]).await;
    s.stay(&[&late]).await;
    s.release(&owner).await;
    s.gone(&[&owner, &late]).await;
}

async fn from_orphan_to_foreground(s: Stage) {
    let owner = s.held("owner", &[]).await;
    let kept = s.thing("kept", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Orphan").await;
    s.is(&owner, "is only held", |now| finalizers(now) == [HOLD])
        .await;
    assert!(owners(&s.get(&kept).await).is_empty());
    let mine = s.held("mine", &[owner.blocking()]).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    s.marked(&mine).await;
    assert_eq!(finalizers(&s.get(&owner).await), [HOLD, FOREGROUND]);
    s.release(&mine).await;
    s.is(&owner, "is only held", |now| finalizers(now) == [HOLD])
        .await;
    s.release(&owner).await;
    s.gone(&[&owner, &mine]).await;
    s.stay(&[&kept]).await;
}

/// A dependent that orphans its own is not deleted in another way because its owner goes.
async fn what_was_asked_of_a_dependent_itself_counts(s: Stage) {
    let top = s.thing("top", &[]).await;
    let middle = s.held("middle", &[top.blocking()]).await;
    let bottom = s.thing("bottom", &[middle.blocking()]).await;
    s.seen().await;
    s.delete(&middle, "Orphan").await;
    s.is(&middle, "is only held", |now| finalizers(now) == [HOLD])
        .await;
    s.delete(&top, "Background").await;
    s.seen().await;
    s.release(&middle).await;
    s.gone(&[&middle]).await;
    s.stay(&[&bottom]).await;
}

/// The policy of a deletion by the collector is that of the finalizer which is there.
async fn an_orphaning_dependent_keeps_its_policy(s: Stage) {
    let top = s.thing("top", &[]).await;
    for (index, (finalizer, kept)) in [("orphan", true), (FOREGROUND, false)].into_iter().enumerate() {
        let change = serde_json::json!({"metadata": {
            "finalizers": [finalizer], "ownerReferences": [top.reference()],
        }});
        let middle = s.create(s.kind, &s.ns, &format!("middle-{index}"), change).await;
        let bottom = s.thing(&format!("bottom-{index}"), &[middle.blocking()]).await;
        s.stay(&[&middle, &bottom]).await;
        assert!(!is_marked(&s.get(&middle).await));
        // Without its owner it is garbage.
        s.own(&middle, &[s.never(s.kind)]).await;
        s.gone(&[&middle]).await;
        if kept {
            s.stay(&[&bottom]).await;
            assert!(owners(&s.get(&bottom).await).is_empty());
        } else {
            s.gone(&[&bottom]).await;
        }
    }
}
