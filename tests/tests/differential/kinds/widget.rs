//! A custom resource whose schema uses all features, with status and scale.

use std::time::Duration;

use coxswain_tests::{Cluster, fixtures, time};
use serde_json::{Value, json};

use super::{Kind, with_metadata};

const GROUP: &str = "differential.example.com";

pub fn kind() -> Kind {
    let places = places! {
        "/spec/replicas": [0, 1, 5] / [-1, 11, "x", 1.5, null],
        "/spec/mode": ["fast", "slow"] / ["odd", "", 1, null],
        "/spec/size": [1, 10, 9] / [0, 101, 2.5, "1"],
        "/spec/ratio": [0.5, 1, 1.0] / [2, "x", -0.5],
        "/spec/title": ["abc", "abcdef"] / ["a", "A-not-matching", "toolongforthetitle", 5],
        "/spec/when": ["2001-01-01T00:00:00Z"] / ["yesterday", ""],
        "/spec/port": [80, "http"] / [true, 1.5, {}],
        "/spec/note": ["x", null] / [1],
        "/spec/pruned": [{"kept": "a", "lost": 1}, {"kept": "b"}, {}] / [{"kept": 1}, [], "x"],
        "/spec/pruned/lost": [1] / [],
        "/spec/free": [{"any": {"x": 1}}, {"any": [1, "a"]}, {}] / ["x", null],
        "/spec/free/any": [1, {"y": null}, null] / [],
        "/spec/labels": [{"a": "1"}, {"b": "2"}, {}]
            / [{"a": 1}, {"a": null}, {"a": "1", "b": "2", "c": "3", "d": "4"}],
        "/spec/labels/a": ["1", "2"] / [3],
        "/spec/atomic": [{"a": "1", "b": "2"}, {"a": "2"}] / [{"a": 1}],
        "/spec/set": [["a"], ["b", "a"], ["c"], []] / [["a", "a"], [1], [null], "a"],
        "/spec/set/-": ["d"] / ["a"],
        "/spec/plain": [["a"], ["a", "a"], []] / [[1], ["1", "2", "3", "4"], {}],
        "/spec/items": [
            [{"id": 1, "v": "x"}], [{"id": 2}, {"id": 1, "v": "y"}],
            [{"id": 1, "zone": "z2", "v": "x"}, {"id": 1}], [],
        ] / [
            [{"id": 1}, {"id": 1}], [{"id": 1, "zone": "a"}, {"id": 1}], [{"v": "x"}], [{"id": "1"}], [{}],
            [null], ["x"], [{"id": 1, "lost": 2}],
        ],
        "/spec/items/0/v": ["w"] / [1],
        "/spec/low": [1, 2] / [50],
        "/spec/high": [10, 20] / [0],
        "/spec/sealed": ["once"] / ["twice"],
        "/spec/nested": [{"inner": {"x": 1}}, {"inner": {}}, {}] / [{"inner": null}, null, {"inner": {"x": "a"}}],
        "/spec/one": [{"a": 1}, {"b": 1}] / [{"a": 1, "b": 1}, {}],
        "/spec": [] / [null, {}, "x", []],
    };
    let condition = |status: &str| json!({"type": "Ready", "status": status});
    let status = places! {
        "/status/replicas": [0, 1, 2] / [-1, "x"],
        "/status/selector": ["app=a"] / [1],
        "/status/phase": ["New", "Done"] / ["Odd"],
        "/status/conditions": [[condition("True")], [condition("False")], []]
            / [[{}], [condition("True"), condition("True")]],
        "/status/lost": [1] / [],
    };
    Kind {
        root: "/apis/differential.example.com/v1",
        plural: "widgets",
        api_version: "differential.example.com/v1",
        title: "Widget",
        rest: json!({"spec": {"mode": "fast"}}),
        places: with_metadata(places),
        directives: Vec::new(),
        status,
        has_scale: true,
    }
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    let item = json!({"type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"}, "zone": {"type": "string", "default": "a"}, "v": {"type": "string"}}});
    let spec = json!({
        "type": "object",
        "required": ["mode"],
        "properties": {
            "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 10, "default": 1},
            "mode": {"type": "string", "enum": ["fast", "slow"]},
            "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 100},
            "ratio": {"type": "number", "minimum": 0, "maximum": 1},
            "title": {"type": "string", "minLength": 2, "maxLength": 10, "pattern": "^[a-z]+$"},
            "when": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "note": {"type": "string", "nullable": true},
            "pruned": {"type": "object", "properties": {"kept": text}, "default": {"kept": "d"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": text, "maxProperties": 3},
            "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text, "b": text}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 10, "items": text},
            "plain": {"type": "array", "maxItems": 3, "items": text},
            "items": {"type": "array", "x-kubernetes-list-type": "map", "maxItems": 10,
                "x-kubernetes-list-map-keys": ["id", "zone"], "items": item},
            "low": {"type": "integer"},
            "high": {"type": "integer"},
            "sealed": {"type": "string", "maxLength": 10,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "sealed"}]},
            "nested": {"type": "object", "properties": {"inner": {"type": "object",
                "properties": {"x": {"type": "integer", "default": 7}, "y": {"type": "string", "default": "n"}}}}},
            "one": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
             "messageExpression": "'low is above high in ' + self.mode"},
            {"rule": "self.mode != 'slow' || self.replicas <= 5", "message": "slow widgets have at most 5 replicas",
             "reason": "FieldValueForbidden", "fieldPath": ".replicas"},
            {"rule": "!has(oldSelf.size) || has(self.size)", "message": "size cannot be removed"},
        ],
    });
    let condition =
        json!({"type": "object", "required": ["type"], "properties": {"type": text, "status": text}});
    let status = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "minimum": 0},
        "selector": text,
        "phase": {"type": "string", "enum": ["New", "Done"], "default": "New"},
        "conditions": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"], "items": condition},
    }});
    json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}})
}

/// Removes the CEL rules from a schema, for servers without them.
fn without_rules(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            map.values_mut().for_each(without_rules);
        }
        Value::Array(list) => list.iter_mut().for_each(without_rules),
        _ => {}
    }
}

/// Creates the CRD and waits until it is served.
pub async fn define(cluster: &Cluster, with_rules: bool) {
    let mut schema = schema();
    if !with_rules {
        without_rules(&mut schema);
    }
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "subresources": {"status": {}, "scale": scale}, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]});
    let name = format!("widgets.{GROUP}");
    let mut crd = fixtures::named("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name);
    crd["spec"] = spec;
    cluster.api().post(fixtures::CRDS, crd).await.expect(201);
    let path = kind().path("default");
    let served = time::eventually(Duration::from_mins(1), async || {
        (cluster.api().get(&path).await.status == 200).then_some(())
    });
    assert!(served.await.is_some(), "{path} is not served");
}
