//! Resources that are not served or forbidden.

use serde_json::json;
use steersman_harness::seeds;
use steersman_manager::cache::Status;
use steersman_manager::object::{MetaObject, Resource};

use super::server::{StreamFault, Verb, answer, status};
use super::*;

const WIDGETS: Resource = Resource::namespaced("x.io", "v1", "widgets", "Widget");

async fn define_widgets(sandbox: &Sandbox) {
    define(sandbox, true).await;
}

async fn define(sandbox: &Sandbox, served: bool) {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": served, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    post(
        sandbox,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &definition,
    )
    .await;
}

async fn post(sandbox: &Sandbox, path: &str, body: &serde_json::Value) {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(body).expect("JSON"))
        .expect("a request");
    let client = kube::Client::new(sandbox.service(), "default");
    let _: serde_json::Value = client.request(request).await.expect("created");
}

#[tokio::test(start_paused = true)]
async fn definition_created_later_syncs_the_cache() {
    let f = fixture();
    let maps = f.synced().await;
    let widgets: Cache<MetaObject> = f.caches.of(&WIDGETS);
    f.within(5, "unavailable", || widgets.status().is_unavailable())
        .await;
    f.sleep(600).await;
    let requests = f
        .server
        .log()
        .iter()
        .filter(|request| request.path.contains("widgets"))
        .count();
    assert!(requests <= 25, "{requests} requests in ten minutes");
    assert!(!widgets.is_synced());
    create(&f.sandbox, "a", "1").await;
    f.within(1, "other caches continue", || maps.len() == 1).await;
    assert_eq!(f.caches.statuses()[0], (MAPS, Status::Synced));
    assert_eq!(f.caches.statuses()[1], (WIDGETS, widgets.status()));

    define_widgets(&f.sandbox).await;
    let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    post(&f.sandbox, "/apis/x.io/v1/namespaces/default/widgets", &widget).await;
    f.within(90, "synced", || widgets.len() == 1).await;
    assert_eq!(widgets.status(), Status::Synced);
    f.caches.synced().await;
}

#[tokio::test(start_paused = true)]
async fn resource_served_a_moment_later_syncs_within_a_second() {
    for seed in seeds::of(20) {
        let f = fixture_with(Scope::default(), seed);
        let widgets = f.caches.metadata(&WIDGETS);
        f.within(5, "unavailable", || widgets.status().is_unavailable())
            .await;
        define_widgets(&f.sandbox).await;
        f.within(1, "synced", || widgets.is_synced()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn definition_created_much_later_syncs_the_cache_within_a_second() {
    for seed in seeds::of(20) {
        let f = fixture_with(Scope::default(), seed);
        let widgets: Cache<Map> = f.caches.of(&WIDGETS);
        f.sleep(600 + seed % 60).await;
        // Each backoff has a list, and a list and a watch of the definition.
        let requests = f.server.log().len();
        assert!(requests <= 75, "{requests} requests in ten minutes");
        define_widgets(&f.sandbox).await;
        f.within(1, "synced", || widgets.is_synced()).await;
        // After that the definition is not watched.
        f.sleep(1).await;
        let definition_requests = |f: &Fixture| {
            f.server
                .log()
                .iter()
                .filter(|it| it.path.contains("customresource"))
                .count()
        };
        let before = definition_requests(&f);
        f.sleep(600).await;
        assert_eq!(definition_requests(&f), before);
    }
}

#[tokio::test(start_paused = true)]
async fn change_of_an_unserved_definition_retries_once() {
    let f = fixture();
    let widgets: Cache<Map> = f.caches.of(&WIDGETS);
    f.sleep(600).await;
    define(&f.sandbox, false).await;
    f.sleep(600).await;
    assert!(widgets.status().is_unavailable());
    let requests = f.server.log().len();
    assert!(requests <= 120, "{requests} requests in twenty minutes");
}

#[tokio::test(start_paused = true)]
async fn forbidden_definition_waits_for_the_whole_backoff() {
    let f = fixture();
    let forbidden = || answer(403, status(403, "Forbidden"), 0);
    f.server
        .inject_fault(move |request| request.path.contains("customresource").then(forbidden));
    let widgets: Cache<Map> = f.caches.of(&WIDGETS);
    f.sleep(600).await;
    let requests = f.server.log().len();
    assert!(requests <= 75, "{requests} requests in ten minutes");
    define_widgets(&f.sandbox).await;
    f.within(90, "synced", || widgets.is_synced()).await;
}

#[tokio::test(start_paused = true)]
async fn forbidden_resource_keeps_the_cache() {
    for (code, body) in [
        (403, status(403, "Forbidden")),
        (404, "404 page not found".to_owned()),
        (404, status(404, "NotFound")),
        (405, status(405, "MethodNotAllowed")),
    ] {
        let f = fixture();
        create(&f.sandbox, "a", "1").await;
        let cache = f.synced().await;
        let mut subscription = cache.subscribe();
        changes(&mut subscription);
        let refusal = answer(code, body.clone(), 0);
        f.server.inject_fault(move |_| Some(refusal.clone()));
        f.sleep(2).await;
        f.server.streams(StreamFault::End);
        f.within(5, "unavailable", || cache.status().is_unavailable())
            .await;
        f.sleep(300).await;
        assert_eq!(changes(&mut subscription), Vec::<String>::new(), "{code} {body}");
        assert_eq!(value(&cache, "a").as_deref(), Some("1"));
        assert!(cache.is_synced(), "cached objects stay readable");
        assert_eq!(cache.is_unserved(), code == 404, "a forbidden resource is served");
        delete(&f.sandbox, "a").await;
        f.server.heal();
        f.equal(&cache, 90).await;
        assert_eq!(changes(&mut subscription), ["-a=1"]);
        assert!(f.relists("unserved") >= 1);
        assert!(!cache.is_unserved());
        assert_eq!(cache.status(), Status::Synced);
    }
}

#[tokio::test(start_paused = true)]
async fn resource_that_cannot_be_watched_is_unavailable() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    f.server
        .inject_fault(|request| (Verb::Watch.is(request)).then(|| answer(403, status(403, "Forbidden"), 0)));
    let cache = f.maps();
    f.within(5, "unavailable", || cache.status().is_unavailable())
        .await;
    assert_eq!(value(&cache, "a").as_deref(), Some("1"));
    set(&f.sandbox, "a", "2").await;
    f.within(90, "relists keep it current", || {
        value(&cache, "a").as_deref() == Some("2")
    })
    .await;
}
