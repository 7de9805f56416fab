//! Somebody else deletes, empties or rewrites the Lease.

use super::*;

/// A Lease that nobody has held.
async fn install(world: &World, spec: Value) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "coxswain", "labels": {"app": "coxswain"}},
        "spec": spec,
    });
    let _: Value = world
        .client
        .create(&Resource::of::<Lease>(), "kube-system", lease.to_string().into())
        .await
        .expect("a lease");
}

/// What somebody else does to a Lease that is held.
async fn tamper(world: &World, way: usize) -> bool {
    let lease = world.lease().await.expect("a lease");
    match way {
        0 => world.delete().await,
        1 => world.rewrite(json!({"spec": {"holderIdentity": ""}})).await,
        2 => world.rewrite(json!({"spec": {"holderIdentity": null}})).await,
        3 => {
            world
                .rewrite(json!({"spec": {"holderIdentity": "ghost", "leaseDurationSeconds": 1}}))
                .await;
        }
        // A client of another kind lets go: it does not prove that it was the holder.
        4 => {
            world
                .rewrite(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}))
                .await;
        }
        // The release of an earlier term is restored from a copy.
        5 => {
            let transitions = lease["spec"]["leaseTransitions"].as_i64().expect("a number") - 1;
            let proof = json!({"identity": "earlier", "transitions": transitions}).to_string();
            world
                .rewrite(json!({
                    "metadata": {"annotations": {"coxswain.dev/released-by": proof}},
                    "spec": {"holderIdentity": "", "leaseTransitions": transitions},
                }))
                .await;
        }
        _ => return false,
    }
    true
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_at_once_and_nobody_acts_before_its_time_is_over() {
    for way in 0.. {
        let mut world = World::new().await;
        install(&world, json!({"leaseTransitions": 5})).await;
        let mut a = world.start("a");
        a.elected(&world, RETRY).await;
        let b = world.start("b");
        let c = world.start("c");
        world.wait(5 * RETRY + RETRY / 3).await;
        if !tamper(&world, way).await {
            assert_eq!(way, 6);
            break;
        }
        let took = a.deposed(&world, RETRY).await;
        assert!(took < 10 * MILLI, "{way}: {took:?}");
        let left = Duration::from_millis(14_990);
        for _ in 0..15 {
            assert!(!a.leads() && !b.leads() && !c.leads(), "{way}");
            world.wait(left / 15).await;
        }
        world.wait(Duration::from_millis(4010)).await;
        let leaders = [&a, &b, &c].iter().filter(|candidate| candidate.leads()).count();
        assert_eq!(leaders, 1, "{way}");
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn not_even_beside_a_leader_that_does_not_hear_of_it() {
    for way in 0..6 {
        let mut world = World::new().await;
        install(&world, json!({"leaseTransitions": 5})).await;
        let mut a = world.start("a");
        a.elected(&world, RETRY).await;
        let b = world.start("b");
        let c = world.start("c");
        world.wait(5 * RETRY + RETRY / 3).await;
        a.net.watches(WatchTrouble::Silent);
        a.net.trouble(Trouble::RequestLost);
        let _ = tamper(&world, way).await;
        world.wait(Duration::from_secs(9)).await;
        assert!(a.leads(), "{way}: it goes by its own clock");
        world.wait(Duration::from_secs(9)).await;
        assert!(b.leads() != c.leads(), "{way}");
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_in_our_name_that_we_did_not_claim_is_waited_out() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(5 * RETRY + RETRY / 3).await;
    a.net.watches(WatchTrouble::Silent);
    a.net.trouble(Trouble::RequestLost);
    world
        .rewrite(json!({"spec": {"holderIdentity": b.identity, "leaseTransitions": 1}}))
        .await;
    let took = b.elected(&world, AGAIN).await;
    assert!(took >= LEASE, "{took:?}");
    assert_eq!(b.takeover(), Some(Takeover::Unclean));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_hears_nothing_notices_at_its_next_renewal() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    world.wait(5 * RETRY).await;
    a.net.watches(WatchTrouble::Silent);
    world
        .rewrite(json!({"spec": {"holderIdentity": "ghost", "leaseTransitions": 1}}))
        .await;
    a.deposed(&world, RETRY + MILLI).await;
    let took = a.elected(&world, AGAIN).await;
    assert!(took >= LEASE, "a ghost is waited out: {took:?}");
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["leaseTransitions"], json!(2));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_keep_a_leader_from_hearing() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    world.wait(5 * RETRY).await;
    a.net.trouble(Trouble::RequestLost);
    world.wait(RETRY).await;
    world.rewrite(json!({"spec": {"leaseTransitions": 9}})).await;
    assert!(a.deposed(&world, RETRY).await < 10 * MILLI);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_an_installer_has_made_is_free() {
    let mut world = World::new().await;
    install(&world, json!({})).await;
    let mut a = world.start("a");
    assert!(a.elected(&world, RETRY).await < 10 * MILLI);
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["metadata"]["labels"], json!({"app": "coxswain"}));
    world.check();
}
