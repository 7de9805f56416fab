//! A kind without status and defaults.

use serde_json::json;

use super::{Kind, with_metadata};

pub fn kind() -> Kind {
    let places = places! {
        "/data": [{"k": "v"}, {"k": "w", "l": "x"}, {}, {"l": ""}]
            / [{"bad key": "x"}, {"..": "x"}, {"k": 1}, {"k": null}, "x", [], null],
        "/data/k": ["v", "w", "multi\nline"] / [1, {}, null],
        "/data/l": ["1", "2"] / [true],
        "/data/m": ["x"] / [],
        "/binaryData": [{"b": "aGVsbG8="}, {"c": ""}]
            / [{"b": "not base64!"}, {"k": "aGVsbG8="}, {"b": 1}, {"b": null}],
        "/immutable": [false, true] / ["x", null, 0],
        "/spec": [] / [{"a": 1}],
    };
    let directives = places! {
        "/data/$patch": ["replace", "delete", "merge"] / ["nonsense", 1],
        "/data/$retainKeys": [["k"], ["l", "k"]] / [["nosuch"], "k"],
        "/$patch": [] / ["delete", "replace"],
        "/metadata/$deleteFromPrimitiveList~1finalizers": [["example.com/a"], ["example.com/b"]]
            / ["example.com/a", [1]],
        "/metadata/$setElementOrder~1finalizers": [["example.com/b", "example.com/a"]] / [["example.com/a"], []],
        "/metadata/ownerReferences": [[{"$patch": "delete", "uid": "$other-uid"}], [{"$patch": "replace"}]]
            / [[{"$patch": "delete"}], [{"$patch": "odd", "uid": "x"}]],
        "/metadata/labels": [{"$patch": "replace", "app": "c"}, {"$patch": "delete"}] / [],
    };
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
