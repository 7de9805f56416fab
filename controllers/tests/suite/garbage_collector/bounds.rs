//! Owners that nobody can tell anything of: how much is asked does not depend on how many refer to them.

use super::*;

/// What was asked in ten minutes, and how much is left, with so many dependents of this owner.
async fn ask(resource: &Resource, reference: &Value, count: usize, setup: impl Fn(&Fixture)) -> usize {
    let f = bare();
    setup(&f);
    for i in 0..count {
        f.create(
            resource,
            &format!("dependent-{i}"),
            std::slice::from_ref(reference),
        )
        .await;
    }
    f.collect().await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.left(resource).await, count);
    assert_eq!(f.api.writes(), 0);
    f.api.recorded().len()
}

const MANY: usize = 1000;

#[tokio::test(start_paused = true)]
async fn of_a_kind_that_is_forbidden() {
    let forbid = |f: &Fixture| {
        f.api.inject_all(|it| match it.operation.as_str() {
            "GET secrets" | "LIST secrets" => Fault::Status(403, json!({"reason": "Forbidden"})),
            _ => Fault::None,
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
        let f = bare();
        let served = [MAPS, SECRETS].map(Kind::new);
        let kinds = Kinds::new(served, &BTreeSet::from([MAPS]));
        f.kinds.send_replace(Some(Arc::new(kinds)));
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.dependents(&MAPS, &owner, count).await;
        f.collect().await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.left(&MAPS).await, count);
        let asked = f.api.recorded().len();
        assert!((1..=25).contains(&asked), "{asked} for {count}");
        // When it goes, they go.
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.sleep(Duration::from_mins(5)).await;
        assert_eq!(f.left(&MAPS).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn many_that_nobody_can_resolve_do_not_keep_others_from_being_tried_again() {
    let f = fixture().await;
    // Another reference of theirs is looked at over and over.
    let lost = json!({"apiVersion": "gone.dev/v1", "kind": "Thing", "name": "x", "uid": "1"});
    let owner = f.create(&SECRETS, "owner", &[]).await;
    for i in 0..500 {
        f.create(
            &MAPS,
            &format!("dependent-{i}"),
            &[lost.clone(), reference(&owner)],
        )
        .await;
    }
    f.settle().await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE pods" if it.before < 3 => Fault::Status(403, json!({"reason": "Forbidden"})),
        _ => Fault::None,
    });
    f.create(&PODS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
    f.sleep(Duration::from_secs(5)).await;
    assert_eq!(f.left(&PODS).await, 0);
    assert_eq!(f.left(&MAPS).await, 500);
}
