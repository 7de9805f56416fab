//! CRDs: deletion during requests, concurrent writers, unsupported conversion.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::{Value, json};
use steersman_sandbox::ApiService;
use tokio::task::JoinSet;
use tower_service::Service as _;

use crate::client::{delete, elapsed, get, names, post, sandbox, watch};

pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn version(name: &str, served: bool, storage: bool) -> Value {
    json!({"name": name, "served": served, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
}

fn crd(plural: &str, group: &str, kind: &str, versions: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")}}})
}

pub async fn define(service: &ApiService, definition: &Value) {
    let (status, answer) = post(service, CRDS, definition).await;
    assert_eq!(status, 201, "{answer}");
}

pub const WIDGETS: &str = "/apis/x.io/v1/namespaces/default/widgets";

pub fn widget(name: &str) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": name}})
}

pub fn widgets() -> Value {
    crd("widgets", "x.io", "Widget", &json!([version("v1", true, true)]))
}

#[tokio::test(start_paused = true)]
async fn namespace_deletion_includes_resources_of_unserved_storage_version() {
    let service = sandbox().service();
    let versions = json!([version("v1", true, false), version("v2", false, true)]);
    define(&service, &crd("widgets", "x.io", "Widget", &versions)).await;
    post(
        &service,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "n"}}),
    )
    .await;
    let path = "/apis/x.io/v1/namespaces/n/widgets";
    let (status, made) = post(&service, path, &widget("a")).await;
    assert_eq!(status, 201, "{made}");
    delete(&service, "/api/v1/namespaces/n").await;
    let (_, list) = get(&service, "/apis/x.io/v1/widgets").await;
    assert!(names(&list).is_empty(), "{list}");
}

/// A CRD with the name of a built-in resource is never established. Its deletion must not delete the built-in objects.
#[tokio::test(start_paused = true)]
async fn unestablished_crd_is_deleted() {
    let service = sandbox().service();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let (status, answer) = post(&service, leases, &json!({"metadata": {"name": "l"}})).await;
    assert_eq!(status, 201, "{answer}");
    let mut definition = crd(
        "leases",
        "coordination.k8s.io",
        "Other",
        &json!([version("v1", true, true)]),
    );
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    define(&service, &definition).await;
    delete(&service, &format!("{CRDS}/leases.coordination.k8s.io")).await;
    let (status, left) = get(&service, &format!("{CRDS}/leases.coordination.k8s.io")).await;
    assert_eq!(status, 404, "{left}");
    assert_eq!(
        get(&service, &format!("{leases}/l")).await.0,
        200,
        "the built-in object is kept"
    );
}

/// The headers of the request arrive before the deletion of the CRD, the body after.
#[tokio::test(start_paused = true)]
async fn create_after_crd_deletion_is_rejected() {
    let service = sandbox().service();
    define(&service, &widgets()).await;
    let (give, body) = tokio::sync::oneshot::channel::<()>();
    let body = StreamBody::new(futures_util::stream::once(async move {
        let _ = body.await;
        Ok::<_, Infallible>(Frame::data(Bytes::from(widget("ghost").to_string())))
    }));
    let request = Request::post(WIDGETS)
        .header("content-type", "application/json")
        .body(body.boxed())
        .expect("a request");
    let mut slow = service.clone();
    let mut slow = Box::pin(slow.call(request));
    assert!((&mut slow).now_or_never().is_none(), "it waits for the body");
    delete(&service, &format!("{CRDS}/widgets.x.io")).await;
    let (status, _) = get(&service, &format!("{CRDS}/widgets.x.io")).await;
    assert_eq!(status, 404);
    give.send(()).expect("it waits");
    let Ok(answer) = slow.await;
    let code = answer.status().as_u16();
    define(&service, &widgets()).await;
    let (_, list) = get(&service, WIDGETS).await;
    assert_eq!((code / 100, names(&list).len()), (4, 0), "{list}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_crds_are_all_served() {
    for round in 0..40 {
        let service = sandbox().service();
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let service = service.clone();
            tasks.spawn(async move {
                let (plural, kind) = (format!("w{n}s"), format!("W{n}"));
                define(
                    &service,
                    &crd(&plural, "x.io", &kind, &json!([version("v1", true, true)])),
                )
                .await;
            });
        }
        tasks.join_all().await;
        for n in 0..8 {
            let (status, _) = get(&service, &format!("/apis/x.io/v1/w{n}s")).await;
            assert_eq!(status, 200, "round {round}: w{n}s is not served");
        }
    }
}

/// A custom resource that is created during the deletion of its CRD is rejected or deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn custom_resources_do_not_outlive_crd() {
    for round in 0..150 {
        let service = sandbox().service();
        define(&service, &widgets()).await;
        let mut creators = JoinSet::new();
        for c in 0..3 {
            let service = service.clone();
            creators.spawn(async move {
                for n in 0..30 {
                    post(&service, WIDGETS, &widget(&format!("a{c}-{n}"))).await;
                }
            });
        }
        tokio::task::yield_now().await;
        delete(&service, &format!("{CRDS}/widgets.x.io")).await;
        creators.join_all().await;
        let (status, left) = get(&service, &format!("{CRDS}/widgets.x.io")).await;
        assert_eq!(
            status, 404,
            "round {round}: stuck: {}",
            left["status"]["conditions"]
        );
        define(&service, &widgets()).await;
        let (_, list) = get(&service, WIDGETS).await;
        assert!(
            names(&list).is_empty(),
            "round {round}: came back: {:?}",
            names(&list)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn watch_ends_when_crd_is_recreated() {
    let service = sandbox().service();
    define(&service, &widgets()).await;
    let mut events = watch(&service, &format!("{WIDGETS}?watch=1&timeoutSeconds=3600")).await;
    delete(&service, &format!("{CRDS}/widgets.x.io")).await;
    define(&service, &widgets()).await;
    post(&service, WIDGETS, &widget("b")).await;
    let (next, seconds) = elapsed(events.brief()).await;
    assert!(next.is_none() && seconds < 60, "{seconds} s: {next:?}");
}

#[tokio::test(start_paused = true)]
async fn conversion_webhook_between_versions_is_rejected() {
    let service = sandbox().service();
    let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://localhost:1/convert"}}});
    let mut one = widgets();
    one["spec"]["conversion"] = conversion.clone();
    define(&service, &one).await;
    let mut two = crd(
        "gears",
        "x.io",
        "Gear",
        &json!([version("v1", true, true), version("v2", true, false)]),
    );
    two["spec"]["conversion"] = conversion;
    let (status, answer) = post(&service, CRDS, &two).await;
    let cause = &answer["details"]["causes"][0];
    assert_eq!(
        (status, cause["field"].as_str()),
        (422, Some("spec.conversion.strategy")),
        "{answer}"
    );
}

/// The real server panics.
#[tokio::test(start_paused = true)]
async fn protobuf_custom_resource_is_415() {
    let service = sandbox().service();
    define(&service, &widgets()).await;
    let request = Request::post(WIDGETS)
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .body(Full::new(Bytes::from_static(b"k8s\0\x0a\0\x12\0")))
        .expect("a request");
    let Ok(answer) = service.clone().call(request).await;
    assert_eq!(answer.status(), 415);
}
