//! The race that candidates lose without a resourceVersion in their writes, and the same race with one.

use super::*;

/// Acquires an expired Lease as `kube-leader-election` does: by a patch without a resourceVersion.
async fn patch_unconditionally(
    client: &Client,
    identity: &str,
    both_have_read: &tokio::sync::Barrier,
) -> bool {
    let resource = Resource::of::<Lease>();
    let lease: Value = client.get(&resource, &Cluster::key()).await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!("other"), "expired");
    both_have_read.wait().await;
    let patch = Patch::merge(&json!({"spec": {"holderIdentity": identity}}));
    let taken: Value = client
        .patch(&resource, &Cluster::key(), patch)
        .await
        .expect("a patch");
    taken["spec"]["holderIdentity"] == json!(identity)
}

async fn expired_lease() -> Cluster {
    let cluster = Cluster::new().await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "steersman"},
        "spec": {
            "holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 4,
            "acquireTime": "1969-12-31T00:00:00.000000Z", "renewTime": "1969-12-31T00:00:00.000000Z",
        },
    });
    let _: Value = cluster
        .client
        .create(&Resource::of::<Lease>(), "kube-system", lease.to_string().into())
        .await
        .expect("a lease");
    cluster
}

#[tokio::test(start_paused = true)]
async fn two_unconditional_patches_both_acquire_the_lease() {
    let cluster = expired_lease().await;
    let barrier = tokio::sync::Barrier::new(2);
    let (a, b) = tokio::join!(
        patch_unconditionally(&cluster.client, "a", &barrier),
        patch_unconditionally(&cluster.client, "b", &barrier)
    );
    assert!(a && b, "both believe they are the leader");
}

#[tokio::test(start_paused = true)]
async fn exactly_one_concurrent_candidate_acquires_the_lease() {
    let mut cluster = expired_lease().await;
    let mut all = Vec::new();
    for name in ["a", "b", "c"] {
        // The same delay for all makes their reads and writes concurrent.
        all.push(cluster.start_with(name, |net| net.response_delay(5 * MILLI)));
    }
    cluster.wait(Duration::from_millis(14_999)).await;
    for candidate in &all {
        assert!(!candidate.leads());
        candidate.net.take_counts();
    }
    cluster.wait(20 * MILLI).await;
    for candidate in &all {
        let counts = candidate.net.take_counts();
        assert_eq!(counts.get("PUT"), Some(&1), "not all have tried: {counts:?}");
    }
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    cluster.wait(Duration::from_mins(1)).await;
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["leaseTransitions"], json!(5));
    cluster.check();
}
