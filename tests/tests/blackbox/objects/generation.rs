//! When `metadata.generation` moves: by the rules of each kind.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        MERGE, STRATEGIC, apps, budget, budgets, config_map, core, define, deployment, group, job, lease,
        leases, named, pod, replica_set, replication_controller, service, undefine, with, workload,
    },
    test,
};
use serde_json::{Value, json};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(workloads_count_specs_and_not_metadata),
        test!(deployment_counts_annotations_too),
        test!(status_is_not_counted),
        test!(no_change_is_not_counted),
        test!(budgets_and_policies_count_specs),
        test!(pods_count_specs).since(1, 33),
        test!(jobs_count_specs).since(1, 21),
        test!(config_maps_secrets_services_and_leases_have_none),
        test!(generation_of_the_body_is_ignored),
        test!(generation_of_a_kind_without_one_is_kept_from_creation),
        test!(custom_resources_count_all_but_metadata_and_status),
        test!(custom_resources_without_status_subresource_count_status),
    ]
}

async fn patch(c: &Cluster, path: &str, change: Value) -> Value {
    c.api().patch(path, MERGE, change).await.expect(200)["metadata"]["generation"].clone()
}

async fn workloads_count_specs_and_not_metadata(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body) in [
        (apps(&ns, "deployments"), deployment("a")),
        (apps(&ns, "replicasets"), replica_set("a")),
        (apps(&ns, "statefulsets"), workload("StatefulSet", "a")),
        (apps(&ns, "daemonsets"), workload("DaemonSet", "a")),
        (core(&ns, "replicationcontrollers"), replication_controller("a")),
    ] {
        let made = c.api().post(&path, body).await.expect(201);
        assert_eq!(made["metadata"]["generation"], 1, "{path}");
        let path = format!("{path}/a");
        let meta = json!({"labels": {"x": "y"}, "finalizers": ["example.com/a"]});
        assert_eq!(patch(&c, &path, json!({"metadata": meta})).await, 1, "{path}");
        let template = json!({"metadata": {"annotations": {"x": "y"}}});
        assert_eq!(
            patch(&c, &path, json!({"spec": {"template": template}})).await,
            2,
            "{path}"
        );
        let seconds = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}});
        assert_eq!(patch(&c, &path, seconds).await, 3, "{path}");
    }
}

async fn deployment_counts_annotations_too(c: Cluster) {
    let ns = c.namespace().await;
    let annotation = json!({"metadata": {"annotations": {"x": "y"}}});
    for (path, body, generation) in [
        (apps(&ns, "deployments"), deployment("a"), 2),
        (apps(&ns, "replicasets"), replica_set("a"), 1),
        (apps(&ns, "statefulsets"), workload("StatefulSet", "a"), 1),
        (apps(&ns, "daemonsets"), workload("DaemonSet", "a"), 1),
        (
            core(&ns, "replicationcontrollers"),
            replication_controller("a"),
            1,
        ),
    ] {
        c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a");
        assert_eq!(patch(&c, &path, annotation.clone()).await, generation, "{path}");
        assert_eq!(
            patch(&c, &path, annotation.clone()).await,
            generation,
            "{path}: no change"
        );
    }
}

async fn status_is_not_counted(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body) in [
        (apps(&ns, "deployments"), deployment("a")),
        (apps(&ns, "replicasets"), replica_set("a")),
        (apps(&ns, "statefulsets"), workload("StatefulSet", "a")),
        (core(&ns, "replicationcontrollers"), replication_controller("a")),
    ] {
        c.api().post(&path, body).await.expect(201);
        let status = json!({"status": {"replicas": 3}, "metadata": {"annotations": {"x": "y"}}});
        let changed = c
            .api()
            .patch(&format!("{path}/a/status"), MERGE, status)
            .await
            .expect(200);
        assert_eq!(changed["status"]["replicas"], 3);
        assert_eq!(
            changed["metadata"]["generation"], 1,
            "{path}: not even with an annotation"
        );
    }
}

async fn no_change_is_not_counted(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    for (kind, change) in [
        (MERGE, json!({"spec": {"replicas": 1}})),
        (MERGE, json!({"spec": {"replicas": null}})),
        (
            STRATEGIC,
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        ),
        (MERGE, json!({"status": {"replicas": 5}})),
    ] {
        let same = c.api().patch(&path, kind, change).await.expect(200);
        assert_eq!(same["metadata"]["generation"], 1);
    }
}

async fn budgets_and_policies_count_specs(c: Cluster) {
    let ns = c.namespace().await;
    let networking = "networking.k8s.io/v1";
    let policy = with(
        named(networking, "NetworkPolicy", "a"),
        json!({"spec": {"podSelector": {}}}),
    );
    for (path, body, change) in [
        (budgets(&c, &ns), budget(&c, "a"), json!({"minAvailable": 2})),
        (
            group(networking, &ns, "networkpolicies"),
            policy,
            json!({"podSelector": {"matchLabels": {"x": "y"}}}),
        ),
    ] {
        let made = c.api().post(&path, body).await.expect(201);
        assert_eq!(made["metadata"]["generation"], 1);
        let path = format!("{path}/a");
        let meta = json!({"labels": {"x": "y"}, "annotations": {"x": "y"}});
        assert_eq!(patch(&c, &path, json!({"metadata": meta})).await, 1);
        assert_eq!(patch(&c, &path, json!({"spec": change})).await, 2);
    }
}

/// Before, pods had no generation.
async fn pods_count_specs(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods/a");
    let made = c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let meta = json!({"labels": {"x": "y"}, "annotations": {"x": "y"}});
    assert_eq!(patch(&c, &path, json!({"metadata": meta})).await, 1);
    let status = json!({"status": {"phase": "Running"}});
    let changed = c
        .api()
        .patch(&format!("{path}/status"), MERGE, status)
        .await
        .expect(200);
    assert_eq!(changed["metadata"]["generation"], 1);
    assert_eq!(
        patch(&c, &path, json!({"spec": {"activeDeadlineSeconds": 5}})).await,
        2
    );
    let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
    let changed = c.api().patch(&path, STRATEGIC, image).await.expect(200);
    assert_eq!(changed["metadata"]["generation"], 3);
}

/// Before, jobs had no generation.
async fn jobs_count_specs(c: Cluster) {
    let ns = c.namespace().await;
    let path = group("batch/v1", &ns, "jobs");
    let made = c.api().post(&path, job("a")).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{path}/a");
    assert_eq!(
        patch(&c, &path, json!({"metadata": {"annotations": {"x": "y"}}})).await,
        1
    );
    assert_eq!(patch(&c, &path, json!({"spec": {"parallelism": 4}})).await, 2);
}

async fn config_maps_secrets_services_and_leases_have_none(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, change) in [
        (
            core(&ns, "configmaps"),
            config_map("a"),
            json!({"data": {"k": "2"}}),
        ),
        (
            core(&ns, "secrets"),
            named("v1", "Secret", "a"),
            json!({"data": {"k": "eA=="}}),
        ),
        (
            core(&ns, "services"),
            service("a"),
            json!({"spec": {"selector": {"x": "y"}}}),
        ),
        (leases(&ns), lease("a"), json!({"spec": {"holderIdentity": "x"}})),
    ] {
        let made = c.api().post(&path, body).await.expect(201);
        assert_eq!(made["metadata"]["generation"], Value::Null, "{path}");
        let path = format!("{path}/a");
        assert_eq!(patch(&c, &path, change).await, Value::Null, "{path}");
    }
}

async fn generation_of_the_body_is_ignored(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let body = with(deployment("a"), json!({"metadata": {"generation": 7}}));
    let made = c.api().post(&apps(&ns, "deployments"), body).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(patch(&c, &path, json!({"metadata": {"generation": 8}})).await, 1);
    assert_eq!(
        patch(
            &c,
            &path,
            json!({"metadata": {"generation": 8}, "spec": {"paused": true}})
        )
        .await,
        2
    );
}

/// A quirk: nobody clears what is sent on creation for a kind that does not use it.
async fn generation_of_a_kind_without_one_is_kept_from_creation(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let body = with(config_map("a"), json!({"metadata": {"generation": 7}}));
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 7);
    assert_eq!(
        patch(
            &c,
            &path,
            json!({"metadata": {"generation": 8}, "data": {"k": "2"}})
        )
        .await,
        7
    );
}

async fn custom_resources_count_all_but_metadata_and_status(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "counter", &json!({"status": {}})).await;
    let path = group("example.com/v1", &ns, "counters");
    let body = with(
        named("example.com/v1", "Counter", "a"),
        json!({"spec": {"x": 1}, "status": {"y": 1}}),
    );
    let made = c.api().post(&path, body).await.expect(201);
    assert_eq!(
        (&made["metadata"]["generation"], &made["status"]),
        (&json!(1), &Value::Null)
    );
    let path = format!("{path}/a");
    let meta = json!({"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["example.com/a"]});
    assert_eq!(patch(&c, &path, json!({"metadata": meta})).await, 1);
    assert_eq!(patch(&c, &path, json!({"status": {"y": 2}})).await, 1);
    assert_eq!(
        patch(&c, &format!("{path}/status"), json!({"status": {"y": 3}})).await,
        1
    );
    assert_eq!(patch(&c, &path, json!({"spec": {"x": 2}})).await, 2);
    assert_eq!(
        patch(&c, &path, json!({"other": {"x": 2}})).await,
        3,
        "a spec is nothing special"
    );
    assert_eq!(patch(&c, &path, json!({"spec": {"x": 2}})).await, 3);
    patch(&c, &path, json!({"metadata": {"finalizers": null}})).await;
    undefine(&c, "counter").await;
}

async fn custom_resources_without_status_subresource_count_status(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "plainer", &json!({})).await;
    let path = group("example.com/v1", &ns, "plainers");
    let body = with(
        named("example.com/v1", "Plainer", "a"),
        json!({"status": {"y": 1}}),
    );
    let made = c.api().post(&path, body).await.expect(201);
    assert_eq!(
        (&made["metadata"]["generation"], &made["status"]),
        (&json!(1), &json!({"y": 1}))
    );
    let path = format!("{path}/a");
    assert_eq!(patch(&c, &path, json!({"status": {"y": 2}})).await, 2);
    c.api()
        .get(&format!("{path}/status"))
        .await
        .expect_error(404, "NotFound");
    undefine(&c, "plainer").await;
}
