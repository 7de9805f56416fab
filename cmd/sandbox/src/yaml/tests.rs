use std::fmt::Write as _;

use proptest::prelude::*;

use super::parse;
use crate::json::{Value, json};

fn value(text: &str) -> Value {
    parse(text.as_bytes()).expect(text).value
}

#[test]
fn manifests_parse() {
    let text =
        "a: 1\nb: {c: [x, 'y', \"z\"], d: null}\ne: |\n  two\n  lines\nf:\n- g: true\n  h: 1.5\n- 0x1F\n";
    assert_eq!(
        value(text),
        json!({"a": 1, "b": {"c": ["x", "y", "z"], "d": null}, "e": "two\nlines\n",
            "f": [{"g": true, "h": 1.5}, 31]})
    );
    assert_eq!(
        value(r#"{"a":{"b":[1,"x",null,true]}}"#),
        json!({"a": {"b": [1, "x", null, true]}})
    );
    assert_eq!(value(""), Value::Null);
    assert_eq!(value("a: 1\n---\nb: 2\n"), json!({"a": 1}));
}

#[test]
fn block_scalar_without_final_line_break_gets_none() {
    for (text, expected) in [
        ("a: |\n  x", json!({"a": "x"})),
        ("a: |\n  x\n", json!({"a": "x\n"})),
        ("a: |+\n  x\n  y", json!({"a": "x\ny"})),
        ("a: >\n  x\n  y", json!({"a": "x y"})),
        ("a: |\n  x\nb: x", json!({"a": "x\n", "b": "x"})),
        ("a: |-\n  x", json!({"a": "x"})),
    ] {
        assert_eq!(value(text), expected, "{text:?}");
    }
}

#[test]
fn scalars_are_those_of_yaml_1_1() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("~", Value::Null),
        ("010", json!(8)),
        ("0o10", json!(8)),
        ("1_000", json!(1000)),
        ("-5", json!(-5)),
        ("+5", json!(5)),
        ("1e3", json!(1000)),
        ("2.0", json!(2)),
        (".5", json!(0.5)),
        ("18446744073709551615", json!(u64::MAX)),
        ("09", json!(9)),
        ("500m", json!("500m")),
        ("1.2.3", json!("1.2.3")),
        ("2020-01-02", json!("2020-01-02")),
        ("'yes'", json!("yes")),
        ("!!str 5", json!("5")),
        ("-", json!([null])),
        ("--", json!("--")),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    assert_eq!(value("1: a\ntrue: b\n"), json!({"1": "a", "true": "b"}));
    assert!(parse(b"a: .inf").is_err());
}

#[test]
fn aliases_and_merges_are_limited() {
    assert_eq!(
        value("a: &x {k: 1, l: 2}\nb: *x\nc: {<<: *x, k: 3}\n"),
        json!({"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 2}, "c": {"k": 3, "l": 2}})
    );
    // A quoted or tagged key is a text.
    assert_eq!(value(r#"{"<<": {"k": 1}}"#), json!({"<<": {"k": 1}}));
    assert_eq!(value("{!!str <<: {k: 1}}"), json!({"<<": {"k": 1}}));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..9 {
        let last = n - 1;
        let item = format!("*a{last}, ").repeat(8);
        let _ = writeln!(bomb, "a{n}: &a{n} [{item}]");
    }
    assert!(parse(bomb.as_bytes()).is_err());
    assert!(parse(("[".repeat(100_000)).as_bytes()).is_err());
}

#[test]
fn invalid_yaml_is_rejected_and_duplicate_keys_are_reported() {
    for text in ["a: b: c", "{a", "\"x", "a: 1\n b: 2", "? [a]\n: b"] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    let parsed = parse(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").expect("YAML");
    assert_eq!(parsed.value, json!({"a": 3, "b": {"c": 2}}));
    assert_eq!(
        parsed.duplicates,
        [
            "line 4: key \"c\" already set in map",
            "line 5: key \"a\" already set in map"
        ]
    );
}

proptest! {
    #[test]
    fn parser_never_panics(text in ".{0,40}") {
        let _ = parse(text.as_bytes());
    }

    #[test]
    fn json_is_yaml(keys in prop::collection::btree_map("[a-z]{1,4}", any::<i64>(), 0..5), text in "[ -~]{0,12}") {
        let value = json!({"m": keys, "t": text});
        prop_assert_eq!(parse(value.to_string().as_bytes()).expect("YAML").value, value);
    }
}
