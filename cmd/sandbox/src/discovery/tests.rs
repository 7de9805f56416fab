use std::sync::Arc;

use super::*;
use crate::openapi::{openapi_v2, openapi_v3_of};
use crate::resource::{Custom, Scale};

/// A resource as `group/version plural Kind`, with an empty group for core.
fn resource(api: &str, plural: &str, kind: &str) -> Resource {
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status: false,
        scale: None,
        collection: plural.to_owned(),
        stored_as: api.to_owned(),
        custom: None,
    }
}

fn custom(api: &str, plural: &str, kind: &str) -> Resource {
    let custom = Custom {
        crd: format!("{plural}.io"),
        uid: String::new(),
        openapi: None,
        schema: Arc::new(crate::apiextensions::structural::Schema::compile(
            &serde_json::json!({"type": "object"}),
        )),
        stored: Arc::new(crate::apiextensions::structural::Schema::compile(
            &serde_json::json!({"type": "object"}),
        )),
        columns: Vec::new(),
        selectable: Vec::new(),
        revision: 0,
        terminating: false,
    };
    Resource {
        custom: Some(Arc::new(custom)),
        ..resource(api, plural, kind)
    }
}

fn scale() -> Scale {
    Scale {
        spec_replicas: "spec.replicas".to_owned(),
        status_replicas: "status.replicas".to_owned(),
        selector: None,
    }
}

fn some() -> Vec<Arc<Resource>> {
    let namespaces = Resource {
        namespaced: false,
        status: true,
        ..resource("v1", "namespaces", "Namespace")
    };
    let pods = Resource {
        status: true,
        short_names: vec!["po".to_owned()],
        categories: vec!["all".to_owned()],
        ..resource("v1", "pods", "Pod")
    };
    let deployments = Resource {
        status: true,
        scale: Some(scale()),
        ..resource("apps/v1", "deployments", "Deployment")
    };
    let foos = Resource {
        status: true,
        scale: Some(scale()),
        ..custom("ex.io/v1", "foos", "Foo")
    };
    vec![
        Arc::new(custom("aa.io/v1beta1", "bazs", "Baz")),
        Arc::new(custom("aa.io/v2", "bazs", "Baz")),
        Arc::new(foos),
        Arc::new(pods),
        Arc::new(namespaces),
        Arc::new(resource("batch/v1", "jobs", "Job")),
        Arc::new(deployments),
    ]
}

fn names(list: &Value, key: &str) -> Vec<String> {
    let entries = list[key].as_array().unwrap().iter();
    entries
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn groups_in_the_order_of_preference() {
    let list = group_list(&some());
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("APIGroupList"), &json!("v1"))
    );
    assert_eq!(names(&list, "groups"), ["apps", "batch", "ex.io", "aa.io"]);
    let aa = json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "aa.io",
        "versions": [
            {"groupVersion": "aa.io/v2", "version": "v2"},
            {"groupVersion": "aa.io/v1beta1", "version": "v1beta1"},
        ],
        "preferredVersion": {"groupVersion": "aa.io/v2", "version": "v2"},
    });
    assert_eq!(group(&some(), "aa.io"), Some(aa));
    assert_eq!(group(&some(), "bb.io"), None);
    assert_eq!(group(&some(), ""), None);
}

#[test]
fn core_has_a_list_of_its_own() {
    let expected = json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    });
    assert_eq!(core_versions(&some(), "127.0.0.1:6443"), expected);
}

#[test]
fn resources_of_core() {
    let list = resource_list(&some(), "", "v1").unwrap();
    assert_eq!(list["groupVersion"], "v1");
    assert_eq!(
        names(&list, "resources"),
        [
            "namespaces",
            "namespaces/finalize",
            "namespaces/status",
            "pods",
            "pods/binding",
            "pods/ephemeralcontainers",
            "pods/eviction",
            "pods/status"
        ]
    );
    assert_eq!(
        list["resources"][3],
        json!({
            "name": "pods",
            "singularName": "pod",
            "namespaced": true,
            "kind": "Pod",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["po"],
            "categories": ["all"],
            "storageVersionHash": "xPOwRZ+Yhw8=",
        })
    );
    assert_eq!(
        list["resources"][4],
        json!({
            "name": "pods/binding",
            "singularName": "",
            "namespaced": true,
            "kind": "Binding",
            "verbs": ["create"],
        })
    );
    assert_eq!(
        list["resources"][6],
        json!({
            "name": "pods/eviction",
            "singularName": "",
            "namespaced": true,
            "group": "policy",
            "version": "v1",
            "kind": "Eviction",
            "verbs": ["create"],
        })
    );
    let verbs = list["resources"][0]["verbs"].as_array().unwrap();
    assert!(
        !verbs.contains(&json!("deletecollection")),
        "namespaces are deleted one by one"
    );
}

#[test]
fn resources_of_groups() {
    let apps = resource_list(&some(), "apps", "v1").unwrap();
    assert_eq!(
        (&apps["apiVersion"], &apps["groupVersion"]),
        (&json!("v1"), &json!("apps/v1"))
    );
    assert_eq!(
        names(&apps, "resources"),
        ["deployments", "deployments/scale", "deployments/status"]
    );
    assert_eq!(
        apps["resources"][1],
        json!({
            "name": "deployments/scale",
            "singularName": "",
            "namespaced": true,
            "group": "autoscaling",
            "version": "v1",
            "kind": "Scale",
            "verbs": ["get", "patch", "update"],
        })
    );
    // Custom resources have the status before the scale.
    let custom = resource_list(&some(), "ex.io", "v1").unwrap();
    assert_eq!(names(&custom, "resources"), ["foos", "foos/status", "foos/scale"]);
    assert_eq!(custom["resources"][0]["verbs"][0], "delete");

    assert_eq!(resource_list(&some(), "apps", "v2"), None);
}

/// What kubectl looks for: the query parameters of the PATCH on a kind.
fn patch_parameters(document: &Value, kind: &str) -> Vec<String> {
    let paths = document["paths"].as_object().unwrap().values();
    let operation = paths
        .filter_map(|path| path.get("patch"))
        .find(|patch| patch["x-kubernetes-group-version-kind"]["kind"] == kind)
        .unwrap();
    let query = operation["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|parameter| parameter["in"] == "query");
    query
        .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn openapi_promises_field_validation_on_every_kind() {
    let all = some();
    for (group, version, kind) in [
        ("", "v1", "Pod"),
        ("", "v1", "Namespace"),
        ("apps", "v1", "Deployment"),
        ("ex.io", "v1", "Foo"),
        ("aa.io", "v1beta1", "Baz"),
    ] {
        let document = openapi_v3_of(&all, group, version).unwrap();
        assert_eq!(
            patch_parameters(&document, kind),
            ["dryRun", "fieldManager", "fieldValidation", "force"],
            "{kind}"
        );
    }
    assert_eq!(openapi_v3_of(&all, "ex.io", "v2"), None);
    let old = openapi_v2(&all);
    assert_eq!(old["swagger"], "2.0");
    assert!(patch_parameters(&old, "Foo").contains(&"fieldValidation".to_owned()));
}

#[test]
fn openapi_paths_are_those_that_are_served() {
    let methods = |document: &Value, path: &str| {
        let item = document["paths"][path]
            .as_object()
            .map(|item| item.keys().cloned().collect::<Vec<_>>());
        item.unwrap_or_default()
            .into_iter()
            .filter(|key| key != "parameters")
            .collect::<Vec<_>>()
            .join(" ")
    };
    let core = openapi_v3_of(&some(), "", "v1").unwrap();
    for (path, expected) in [
        ("/api/v1/pods", "get"),
        ("/api/v1/namespaces/{namespace}/pods", "delete get post"),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}",
            "delete get patch put",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            "get patch put",
        ),
        ("/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post"),
        ("/api/v1/namespaces", "get post"),
        ("/api/v1/namespaces/{name}", "delete get patch put"),
        ("/api/v1/namespaces/{name}/finalize", "put"),
        ("/api/v1/nodes", ""),
    ] {
        assert_eq!(methods(&core, path), expected, "{path}");
    }
    let apps = openapi_v3_of(&some(), "apps", "v1").unwrap();
    let scale = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["patch"];
    assert_eq!(
        scale["x-kubernetes-group-version-kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
}

#[test]
fn the_index_links_every_version_and_changes_with_it() {
    let index = |resources: &[Arc<Resource>]| -> Value {
        let index = Documents::default().openapi_v3_index(resources);
        serde_json::from_slice(&index.body).unwrap()
    };
    let link = |resources: &[Arc<Resource>], path: &str| {
        index(resources)["paths"][path]["serverRelativeURL"]
            .as_str()
            .map(str::to_owned)
    };
    let all = some();
    assert_eq!(index(&all)["paths"].as_object().unwrap().len(), 6);
    let ex = link(&all, "apis/ex.io/v1").unwrap();
    let document = Documents::default().openapi_v3(&all, "ex.io", "v1").unwrap();
    assert_eq!(ex, format!("/openapi/v3/apis/ex.io/v1?hash={}", document.hash));

    let mut more = all.clone();
    more.push(Arc::new(custom("ex.io/v1", "bars", "Bar")));
    assert_ne!(link(&more, "apis/ex.io/v1"), Some(ex));
    assert_eq!(link(&more, "api/v1"), link(&all, "api/v1"));
}

#[test]
fn documents_are_kept_while_nothing_of_theirs_changes() {
    let before = some();
    let documents = Documents::default();
    let old = |path: (&str, &str)| documents.openapi_v3(&before, path.0, path.1).unwrap();
    let (core, ex) = (old(("", "v1")), old(("ex.io", "v1")));
    let mut after = before.clone();
    after.push(Arc::new(custom("ex.io/v1", "bars", "Bar")));
    let next = documents.for_next(&before, &after);
    assert!(Arc::ptr_eq(&core, &next.openapi_v3(&after, "", "v1").unwrap()));
    assert_ne!(ex.hash, next.openapi_v3(&after, "ex.io", "v1").unwrap().hash);
    let gone = next.for_next(&after, &before);
    assert_eq!(ex.hash, gone.openapi_v3(&before, "ex.io", "v1").unwrap().hash);
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(value: &Value, definitions: &Value, prefix: &str) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let name = reference.strip_prefix(prefix).unwrap_or_default();
                    assert!(definitions[name].is_object(), "{reference}");
                }
                map.values().for_each(|below| check(below, definitions, prefix));
            }
            Value::Array(items) => items.iter().for_each(|below| check(below, definitions, prefix)),
            _ => {}
        }
    }
    let registry = crate::registry::served::ServedResources::new();
    let all = registry.all();
    let old = openapi_v2(all);
    check(&old, &old["definitions"], "#/definitions/");
    for resource in all {
        let document = openapi_v3_of(all, &resource.group, &resource.version).unwrap();
        check(
            &document,
            &document["components"]["schemas"],
            "#/components/schemas/",
        );
    }
}

#[test]
fn every_operation_has_an_id_of_its_own() {
    let mut ids = std::collections::BTreeSet::new();
    let document = openapi_v2(crate::registry::served::ServedResources::new().all());
    for item in document["paths"].as_object().unwrap().values() {
        for (method, operation) in item.as_object().unwrap() {
            if method != "parameters" {
                let id = operation["operationId"].as_str().unwrap().to_owned();
                assert!(ids.insert(id.clone()), "{id}");
            }
        }
    }
}

#[test]
fn the_version_is_that_of_the_api() {
    let version = version();
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("36"))
    );
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.36."));
    assert!(
        version.as_object().unwrap().values().all(Value::is_string),
        "clients expect strings"
    );
}
