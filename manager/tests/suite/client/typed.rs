//! The typed client: `Api`, and the interoperation with `kube::Api`.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde_json::json;
use steersman_manager::client::{Apply, ErrorClass, Fence, ListQuery, Patch, RateLimit, Written};
use steersman_manager::object::Key;
use steersman_sandbox::faults::{Matcher, Refusal};

use crate::fixture::{Fixture, fixture};

const MINUTE: Duration = Duration::from_mins(1);

fn map(name: &str, value: &str) -> ConfigMap {
    let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"key": value}});
    serde_json::from_value(map).expect("a ConfigMap")
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

fn value(map: &ConfigMap) -> Option<&str> {
    Some(map.data.as_ref()?.get("key")?.as_str())
}

#[tokio::test(start_paused = true)]
async fn object_is_created_read_patched_and_deleted() {
    let f = fixture();
    let maps = f.client.api::<ConfigMap>();
    assert!(maps.get(&key("a")).await.expect("an answer").is_none());
    let created = maps.create(&map("a", "1")).await.expect("created");
    let again = maps.create(&map("a", "1")).await.expect_err("it exists");
    assert_eq!(again.class(), ErrorClass::AlreadyExists);
    let patch = Patch::json(&json!([{"op": "replace", "path": "/data/key", "value": "2"}]));
    let patched = maps.patch(&key("a"), patch).await.expect("patched");
    assert_eq!(value(&patched), Some("2"));
    let stale = maps.delete(&created).await.expect_err("it was changed");
    assert_eq!(stale.class(), ErrorClass::Conflict);
    let webhook = Refusal::new(404).details(json!({"name": "a"}));
    let webhook = f.faults.on(Matcher::verb("delete")).refuse(webhook);
    let refused = maps.delete(&patched).await.expect_err("a webhook refuses it");
    assert_eq!(refused.class(), ErrorClass::NotFound);
    webhook.remove();
    assert!(maps.delete(&patched).await.expect("deleted"));
    assert!(!maps.delete(&patched).await.expect("an answer"), "it is deleted");
    let unread = maps.delete(&map("a", "1")).await.expect_err("no uid");
    assert_eq!(unread.class(), ErrorClass::Invalid);
}

#[tokio::test(start_paused = true)]
async fn namespaced_object_without_a_namespace_is_not_sent() {
    let f = fixture();
    let maps = f.client.api::<ConfigMap>();
    let mut settings = map("settings", "1");
    settings.metadata.namespace = None;
    settings.metadata.uid = Some("1".to_owned());
    settings.metadata.resource_version = Some("1".to_owned());
    let (key, patch) = (Key::of(&settings), Patch::merge(&json!({})));
    let errors = [
        maps.get(&key).await.err(),
        maps.get_scale(&key).await.err(),
        maps.create(&settings).await.err(),
        maps.patch(&key, patch.clone()).await.err(),
        maps.apply(&settings, "test").await.err(),
        maps.delete(&settings).await.err(),
        maps.patch_status(&settings, &json!({"new": true})).await.err(),
        maps.patch_scale(&key, patch).await.err(),
        maps.create_or_patch(settings, |_| {}).await.err(),
    ];
    for error in errors {
        let error = error.expect("no namespace");
        assert_eq!(error.class(), ErrorClass::Invalid, "{error}");
        let message = error.to_string();
        assert!(
            message.contains("the ConfigMap \"settings\" has no namespace"),
            "{message}"
        );
    }
    assert_eq!(f.faults.count(&Matcher::any()), 0);
    let node = json!({"metadata": {"name": "a"}});
    let node: Node = serde_json::from_value(node).expect("a Node");
    f.client.api().create(&node).await.expect("cluster-scoped");
}

#[tokio::test(start_paused = true)]
async fn list_reads_page_by_page() {
    let f = fixture();
    let maps = f.client.api::<ConfigMap>();
    for i in 0..5 {
        maps.create(&map(&format!("m{i}"), "1")).await.expect("created");
    }
    let lists = Matcher::verb("list").resource("configmaps");
    let query = ListQuery {
        limit: 2,
        ..ListQuery::default()
    };
    f.faults.forget();
    let mut all = Box::pin(maps.list("default", query.clone()));
    assert!(all.next().await.expect("an object").is_ok());
    assert_eq!(f.faults.count(&lists), 1, "only the page that was read");
    let rest: Vec<_> = all.try_collect().await.expect("a list");
    assert_eq!((rest.len(), f.faults.count(&lists)), (4, 3));
    f.faults
        .on(lists)
        .after(1)
        .refuse(Refusal::new(410).reason("Expired"));
    let results: Vec<_> = maps.list("default", query).collect().await;
    assert_eq!(results.len(), 3, "a page, and the error at the end");
    let error = results[2].as_ref().expect_err("it expired");
    assert_eq!(error.class(), ErrorClass::Gone);
}

#[tokio::test(start_paused = true)]
async fn apply_owns_its_fields() {
    let f = fixture();
    let maps = f.client.api::<ConfigMap>();
    maps.apply(&map("a", "1"), "one").await.expect("created");
    let other = maps.apply(&map("a", "2"), "two").await.expect_err("owned by one");
    assert_eq!(other.class(), ErrorClass::Conflict);
    let second = map("a", "2");
    let forced = maps.apply(&second, Apply::from("two").force()).await;
    let forced = forced.expect("forced");
    assert_eq!(value(&forced), Some("2"));
    assert!(forced.metadata.managed_fields.is_some());
    // An object that was read is applied without its managed fields.
    maps.apply(&forced, Apply::from("two").force())
        .await
        .expect("applied");
    let stale = map_at("a", "3", "1");
    let stale = maps
        .apply(&stale, Apply::from("two").force())
        .await
        .expect_err("old");
    assert_eq!(stale.class(), ErrorClass::Conflict);
}

fn map_at(name: &str, value: &str, version: &str) -> ConfigMap {
    let mut map = map(name, value);
    map.metadata.resource_version = Some(version.to_owned());
    map
}

#[tokio::test(start_paused = true)]
async fn create_or_patch_writes_the_difference() {
    let f = fixture();
    let maps = f.client.api::<ConfigMap>();
    let set = |value: &'static str| {
        move |map: &mut ConfigMap| {
            map.data
                .get_or_insert_default()
                .insert("new".to_owned(), value.to_owned());
        }
    };
    let created = maps
        .create_or_patch(map("a", "1"), set("x"))
        .await
        .expect("created");
    assert!(matches!(created, Written::Created(_)));
    f.faults.forget();
    let same = maps
        .create_or_patch(map("a", "1"), set("x"))
        .await
        .expect("an answer");
    assert!(matches!(same, Written::Unchanged(_)));
    assert_eq!(f.writes(), 0);
    let patched = maps
        .create_or_patch(map("a", "1"), set("y"))
        .await
        .expect("patched");
    assert!(matches!(&patched, Written::Patched(map) if value(map) == Some("1")));
    let patch = f.faults.requests(&Matcher::writes())[0].json();
    assert_eq!(patch["data"], json!({"new": "y"}));
    assert!(patch["metadata"]["resourceVersion"].is_string() && patch["metadata"]["uid"].is_string());
    let renamed = maps.create_or_patch(map("a", "1"), |map| map.metadata.name = Some("b".to_owned()));
    assert_eq!(renamed.await.expect_err("renamed").class(), ErrorClass::Invalid);
}

fn deployment() -> Deployment {
    let deployment = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    });
    serde_json::from_value(deployment).expect("a Deployment")
}

#[tokio::test(start_paused = true)]
async fn status_and_scale_are_subresources() {
    let f = fixture();
    let deployments = f.client.api::<Deployment>();
    let created = deployments.create(&deployment()).await.expect("created");
    let status = json!({"replicas": 2, "observedGeneration": 1});
    let with_status = deployments
        .patch_status(&created, &status)
        .await
        .expect("patched");
    let with_status = with_status.expect("a change");
    let stale = deployments.patch_status(&created, &json!({"replicas": 1})).await;
    assert_eq!(stale.expect_err("it was changed").class(), ErrorClass::Conflict);
    f.faults.forget();
    let same = deployments
        .patch_status(&with_status, &status)
        .await
        .expect("no request");
    assert!(same.is_none());
    assert_eq!(f.writes(), 0);
    // A member that the new status omits is removed.
    let less = deployments
        .patch_status(&with_status, &json!({"observedGeneration": 1}))
        .await;
    let less = less
        .expect("patched")
        .expect("a change")
        .status
        .expect("a status");
    assert_eq!((less.replicas, less.observed_generation), (None, Some(1)));
    let read = deployments.get_scale(&key("web")).await.expect("a scale");
    assert_eq!(read.spec.and_then(|spec| spec.replicas), Some(2));
    let patch = Patch::merge(&json!({"spec": {"replicas": 3}}));
    deployments.patch_scale(&key("web"), patch).await.expect("scaled");
    let scaled = deployments
        .get(&key("web"))
        .await
        .expect("an answer")
        .expect("an object");
    assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(3));
}

#[tokio::test(start_paused = true)]
async fn strategic_merge_patch_merges_a_list_by_its_key() {
    let f = fixture();
    let deployments = f.client.api::<Deployment>();
    deployments.create(&deployment()).await.expect("created");
    let containers = json!([{"name": "proxy", "image": "envoy"}]);
    let patch = Patch::strategic(&json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    let patched = deployments.patch(&key("web"), patch).await.expect("patched");
    let pod = patched.spec.and_then(|it| it.template.spec).expect("a pod");
    let names: Vec<_> = pod.containers.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["proxy", "main"]);
}

fn kube_maps(client: &steersman_manager::client::Client) -> kube::Api<ConfigMap> {
    kube::Api::namespaced(client.kube(), "default")
}

#[tokio::test(start_paused = true)]
async fn writes_of_kube_pass_the_fence_and_are_tracked() {
    let f: Fixture = fixture();
    let fence = Fence::new(f.env.clock.clone());
    let term = fence.open(f.env.clock.mark(), MINUTE);
    let client = f.transport.reader("kube", None).in_term(&fence, term);
    let maps = kube_maps(&client);
    let created = maps
        .create(&kube::api::PostParams::default(), &map("a", "1"))
        .await;
    let version = created
        .expect("created")
        .metadata
        .resource_version
        .expect("a version");
    let tracker = f.transport.write_tracker();
    assert_eq!(tracker.written()["configmaps"].to_string(), version);
    let sent = f.faults.requests(&Matcher::writes());
    assert!(
        sent[0].header("user-agent").ends_with("/kube"),
        "{:?}",
        sent[0].headers
    );
    f.faults.on(Matcher::writes()).times(1).lose_answer();
    let lost = maps.delete("a", &kube::api::DeleteParams::default()).await;
    assert!(lost.is_err());
    assert!(!tracker.is_settled(), "the outcome is unknown");
    fence.close();
    f.faults.forget();
    let refused = maps
        .create(&kube::api::PostParams::default(), &map("b", "1"))
        .await;
    let refused = refused.expect_err("the term is over");
    assert!(
        refused.to_string().contains("may no longer be the leader"),
        "{refused}"
    );
    assert_eq!(f.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_of_kube_wait_for_the_rate_limiter() {
    let f = fixture();
    let limit = RateLimit { qps: 1.0, burst: 1 };
    let maps = kube_maps(&f.transport.unfenced("kube", Some(limit)));
    let start = f.env.clock.now();
    for _ in 0..4 {
        let _ = maps.get_opt("a").await.expect("an answer");
    }
    assert_eq!((f.env.clock.now() - start).as_secs(), 3);
}
