//! The metadata of every object.

use serde_json::json;

use super::Place;
use crate::step::{OLD_VERSION, OTHER_UID, UID, VERSION};

pub fn places() -> Vec<Place> {
    let owner = |uid: &str, more: serde_json::Value| {
        let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": uid});
        for (field, value) in more.as_object().into_iter().flatten() {
            owner[field.as_str()] = value.clone();
        }
        owner
    };
    let none = json!({});
    places! {
        "/metadata/labels": [{"app": "a"}, {"app": "b", "tier": "x"}, {}, {"example.com/k": ""}]
            / [{"Bad Key": "x"}, {"app": "not valid!"}, {"a/b/c": "x"}, {"app": 1}, "text", []],
        "/metadata/labels/app": ["a", "b", "c"] / ["-", 3, true, {}, null],
        "/metadata/labels/tier": ["x", "y"] / ["x y"],
        "/metadata/annotations": [{"note": "1"}, {"note": "2", "example.com/x": "y"}, {}]
            / [{"Bad Key": "x"}, {"note": 1}, []],
        "/metadata/annotations/note": ["1", "2", ""] / [1, false],
        "/metadata/finalizers": [["example.com/a"], ["example.com/b", "example.com/a"], [], ["example.com/b"]]
            / [["bad"], ["Bad Name/x"], ["example.com/a", "example.com/a"], "example.com/a", [null], [1]],
        "/metadata/finalizers/-": ["example.com/c"] / [""],
        "/metadata/ownerReferences": [
            [owner(OTHER_UID, none.clone())], [owner(OTHER_UID, json!({"controller": true}))],
            [owner(OTHER_UID, json!({"blockOwnerDeletion": true, "controller": false}))], [],
            [owner(UID, none.clone()), owner(OTHER_UID, none.clone())],
        ] / [
            [owner("", none.clone())], [owner(OTHER_UID, json!({"kind": ""}))],
            [owner(OTHER_UID, json!({"apiVersion": "a/b/c"}))],
            [owner(UID, json!({"controller": true})), owner(OTHER_UID, json!({"controller": true}))],
            [owner(OTHER_UID, none.clone()), owner(OTHER_UID, none.clone())],
            [owner(OTHER_UID, json!({"name": "x"})), owner(OTHER_UID, json!({"name": "y"}))], [{}], [null],
            {},
        ],
        "/metadata/uid": [UID] / [OTHER_UID, "x", 1],
        "/metadata/resourceVersion": [VERSION, ""] / [OLD_VERSION, "abc", "999999999", "-1", 5],
        "/metadata/name": [] / ["Bad_Name", "", "other", 1],
        "/metadata/namespace": [] / ["elsewhere", "", 1],
        "/metadata/generation": [7] / [-1, "x"],
        "/metadata/creationTimestamp": ["2001-01-01T00:00:00Z"] / ["yesterday", null],
        "/metadata/deletionTimestamp": [] / ["2001-01-01T00:00:00Z", null, ""],
        "/metadata/deletionGracePeriodSeconds": [] / [3, -1],
        "/metadata/generateName": ["x-"] / ["Bad_"],
        "/metadata/nosuch": [] / [1, {"a": 1}],
        "/metadata/managedFields": [[]] / [
            [{}], null,
            [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2001-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}}],
            [{"manager": "m", "operation": "Nothing"}],
            [{"manager": "m", "operation": "Update", "fieldsType": "V9", "fieldsV1": {}}],
            [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}], "x",
        ],
        "/kind": [] / ["", 1],
        "/apiVersion": [] / ["v2", "a/b/c"],
        "/nosuch": [] / [1, null],
        "/status": [] / [{}, {"nosuch": 1}, "x", null],
    }
}
