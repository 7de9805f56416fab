use super::*;

use serde_json::json;

#[test]
fn document_is_in_block_style_with_sorted_keys() {
    let value = json!({
        "kind": "A", "apiVersion": "a.b/v1", "empty": {}, "none": [], "null": null,
        "spec": {"list": [{"b": 1, "a": [true]}, "x", ["y", 2]], "deep": {"er": {}}},
    });
    let expected = "\
---
apiVersion: a.b/v1
empty: {}
kind: A
none: []
\"null\": null
spec:
  deep:
    er: {}
  list:
  - a:
    - true
    b: 1
  - x
  - [\"y\",2]
";
    assert_eq!(document(&value), expected);
    assert_eq!(documents(&[json!({}), json!([1])]), "---\n{}\n---\n- 1\n");
}

#[test]
fn ambiguous_string_is_quoted() {
    for word in ["a", "a.b/c-d_e", "v1alpha1", "Nothing", "e3"] {
        assert_eq!(text(word), word);
    }
    for word in [
        "",
        "yes",
        "No",
        "ON",
        "off",
        "y",
        "N",
        "true",
        "False",
        "null",
        "NULL",
        "~",
        "1",
        "1e3",
        "0x1",
        ".inf",
        "-a",
        "a b",
        "a: b",
        "a #b",
        "<<",
        "=",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "a,b",
        "[a]",
        "{a}",
        "ä",
        "2001-01-01",
    ] {
        assert_eq!(text(word), format!("{word:?}"), "{word}");
    }
    assert_eq!(text("a\n\"b\"\\"), r#""a\n\"b\"\\""#);
    assert_eq!(
        text("\u{7f}\u{85}\u{2028}\u{feff}\u{1}"),
        r#""\u007f\u0085\u2028\ufeff\u0001""#
    );
}
