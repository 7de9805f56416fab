//! Pods and their owners, which other controllers reconcile at the same time.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::{self, with};

use super::fixture::{FOREGROUND, Fixture, finalizers, owners, text};

pub fn tests() -> Vec<Test> {
    [
        each!(pods_are_deleted_with_their_replicaset, [ConfigMap]),
        each!(
            replicaset_in_foreground_deletion_is_deleted_after_its_pods,
            [ConfigMap]
        ),
        each!(orphaned_pods_are_kept_and_adopted, [ConfigMap]),
        each!(replicationcontroller_orphans_pods_by_default, [ConfigMap]),
        each!(three_levels_are_deleted_in_foreground, [ConfigMap]),
        each!(pod_in_its_grace_period_blocks_its_owner, [ConfigMap]),
        each!(job_orphans_pods_by_default, [ConfigMap]),
    ]
    .concat()
}

/// A node without a kubelet.
const UNMANAGED_NODE: &str = "elsewhere";

fn replica_set(name: &str, replicas: u32) -> Value {
    with(
        fixtures::replica_set(name),
        json!({"spec": {"replicas": replicas}}),
    )
}

async fn create(f: &Fixture, collection: &str, object: Value) -> (String, String) {
    let created = f.c.api().post(collection, object).await.expect(201);
    let path = format!("{collection}/{}", text(&created["metadata"]["name"]));
    (path, text(&created["metadata"]["uid"]))
}

async fn pods(f: &Fixture) -> Vec<Value> {
    let list = f.c.api().get(&fixtures::core(&f.ns, "pods")).await.expect(200);
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Waits until exactly `count` pods exist and run.
async fn wait_running(f: &Fixture, count: usize) -> Vec<Value> {
    f.until(&format!("{count} pods run"), async || {
        let pods = pods(f).await;
        let running = pods
            .iter()
            .filter(|it| it["status"]["phase"] == "Running")
            .count();
        (running == count && pods.len() == count).then_some(pods)
    })
    .await
}

async fn wait_no_pods(f: &Fixture) {
    f.until("no pods are left", async || {
        pods(f).await.is_empty().then_some(())
    })
    .await;
}

/// Asserts that pods are deleted, and waits until none are left. A controller whose cache does not show the deletion of the
/// owner may have replaced them.
async fn assert_deleted(f: &Fixture, made: &[Value]) {
    let uid = |it: &Value| text(&it["metadata"]["uid"]);
    let left = pods(f).await;
    let known = |it: &&Value| made.iter().any(|other| uid(other) == uid(it));
    let left: Vec<_> = left.iter().filter(known).collect();
    assert!(left.is_empty(), "{left:#?}");
    wait_no_pods(f).await;
}

/// Waits until the collector has observed all pods: it deletes newer garbage.
async fn wait_pods_observed(f: &Fixture) {
    let change = json!({
        "metadata": {"labels": null, "ownerReferences": [f.absent_owner(f.kind)]},
        "spec": {"nodeName": UNMANAGED_NODE},
    });
    let all = fixtures::core(&f.ns, "pods");
    let (path, _) = create(f, &all, with(fixtures::pod("garbage"), change)).await;
    f.until("the garbage is terminating", async || {
        let now = f.c.api().get(&path).await.expect(200);
        now["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    // No kubelet removes it.
    delete(f, &path, json!({"gracePeriodSeconds": 0})).await;
}

/// Waits until the collector has observed all `ReplicaSets`: it deletes newer garbage.
async fn wait_sets_observed(f: &Fixture) {
    let change = json!({"metadata": {"ownerReferences": [f.absent_owner(f.kind)]}});
    let sets = fixtures::apps(&f.ns, "replicasets");
    let (path, _) = create(f, &sets, with(replica_set("garbage", 0), change)).await;
    f.wait_path_deleted(&path).await;
}

async fn delete(f: &Fixture, path: &str, options: Value) -> Value {
    f.c.api().delete(path, options).await.expect(200)
}

async fn pods_are_deleted_with_their_replicaset(f: Fixture) {
    let sets = fixtures::apps(&f.ns, "replicasets");
    let (path, _) = create(&f, &sets, replica_set("a", 5)).await;
    wait_running(&f, 5).await;
    delete(&f, &path, json!({})).await;
    f.wait_path_deleted(&path).await;
    wait_no_pods(&f).await;
}

async fn replicaset_in_foreground_deletion_is_deleted_after_its_pods(f: Fixture) {
    let sets = fixtures::apps(&f.ns, "replicasets");
    let (path, _) = create(&f, &sets, replica_set("a", 5)).await;
    let made = wait_running(&f, 5).await;
    wait_pods_observed(&f).await;
    let deleted = delete(&f, &path, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(finalizers(&deleted), [FOREGROUND]);
    f.wait_path_deleted(&path).await;
    assert_deleted(&f, &made).await;
}

async fn orphaned_pods_are_kept_and_adopted(f: Fixture) {
    let sets = fixtures::apps(&f.ns, "replicasets");
    let (path, _) = create(&f, &sets, replica_set("a", 4)).await;
    let before = wait_running(&f, 4).await;
    delete(&f, &path, json!({"propagationPolicy": "Orphan"})).await;
    f.wait_path_deleted(&path).await;
    f.create_with(super::fixture::Kind::ConfigMap, &f.ns, "used", json!({}))
        .await;
    f.assert_kept(&[]).await;
    let after = pods(&f).await;
    assert_eq!(after.len(), 4);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert!(after["metadata"]["deletionTimestamp"].is_null());
        assert!(owners(after).is_empty(), "{after:#}");
    }
    // Another ReplicaSet adopts them.
    let (_, uid) = create(&f, &sets, replica_set("b", 4)).await;
    f.until("all are adopted", async || {
        let pods = pods(&f).await;
        (pods.len() == 4 && pods.iter().all(|it| owners(it) == [&*uid])).then_some(())
    })
    .await;
}

async fn replicationcontroller_orphans_pods_by_default(f: Fixture) {
    let sets = fixtures::core(&f.ns, "replicationcontrollers");
    let object = with(
        fixtures::replication_controller("a"),
        json!({"spec": {"replicas": 2}}),
    );
    let (path, _) = create(&f, &sets, object).await;
    wait_running(&f, 2).await;
    let deleted = delete(&f, &path, json!({})).await;
    assert_eq!(finalizers(&deleted), ["orphan"]);
    f.wait_path_deleted(&path).await;
    f.create_with(super::fixture::Kind::ConfigMap, &f.ns, "used", json!({}))
        .await;
    f.assert_kept(&[]).await;
    let left = pods(&f).await;
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|it| owners(it).is_empty()), "{left:#?}");
}

/// No controller of the top kind runs.
async fn three_levels_are_deleted_in_foreground(f: Fixture) {
    let tops = fixtures::apps(&f.ns, "statefulsets");
    let other = json!({"spec": {
        "serviceName": "a", "replicas": 0, "selector": {"matchLabels": {"app": "b"}},
        "template": {"metadata": {"labels": {"app": "b"}}},
    }});
    let (top, uid) = create(&f, &tops, with(fixtures::workload("StatefulSet", "top"), other)).await;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "top", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let change = json!({"metadata": {"ownerReferences": [owner]}});
    let sets = fixtures::apps(&f.ns, "replicasets");
    let (set, _) = create(&f, &sets, with(replica_set("a", 3), change)).await;
    let made = wait_running(&f, 3).await;
    wait_sets_observed(&f).await;
    wait_pods_observed(&f).await;
    delete(&f, &top, json!({"propagationPolicy": "Foreground"})).await;
    f.wait_path_deleted(&top).await;
    assert_eq!(f.c.api().get(&set).await.status, 404);
    assert_deleted(&f, &made).await;
}

async fn pod_in_its_grace_period_blocks_its_owner(f: Fixture) {
    let sets = fixtures::apps(&f.ns, "replicasets");
    let elsewhere = json!({"spec": {"template": {"spec": {"nodeName": UNMANAGED_NODE}}}});
    let (path, _) = create(&f, &sets, with(replica_set("a", 2), elsewhere)).await;
    let made = f
        .until("the pods exist", async || {
            let pods = pods(&f).await;
            (pods.len() == 2).then_some(pods)
        })
        .await;
    wait_pods_observed(&f).await;
    delete(&f, &path, json!({"propagationPolicy": "Foreground"})).await;
    let all_terminating = async || {
        let pods = pods(&f).await;
        let terminating = |it: &Value| it["metadata"]["deletionTimestamp"].is_string();
        (pods.len() == 2 && pods.iter().all(terminating)).then_some(pods)
    };
    let terminating = f.until("the pods are terminating", all_terminating).await;
    // The collector does not shorten the grace period.
    for pod in terminating {
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30, "{pod:#}");
    }
    for pod in &made {
        let now = f.c.api().get(&path).await.expect(200);
        assert_eq!(finalizers(&now), [FOREGROUND]);
        let path = format!(
            "{}/{}",
            fixtures::core(&f.ns, "pods"),
            text(&pod["metadata"]["name"])
        );
        delete(&f, &path, json!({"gracePeriodSeconds": 0})).await;
    }
    f.wait_path_deleted(&path).await;
    assert!(pods(&f).await.is_empty(), "pods were replaced");
}

/// No Job controller runs: the test creates the pods.
async fn job_orphans_pods_by_default(f: Fixture) {
    let jobs = fixtures::group("batch/v1", &f.ns, "jobs");
    for (name, options, kept) in [
        ("a", json!({}), true),
        ("b", json!({"propagationPolicy": "Background"}), false),
    ] {
        let (path, uid) = create(&f, &jobs, fixtures::job(name)).await;
        let owner =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true});
        let change = json!({"metadata": {"labels": null, "ownerReferences": [owner]}, "spec": {"nodeName": UNMANAGED_NODE}});
        let all = fixtures::core(&f.ns, "pods");
        let (pod, _) = create(&f, &all, with(fixtures::pod(name), change)).await;
        f.create_with(
            super::fixture::Kind::ConfigMap,
            &f.ns,
            &format!("used-{name}"),
            json!({}),
        )
        .await;
        f.assert_kept(&[]).await;
        delete(&f, &path, options).await;
        if kept {
            f.wait_path_deleted(&path).await;
            f.assert_kept(&[]).await;
            let now = f.c.api().get(&pod).await.expect(200);
            assert!(owners(&now).is_empty(), "{now:#}");
            assert!(now["metadata"]["deletionTimestamp"].is_null(), "{now:#}");
        } else {
            f.until("the pod is terminating", async || {
                let now = f.c.api().get(&pod).await.expect(200);
                now["metadata"]["deletionTimestamp"].is_string().then_some(())
            })
            .await;
        }
    }
}
