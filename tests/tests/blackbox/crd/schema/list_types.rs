//! Lists that are sets, and lists that are maps.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use super::super::patched;
use super::{installed_with, object_of, refuses, takes, widget};
use crate::expect::invalid;
use crate::support::{MERGE, create};

pub fn tests() -> Vec<Test> {
    vec![
        test!(sets_hold_nothing_twice),
        test!(maps_hold_no_key_twice),
        test!(maps_may_have_several_keys),
        test!(atomic_lists_hold_anything),
        test!(updates_are_checked_too),
    ]
}

async fn sets_hold_nothing_twice(c: Cluster) {
    let schema = object_of(json!({
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"s": ["a", "b", "a"]}),
            vec!["Duplicate spec.s[2]: Duplicate value: \"a\""],
        ),
        (
            json!({"s": ["a", "a", "a", "b", "b"]}),
            vec![
                "Duplicate spec.s[1]: Duplicate value: \"a\"",
                "Duplicate spec.s[4]: Duplicate value: \"b\"",
            ],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(
        &c,
        &place,
        &path,
        vec![json!({"s": ["a", "b"]}), json!({"s": []})],
    )
    .await;
    place.remove(&c).await;
}

async fn maps_hold_no_key_twice(c: Cluster) {
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}});
    let schema = object_of(json!({
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![(
        json!({"m": [{"name": "a", "v": 1}, {"name": "a", "v": 2}]}),
        vec!["Duplicate spec.m[1]: Duplicate value: {\"name\":\"a\"}"],
    )];
    if crate::expect::speaks_1_36(&c) {
        refuses(&c, &place, &path, specs).await;
    }
    takes(
        &c,
        &place,
        &path,
        vec![json!({"m": [{"name": "a"}, {"name": "b"}]})],
    )
    .await;
    place.remove(&c).await;
}

async fn maps_may_have_several_keys(c: Cluster) {
    let item = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
    }});
    let schema = object_of(json!({
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": item},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![(
        json!({"m": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
        vec!["Duplicate spec.m[1]: {\"port\":1,\"protocol\":\"TCP\"}"],
    )];
    if crate::expect::speaks_1_36(&c) {
        refuses(&c, &place, &path, specs).await;
    }
    takes(
        &c,
        &place,
        &path,
        vec![json!({"m": [{"port": 1}, {"port": 1, "protocol": "UDP"}]})],
    )
    .await;
    place.remove(&c).await;
}

async fn atomic_lists_hold_anything(c: Cluster) {
    let schema = object_of(json!({
        "a": {"type": "array", "items": {"type": "string"}},
        "b": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    takes(&c, &place, &path, vec![json!({"a": ["x", "x"], "b": ["x", "x"]})]).await;
    place.remove(&c).await;
}

async fn updates_are_checked_too(c: Cluster) {
    let schema = object_of(json!({
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    create(&c, &path, &widget(&place, "a", json!({"s": ["a"]}))).await;
    let path = format!("{path}/a");
    let reply = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"s": ["a", "a"]}}))
        .await;
    invalid(&reply, &["Duplicate spec.s[1]: Duplicate value: \"a\""]);
    let after = patched(&c, &path, json!({"spec": {"s": ["b", "a"]}})).await;
    assert_eq!(after["spec"]["s"], json!(["b", "a"]));
    place.remove(&c).await;
}
