//! A change of an `APIService` lets the documents be read again. The sandbox has none, so that they are a CRD here.

use coxswain_manager::object::Resource;
use serde_json::{Value, json};

use super::{Bed, SECOND, bed_with};

const SERVICES: Resource = Resource::cluster("apiregistration.k8s.io", "v1", "apiservices", "Kind11");

/// One that follows them.
async fn following() -> Bed {
    let bed = bed_with(&["apiservices.apiregistration.k8s.io"], |_| {}).await;
    bed.within(SECOND, "known", || {
        bed.collects("apiregistration.k8s.io/v1 apiservices custom")
    })
    .await;
    bed.sleep(SECOND).await;
    let (_, others) = bed.way.asked();
    assert!(others.iter().any(|it| it.ends_with("/apiservices")), "{others:?}");
    bed
}

fn service(group: &str, remote: bool, available: bool) -> Value {
    let service = if remote {
        json!({"name": "s", "namespace": "n"})
    } else {
        Value::Null
    };
    let status = if available { "True" } else { "False" };
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "Kind11",
        "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "service": service},
        "status": {"conditions": [{"type": "Available", "status": status}]},
    })
}

async fn register(bed: &Bed, service: &Value) {
    let created: Result<Value, _> = bed.admin.create(&SERVICES, "", service.to_string().into()).await;
    created.expect("created");
}

/// How often the documents were read.
fn readings(bed: &Bed) -> usize {
    bed.way.asked().0.iter().filter(|it| *it == "/apis").count()
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_server_lets_the_documents_be_read() {
    let bed = following().await;
    register(&bed, &service("batch", true, false)).await;
    bed.sleep(2 * SECOND).await;
    assert_eq!(readings(&bed), 1);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    bed.patch(&SERVICES, "v1.batch", &labels).await;
    bed.sleep(2 * SECOND).await;
    assert_eq!(readings(&bed), 0, "a label is no news");
    bed.patch(
        &SERVICES,
        "v1.batch",
        &json!({"status": service("batch", true, true)["status"]}),
    )
    .await;
    bed.sleep(2 * SECOND).await;
    assert_eq!(readings(&bed), 1);
    register(&bed, &service("apps", false, true)).await;
    bed.sleep(2 * SECOND).await;
    assert_eq!(readings(&bed), 0, "the API server's own are known otherwise");
    assert_eq!(bed.incomplete(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_changes_let_them_be_read_once_a_second() {
    let bed = following().await;
    register(&bed, &service("batch", true, false)).await;
    for round in 0..100 {
        let available = service("batch", true, round % 2 == 0);
        bed.patch(&SERVICES, "v1.batch", &json!({"status": available["status"]}))
            .await;
        bed.sleep(SECOND / 10).await;
    }
    let readings = readings(&bed);
    assert!((9..=11).contains(&readings), "{readings} in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn what_should_be_listed_and_is_not_is_asked_for_again() {
    let bed = following().await;
    register(&bed, &service("late.io", true, true)).await;
    bed.sleep(10 * SECOND).await;
    let problems = bed.discovery.problems();
    assert!(
        problems.len() == 1 && problems[0].starts_with("late.io/v1 since"),
        "{problems:?}"
    );
    assert!((3..=5).contains(&readings(&bed)));
    bed.define("things.late.io", &["v1"]).await;
    bed.within(12 * SECOND, "listed", || bed.discovery.problems().is_empty())
        .await;
}
