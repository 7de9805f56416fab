//! Maps of text, and nothing else.

use serde_json::json;

use super::{Kind, place, with_metadata};

pub fn kind() -> Kind {
    let places = vec![
        place(
            "/data",
            json!([{"k": "v"}, {"k": "w", "l": "x"}, {}, {"l": ""}]),
            json!([{"bad key": "x"}, {"..": "x"}, {"k": 1}, {"k": null}, "x", [], null]),
        ),
        place("/data/k", json!(["v", "w", "multi\nline"]), json!([1, {}, null])),
        place("/data/l", json!(["1", "2"]), json!([true])),
        place("/data/m", json!(["x"]), json!([])),
        place(
            "/binaryData",
            json!([{"b": "aGVsbG8="}, {"c": ""}]),
            json!([{"b": "not base64!"}, {"k": "aGVsbG8="}, {"b": 1}, {"b": null}]),
        ),
        place("/immutable", json!([false, true]), json!(["x", null, 0])),
        place("/spec", json!([]), json!([{"a": 1}])),
    ];
    let directives = vec![
        place(
            "/data/$patch",
            json!(["replace", "delete", "merge"]),
            json!(["nonsense", 1]),
        ),
        place(
            "/data/$retainKeys",
            json!([["k"], ["l", "k"]]),
            json!([["nosuch"], "k"]),
        ),
        place("/$patch", json!([]), json!(["delete", "replace"])),
        place(
            "/metadata/$deleteFromPrimitiveList~1finalizers",
            json!([["example.com/a"], ["example.com/b"]]),
            json!(["example.com/a", [1]]),
        ),
        place(
            "/metadata/$setElementOrder~1finalizers",
            json!([["example.com/b", "example.com/a"]]),
            json!([["example.com/a"], []]),
        ),
        place(
            "/metadata/ownerReferences",
            json!([[{"$patch": "delete", "uid": "$other-uid"}], [{"$patch": "replace"}]]),
            json!([[{"$patch": "delete"}], [{"$patch": "odd", "uid": "x"}]]),
        ),
        place(
            "/metadata/labels",
            json!([{"$patch": "replace", "app": "c"}, {"$patch": "delete"}]),
            json!([]),
        ),
    ];
    Kind {
        root: "/api/v1",
        plural: "configmaps",
        api_version: "v1",
        title: "ConfigMap",
        rest: json!({"data": {"k": "v"}}),
        places: with_metadata(places),
        directives,
        status: Vec::new(),
        has_scale: false,
    }
}
