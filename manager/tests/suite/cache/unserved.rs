//! Kinds that are not served, or not to us: they wait and say so, and the others go on.

use coxswain_manager::cache::Status;
use coxswain_manager::object::{MetaObject, Resource};
use coxswain_tests::seeds;
use serde_json::json;

use super::server::{Act, Fate, Verb, status};
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
    let client = kube::Client::new(sandbox.door(), "default");
    let _: serde_json::Value = client.request(request).await.expect("created");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_comes_later_fills_its_cache() {
    let bed = bed();
    let maps = bed.synced().await;
    let widgets: Cache<MetaObject> = bed.caches.of(&WIDGETS);
    bed.within(5, "waiting", || widgets.status().is_waiting()).await;
    bed.sleep(600).await;
    let asked = bed
        .server
        .log()
        .iter()
        .filter(|ask| ask.path.contains("widgets"))
        .count();
    assert!(asked <= 25, "{asked} requests in ten minutes");
    assert!(!widgets.is_synced());
    create(&bed.sandbox, "a", "1").await;
    bed.within(1, "others go on", || maps.len() == 1).await;
    assert_eq!(bed.caches.statuses()[0], (MAPS, Status::Synced));
    assert_eq!(bed.caches.statuses()[1], (WIDGETS, widgets.status()));

    define_widgets(&bed.sandbox).await;
    let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    post(&bed.sandbox, "/apis/x.io/v1/namespaces/default/widgets", &widget).await;
    bed.within(90, "filled", || widgets.len() == 1).await;
    assert_eq!(widgets.status(), Status::Synced);
    bed.caches.synced().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_a_moment_later_is_there_within_a_second() {
    for seed in seeds::of(20) {
        let bed = bed_of(Scope::default(), seed);
        let widgets = bed.caches.metadata(&WIDGETS);
        bed.within(5, "waiting", || widgets.status().is_waiting()).await;
        define_widgets(&bed.sandbox).await;
        bed.within(1, "filled", || widgets.is_synced()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_comes_much_later_fills_its_cache_within_a_second() {
    for seed in seeds::of(20) {
        let bed = bed_of(Scope::default(), seed);
        let widgets: Cache<Map> = bed.caches.of(&WIDGETS);
        bed.sleep(600 + seed % 60).await;
        // A list, and a list and a watch of the definition, for each time that it waits.
        let asked = bed.server.log().len();
        assert!(asked <= 75, "{asked} requests in ten minutes");
        define_widgets(&bed.sandbox).await;
        bed.within(1, "filled", || widgets.is_synced()).await;
        // From then on nobody looks at it any more.
        bed.sleep(1).await;
        let looked = |bed: &Bed| {
            bed.server
                .log()
                .iter()
                .filter(|it| it.path.contains("customresource"))
                .count()
        };
        let before = looked(&bed);
        bed.sleep(600).await;
        assert_eq!(looked(&bed), before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_changes_nothing_is_looked_at_once() {
    let bed = bed();
    let widgets: Cache<Map> = bed.caches.of(&WIDGETS);
    bed.sleep(600).await;
    define(&bed.sandbox, false).await;
    bed.sleep(600).await;
    assert!(widgets.status().is_waiting());
    let asked = bed.server.log().len();
    assert!(asked <= 120, "{asked} requests in twenty minutes");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_see_definitions_waits_in_full() {
    let bed = bed();
    let forbidden = || Act::Answer(403, status(403, "Forbidden"), 0);
    bed.server
        .rule(move |ask| ask.path.contains("customresource").then(forbidden));
    let widgets: Cache<Map> = bed.caches.of(&WIDGETS);
    bed.sleep(600).await;
    let asked = bed.server.log().len();
    assert!(asked <= 75, "{asked} requests in ten minutes");
    define_widgets(&bed.sandbox).await;
    bed.within(90, "filled", || widgets.is_synced()).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_waits_and_deletes_nothing() {
    for (code, body) in [
        (403, status(403, "Forbidden")),
        (404, "404 page not found".to_owned()),
        (404, status(404, "NotFound")),
        (405, status(405, "MethodNotAllowed")),
    ] {
        let bed = bed();
        create(&bed.sandbox, "a", "1").await;
        let cache = bed.synced().await;
        let mut subscription = cache.subscribe();
        changes(&mut subscription);
        let answer = body.clone();
        bed.server
            .rule(move |_| Some(Act::Answer(code, answer.clone(), 0)));
        bed.sleep(2).await;
        bed.server.streams(Fate::End);
        bed.within(5, "waiting", || cache.status().is_waiting()).await;
        bed.sleep(300).await;
        assert_eq!(changes(&mut subscription), Vec::<String>::new(), "{code} {body}");
        assert_eq!(value(&cache, "a").as_deref(), Some("1"));
        assert!(cache.is_synced(), "what was read stays readable");
        assert_eq!(cache.is_unknown(), code == 404, "what is forbidden is there");
        delete(&bed.sandbox, "a").await;
        bed.server.heal();
        bed.equal(&cache, 90).await;
        assert_eq!(changes(&mut subscription), ["-a=1"]);
        assert!(bed.relists("unserved") >= 1);
        assert!(!cache.is_unknown());
        assert_eq!(cache.status(), Status::Synced);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_may_be_listed_but_not_watched_says_so() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    bed.server
        .rule(|ask| (ask.verb == Verb::Watch).then(|| Act::Answer(403, status(403, "Forbidden"), 0)));
    let cache = bed.maps();
    bed.within(5, "waiting", || cache.status().is_waiting()).await;
    assert_eq!(value(&cache, "a").as_deref(), Some("1"));
    set(&bed.sandbox, "a", "2").await;
    bed.within(90, "lists keep it up to date", || {
        value(&cache, "a").as_deref() == Some("2")
    })
    .await;
}
