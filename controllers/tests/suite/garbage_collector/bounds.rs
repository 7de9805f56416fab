//! Owners that nobody can tell anything of: how much is asked does not depend on how many refer to them.

use super::*;

/// What was asked in ten minutes, and how much is left, with so many dependents of this owner.
async fn ask(resource: &Resource, reference: &Value, count: usize, setup: impl Fn(&Bed)) -> usize {
    let bed = bare();
    setup(&bed);
    for i in 0..count {
        bed.create(
            resource,
            &format!("dependent-{i}"),
            std::slice::from_ref(reference),
        )
        .await;
    }
    bed.collect().await;
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.left(resource).await, count);
    assert_eq!(bed.door.writes(), 0);
    bed.door.asked().len()
}

const MANY: usize = 1000;

#[tokio::test(start_paused = true)]
async fn of_a_kind_that_is_forbidden() {
    let forbid = |bed: &Bed| {
        bed.door.judge(|it| match it.what.as_str() {
            "GET secrets" | "LIST secrets" => Answer::Refused(403, json!({"reason": "Forbidden"})),
            _ => Answer::Done,
        });
    };
    let owner = dangling(&SECRETS, "owner");
    let few = ask(&MAPS, &owner, 1, forbid).await;
    assert!((1..=25).contains(&few), "{few}");
    assert_eq!(ask(&MAPS, &owner, MANY, forbid).await, few);
}

#[tokio::test(start_paused = true)]
async fn of_a_version_that_is_not_served() {
    let owner = json!({"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "x", "uid": "2"});
    assert_eq!(ask(&MAPS, &owner, MANY, |_| {}).await, 0);
}

#[tokio::test(start_paused = true)]
async fn who_exists_and_is_of_a_kind_that_is_not_watched() {
    for count in [1, MANY] {
        let bed = bare();
        let served = [MAPS, SECRETS].map(Kind::new);
        let kinds = Kinds::new(served, &BTreeSet::from([MAPS]));
        bed.kinds.send_replace(Some(Arc::new(kinds)));
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.dependents(&MAPS, &owner, count).await;
        bed.collect().await;
        bed.sleep(Duration::from_mins(10)).await;
        assert_eq!(bed.left(&MAPS).await, count);
        let asked = bed.door.asked().len();
        assert!((1..=25).contains(&asked), "{asked} for {count}");
        // When it goes, they go.
        bed.delete(&SECRETS, &owner, Propagation::Background).await;
        bed.sleep(Duration::from_mins(5)).await;
        assert_eq!(bed.left(&MAPS).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn many_that_nobody_can_resolve_do_not_keep_others_from_being_tried_again() {
    let bed = bed().await;
    // Another reference of theirs is looked at over and over.
    let lost = json!({"apiVersion": "gone.dev/v1", "kind": "Thing", "name": "x", "uid": "1"});
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    for i in 0..500 {
        bed.create(
            &MAPS,
            &format!("dependent-{i}"),
            &[lost.clone(), reference(&owner)],
        )
        .await;
    }
    bed.settle().await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.sleep(Duration::from_secs(10)).await;
    bed.door.judge(|it| match it.what.as_str() {
        "DELETE pods" if it.before < 3 => Answer::Refused(403, json!({"reason": "Forbidden"})),
        _ => Answer::Done,
    });
    bed.create(&PODS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
    bed.sleep(Duration::from_secs(5)).await;
    assert_eq!(bed.left(&PODS).await, 0);
    assert_eq!(bed.left(&MAPS).await, 500);
}
