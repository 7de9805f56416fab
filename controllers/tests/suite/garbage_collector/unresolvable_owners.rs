//! Owners that cannot be resolved: the number of requests does not depend on the number of dependents.

use super::*;

/// Returns the number of requests in ten minutes for `count` dependents of an owner; asserts that they are not written.
async fn idle_requests(
    resource: &Resource,
    reference: &Value,
    count: usize,
    setup: impl Fn(&Fixture),
) -> usize {
    let f = unstarted();
    setup(&f);
    for i in 0..count {
        f.create(
            resource,
            &format!("dependent-{i}"),
            std::slice::from_ref(reference),
        )
        .await;
    }
    f.start().await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.left(resource).await, count);
    assert_eq!(f.api.writes(), 0);
    f.api.recorded().len()
}

const MANY: usize = 1000;

#[tokio::test(start_paused = true)]
async fn forbidden_owner_kind_costs_the_same_reads_for_any_number_of_dependents() {
    let forbid = |f: &Fixture| {
        f.api.inject_all(|it| match it.operation.as_str() {
            "GET secrets" | "LIST secrets" => status_reply(403, json!({"reason": "Forbidden"})),
            _ => Effect::Pass,
        });
    };
    let owner = dangling(&SECRETS, "owner");
    let few = idle_requests(&MAPS, &owner, 1, forbid).await;
    assert!((1..=25).contains(&few), "{few}");
    assert_eq!(idle_requests(&MAPS, &owner, MANY, forbid).await, few);
}

#[tokio::test(start_paused = true)]
async fn unserved_owner_version_costs_no_requests() {
    let owner = json!({"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "x", "uid": "2"});
    assert_eq!(idle_requests(&MAPS, &owner, MANY, |_| {}).await, 0);
}

#[tokio::test(start_paused = true)]
async fn unwatched_owner_kind_costs_few_reads_for_any_number_of_dependents() {
    for count in [1, MANY] {
        let f = unstarted();
        let served = [MAPS, SECRETS].map(Kind::new);
        let kinds = Kinds::new(served, &BTreeSet::from([MAPS]));
        f.kinds.send_replace(Some(Arc::new(kinds)));
        let owner = f.create_owner("owner", count).await;
        f.start().await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.left(&MAPS).await, count);
        let sent = f.api.recorded().len();
        assert!((1..=25).contains(&sent), "{sent} for {count}");
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.sleep(Duration::from_mins(5)).await;
        assert_eq!(f.left(&MAPS).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn unresolvable_owners_do_not_delay_retries_of_other_objects() {
    let f = fixture().await;
    // The owner of the unresolvable group is re-evaluated again and again.
    let unknown = json!({"apiVersion": "gone.dev/v1", "kind": "Thing", "name": "x", "uid": "1"});
    let owner = f.create(&SECRETS, "owner", &[]).await;
    for i in 0..500 {
        f.create(
            &MAPS,
            &format!("dependent-{i}"),
            &[unknown.clone(), reference(&owner)],
        )
        .await;
    }
    f.settle().await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "DELETE pods" if it.before < 3 => status_reply(403, json!({"reason": "Forbidden"})),
        _ => Effect::Pass,
    });
    f.create(&PODS, "dependent-0", &[dangling(&SECRETS, "never")])
        .await;
    f.sleep(Duration::from_secs(5)).await;
    assert_eq!(f.left(&PODS).await, 0);
    assert_eq!(f.left(&MAPS).await, 500);
}
