//! Two leaders at the same time, as after a misconfiguration: they compete for different Leases.

use steersman_manager::client::{Delete, Propagation};

use super::*;

#[tokio::test(start_paused = true)]
async fn two_leaders_converge_and_delete_nothing_owned() {
    let cluster = Cluster::new();
    let one = cluster.start("one", "lease-one", 100);
    let other = cluster.start("other", "lease-other", 100);
    cluster.leads(&one).await;
    cluster.leads(&other).await;
    for name in ["a", "b", "c"] {
        cluster.deploy(name, 6).await;
    }
    for name in ["a", "b", "c"] {
        cluster.complete(name).await;
    }
    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    cluster.patch(&DEPLOYMENTS, "a", &image("two")).await;
    cluster
        .patch(&DEPLOYMENTS, "b", &json!({"spec": {"replicas": 2}}))
        .await;
    let doomed = cluster.read(&DEPLOYMENTS, "c").await.expect("it exists");
    let foreground = |it: Delete| it.propagating(Propagation::Foreground);
    cluster.delete_with(&DEPLOYMENTS, &doomed, foreground).await;
    let owner = cluster.read(&DEPLOYMENTS, "a").await.expect("it exists");
    let reference =
        |uid: &Value| json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": uid}]);
    let map = |name: &str, owners: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    let uid = &owner["metadata"]["uid"];
    cluster.create(&MAPS, &map("owned", reference(uid))).await;
    let gone = json!("00000000-0000-4000-8000-000000000001");
    cluster.create(&MAPS, &map("garbage", reference(&gone))).await;

    cluster.complete("a").await;
    cluster.complete("b").await;
    cluster
        .until("the deleted Deployment and its dependents are gone", async || {
            cluster.read(&DEPLOYMENTS, "c").await.is_none() && cluster.pods("c").await == 0
        })
        .await;
    cluster
        .until("garbage is collected", async || {
            cluster.read(&MAPS, "garbage").await.is_none()
        })
        .await;
    assert!(cluster.read(&MAPS, "owned").await.is_some());
    assert_eq!(cluster.list(&SETS).await.len(), 3, "two templates of a, one of b");
    cluster.assert_idle().await;

    assert_eq!(cluster.collected_with_owner(), [""; 0]);
    let writes = cluster.writes();
    for by in ["one", "other"] {
        let count = writes.iter().filter(|it| it.by == by).count();
        assert!(count > 20, "{by} sent only {count} writes");
    }
    assert!(one.leads() && other.leads());
}

/// The cache of one leader shows old `ReplicaSets`, so the leaders compute different statuses.
#[tokio::test(start_paused = true)]
async fn leaders_with_different_caches_do_not_race_for_the_status() {
    let cluster = Cluster::new();
    let one = cluster.start("one", "lease-one", 100);
    let other = cluster.start("other", "lease-other", 100);
    cluster.leads(&one).await;
    cluster.leads(&other).await;
    for name in ["a", "b"] {
        cluster.deploy(name, 6).await;
        cluster.complete(name).await;
    }
    let past = cluster.sandbox.revision();
    other.link.service.lag().hold_at("replicasets.apps", past);
    let doomed = cluster.read(&DEPLOYMENTS, "a").await.expect("it exists");
    let foreground = |it: Delete| it.propagating(Propagation::Foreground);
    cluster.delete_with(&DEPLOYMENTS, &doomed, foreground).await;
    let replicas = json!({"spec": {"replicas": 2}});
    cluster.patch(&DEPLOYMENTS, "b", &replicas).await;
    let before = cluster.writes().len();
    cluster.sleep(600 * SECOND).await;
    let writes = &cluster.writes()[before..];
    let statuses = |it: &&Write| it.operation.contains("/deployments/") && it.operation.ends_with("/status");
    let statuses = writes.iter().filter(statuses).count();
    // Two statuses by two leaders: three at once, then after 10, 20 and 40 s, then one per minute.
    assert!(statuses < 80, "{statuses}");
    // The leader with the stale cache creates a few pods per minute, and the other one deletes them.
    assert!(writes.len() < 300, "{}", writes.len());
    other.link.service.lag().release();
    cluster.complete("b").await;
    cluster
        .until("the deleted Deployment and its dependents are gone", async || {
            cluster.read(&DEPLOYMENTS, "a").await.is_none() && cluster.pods("a").await == 0
        })
        .await;
    cluster.assert_idle().await;
    assert_eq!(cluster.collected_with_owner(), [""; 0]);
}
