use serde_json::json;

use super::*;

fn first(path: &str) -> Option<Value> {
    let object = json!({
        "metadata": {"name": "f1", "annotations": {"ex.io/a": "ann"}},
        "spec": {
            "s": "str", "i": 5, "n": 2.5, "nul": null,
            "list": ["x", "y", "z"],
            "obj": {"k.x": "dotted"},
            "objs": [{"name": "a", "n": 1}, {"name": "b", "n": 3, "on": true}, {"name": "c", "n": 4}],
        },
        "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
    });
    JsonPath::parse(path).expect(path).first(&object).cloned()
}

#[test]
fn valid_path_selects_value() {
    for (path, value) in [
        (".spec.s", json!("str")),
        ("$.spec.s", json!("str")),
        ("['spec']['s']", json!("str")),
        (".spec.nul", json!(null)),
        (r".spec.obj.k\.x", json!("dotted")),
        (r".spec.obj['k\.x']", json!("dotted")),
        (r".metadata.annotations.ex\.io/a", json!("ann")),
        (".spec.list", json!(["x", "y", "z"])),
        (".spec.list[0]", json!("x")),
        (".spec.list[]", json!("x")),
        (".spec.list[-1]", json!("z")),
        (".spec.list[1:]", json!("y")),
        (".spec.list[0:2]", json!("x")),
        (".spec.list[*]", json!("x")),
        (".spec.obj.*", json!("dotted")),
        (".spec['s','i']", json!("str")),
        ("..name", json!("f1")),
        (".spec.objs[*].name", json!("a")),
        (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
        (".status.conditions[?(@.type=='Ready')].status", json!("True")),
        (
            r#".status.conditions[?(@.type == "Ready")].status"#,
            json!("True"),
        ),
        (".spec.objs[?(@.n>2)].name", json!("b")),
        (".spec.objs[?(@.n>=4)].name", json!("c")),
        (".spec.objs[?(@.name!=\"a\")].name", json!("b")),
        (".spec.objs[?(@.on)].name", json!("b")),
        (".spec.objs[?(@.on==true)].name", json!("b")),
    ] {
        assert_eq!(first(path), Some(value), "{path}");
    }
}

#[test]
fn unmatched_path_selects_nothing() {
    for path in [
        ".spec.nope.deep",
        ".spec.s.deep",
        ".spec.list[9]",
        ".spec.list[-9]",
        ".spec.s[0]",
        ".spec.obj['k.x']",
        ".spec.nul[0]",
        ".spec.nul.deep",
        ".spec.objs[?(@.nope==1)].name",
        // One value that cannot be compared makes the whole path fail.
        ".spec.objs[?(@.n==\"3\")].name",
        ".spec.objs[?(@.n==3.0)].name",
    ] {
        assert_eq!(first(path), None, "{path}");
    }
}

#[test]
fn malformed_path_is_rejected() {
    for text in [
        ".a[",
        ".a[x]",
        ".a[1:2:3:4]",
        ".a[?(@.b]",
        ".a[?(@.b=1)]",
        "....a",
        "a",
        ".a}",
        "'a'",
    ] {
        assert_eq!(JsonPath::parse(text), None, "{text}");
    }
}
