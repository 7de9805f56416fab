//! Definitions under attack: versions that are not served, requests that straddle a deletion, writers at the same time.

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

/// The version that is stored need not be served.
#[tokio::test(start_paused = true)]
async fn a_definition_whose_stored_version_is_not_served_goes_with_its_instances() {
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
async fn a_namespace_is_not_gone_before_its_custom_resources_of_an_unserved_stored_version() {
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
    assert!(names(&list).is_empty(), "in no namespace: {list}");
}

/// A definition of a built-in resource is never established; what is stored under that name is not its own.
#[tokio::test(start_paused = true)]
async fn a_definition_that_was_never_established_can_be_deleted() {
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
        "and took nothing along"
    );
}

/// A request whose headers came before the definition went, and whose body came after.
#[tokio::test(start_paused = true)]
async fn nothing_is_created_of_a_definition_that_is_gone() {
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

/// The real server ends these watches about a second after the definition is gone.
#[tokio::test(start_paused = true)]
async fn a_watch_of_custom_resources_ends_with_their_definition() {
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

/// Every established definition is served, whoever else was writing definitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn definitions_that_come_together_are_all_served() {
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
            assert_eq!(status, 200, "round {round}: w{n}s is established and not served");
        }
    }
}

/// An instance that is created while its definition is deleted is either refused or deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn instances_do_not_outlive_their_definition() {
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

/// One that comes back under the same name is another one.
#[tokio::test(start_paused = true)]
async fn a_watch_does_not_go_on_with_a_definition_that_came_back() {
    let service = sandbox().service();
    define(&service, &widgets()).await;
    let mut events = watch(&service, &format!("{WIDGETS}?watch=1&timeoutSeconds=3600")).await;
    delete(&service, &format!("{CRDS}/widgets.x.io")).await;
    define(&service, &widgets()).await;
    post(&service, WIDGETS, &widget("b")).await;
    let (next, seconds) = elapsed(events.brief()).await;
    assert!(
        next.is_none() && seconds < 60,
        "it ended with the first; {seconds} s: {next:?}"
    );
}

/// A version that is no longer served cannot be watched on.
#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_version_is_no_longer_served() {
    let service = sandbox().service();
    let versions = |served| json!([version("v1", served, false), version("v2", true, true)]);
    define(&service, &crd("widgets", "x.io", "Widget", &versions(true))).await;
    let mut events = watch(&service, &format!("{WIDGETS}?watch=1&timeoutSeconds=3600")).await;
    let change = json!({"spec": {"versions": versions(false)}});
    let (status, answer) = patch(&service, &format!("{CRDS}/widgets.x.io"), &change).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(get(&service, WIDGETS).await.0, 404);
    let (next, seconds) = elapsed(events.brief()).await;
    assert!(
        next.is_none() && seconds < 60,
        "a minute later it is over; {seconds} s: {next:?}"
    );
}

/// The real server empties and removes it all the same.
#[tokio::test(start_paused = true)]
async fn a_definition_that_serves_nothing_goes_with_its_instances() {
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
