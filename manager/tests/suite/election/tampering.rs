//! Foreign deletions and changes of the Lease.

use super::*;

/// Creates a Lease that was never held.
async fn install(cluster: &Cluster, spec: Value) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "steersman", "labels": {"app": "steersman"}},
        "spec": spec,
    });
    let _: Value = cluster
        .client
        .create(&Resource::of::<Lease>(), "kube-system", lease.to_string().into())
        .await
        .expect("a lease");
}

/// Changes a held Lease as another client. Returns false if there is no such case.
async fn tamper(cluster: &Cluster, case: usize) -> bool {
    let lease = cluster.lease().await.expect("a lease");
    match case {
        0 => cluster.delete().await,
        1 => cluster.rewrite(json!({"spec": {"holderIdentity": ""}})).await,
        2 => cluster.rewrite(json!({"spec": {"holderIdentity": null}})).await,
        3 => {
            cluster
                .rewrite(json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 1}}))
                .await;
        }
        // Another client clears the holder without proof that it was the holder.
        4 => {
            cluster
                .rewrite(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}))
                .await;
        }
        // The release of an earlier term is restored from a backup.
        5 => {
            let transitions = lease["spec"]["leaseTransitions"].as_i64().expect("a number") - 1;
            let proof = json!({"identity": "earlier", "transitions": transitions}).to_string();
            cluster
                .rewrite(json!({
                    "metadata": {"annotations": {"steersman/released-by": proof}},
                    "spec": {"holderIdentity": "", "leaseTransitions": transitions},
                }))
                .await;
        }
        _ => return false,
    }
    true
}

#[tokio::test(start_paused = true)]
async fn tampered_leader_stops_immediately_and_no_other_leads_before_its_lease_expires() {
    for case in 0.. {
        let mut cluster = Cluster::new().await;
        install(&cluster, json!({"leaseTransitions": 5})).await;
        let mut a = cluster.start("a");
        a.elected(&cluster, RETRY).await;
        let b = cluster.start("b");
        let c = cluster.start("c");
        cluster.wait(5 * RETRY + RETRY / 3).await;
        if !tamper(&cluster, case).await {
            assert_eq!(case, 6);
            break;
        }
        let took = a.stepped_down(&cluster, RETRY).await;
        assert!(took < 10 * MILLI, "{case}: {took:?}");
        let left = Duration::from_millis(14_990);
        for _ in 0..15 {
            assert!(!a.leads() && !b.leads() && !c.leads(), "{case}");
            cluster.wait(left / 15).await;
        }
        cluster.wait(Duration::from_millis(4010)).await;
        let leaders = [&a, &b, &c].iter().filter(|candidate| candidate.leads()).count();
        assert_eq!(leaders, 1, "{case}");
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn no_other_leads_while_a_tampered_leader_is_unaware() {
    for case in 0..6 {
        let mut cluster = Cluster::new().await;
        install(&cluster, json!({"leaseTransitions": 5})).await;
        let mut a = cluster.start("a");
        a.elected(&cluster, RETRY).await;
        let b = cluster.start("b");
        let c = cluster.start("c");
        cluster.wait(5 * RETRY + RETRY / 3).await;
        a.net.set_watch_fault(WatchFault::Silent);
        a.net.set_fault(NetworkFault::RequestLost);
        let _ = tamper(&cluster, case).await;
        cluster.wait(Duration::from_secs(9)).await;
        assert!(a.leads(), "{case}: until its own deadline");
        cluster.wait(Duration::from_secs(9)).await;
        assert!(b.leads() != c.leads(), "{case}");
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_lease_with_own_identity_must_expire() {
    let (mut cluster, a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(5 * RETRY + RETRY / 3).await;
    a.net.set_watch_fault(WatchFault::Silent);
    a.net.set_fault(NetworkFault::RequestLost);
    cluster
        .rewrite(json!({"spec": {"holderIdentity": b.identity, "leaseTransitions": 1}}))
        .await;
    let took = b.elected(&cluster, FAILOVER_LIMIT).await;
    assert!(took >= LEASE, "{took:?}");
    assert_eq!(b.takeover(), Some(Takeover::Unclean));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn leader_without_watch_notices_tampering_at_its_next_renewal() {
    let (cluster, mut a) = Cluster::with_leader("a").await;
    cluster.wait(5 * RETRY).await;
    a.net.set_watch_fault(WatchFault::Silent);
    cluster
        .rewrite(json!({"spec": {"holderIdentity": "other", "leaseTransitions": 1}}))
        .await;
    a.stepped_down(&cluster, RETRY + MILLI).await;
    let took = a.elected(&cluster, FAILOVER_LIMIT).await;
    assert!(took >= LEASE, "the foreign holder must expire: {took:?}");
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["leaseTransitions"], json!(2));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn hanging_renewal_does_not_block_watch_events() {
    let (cluster, mut a) = Cluster::with_leader("a").await;
    cluster.wait(5 * RETRY).await;
    a.net.set_fault(NetworkFault::RequestLost);
    cluster.wait(RETRY).await;
    cluster.rewrite(json!({"spec": {"leaseTransitions": 9}})).await;
    assert!(a.stepped_down(&cluster, RETRY).await < 10 * MILLI);
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn lease_created_by_an_installer_is_acquired_immediately() {
    let mut cluster = Cluster::new().await;
    install(&cluster, json!({})).await;
    let mut a = cluster.start("a");
    assert!(a.elected(&cluster, RETRY).await < 10 * MILLI);
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["metadata"]["labels"], json!({"app": "steersman"}));
    cluster.check();
}
