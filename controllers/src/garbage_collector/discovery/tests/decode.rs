//! Both formats of the documents, and malformed ones.

use serde_json::{Value, json};

use super::reading::{self, Listed, Unusable};
use super::{AGGREGATED, Root, plain, raw, resource};

fn root(which: Root, content_type: &str, body: &Value) -> Result<Listed, Unusable> {
    reading::root(which, &raw(content_type, body))
}

fn aggregated() -> Value {
    let resources = json!([
        {"resource": "deployments", "responseKind": {"group": "", "version": "", "kind": "Deployment"},
         "scope": "Namespaced", "singularResource": "deployment", "verbs": ["delete", "list", "watch"],
         "subresources": [{"subresource": "scale", "responseKind": {"kind": "Scale"}, "verbs": ["get"]}]},
        {"resource": "things", "responseKind": {"kind": "Thing"}, "scope": "Cluster", "verbs": ["create"]},
        {"resource": "nobody", "responseKind": null, "scope": "Cluster", "verbs": ["create"]},
        {"resource": "nowhere", "responseKind": {"kind": "Nowhere"}, "scope": null, "verbs": null},
    ]);
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [
        {"metadata": {"name": "apps", "creationTimestamp": null}, "unknown": [], "versions": [
            {"version": "v1", "freshness": "Current", "resources": resources},
            {"version": "v1beta1", "freshness": "Stale", "resources": resources},
        ]},
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "resources": {"a": []}}]},
    ]})
}

#[test]
fn aggregated_answer_has_all_but_stale_versions() {
    let listed = root(Root::Named, AGGREGATED, &aggregated()).expect("a root");
    assert!(!listed.plain && listed.skipped.is_empty());
    let [apps, metrics] = &*listed.groups else {
        panic!("{listed:?}");
    };
    assert_eq!((&*apps.name, &*apps.preferred), ("apps", "v1"));
    let resources = apps.versions[0].resources.as_ref().expect("known");
    let brief: Vec<_> = resources
        .iter()
        .map(|it| (&*it.plural, &*it.kind, it.namespaced, it.collectable))
        .collect();
    assert_eq!(
        brief,
        [
            ("deployments", "Deployment", true, true),
            ("things", "Thing", false, false)
        ]
    );
    assert_eq!(apps.versions[1].resources, None);
    assert_eq!(metrics.versions[0].resources, None);
    let stale: Vec<_> = listed.stale.keys().collect();
    assert_eq!(stale, ["apps/v1beta1", "metrics.k8s.io/v1beta1"]);
}

#[test]
fn content_type_selects_the_format() {
    let spaced =
        "application/json; as=APIGroupDiscoveryList; v=v2beta1; g=apidiscovery.k8s.io; charset=utf-8";
    assert!(root(Root::Named, spaced, &aggregated()).is_ok());
    let groups =
        json!({"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"version": "v1"}]}]});
    for content_type in [
        "application/json",
        "",
        "text/plain",
        "application/json;as=APIGroupDiscoveryList",
    ] {
        assert!(root(Root::Named, content_type, &groups).is_ok_and(|it| it.plain));
        assert_eq!(
            root(Root::Named, content_type, &aggregated()).expect_err("the other form"),
            Unusable::Other("APIGroupList")
        );
    }
    assert_eq!(
        root(Root::Named, AGGREGATED, &groups).expect_err("the other form"),
        Unusable::Other("APIGroupDiscoveryList")
    );
}

#[test]
fn answer_without_a_group_is_rejected() {
    for (which, content_type, body) in [
        (Root::Core, "", json!({"kind": "APIVersions", "versions": []})),
        (Root::Core, "", json!({"kind": "APIVersions", "versions": null})),
        (Root::Named, "", json!({"kind": "APIGroupList", "groups": []})),
        (
            Root::Named,
            "",
            json!({"kind": "APIGroupList", "groups": [{"name": "a", "versions": []}]}),
        ),
        (
            Root::Named,
            AGGREGATED,
            json!({"kind": "APIGroupDiscoveryList", "items": []}),
        ),
        (Root::Core, AGGREGATED, json!({"kind": "APIGroupDiscoveryList"})),
    ] {
        assert_eq!(
            root(which, content_type, &body).expect_err("empty"),
            Unusable::Empty,
            "{body}"
        );
    }
    for body in ["", "null", "[]", "404 page not found", "{\"kind\":\"Status\"}"] {
        let raw = steersman_manager::client::RawResponse {
            content_type: String::new(),
            body: body.into(),
        };
        assert!(reading::root(Root::Named, &raw).is_err(), "{body}");
        assert!(reading::version("a", "v1", &raw).is_err(), "{body}");
    }
}

#[test]
fn invalid_name_is_skipped_and_reported() {
    let versions = |names: &[&str]| names.iter().map(|it| json!({"version": it})).collect::<Vec<_>>();
    let body = json!({"kind": "APIGroupList", "groups": [
        {"name": "a.io", "versions": versions(&["v1", "../v2", "", "v1"])},
        {"name": "a.io", "versions": versions(&["v9"])},
        {"name": "", "versions": versions(&["v1"])},
        {"name": "b/c", "versions": versions(&["v1"])},
        {"name": 7, "versions": 7},
        null,
    ]});
    let listed = root(Root::Named, "", &body).expect("a root");
    assert_eq!(listed.groups.len(), 1);
    let names: Vec<_> = listed.groups[0].versions.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["v1"]);
    let skipped: Vec<_> = listed.skipped.keys().map(String::as_str).collect();
    let expected = [
        "\"a.io/\"",
        "\"a.io/../v2\"",
        "\"a.io/v1\"",
        "/apis \"\"",
        "/apis \"a.io\"",
        "/apis \"b/c\"",
    ];
    assert_eq!(skipped, expected);
}

#[test]
fn version_has_resources_without_subresources() {
    let resources = json!([
        resource("pods Pod"), resource("pods/status Pod"), resource("!bindings Binding"),
        resource("pods Again"), {"name": "x", "kind": "X"}, null, 7, {"name": null, "kind": null, "namespaced": true},
    ]);
    let body = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources});
    let read = reading::version("", "v1", &plain(&body)).expect("a version");
    let brief: Vec<_> = read
        .iter()
        .map(|it| (&*it.plural, &*it.kind, it.collectable))
        .collect();
    assert_eq!(brief, [("pods", "Pod", true), ("bindings", "Binding", false)]);
    let other = reading::version("", "v2", &plain(&body));
    assert_eq!(other.expect_err("of another version"), Unusable::Elsewhere);
    let malformed = json!({"kind": "APIResourceList", "groupVersion": "a/v1", "resources": "garbage"});
    let malformed = reading::version("a", "v1", &plain(&malformed));
    assert_eq!(malformed.expect_err("no list"), Unusable::Malformed);
    let empty = json!({"kind": "APIResourceList", "groupVersion": "a/v1", "resources": null});
    assert_eq!(reading::version("a", "v1", &plain(&empty)), Ok(vec![]));
}
