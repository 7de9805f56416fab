//! Discovery is read after a change of an `APIService`.

use serde_json::{Value, json};
use steersman_manager::client::Patch;
use steersman_manager::object::{Key, Resource};

use super::{Fixture, SECOND, fixture_with};

const SERVICES: Resource = Resource::cluster("apiregistration.k8s.io", "v1", "apiservices", "APIService");

async fn with_api_services() -> Fixture {
    let f = fixture_with(&[], |_| {}).await;
    f.within(SECOND, "published", || {
        f.collects("apiregistration.k8s.io/v1 apiservices")
    })
    .await;
    f.sleep(SECOND).await;
    let (_, others) = f.api.take_requests();
    assert!(others.iter().any(|it| it.ends_with("/apiservices")), "{others:?}");
    f
}

fn service(group: &str, remote: bool, available: bool) -> Value {
    let service = if remote {
        json!({"name": "s", "namespace": "n"})
    } else {
        Value::Null
    };
    let status = if available { "True" } else { "False" };
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "service": service},
        "status": {"conditions": [{"type": "Available", "status": status}]},
    })
}

async fn register(f: &Fixture, service: &Value) {
    let created: Result<Value, _> = f.admin.create(&SERVICES, "", service.to_string().into()).await;
    created.expect("created");
}

async fn set_status(f: &Fixture, service: &Value) {
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    let status = Patch::merge(&json!({"status": service["status"]})).of("status");
    let patched: Result<Value, _> = f.admin.patch(&SERVICES, &Key::new("", name), status).await;
    patched.expect("patched");
}

fn reads(f: &Fixture) -> usize {
    f.api.take_requests().0.iter().filter(|it| *it == "/apis").count()
}

#[tokio::test(start_paused = true)]
async fn api_service_change_triggers_a_read() {
    let f = with_api_services().await;
    register(&f, &service("batch", true, false)).await;
    f.sleep(2 * SECOND).await;
    assert_eq!(reads(&f), 1);
    set_status(&f, &service("batch", true, true)).await;
    f.sleep(2 * SECOND).await;
    assert_eq!(reads(&f), 1);
    assert_eq!(f.sync_errors(), 0);
}

#[tokio::test(start_paused = true)]
async fn api_service_changes_share_reads() {
    let f = with_api_services().await;
    register(&f, &service("batch", true, false)).await;
    for round in 0..100 {
        let available = service("batch", true, round % 2 == 0);
        set_status(&f, &available).await;
        f.sleep(SECOND / 10).await;
    }
    let reads = reads(&f);
    assert!((18..=22).contains(&reads), "{reads} in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn unlisted_api_service_triggers_rereads() {
    let f = with_api_services().await;
    register(&f, &service("late.io", true, true)).await;
    f.sleep(10 * SECOND).await;
    let reads = reads(&f);
    assert!((4..=7).contains(&reads), "{reads}");
    f.create_crd("things.late.io", &["v1"]).await;
    f.within(SECOND, "listed", || f.collects("late.io/v1 things"))
        .await;
}
