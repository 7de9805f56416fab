//! What every object has.

use serde_json::json;

use super::{Place, place};
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
    vec![
        place(
            "/metadata/labels",
            json!([{"app": "a"}, {"app": "b", "tier": "x"}, {}, {"example.com/k": ""}]),
            json!([{"Bad Key": "x"}, {"app": "not valid!"}, {"a/b/c": "x"}, {"app": 1}, "text", []]),
        ),
        place(
            "/metadata/labels/app",
            json!(["a", "b", "c"]),
            json!(["-", 3, true, {}, null]),
        ),
        place("/metadata/labels/tier", json!(["x", "y"]), json!(["x y"])),
        place(
            "/metadata/annotations",
            json!([{"note": "1"}, {"note": "2", "example.com/x": "y"}, {}]),
            json!([{"Bad Key": "x"}, {"note": 1}, []]),
        ),
        place(
            "/metadata/annotations/note",
            json!(["1", "2", ""]),
            json!([1, false]),
        ),
        place(
            "/metadata/finalizers",
            json!([
                ["example.com/a"],
                ["example.com/b", "example.com/a"],
                [],
                ["example.com/b"]
            ]),
            json!([
                ["bad"],
                ["Bad Name/x"],
                ["example.com/a", "example.com/a"],
                "example.com/a",
                [null],
                [1]
            ]),
        ),
        place("/metadata/finalizers/-", json!(["example.com/c"]), json!([""])),
        place(
            "/metadata/ownerReferences",
            json!([
                [owner(OTHER_UID, none.clone())],
                [owner(OTHER_UID, json!({"controller": true}))],
                [owner(
                    OTHER_UID,
                    json!({"blockOwnerDeletion": true, "controller": false})
                )],
                [],
                [owner(UID, none.clone()), owner(OTHER_UID, none.clone())],
            ]),
            json!([
                [owner("", none.clone())],
                [owner(OTHER_UID, json!({"kind": ""}))],
                [owner(OTHER_UID, json!({"apiVersion": "a/b/c"}))],
                [
                    owner(UID, json!({"controller": true})),
                    owner(OTHER_UID, json!({"controller": true}))
                ],
                [owner(OTHER_UID, none.clone()), owner(OTHER_UID, none.clone())],
                [
                    owner(OTHER_UID, json!({"name": "x"})),
                    owner(OTHER_UID, json!({"name": "y"}))
                ],
                [{}],
                [null],
                {},
            ]),
        ),
        place("/metadata/uid", json!([UID]), json!([OTHER_UID, "x", 1])),
        place(
            "/metadata/resourceVersion",
            json!([VERSION, ""]),
            json!([OLD_VERSION, "abc", "999999999", "-1", 5]),
        ),
        place("/metadata/name", json!([]), json!(["Bad_Name", "", "other", 1])),
        place("/metadata/namespace", json!([]), json!(["elsewhere", "", 1])),
        place("/metadata/generation", json!([7]), json!([-1, "x"])),
        place(
            "/metadata/creationTimestamp",
            json!(["2001-01-01T00:00:00Z"]),
            json!(["yesterday", null]),
        ),
        place(
            "/metadata/deletionTimestamp",
            json!([]),
            json!(["2001-01-01T00:00:00Z", null, ""]),
        ),
        place("/metadata/deletionGracePeriodSeconds", json!([]), json!([3, -1])),
        place("/metadata/generateName", json!(["x-"]), json!(["Bad_"])),
        place("/metadata/nosuch", json!([]), json!([1, {"a": 1}])),
        place(
            "/metadata/managedFields",
            json!([[]]),
            json!([
                [{}],
                null,
                [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                  "time": "2001-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}}],
                [{"manager": "m", "operation": "Nothing"}],
                [{"manager": "m", "operation": "Update", "fieldsType": "V9", "fieldsV1": {}}],
                [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}],
                "x",
            ]),
        ),
        place("/kind", json!([]), json!(["", 1])),
        place("/apiVersion", json!([]), json!(["v2", "a/b/c"])),
        place("/nosuch", json!([]), json!([1, null])),
        place("/status", json!([]), json!([{}, {"nosuch": 1}, "x", null])),
    ]
}
