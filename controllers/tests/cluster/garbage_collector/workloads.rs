//! Pods and what they are made by, which other controllers look after at the same time.

use coxswain_tests::Test;
use coxswain_tests::fixtures::{self, with};
use serde_json::{Value, json};

use super::stage::{FOREGROUND, Stage, finalizers, owners, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(pods_go_with_their_replica_set, [ConfigMap]),
        each!(a_replica_set_goes_after_its_pods, [ConfigMap]),
        each!(pods_outlive_a_replica_set_that_orphans_them, [ConfigMap]),
        each!(pods_outlive_a_replication_controller_by_default, [ConfigMap]),
        each!(three_levels_go_in_the_foreground, [ConfigMap]),
        each!(a_pod_that_takes_its_time_holds_its_owner, [ConfigMap]),
        each!(pods_of_a_job_outlive_it_by_default, [ConfigMap]),
    ]
    .concat()
}

/// A node that nobody plays.
const ELSEWHERE: &str = "elsewhere";

/// So many pods.
fn replica_set(name: &str, replicas: u32) -> Value {
    with(
        fixtures::replica_set(name),
        json!({"spec": {"replicas": replicas}}),
    )
}

async fn create(s: &Stage, collection: &str, object: Value) -> (String, String) {
    let created = s.c.api().post(collection, object).await.expect(201);
    let path = format!("{collection}/{}", text(&created["metadata"]["name"]));
    (path, text(&created["metadata"]["uid"]))
}

async fn pods(s: &Stage) -> Vec<Value> {
    let list = s.c.api().get(&fixtures::core(&s.ns, "pods")).await.expect(200);
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Waits until so many pods run.
async fn running(s: &Stage, count: usize) -> Vec<Value> {
    s.until(&format!("{count} pods run"), async || {
        let pods = pods(s).await;
        let up = pods
            .iter()
            .filter(|it| it["status"]["phase"] == "Running")
            .count();
        (up == count && pods.len() == count).then_some(pods)
    })
    .await
}

async fn no_pods(s: &Stage) {
    s.until("no pods are left", async || {
        pods(s).await.is_empty().then_some(())
    })
    .await;
}

/// None of these is there; and none is left in the end. Meanwhile there may be others: pods and their owners come by different
/// watches, and who has not seen that the owner goes replaces its pods.
async fn have_gone(s: &Stage, made: &[Value]) {
    let uid = |it: &Value| text(&it["metadata"]["uid"]);
    let left = pods(s).await;
    let known = |it: &&Value| made.iter().any(|other| uid(other) == uid(it));
    let left: Vec<_> = left.iter().filter(known).collect();
    assert!(left.is_empty(), "{left:#?}");
    no_pods(s).await;
}

async fn no(s: &Stage, path: &str) {
    s.until(&format!("{path} is gone"), async || {
        (s.c.api().get(path).await.status == 404).then_some(())
    })
    .await;
}

async fn delete(s: &Stage, path: &str, options: Value) -> Value {
    s.c.api().delete(path, options).await.expect(200)
}

async fn pods_go_with_their_replica_set(s: Stage) {
    let sets = fixtures::apps(&s.ns, "replicasets");
    let (path, _) = create(&s, &sets, replica_set("a", 5)).await;
    running(&s, 5).await;
    delete(&s, &path, json!({})).await;
    no(&s, &path).await;
    no_pods(&s).await;
}

async fn a_replica_set_goes_after_its_pods(s: Stage) {
    let sets = fixtures::apps(&s.ns, "replicasets");
    let (path, _) = create(&s, &sets, replica_set("a", 5)).await;
    let made = running(&s, 5).await;
    let answer = delete(&s, &path, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(finalizers(&answer), [FOREGROUND]);
    no(&s, &path).await;
    have_gone(&s, &made).await;
}

async fn pods_outlive_a_replica_set_that_orphans_them(s: Stage) {
    let sets = fixtures::apps(&s.ns, "replicasets");
    let (path, _) = create(&s, &sets, replica_set("a", 4)).await;
    let before = running(&s, 4).await;
    delete(&s, &path, json!({"propagationPolicy": "Orphan"})).await;
    no(&s, &path).await;
    s.create(super::stage::Kind::ConfigMap, &s.ns, "used", json!({}))
        .await;
    s.stay(&[]).await;
    let after = pods(&s).await;
    assert_eq!(after.len(), 4);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert!(after["metadata"]["deletionTimestamp"].is_null());
        assert!(owners(after).is_empty(), "{after:#}");
    }
    // The next one takes them.
    let (_, uid) = create(&s, &sets, replica_set("b", 4)).await;
    s.until("all are adopted", async || {
        let pods = pods(&s).await;
        (pods.len() == 4 && pods.iter().all(|it| owners(it) == [&*uid])).then_some(())
    })
    .await;
}

async fn pods_outlive_a_replication_controller_by_default(s: Stage) {
    let sets = fixtures::core(&s.ns, "replicationcontrollers");
    let object = with(
        fixtures::replication_controller("a"),
        json!({"spec": {"replicas": 2}}),
    );
    let (path, _) = create(&s, &sets, object).await;
    running(&s, 2).await;
    let answer = delete(&s, &path, json!({})).await;
    assert_eq!(finalizers(&answer), ["orphan"]);
    no(&s, &path).await;
    s.create(super::stage::Kind::ConfigMap, &s.ns, "used", json!({}))
        .await;
    s.stay(&[]).await;
    let left = pods(&s).await;
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|it| owners(it).is_empty()), "{left:#?}");
}

/// The top is of a kind that nobody looks after here.
async fn three_levels_go_in_the_foreground(s: Stage) {
    let tops = fixtures::apps(&s.ns, "statefulsets");
    let other = json!({"spec": {
        "serviceName": "a", "replicas": 0, "selector": {"matchLabels": {"app": "b"}},
        "template": {"metadata": {"labels": {"app": "b"}}},
    }});
    let (top, uid) = create(&s, &tops, with(fixtures::workload("StatefulSet", "top"), other)).await;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "top", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let change = json!({"metadata": {"ownerReferences": [owner]}});
    let sets = fixtures::apps(&s.ns, "replicasets");
    let (set, _) = create(&s, &sets, with(replica_set("a", 3), change)).await;
    let made = running(&s, 3).await;
    delete(&s, &top, json!({"propagationPolicy": "Foreground"})).await;
    no(&s, &top).await;
    assert_eq!(s.c.api().get(&set).await.status, 404);
    have_gone(&s, &made).await;
}

async fn a_pod_that_takes_its_time_holds_its_owner(s: Stage) {
    let sets = fixtures::apps(&s.ns, "replicasets");
    let elsewhere = json!({"spec": {"template": {"spec": {"nodeName": ELSEWHERE}}}});
    let (path, _) = create(&s, &sets, with(replica_set("a", 2), elsewhere)).await;
    let made = s
        .until("the pods are there", async || {
            let pods = pods(&s).await;
            (pods.len() == 2).then_some(pods)
        })
        .await;
    delete(&s, &path, json!({"propagationPolicy": "Foreground"})).await;
    let all_going = async || {
        let pods = pods(&s).await;
        let going = |it: &Value| it["metadata"]["deletionTimestamp"].is_string();
        (pods.len() == 2 && pods.iter().all(going)).then_some(pods)
    };
    let going = s.until("the pods are going", all_going).await;
    // They keep their whole grace period: it is not for the collector to cut it.
    for pod in going {
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30, "{pod:#}");
    }
    for pod in &made {
        let now = s.c.api().get(&path).await.expect(200);
        assert_eq!(finalizers(&now), [FOREGROUND]);
        let path = format!(
            "{}/{}",
            fixtures::core(&s.ns, "pods"),
            text(&pod["metadata"]["name"])
        );
        delete(&s, &path, json!({"gracePeriodSeconds": 0})).await;
    }
    no(&s, &path).await;
    assert!(pods(&s).await.is_empty(), "and nobody has replaced them");
}

/// Nobody looks after jobs here: the test makes its pods.
async fn pods_of_a_job_outlive_it_by_default(s: Stage) {
    let jobs = fixtures::group("batch/v1", &s.ns, "jobs");
    for (name, options, kept) in [
        ("a", json!({}), true),
        ("b", json!({"propagationPolicy": "Background"}), false),
    ] {
        let (path, uid) = create(&s, &jobs, fixtures::job(name)).await;
        let owner =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true});
        let change = json!({"metadata": {"labels": null, "ownerReferences": [owner]}, "spec": {"nodeName": ELSEWHERE}});
        let all = fixtures::core(&s.ns, "pods");
        let (pod, _) = create(&s, &all, with(fixtures::pod(name), change)).await;
        s.create(
            super::stage::Kind::ConfigMap,
            &s.ns,
            &format!("used-{name}"),
            json!({}),
        )
        .await;
        s.stay(&[]).await;
        delete(&s, &path, options).await;
        if kept {
            no(&s, &path).await;
            s.stay(&[]).await;
            let now = s.c.api().get(&pod).await.expect(200);
            assert!(owners(&now).is_empty(), "{now:#}");
            assert!(now["metadata"]["deletionTimestamp"].is_null(), "{now:#}");
        } else {
            s.until("it is going", async || {
                let now = s.c.api().get(&pod).await.expect(200);
                now["metadata"]["deletionTimestamp"].is_string().then_some(())
            })
            .await;
        }
    }
}
