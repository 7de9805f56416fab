//! Schemas that a definition may not have.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::super::{CRDS, Place};
use super::{crd_of, object_of, version_of};
use crate::expect::{invalid, speaks_1_36};
use crate::support::with;

pub fn tests() -> Vec<Test> {
    vec![
        test!(types_must_be_given),
        test!(types_must_be_known),
        test!(limits_say_nothing_of_structure),
        test!(limits_speak_of_what_is_there),
        test!(metadata_is_not_for_schemas),
        test!(keywords_that_are_not_supported),
        test!(patterns_must_compile),
        test!(defaults_must_be_valid),
        test!(defaults_at_the_top_are_refused),
        test!(list_types_must_fit),
        test!(map_keys_must_be_there).since(1, 36),
        test!(the_root_is_plain_where_status_has_an_endpoint),
        test!(each_of_several_versions_is_checked),
        test!(a_wrong_schema_does_not_replace_a_right_one),
    ]
}

const ROOT: &str = "spec.validation.openAPIV3Schema";

/// Asserts that a definition with this schema is refused for these causes, whose fields are below the schema.
async fn refused(c: &Cluster, schema: Value, causes: &[(&str, &str, &str)]) {
    let place = Place::new(c).await;
    let reply = c.api().post(CRDS, crd_of(&place, schema)).await;
    let expected: Vec<String> = causes
        .iter()
        .map(|(reason, field, end)| {
            // Only the texts of the newest server are promised.
            let end = if speaks_1_36(c) { end } else { "" };
            format!("{reason} {ROOT}{field}: {end}")
        })
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    invalid(&reply, &expected);
    c.api()
        .get(&place.crd_path("widgets"))
        .await
        .expect_error(404, "NotFound");
}

async fn types_must_be_given(c: Cluster) {
    refused(
        &c,
        json!({}),
        &[("Required", ".type", "must not be empty at the root")],
    )
    .await;
    let schema = object_of(json!({"a": {}}));
    let why = "must not be empty for specified object fields";
    refused(&c, schema, &[("Required", ".properties[a].type", why)]).await;
    let schema = object_of(json!({"a": {"type": "array", "items": {}}}));
    let why = "must not be empty for specified array items";
    refused(&c, schema, &[("Required", ".properties[a].items.type", why)]).await;
    let schema = object_of(json!({"a": {"type": "array"}}));
    refused(
        &c,
        schema,
        &[("Required", ".properties[a].items", "must be specified")],
    )
    .await;
}

async fn types_must_be_known(c: Cluster) {
    let schema = object_of(json!({"a": {"type": "text"}}));
    let known = "supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"";
    refused(&c, schema, &[("NotSupported", ".properties[a].type", known)]).await;
    let why = "must be object at the root";
    refused(&c, json!({"type": "string"}), &[("Invalid", ".type", why)]).await;
}

async fn limits_say_nothing_of_structure(c: Cluster) {
    let schema = with(
        object_of(json!({"a": {"type": "string"}})),
        "/allOf",
        json!([{"type": "object"}]),
    );
    let why = "must be empty to be structural";
    refused(&c, schema, &[("Forbidden", ".allOf[0].type", why)]).await;
    let nested = json!([{"properties": {"a": {"description": "x", "nullable": true}}}]);
    let schema = with(object_of(json!({"a": {"type": "string"}})), "/anyOf", nested);
    let causes = [
        (
            "Forbidden",
            ".anyOf[0].properties[a].description",
            "must be empty to be structural",
        ),
        (
            "Forbidden",
            ".anyOf[0].properties[a].nullable",
            "must be false to be structural",
        ),
    ];
    refused(&c, schema, &causes).await;
}

async fn limits_speak_of_what_is_there(c: Cluster) {
    let nested = json!({"properties": {"b": {"minLength": 1}}});
    let schema = with(object_of(json!({"a": {"type": "string"}})), "/not", nested);
    let why = "because it is defined in spec.validation.openAPIV3Schema.not.properties[b]";
    refused(&c, schema, &[("Required", ".properties[b]", why)]).await;
}

async fn metadata_is_not_for_schemas(c: Cluster) {
    let schema =
        object_of(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}));
    let why =
        "must not specify anything other than name and generateName, but metadata is implicitly specified";
    refused(&c, schema, &[("Forbidden", ".properties[metadata]", why)]).await;
    let schema = object_of(json!({"kind": {"type": "integer"}}));
    refused(
        &c,
        schema,
        &[("Invalid", ".properties[kind].type", "must be string")],
    )
    .await;
}

async fn keywords_that_are_not_supported(c: Cluster) {
    for (key, value) in [
        ("$ref", json!("x")),
        ("definitions", json!({"x": {"type": "string"}})),
        ("patternProperties", json!({"x": {"type": "string"}})),
        ("dependencies", json!({"x": ["y"]})),
        ("id", json!("x")),
    ] {
        let schema = object_of(json!({"a": {"type": "object", key: value}}));
        let (field, why) = (format!(".properties[a].{key}"), format!("{key} is not supported"));
        refused(&c, schema, &[("Forbidden", &field, &why)]).await;
    }
    let schema = object_of(json!({"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}));
    let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
    refused(&c, schema, &[("Forbidden", ".properties[a].uniqueItems", why)]).await;
    let both = json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}});
    let why = "additionalProperties and properties are mutual exclusive";
    refused(
        &c,
        object_of(json!({"a": both})),
        &[("Forbidden", ".properties[a].additionalProperties", why)],
    )
    .await;
    let schema = object_of(json!({"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": false}}));
    let why = "must be true or undefined";
    let field = ".properties[a].x-kubernetes-preserve-unknown-fields";
    refused(&c, schema, &[("Invalid", field, why)]).await;
}

async fn patterns_must_compile(c: Cluster) {
    if !speaks_1_36(&c) {
        return;
    }
    let schema = object_of(json!({"a": {"type": "string", "pattern": "("}}));
    refused(&c, schema, &[("Invalid", ".properties[a].pattern", "")]).await;
}

async fn defaults_must_be_valid(c: Cluster) {
    if !speaks_1_36(&c) {
        return;
    }
    let schema = object_of(json!({"a": {"type": "integer", "default": "x"}}));
    let why = "must be of type integer: \"string\"";
    refused(&c, schema, &[("TypeInvalid", ".properties[a].default", why)]).await;
    let schema = object_of(json!({"a": {"type": "object", "default": {"x": 1}}}));
    let why = "Invalid value: {\"x\":1}: must not have unknown fields";
    refused(&c, schema, &[("Invalid", ".properties[a].default", why)]).await;
}

async fn defaults_at_the_top_are_refused(c: Cluster) {
    let schema = object_of(json!({"kind": {"type": "string", "default": "x"}}));
    let why = "must not be set in top-level kind";
    refused(&c, schema, &[("Forbidden", ".properties[kind].default", why)]).await;
}

async fn list_types_must_fit(c: Cluster) {
    let schema = object_of(json!({"a": {"type": "object", "x-kubernetes-list-type": "set"}}));
    let why = "must be array if x-kubernetes-list-type is specified";
    refused(&c, schema, &[("Invalid", ".properties[a].type", why)]).await;
    let texts = json!({"type": "string"});
    let schema = object_of(json!({"a": {"type": "array", "items": texts, "x-kubernetes-list-type": "bag"}}));
    let why = "supported values: \"atomic\", \"set\", \"map\"";
    let field = ".properties[a].x-kubernetes-list-type";
    refused(&c, schema, &[("NotSupported", field, why)]).await;
    let list = json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"});
    let why = "must not be empty if x-kubernetes-list-type is map";
    let field = ".properties[a].x-kubernetes-list-map-keys";
    refused(&c, object_of(json!({"a": list})), &[("Required", field, why)]).await;
    let list = with(list, "/x-kubernetes-list-map-keys", json!(["x"]));
    let why = "entries must all be names of item properties";
    refused(&c, object_of(json!({"a": list})), &[("Invalid", field, why)]).await;
}

async fn map_keys_must_be_there(c: Cluster) {
    let list = json!({"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["x"]});
    let why =
        "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
    let field = ".properties[a].items.properties[x].default";
    refused(&c, object_of(json!({"a": list})), &[("Required", field, why)]).await;
}

async fn the_root_is_plain_where_status_has_an_endpoint(c: Cluster) {
    let place = Place::new(&c).await;
    let schema = with(
        object_of(json!({"a": {"type": "string"}})),
        "/oneOf",
        json!([{"required": ["a"]}]),
    );
    let crd = with(
        crd_of(&place, schema),
        "/spec/versions/0/subresources",
        json!({"status": {}}),
    );
    let reply = c.api().post(CRDS, &crd).await;
    let cause = format!(
        "Invalid {ROOT}: fields are allowed at the root of the schema if the status subresource is enabled"
    );
    invalid(&reply, &[&cause]);
}

async fn each_of_several_versions_is_checked(c: Cluster) {
    let place = Place::new(&c).await;
    let versions = json!([
        version_of("v1", true, object_of(json!({}))),
        version_of("v2", false, json!({"type": "string"}))
    ]);
    let crd = with(place.crd(), "/spec/versions", versions);
    let reply = c.api().post(CRDS, &crd).await;
    let cause = "Invalid spec.versions[1].schema.openAPIV3Schema.type: must be object at the root";
    invalid(&reply, &[cause]);
}

async fn a_wrong_schema_does_not_replace_a_right_one(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = super::install(&c, &crd_of(&place, object_of(json!({"a": {"type": "string"}})))).await;
    let wrong = with(
        crd.clone(),
        "/spec/versions/0/schema/openAPIV3Schema",
        object_of(json!({"a": {}})),
    );
    let reply = c.api().put(&place.crd_path("widgets"), wrong).await;
    reply.expect_error(422, "Invalid");
    let after = c.api().get(&place.crd_path("widgets")).await.expect(200);
    assert_eq!(after["spec"], crd["spec"]);
    place.remove(&c).await;
}
