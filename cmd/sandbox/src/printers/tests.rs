use std::sync::Arc;

use super::*;
use crate::resource::{Custom, PrinterColumn};

fn resource(group: &str, kind: &str) -> Resource {
    Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: String::new(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status: false,
        scale: None,
        collection: String::new(),
        stored_as: "v1".to_owned(),
        custom: None,
    }
}

fn options(include: IncludeObject) -> Options {
    Options {
        version: MetaVersion::V1,
        include,
        now: "2026-01-01T00:05:00Z".parse().unwrap(),
    }
}

fn config_map() -> Value {
    json!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "a", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": {"k": "v"},
    })
}

#[test]
fn a_single_object_lends_the_table_its_version() {
    let table = render(
        &resource("", "ConfigMap"),
        &[config_map()],
        None,
        &options(IncludeObject::default()),
    );
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "5m"]));
    let metadata = config_map()["metadata"].clone();
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
    assert_eq!(table["rows"][0]["object"], partial);
}

#[test]
fn an_empty_list_has_columns_and_its_own_metadata() {
    let meta = json!({"resourceVersion": "9", "continue": "c", "remainingItemCount": 3});
    let table = render(
        &resource("", "ConfigMap"),
        &[],
        Some(meta.clone()),
        &options(IncludeObject::default()),
    );
    assert_eq!(table["metadata"], meta);
    assert_eq!(table["rows"], json!([]));
    let name = json!({
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "Name of the object.",
        "priority": 0,
    });
    assert_eq!(table["columnDefinitions"][0], name);
    assert_eq!(table["columnDefinitions"][1]["format"], "");
}

#[test]
fn rows_carry_what_was_asked_for() {
    let object = |include| {
        render(
            &resource("", "ConfigMap"),
            &[config_map()],
            None,
            &options(include),
        )["rows"][0]["object"]
            .clone()
    };
    assert_eq!(object(IncludeObject::None), Value::Null);
    assert_eq!(object(IncludeObject::Object), config_map());

    assert_eq!(IncludeObject::parse(None), Ok(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse(Some("")), Ok(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse(Some("Object")), Ok(IncludeObject::Object));
    let wrong = IncludeObject::parse(Some("Foo")).unwrap_err();
    assert!(wrong.ends_with(r#"Invalid value: "Foo": must be 'Metadata', 'Object', 'None', or empty"#));
}

#[test]
fn an_old_table_carries_old_metadata() {
    let old = Options {
        version: MetaVersion::V1Beta1,
        ..options(IncludeObject::Metadata)
    };
    let table = render(&resource("", "ConfigMap"), &[config_map()], None, &old);
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(table["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
}

#[test]
fn only_the_first_event_of_a_watch_has_columns() {
    let event = |first| {
        let options = options(IncludeObject::Metadata);
        render_event(&resource("", "ConfigMap"), &config_map(), first, &options)
    };
    assert!(event(true)["columnDefinitions"].is_array());
    assert_eq!(event(false)["columnDefinitions"], Value::Null);
    assert_eq!(event(false)["metadata"], json!({"resourceVersion": "7"}));
}

#[test]
fn bookmarks_are_rows_of_an_empty_object() {
    let mut custom = resource("ex.io", "Foo");
    let columns: Vec<PrinterColumn> = Vec::new();
    custom.custom = Some(Arc::new(Custom {
        crd: "foos.ex.io".to_owned(),
        uid: String::new(),
        openapi: None,
        schema: Arc::new(crate::apiextensions::structural::Schema::compile(
            &serde_json::json!({"type": "object"}),
        )),
        stored: Arc::new(crate::apiextensions::structural::Schema::compile(
            &serde_json::json!({"type": "object"}),
        )),
        columns,
        selectable: Vec::new(),
        revision: 0,
        terminating: false,
    }));
    for (resource, cells) in [
        (resource("", "ConfigMap"), json!(["", 0, "<unknown>"])),
        (
            resource("", "Pod"),
            json!([
                "",
                "0/0",
                "",
                "0",
                "<unknown>",
                "<none>",
                "<none>",
                "<none>",
                "<none>"
            ]),
        ),
        (
            resource("", "Service"),
            json!(["", "", "<none>", "<unknown>", "<none>", "<unknown>", "<none>"]),
        ),
        (
            resource("apps", "Deployment"),
            json!(["", "0/0", 0, 0, "<unknown>", "", "", ""]),
        ),
        (
            resource("rbac.authorization.k8s.io", "Role"),
            json!(["", "0001-01-01T00:00:00Z"]),
        ),
        (custom, json!(["", null])),
    ] {
        let bookmark = json!({"metadata": {"resourceVersion": "12"}});
        let table = render_event(&resource, &bookmark, false, &options(IncludeObject::None));
        assert_eq!(
            table["rows"],
            json!([{"cells": cells, "object": null}]),
            "{}",
            resource.kind
        );
        assert_eq!(table["metadata"]["resourceVersion"], "12");
    }
}

#[test]
fn the_bookmark_that_ends_the_initial_events_keeps_its_mark() {
    let bookmark = json!({
        "metadata": {"resourceVersion": "12", "annotations": {"k8s.io/initial-events-end": "true"}},
    });
    let table = render_event(
        &resource("", "ConfigMap"),
        &bookmark,
        false,
        &options(IncludeObject::None),
    );
    assert_eq!(table["rows"][0]["object"]["metadata"], bookmark["metadata"]);
}

#[test]
fn a_scale_is_shown_as_such_whatever_it_scales() {
    let scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2},
    });
    let table = render(
        &resource("apps", "Deployment"),
        &[scale],
        None,
        &options(IncludeObject::None),
    );
    assert_eq!(table["rows"][0]["cells"], json!(["web", 3, 2, "<unknown>"]));
}
