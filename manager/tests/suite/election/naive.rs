//! Why the Lease is replaced under its resourceVersion: the race that is otherwise lost, shown, and ours in the same one.

use super::*;

/// Takes an expired Lease as `kube-leader-election` does: by a patch that does not say what it was decided on.
async fn naive(client: &Client, identity: &str, both_have_read: &tokio::sync::Barrier) -> bool {
    let resource = Resource::of::<Lease>();
    let lease: Value = client.get(&resource, &World::key()).await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!("ghost"), "it has expired");
    both_have_read.wait().await;
    let patch = Patch::merge(&json!({"spec": {"holderIdentity": identity}}));
    let taken: Value = client
        .patch(&resource, &World::key(), patch)
        .await
        .expect("a patch");
    taken["spec"]["holderIdentity"] == json!(identity)
}

async fn held_by_a_ghost() -> World {
    let world = World::new().await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "coxswain"},
        "spec": {
            "holderIdentity": "ghost", "leaseDurationSeconds": 15, "leaseTransitions": 4,
            "acquireTime": "1969-12-31T00:00:00.000000Z", "renewTime": "1969-12-31T00:00:00.000000Z",
        },
    });
    let _: Value = world
        .client
        .create(&Resource::of::<Lease>(), "kube-system", lease.to_string().into())
        .await
        .expect("a lease");
    world
}

#[tokio::test(start_paused = true)]
async fn two_that_patch_without_a_version_both_win() {
    let world = held_by_a_ghost().await;
    let barrier = tokio::sync::Barrier::new(2);
    let (a, b) = tokio::join!(
        naive(&world.client, "a", &barrier),
        naive(&world.client, "b", &barrier)
    );
    assert!(a && b, "both believe that they have it");
}

#[tokio::test(start_paused = true)]
async fn of_two_of_ours_one_wins() {
    let mut world = held_by_a_ghost().await;
    let mut all = Vec::new();
    for name in ["a", "b", "c"] {
        // The first read is made with the same wait for all, and so is the write when the record has expired.
        all.push(world.start_with(name, |net| net.answer_delay(5 * MILLI)));
    }
    world.wait(Duration::from_millis(14_999)).await;
    for candidate in &all {
        assert!(!candidate.leads());
        candidate.net.take_counts();
    }
    world.wait(20 * MILLI).await;
    for candidate in &all {
        let counts = candidate.net.take_counts();
        assert_eq!(counts.get("PUT"), Some(&1), "all have tried: {counts:?}");
    }
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    world.wait(Duration::from_mins(1)).await;
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["leaseTransitions"], json!(5));
    world.check();
}
