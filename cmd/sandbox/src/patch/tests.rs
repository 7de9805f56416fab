//! Tests of all patch formats on built-in kinds.

mod json_patch;
mod properties;
mod strategic;

use super::{PatchError, PatchType, apply, strict_errors};
use crate::json::{Value, json};
use crate::schema;

fn json_patch(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    apply(PatchType::Json, current, patch.to_string().as_bytes(), None)
}

fn merge_patch(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    apply(PatchType::Merge, current, patch.to_string().as_bytes(), None)
}

#[test]
fn content_type_selects_patch_format() {
    let good = [
        ("application/json-patch+json", PatchType::Json),
        ("application/merge-patch+json;charset=utf-8", PatchType::Merge),
        ("application/strategic-merge-patch+json", PatchType::Strategic),
        ("application/apply-patch+yaml", PatchType::Apply),
    ];
    for (content_type, kind) in good {
        assert_eq!(PatchType::from_content_type(content_type), Ok(kind));
    }
    for bad in [
        "",
        "application/json",
        "Application/merge-patch+json",
        "application/merge-patch+json ;x",
    ] {
        let answer = PatchType::from_content_type(bad);
        assert!(
            matches!(answer, Err(PatchError::UnsupportedMediaType(_))),
            "{bad}"
        );
    }
}

#[test]
fn unsupported_patch_type_is_rejected() {
    let pod = schema::builtin("v1", "Pod");
    for (kind, schema) in [
        (PatchType::Strategic, None),
        (PatchType::Apply, None),
        (PatchType::Apply, pod),
    ] {
        let answer = apply(kind, &json!({}), b"{}", schema);
        assert!(
            matches!(answer, Err(PatchError::UnsupportedMediaType(_))),
            "{kind:?}"
        );
    }
}

#[test]
fn malformed_patch_is_rejected() {
    for (kind, patch) in [
        (PatchType::Json, "["),
        (PatchType::Json, "{}"),
        (PatchType::Json, r#"["x"]"#),
        (PatchType::Json, r#"[{"op":"add","path":5}]"#),
        (PatchType::Merge, "[]"),
        (PatchType::Merge, "null"),
        (PatchType::Merge, ""),
        (PatchType::Strategic, "[]"),
        (PatchType::Strategic, r#"{"a":"#),
    ] {
        let answer = apply(kind, &json!({}), patch.as_bytes(), schema::builtin("v1", "Pod"));
        assert!(
            matches!(answer, Err(PatchError::NotDecodable(_))),
            "{kind:?} {patch}"
        );
    }
    for kind in [PatchType::Json, PatchType::Strategic] {
        let answer = apply(kind, &json!({"a": 1}), b"null", schema::builtin("v1", "Pod"));
        assert_eq!(answer, Ok(json!({"a": 1})), "null is the empty patch");
    }
}

#[test]
fn strict_decoding_reports_duplicate_and_unknown_members() {
    let json = br#"[{"op":"test","op":"test","zork":1,"value":{"a":1,"a":1}}]"#;
    assert_eq!(
        strict_errors(PatchType::Json, json),
        [
            r#"json patch duplicate field "[0].op""#,
            r#"json patch duplicate field "[0].value.a""#,
            r#"json patch unknown field "[0].zork""#
        ]
    );
    assert_eq!(
        strict_errors(PatchType::Merge, br#"{"data":{"z":1,"z":2}}"#),
        [r#"duplicate field "data.z""#]
    );
    assert!(strict_errors(PatchType::Strategic, b"{").is_empty());
}

#[test]
fn merge_patch_merges_objects_and_replaces_other_values() {
    let cases = [
        (
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"b": null, "d": 3}}),
            json!({"a": {"c": 2, "d": 3}}),
        ),
        (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
        (
            json!({"a": 1}),
            json!({"a": {"b": {"c": null}}}),
            json!({"a": {"b": {}}}),
        ),
        (json!({"a": {}}), json!({"a": "x"}), json!({"a": "x"})),
        (
            json!({}),
            json!({"a": [{"b": null}, null]}),
            json!({"a": [{}, null]}),
        ),
        (json!({"a": [1]}), json!({"a": [{"b": null}]}), json!({"a": [{}]})),
        (
            json!({"a": {}}),
            json!({"a": [{"b": null}]}),
            json!({"a": [{"b": null}]}),
        ),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(merge_patch(&current, &patch), Ok(expected), "{current} {patch}");
    }
}
