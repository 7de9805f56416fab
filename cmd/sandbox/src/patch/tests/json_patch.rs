//! Tests of JSON patch operations, their errors and their limits.

use super::super::{MAX_OPERATIONS, PatchError};
use super::json_patch;
use crate::json::{Value, json};

#[test]
fn json_patch_operations_match_api_server() {
    let doc = json!({"data": {"x": "1"}, "list": ["a", "b", "c"], "a/b~c": 1, "nil": null});
    let cases = [
        (
            json!([{"op": "add", "path": "/data/y", "value": "2"}]),
            "/data",
            json!({"x": "1", "y": "2"}),
        ),
        (
            json!([{"op": "add", "path": "/list/1", "value": "n"}]),
            "/list",
            json!(["a", "n", "b", "c"]),
        ),
        (
            json!([{"op": "add", "path": "/list/-", "value": "n"}]),
            "/list",
            json!(["a", "b", "c", "n"]),
        ),
        (
            json!([{"op": "add", "path": "/list/-1", "value": "n"}]),
            "/list",
            json!(["a", "b", "c", "n"]),
        ),
        (
            json!([{"op": "add", "path": "/list/3", "value": "n"}]),
            "/list",
            json!(["a", "b", "c", "n"]),
        ),
        (
            json!([{"op": "remove", "path": "/list/-1"}]),
            "/list",
            json!(["a", "b"]),
        ),
        (
            json!([{"op": "remove", "path": "/a~1b~0c"}, {"op": "remove", "path": "/nil"}]),
            "",
            json!({"data": {"x": "1"}, "list": ["a", "b", "c"]}),
        ),
        (
            json!([{"op": "replace", "path": "/list/-2", "value": "n"}]),
            "/list",
            json!(["a", "n", "c"]),
        ),
        (
            json!([{"op": "replace", "path": "/data/new", "value": "n"}]),
            "/data/new",
            json!("n"),
        ),
        (
            json!([{"op": "replace", "path": "", "value": {"z": 1}}]),
            "",
            json!({"z": 1}),
        ),
        (
            json!([{"op": "move", "from": "/list/0", "path": "/data/y"}]),
            "",
            json!(
            {"data": {"x": "1", "y": "a"}, "list": ["b", "c"], "a/b~c": 1, "nil": null}),
        ),
        (
            json!([{"op": "copy", "from": "/data/none", "path": "/data/y"}]),
            "/data/y",
            json!(null),
        ),
        (
            json!([{"op": "copy", "from": "/data", "path": "/data/y"}]),
            "/data",
            json!({"x": "1", "y": {"x": "1"}}),
        ),
        (
            json!([{"op": "test", "path": "/data/none", "value": null}, {"op": "test", "path": "/data/none"},
                {"op": "test", "path": "/nil", "value": null}, {"op": "test", "path": "", "value": doc},
                {"op": "test", "path": "/list/-1", "value": "c"}]),
            "",
            doc.clone(),
        ),
        (json!([{"op": "add", "path": "/data/y"}]), "/data/y", json!(null)),
    ];
    for (patch, pointer, expected) in cases {
        let patched = json_patch(&doc, &patch).unwrap_or_else(|error| panic!("{patch}: {error}"));
        assert_eq!(patched.pointer(pointer), Some(&expected), "{patch}");
    }
}

#[test]
fn inapplicable_json_patch_is_invalid() {
    let doc = json!({"data": {"x": "1"}, "list": ["a"], "nil": null});
    let cases = [
        (json!([null]), "Unexpected kind: unknown"),
        (json!([{"op": "foo", "path": "/x"}]), "Unexpected kind: foo"),
        (json!([{"op": "add"}]), "add operation failed to decode path"),
        (
            json!([{"op": "copy", "path": "/data/y"}]),
            "copy operation failed to decode from",
        ),
        (
            json!([{"op": "add", "path": "/metadata/labels/x", "value": 1}]),
            "doc is missing path",
        ),
        (
            json!([{"op": "add", "path": "/data/x/y", "value": 1}]),
            "doc is missing path",
        ),
        (
            json!([{"op": "add", "path": "/nil/y", "value": 1}]),
            "doc is missing path",
        ),
        (
            json!([{"op": "add", "path": "", "value": {}}]),
            "doc is missing path",
        ),
        (
            json!([{"op": "add", "path": "/list/2", "value": 1}]),
            "invalid index",
        ),
        (
            json!([{"op": "add", "path": "/list/-3", "value": 1}]),
            "invalid index",
        ),
        (
            json!([{"op": "add", "path": "/list/x", "value": 1}]),
            "not a proper array index",
        ),
        (
            json!([{"op": "remove", "path": "/data/none"}]),
            "nonexistent key: none",
        ),
        (json!([{"op": "remove", "path": "/list/1"}]), "invalid index"),
        (json!([{"op": "remove", "path": ""}]), "doc is missing path"),
        (
            json!([{"op": "replace", "path": "/list/1", "value": 1}]),
            "invalid index",
        ),
        (
            json!([{"op": "replace", "path": "/list/-", "value": 1}]),
            "not a proper array index",
        ),
        (
            json!([{"op": "replace", "path": "", "value": 5}]),
            "must be object or array",
        ),
        (
            json!([{"op": "test", "path": "/data/x", "value": "2"}]),
            "test failed",
        ),
        (
            json!([{"op": "test", "path": "/list/0", "value": null}]),
            "test failed",
        ),
        (json!([{"op": "test", "path": "/none/x"}]), "doc is missing path"),
        (
            json!([{"op": "move", "from": "/data/none", "path": "/y"}]),
            "nonexistent key",
        ),
        (
            json!([{"op": "move", "from": "/data", "path": "/data/y"}]),
            "doc is missing path",
        ),
    ];
    for (patch, reason) in cases {
        let Err(PatchError::NotApplicable(found)) = json_patch(&doc, &patch) else {
            panic!("{patch} applied");
        };
        assert!(found.contains(reason), "{patch}: {found}");
    }
}

#[test]
fn json_patch_limits_are_enforced() {
    let test = json!({"op": "test", "path": "/a", "value": 1});
    let doc = json!({"a": 1});
    assert!(json_patch(&doc, &vec![test.clone(); MAX_OPERATIONS].into()).is_ok());
    assert_eq!(
        json_patch(&doc, &vec![test; MAX_OPERATIONS + 1].into()),
        Err(PatchError::TooManyOperations(MAX_OPERATIONS + 1))
    );

    let third = Value::from("x".repeat(1024 * 1024 - 2));
    let copies = |n: usize| vec![json!({"op": "copy", "from": "/a", "path": "/b"}); n].into();
    assert!(json_patch(&json!({ "a": third }), &copies(3)).is_ok());
    assert!(json_patch(&json!({ "a": third }), &copies(4)).is_err());

    // Doubles in size, then in depth. Without the limits, both would exhaust the memory or the stack of the process.
    let wide = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40];
    let answer = json_patch(&json!({"a": ["0123456789"]}), &wide.into());
    assert!(answer.is_err_and(|error| error.to_string().contains("accumulated size")));
    let deep: Vec<Value> = (0..40)
        .map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a{}", "/a".repeat(1 << n.min(7)))}))
        .collect();
    let answer = json_patch(&json!({"a": {}}), &deep.into());
    assert!(answer.is_err_and(|error| error.to_string().contains("exceeded max depth")));
    let moved: Vec<Value> = (0..500)
        .flat_map(|_| {
            [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ]
        })
        .collect();
    let answer = json_patch(&json!({"a": {}}), &moved.into());
    assert!(answer.is_err_and(|error| error.to_string().contains("exceeded max depth")));
}
