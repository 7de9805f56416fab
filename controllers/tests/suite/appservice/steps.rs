//! Internal controllers of the API server that take time, as on a real cluster: a CRD that is not served yet, and a terminating
//! namespace with content.

use steersman_manager::client::Delete;
use steersman_manager::object::Uid;
use steersman_sandbox::InternalController;

use super::*;
use crate::fixture::NAMESPACES;

#[tokio::test(start_paused = true)]
async fn controller_waits_until_the_crd_is_established() {
    let f = Fixture(ApiFixture::with_delayed(InternalController::CrdEstablishing));
    f.start_workload_controllers();
    f.start_controller();
    f.create(&CRDS, &app_service::crd()).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    assert!(
        f.try_create(&APPS, &shop(&json!({}))).await.is_err(),
        "not served"
    );

    while f.sandbox.step(InternalController::CrdEstablishing) {}
    f.create(&APPS, &shop(&json!({}))).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.api.count("POST deployments"), 1, "without a delay");
    f.wait_ready("shop").await;
}

/// The namespace is terminating, its content is not deleted yet, and the Deployment is deleted before its owner.
#[tokio::test(start_paused = true)]
async fn terminating_namespace_delays_creates_and_is_deleted() {
    let f = Fixture(ApiFixture::with_delayed(InternalController::NamespaceDeletion));
    f.create_crd(&app_service::crd()).await;
    f.start_workload_controllers();
    f.start_controller();
    let namespace = json!({"metadata": {"name": "n"}});
    let namespace = f.create(&NAMESPACES, &namespace).await;
    let body = shop(&json!({"ports": [{"port": 80}]})).to_string();
    let created: Result<Value, _> = f.admin.create(&APPS, "n", body.into()).await;
    created.expect("created");
    let (shop, web) = (Key::new("n", "shop"), Key::new("n", "web"));
    f.wait_until(async |f| is_ready(f, &shop).await).await;

    let uid = |it: &Value| Uid::from(it["metadata"]["uid"].as_str().expect("a uid"));
    let (key, delete) = (Key::cluster("n"), Delete::of(uid(&namespace)));
    f.admin.delete(&NAMESPACES, &key, &delete).await.expect("deleted");
    let deployment: Value = f
        .admin
        .get(&DEPLOYMENTS, &web)
        .await
        .expect("content is not deleted");
    f.api.reset();
    let delete = Delete::of(uid(&deployment));
    f.admin
        .delete(&DEPLOYMENTS, &web, &delete)
        .await
        .expect("deleted");
    f.sleep(Duration::from_mins(10)).await;
    // Retries come after 5 ms, 10 ms, 20 ms and so on: 17 in ten minutes.
    let posts = f.api.count("POST deployments");
    assert!((1..=18).contains(&posts), "{:?}", f.api.counts());
    let refused: Value = f.admin.get(&APPS, &shop).await.expect("an AppService");
    let (status, reason) = condition(&refused, "Ready");
    assert_eq!((&*status, &*reason), ("False", "NamespaceTerminating"));

    for _ in 0..10 {
        while f.sandbox.step(InternalController::NamespaceDeletion) {}
        f.sleep(Duration::from_secs(30)).await;
    }
    let gone: Result<Value, _> = f.admin.get(&NAMESPACES, &key).await;
    assert!(
        gone.is_err_and(|it| it.is_not_found("n")),
        "it blocks its namespace"
    );
    f.sleep(BACKOFF_MAX).await;
    f.api.reset();
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new(), "at rest");
}

async fn is_ready(f: &Fixture, key: &Key) -> bool {
    let shop: Result<Value, _> = f.admin.get(&APPS, key).await;
    shop.is_ok_and(|it| condition(&it, "Ready").0 == "True")
}
