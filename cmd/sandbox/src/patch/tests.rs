//! Tests of all patch formats on built-in kinds.

mod properties;

use super::{MAX_OPERATIONS, Patch, PatchError, PatchType};
use crate::json::{Value, json};
use crate::schema;

fn json_patch(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    Patch::new(PatchType::Json, patch.to_string().as_bytes()).apply(current, None)
}

fn code(error: &PatchError) -> u16 {
    match error {
        PatchError::NotDecodable(_) => 400,
        PatchError::TooManyOperations(_) => 413,
        PatchError::UnsupportedMediaType(_) => 415,
        PatchError::NotApplicable(_) => 422,
        PatchError::Internal(_) => 500,
    }
}

/// The file describes its format.
#[test]
fn patches_match_api_server() {
    let (mut content_type, mut schema, mut current, mut patch) = ("", None, Value::Null, "");
    for (n, line) in include_str!("tests/cases.txt").lines().enumerate() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" | "#" => {}
            "type" => (content_type, schema) = (rest, None),
            "kind" => {
                let (version, kind) = rest.split_once(' ').expect(line);
                schema = Some(schema::builtin(version, kind).expect(line));
            }
            "on" => current = serde_json::from_str(rest).expect(line),
            ">" => patch = rest,
            "<" => {
                let found = PatchType::from_content_type(content_type)
                    .and_then(|kind| Patch::new(kind, patch.as_bytes()).apply(&current, schema));
                let case = format!("line {}: {content_type} {patch}", n + 1);
                match (found, serde_json::from_str::<Value>(rest)) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{case}"),
                    (Ok(found), Err(_)) => panic!("{case}: {found}"),
                    (Err(error), _) => {
                        let (expected, reason) = rest.split_once(' ').unwrap_or((rest, ""));
                        assert_eq!(code(&error).to_string(), expected, "{case}: {error}");
                        assert!(error.to_string().contains(reason), "{case}: {error}");
                    }
                }
            }
            _ => panic!("line {}: {line}", n + 1),
        }
    }
}

#[test]
fn strict_decoding_reports_duplicate_and_unknown_members() {
    let json = br#"[{"op":"test","op":"test","zork":1,"value":{"a":1,"a":1}}]"#;
    assert_eq!(
        Patch::new(PatchType::Json, json).strict_errors(),
        [
            r#"json patch duplicate field "[0].op""#,
            r#"json patch duplicate field "[0].value.a""#,
            r#"json patch unknown field "[0].zork""#
        ]
    );
    assert_eq!(
        Patch::new(PatchType::Merge, br#"{"data":{"z":1,"z":2}}"#).strict_errors(),
        [r#"duplicate field "data.z""#]
    );
    assert!(Patch::new(PatchType::Strategic, b"{").strict_errors().is_empty());
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
