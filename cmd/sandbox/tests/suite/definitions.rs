//! CRDs: unserved versions, deletion during requests, concurrent writers.

use std::convert::Infallible;

use bytes::Bytes;
use coxswain_sandbox::ApiService;
use futures_util::FutureExt as _;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower_service::Service as _;

use crate::client::{delete, elapsed, get, names, patch, post, sandbox, watch};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

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

async fn define(service: &ApiService, definition: &Value) {
    let (status, answer) = post(service, CRDS, definition).await;
    assert_eq!(status, 201, "{answer}");
}

const WIDGETS: &str = "/apis/x.io/v1/namespaces/default/widgets";

fn widget(name: &str) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": name}})
}

fn widgets() -> Value {
    crd("widgets", "x.io", "Widget", &json!([version("v1", true, true)]))
}

#[tokio::test(start_paused = true)]
async fn crd_with_unserved_storage_version_is_deleted() {
    let service = sandbox().service();
    let versions = json!([version("v1", true, false), version("v2", false, true)]);
    define(&service, &crd("widgets", "x.io", "Widget", &versions)).await;
    let (status, made) = post(&service, WIDGETS, &widget("a")).await;
    assert_eq!(status, 201, "{made}");
    delete(&service, &format!("{CRDS}/widgets.x.io")).await;
    let (status, left) = get(&service, &format!("{CRDS}/widgets.x.io")).await;
    assert_eq!(status, 404, "{left}");
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

/// The real server ends these watches about a second after the deletion of the CRD.
#[tokio::test(start_paused = true)]
async fn watch_ends_when_crd_is_deleted() {
    let service = sandbox().service();
    define(&service, &widgets()).await;
    let mut events = watch(&service, &format!("{WIDGETS}?watch=1&timeoutSeconds=3600")).await;
    post(&service, WIDGETS, &widget("a")).await;
    assert_eq!(events.brief().await.as_deref(), Some("ADDED a"));
    delete(&service, &format!("{CRDS}/widgets.x.io")).await;
    assert_eq!(events.brief().await.as_deref(), Some("DELETED a"));
    let (end, seconds) = elapsed(events.brief()).await;
    assert!(end.is_none() && seconds < 60, "{seconds} seconds later: {end:?}");
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
async fn watch_ends_when_version_is_unserved() {
    let service = sandbox().service();
    let versions = |served| json!([version("v1", served, false), version("v2", true, true)]);
    define(&service, &crd("widgets", "x.io", "Widget", &versions(true))).await;
    let mut events = watch(&service, &format!("{WIDGETS}?watch=1&timeoutSeconds=3600")).await;
    let change = json!({"spec": {"versions": versions(false)}});
    let (status, answer) = patch(&service, &format!("{CRDS}/widgets.x.io"), &change).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(get(&service, WIDGETS).await.0, 404);
    let (next, seconds) = elapsed(events.brief()).await;
    assert!(next.is_none() && seconds < 60, "{seconds} s: {next:?}");
}

#[tokio::test(start_paused = true)]
async fn crd_without_served_version_is_deleted() {
    let service = sandbox().service();
    define(&service, &widgets()).await;
    post(&service, WIDGETS, &widget("a")).await;
    let change = json!({"spec": {"versions": [version("v1", false, true)]}});
    let (status, answer) = patch(&service, &format!("{CRDS}/widgets.x.io"), &change).await;
    assert_eq!(status, 200, "{answer}");
    delete(&service, &format!("{CRDS}/widgets.x.io")).await;
    let (status, left) = get(&service, &format!("{CRDS}/widgets.x.io")).await;
    assert_eq!(status, 404, "{left}");
}

fn colored(selectable: &Value) -> Value {
    let mut version = version("v1", true, true);
    version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"color": {"type": "string", "default": "red"}, "size": {"type": "integer"},
            "parts": {"type": "array", "items": {"type": "string"}}}}}});
    version["selectableFields"] = selectable.clone();
    crd("widgets", "x.io", "Widget", &json!([version]))
}

#[tokio::test(start_paused = true)]
async fn selectable_fields_select_in_list_watch_and_deletecollection() {
    let service = sandbox().service();
    define(
        &service,
        &colored(&json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}])),
    )
    .await;
    let red = format!("{WIDGETS}?fieldSelector=spec.color%3Dred");
    let mut events = watch(&service, &format!("{red}&watch=1&timeoutSeconds=60")).await;
    for (name, spec) in [("a", json!({"size": 1})), ("b", json!({"color": "blue"}))] {
        let mut widget = widget(name);
        widget["spec"] = spec;
        let (status, answer) = post(&service, WIDGETS, &widget).await;
        assert_eq!(status, 201, "{answer}");
    }
    assert_eq!(names(&get(&service, &red).await.1), ["a"]);
    let sized = format!("{WIDGETS}?fieldSelector=spec.size%3D1,metadata.name%3Da");
    assert_eq!(names(&get(&service, &sized).await.1), ["a"]);
    let change = json!({"spec": {"color": "red"}});
    let (status, answer) = patch(&service, &format!("{WIDGETS}/b"), &change).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(events.brief().await.as_deref(), Some("ADDED a"));
    assert_eq!(events.brief().await.as_deref(), Some("ADDED b"));
    let (status, answer) = get(&service, &format!("{WIDGETS}?fieldSelector=spec.parts%3Dx")).await;
    assert_eq!(
        (status, &answer["message"]),
        (400, &json!("field label not supported: spec.parts"))
    );
    let (status, _) = delete(&service, &sized).await;
    assert_eq!(status, 200);
    assert_eq!(names(&get(&service, WIDGETS).await.1), ["b"]);
    let (_, document) = get(&service, "/openapi/v3/apis/x.io/v1").await;
    let extension = &document["components"]["schemas"]["io.x.v1.Widget"]["x-kubernetes-selectable-fields"];
    assert_eq!(
        *extension,
        json!([{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}])
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_selectable_fields_are_rejected() {
    let service = sandbox().service();
    for (path, reason, why) in [
        ("", "FieldValueRequired", ""),
        (
            "spec.color",
            "FieldValueInvalid",
            "is an invalid path: expected [ or . but got: spec",
        ),
        (
            ".spec.shade",
            "FieldValueInvalid",
            "is an invalid path: does not refer to a valid field",
        ),
        (
            ".spec.",
            "FieldValueInvalid",
            "is an invalid path: unexpected end of JSON path",
        ),
        (
            ".spec['color']",
            "FieldValueInvalid",
            "is an invalid path: array notation is not allowed",
        ),
        (
            ".spec.parts",
            "FieldValueInvalid",
            "must point to a field of type string, boolean or integer",
        ),
    ] {
        let (status, answer) = post(&service, CRDS, &colored(&json!([{"jsonPath": path}]))).await;
        let cause = &answer["details"]["causes"][0];
        assert_eq!(
            (status, cause["reason"].as_str()),
            (422, Some(reason)),
            "{path}: {answer}"
        );
        assert_eq!(cause["field"], "spec.selectableFields[0].jsonPath");
        assert!(
            cause["message"]
                .as_str()
                .is_some_and(|message| message.contains(why)),
            "{answer}"
        );
    }
    let twice = json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.color"}]);
    let (_, answer) = post(&service, CRDS, &colored(&twice)).await;
    assert_eq!(
        answer["details"]["causes"][0]["reason"], "FieldValueDuplicate",
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn watch_ends_when_the_spec_of_its_definition_changes() {
    let service = sandbox().service();
    define(&service, &widgets()).await;
    let mut events = watch(&service, &format!("{WIDGETS}?watch=1&timeoutSeconds=3600")).await;
    let path = format!("{CRDS}/widgets.x.io");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(patch(&service, &path, &labels).await.0, 200);
    post(&service, WIDGETS, &widget("a")).await;
    assert_eq!(
        events.brief().await.as_deref(),
        Some("ADDED a"),
        "metadata replaces nothing"
    );
    let change = json!({"spec": {"names": {"shortNames": ["wd"]}}});
    assert_eq!(patch(&service, &path, &change).await.0, 200);
    let (end, seconds) = elapsed(events.brief()).await;
    assert!(end.is_none() && seconds < 60, "{seconds} seconds later: {end:?}");
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
