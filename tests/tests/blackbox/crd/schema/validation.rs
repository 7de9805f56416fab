//! What a schema asks of values, and how a refusal says it.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::super::{install, patched};
use super::{Place, crd_of, installed_with, object_of, refuses, takes, widget};
use crate::expect::{invalid, unchanged};
use crate::support::{JSON_PATCH, MERGE, create, with};

pub fn tests() -> Vec<Test> {
    // How the server words and numbers these changed over the years; what is refused did not.
    let worded = vec![
        test!(types_are_checked),
        test!(numbers_are_checked),
        test!(texts_are_checked),
        test!(formats_are_checked),
        test!(sizes_are_checked),
        test!(enums_are_checked),
        test!(required_fields_must_be_there),
        test!(combinations_are_checked),
        test!(int_or_string_takes_both),
        test!(several_causes_come_at_once),
        test!(status_is_checked_at_its_own_endpoint),
        test!(scale_numbers_are_checked),
        test!(unchanged_parts_are_forgiven),
    ];
    let mut tests: Vec<Test> = worded.into_iter().map(|test| test.since(1, 36)).collect();
    tests.push(test!(a_patch_that_makes_it_invalid_changes_nothing));
    tests
}

async fn types_are_checked(c: Cluster) {
    let of = |ty: &str| json!({"type": ty});
    let schema = object_of(json!({
        "s": of("string"), "i": of("integer"), "n": of("number"), "b": of("boolean"),
        "l": {"type": "array", "items": of("string")},
        "o": {"type": "object", "properties": {"x": of("string")}},
        "m": {"type": "object", "additionalProperties": of("integer")},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let wrong = |field: &str, ty: &str, found: &str| {
        format!(
            "TypeInvalid {field}: Invalid value: {found:?}: {field} in body must be of type {ty}: {found:?}"
        )
    };
    let cases = [
        (json!({"s": 1}), wrong("spec.s", "string", "integer")),
        (json!({"s": true}), wrong("spec.s", "string", "boolean")),
        (json!({"i": "1"}), wrong("spec.i", "integer", "string")),
        (json!({"n": "1"}), wrong("spec.n", "number", "string")),
        (json!({"b": 0}), wrong("spec.b", "boolean", "integer")),
        (json!({"l": "x"}), wrong("spec.l", "array", "string")),
        (json!({"l": [1]}), wrong("spec.l[0]", "string", "integer")),
        (json!({"o": []}), wrong("spec.o", "object", "array")),
        (json!({"o": {"x": {}}}), wrong("spec.o.x", "string", "object")),
        (json!({"m": {"k": "v"}}), wrong("spec.m.k", "integer", "string")),
        (json!("x"), wrong("spec", "object", "string")),
    ];
    for (spec, cause) in &cases {
        refuses(&c, &place, &path, vec![(spec.clone(), vec![cause])]).await;
    }
    takes(
        &c,
        &place,
        &path,
        vec![json!({"i": 1.0, "n": 1}), json!({"n": 1.5, "m": {"k": 2}})],
    )
    .await;
    place.remove(&c).await;
}

async fn numbers_are_checked(c: Cluster) {
    let schema = object_of(json!({
        "range": {"type": "integer", "minimum": 1, "maximum": 5},
        "open": {"type": "integer", "minimum": 1, "maximum": 5, "exclusiveMinimum": true, "exclusiveMaximum": true},
        "real": {"type": "number", "minimum": 0.5},
        "even": {"type": "integer", "multipleOf": 2},
        "small": {"type": "integer", "format": "int32"},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"range": 0}),
            vec![
                "Invalid spec.range: Invalid value: 0: spec.range in body should be greater than or equal to 1",
            ],
        ),
        (
            json!({"range": 6}),
            vec![
                "Invalid spec.range: Invalid value: 6: spec.range in body should be less than or equal to 5",
            ],
        ),
        (
            json!({"open": 1}),
            vec!["Invalid spec.open: spec.open in body should be greater than 1"],
        ),
        (
            json!({"open": 5}),
            vec!["Invalid spec.open: spec.open in body should be less than 5"],
        ),
        (
            json!({"real": 0.25}),
            vec![
                "Invalid spec.real: Invalid value: 0.25: spec.real in body should be greater than or equal to 0.5",
            ],
        ),
        (
            json!({"even": 3}),
            vec!["Invalid spec.even: spec.even in body should be a multiple of 2"],
        ),
        (
            json!({"small": 3_000_000_000_i64}),
            vec!["Invalid <nil>: Checked value must be of type integer with format int32 in spec.small"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(
        &c,
        &place,
        &path,
        vec![json!({"range": 5, "open": 2, "real": 0.5, "even": 0, "small": -1})],
    )
    .await;
    place.remove(&c).await;
}

async fn texts_are_checked(c: Cluster) {
    let schema = object_of(json!({
        "length": {"type": "string", "minLength": 2, "maxLength": 3},
        "pattern": {"type": "string", "pattern": r"^[a-z]+\d$"},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"length": "a"}),
            vec![
                "Invalid spec.length: Invalid value: \"a\": spec.length in body should be at least 2 chars long",
            ],
        ),
        (
            json!({"length": "abcd"}),
            vec!["TooLong spec.length: Too long: may not be more than 3 bytes"],
        ),
        (
            json!({"pattern": "A1"}),
            vec![
                r#"Invalid spec.pattern: Invalid value: "A1": spec.pattern in body should match '^[a-z]+\d$'"#,
            ],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(&c, &place, &path, vec![json!({"length": "äöü", "pattern": "a1"})]).await;
    place.remove(&c).await;
}

async fn formats_are_checked(c: Cluster) {
    let of = |format: &str| json!({"type": "string", "format": format});
    let schema = object_of(json!({
        "time": of("date-time"), "date": of("date"), "duration": of("duration"), "ipv4": of("ipv4"), "ipv6": of("ipv6"),
        "cidr": of("cidr"), "uuid": of("uuid"), "byte": of("byte"), "email": of("email"), "uri": of("uri"),
        "hostname": of("hostname"), "mac": of("mac"), "mine": of("my-own"),
    }));
    let (place, path) = installed_with(&c, schema).await;
    let name = |field: &str| {
        if field == "time" {
            "date-time".to_owned()
        } else {
            field.to_owned()
        }
    };
    for field in [
        "time", "date", "duration", "ipv4", "ipv6", "cidr", "uuid", "byte", "email", "uri", "mac",
    ] {
        let cause = format!(
            "TypeInvalid spec.{field}: spec.{field} in body must be of type {}: \"x y\"",
            name(field)
        );
        refuses(&c, &place, &path, vec![(json!({field: "x y"}), vec![&cause])]).await;
    }
    let good = json!({
        "time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "duration": "1h5m", "ipv4": "10.0.0.1", "ipv6": "::1",
        "cidr": "10.0.0.0/8", "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "byte": "aGVsbG8=", "email": "a@b.c",
        "uri": "https://a/b", "hostname": "a.example.com", "mac": "00:00:5e:00:53:01", "mine": "x y",
    });
    takes(&c, &place, &path, vec![good]).await;
    place.remove(&c).await;
}

async fn sizes_are_checked(c: Cluster) {
    let schema = object_of(json!({
        "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "m": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "string"}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"l": []}),
            vec!["Invalid spec.l: Invalid value: 0: spec.l in body should have at least 1 items"],
        ),
        (
            json!({"l": ["1", "2", "3"]}),
            vec!["TooMany spec.l: Too many: 3: must have at most 2 items"],
        ),
        (
            json!({"m": {}}),
            vec!["Invalid spec.m: Invalid value: 0: spec.m in body should have at least 1 properties"],
        ),
        (
            json!({"m": {"a": "1", "b": "2", "c": "3"}}),
            vec!["TooMany spec.m: Too many: 3: must have at most 2 items"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(&c, &place, &path, vec![json!({"l": ["1"], "m": {"a": "1"}})]).await;
    place.remove(&c).await;
}

async fn enums_are_checked(c: Cluster) {
    let schema = object_of(json!({
        "s": {"type": "string", "enum": ["one", "two"]},
        "i": {"type": "integer", "enum": [1, 2]},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"s": "three"}),
            vec!["NotSupported spec.s: Unsupported value: \"three\": supported values: \"one\", \"two\""],
        ),
        (
            json!({"i": 3}),
            vec!["NotSupported spec.i: Unsupported value: 3: supported values: \"1\", \"2\""],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(&c, &place, &path, vec![json!({"s": "two", "i": 1})]).await;
    place.remove(&c).await;
}

async fn required_fields_must_be_there(c: Cluster) {
    let place = Place::new(&c).await;
    let inner = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {
        "type": "object", "properties": {"o": inner, "l": {"type": "array", "items": inner}},
    }}});
    install(&c, &crd_of(&place, schema)).await;
    let path = place.widgets("v1");
    let reply = c.api().post(&path, place.widget("a")).await;
    invalid(&reply, &["Required spec: Required value"]);
    let specs = vec![
        (json!({"o": {}}), vec!["Required spec.o.a: Required value"]),
        (
            json!({"l": [{"a": "1"}, {}]}),
            vec!["Required spec.l[1].a: Required value"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    place.remove(&c).await;
}

async fn combinations_are_checked(c: Cluster) {
    let required = |name: &str| json!({"required": [name]});
    let texts = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let with_texts = |key: &str, schemas: Value| json!({"type": "object", "properties": texts, key: schemas});
    let schema = object_of(json!({
        "any": with_texts("anyOf", json!([required("a"), required("b")])),
        "one": with_texts("oneOf", json!([required("a"), required("b")])),
        "all": with_texts("allOf", json!([required("a"), required("b")])),
        "not": with_texts("not", required("a")),
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"any": {}}),
            vec![
                "Invalid <nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema (anyOf)",
                "Required spec.any.a: Required value",
            ],
        ),
        (
            json!({"one": {"a": "1", "b": "2"}}),
            vec![
                "Invalid <nil>: \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (
            json!({"one": {}}),
            vec![
                "Invalid <nil>: \"spec.one\" must validate one and only one schema (oneOf). Found none valid",
                "Required spec.one.a: Required value",
            ],
        ),
        (
            json!({"all": {"a": "1"}}),
            vec![
                "Required spec.all.b: Required value",
                "Invalid <nil>: \"spec.all\" must validate all the schemas (allOf)",
            ],
        ),
        (
            json!({"not": {"a": "1"}}),
            vec!["Invalid <nil>: \"spec.not\" must not validate the schema (not)"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    let good = json!({"any": {"a": "1", "b": "2"}, "one": {"b": "1"}, "all": {"a": "1", "b": "2"}, "not": {"b": "1"}});
    takes(&c, &place, &path, vec![good]).await;
    place.remove(&c).await;
}

async fn int_or_string_takes_both(c: Cluster) {
    let schema = object_of(json!({
        "a": {"x-kubernetes-int-or-string": true},
        "b": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let specs = vec![
        (
            json!({"a": true}),
            vec!["TypeInvalid spec.a: spec.a in body must be of type integer,string: \"boolean\""],
        ),
        (
            json!({"b": "x"}),
            vec!["Invalid spec.b: spec.b in body should match '^[0-9]+%$'"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    takes(
        &c,
        &place,
        &path,
        vec![json!({"a": 1, "b": 2}), json!({"a": "x", "b": "50%"})],
    )
    .await;
    place.remove(&c).await;
}

async fn several_causes_come_at_once(c: Cluster) {
    let schema = object_of(json!({
        "l": {"type": "array", "minItems": 5, "items": {"type": "integer", "maximum": 1, "multipleOf": 3}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let causes = vec![
        "Invalid spec.l[0]: should be a multiple of 3",
        "Invalid spec.l[0]: should be less than or equal to 1",
        "TypeInvalid spec.l[1]: must be of type integer: \"string\"",
        "Invalid spec.l: should have at least 5 items",
    ];
    refuses(&c, &place, &path, vec![(json!({"l": [2, "x"]}), causes)]).await;
    place.remove(&c).await;
}

async fn a_patch_that_makes_it_invalid_changes_nothing(c: Cluster) {
    let (place, path) = installed_with(&c, object_of(json!({"n": {"type": "integer", "maximum": 5}}))).await;
    let made = create(&c, &path, &widget(&place, "a", json!({"n": 1}))).await;
    let path = format!("{path}/a");
    for (kind, patch) in [
        (MERGE, json!({"spec": {"n": 9}})),
        (MERGE, json!({"spec": {"n": "x"}})),
        (
            JSON_PATCH,
            json!([{"op": "replace", "path": "/spec/n", "value": 9}]),
        ),
    ] {
        let reply = c.api().patch(&path, kind, patch).await;
        reply.expect_error(422, "Invalid");
        assert_eq!(reply.causes()[0].field, "spec.n", "{reply}");
    }
    let reply = c.api().put(&path, with(made.clone(), "/spec/n", json!(9))).await;
    reply.expect_error(422, "Invalid");
    unchanged(&c, &path, &made).await;
    place.remove(&c).await;
}

async fn status_is_checked_at_its_own_endpoint(c: Cluster) {
    let place = Place::new(&c).await;
    let schema = object_of(json!({
        "spec": object_of(json!({"n": {"type": "integer"}})),
        "status": {"type": "object", "required": ["phase"], "properties": {"phase": {"type": "string", "maxLength": 3}}},
    }));
    let crd = with(
        crd_of(&place, schema),
        "/spec/versions/0/subresources",
        json!({"status": {}}),
    );
    install(&c, &crd).await;
    let path = place.widgets("v1");
    // Status is not the creator's to say, and so not checked.
    let body = with(
        widget(&place, "a", json!({"n": 1})),
        "/status",
        json!({"phase": 5}),
    );
    let made = create(&c, &path, &body).await;
    assert_eq!(made["status"], json!(null));
    let path = format!("{path}/a");
    let status = format!("{path}/status");
    let reply = c
        .api()
        .patch(&status, MERGE, json!({"status": {"phase": 5}}))
        .await;
    invalid(
        &reply,
        &["TypeInvalid status.phase: phase in body must be of type string: \"integer\""],
    );
    let reply = c
        .api()
        .patch(&status, MERGE, json!({"status": {"other": 5}}))
        .await;
    invalid(&reply, &["Required status.phase: Required value"]);
    unchanged(&c, &path, &made).await;
    let after = patched(&c, &status, json!({"status": {"phase": "up", "other": 1}})).await;
    assert_eq!(after["status"], json!({"phase": "up"}));
    place.remove(&c).await;
}

async fn scale_numbers_are_checked(c: Cluster) {
    let place = Place::new(&c).await;
    let schema = object_of(json!({"spec": object_of(json!({"n": {"type": "integer"}}))}));
    let scale = json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    install(
        &c,
        &with(crd_of(&place, schema), "/spec/versions/0/subresources", scale),
    )
    .await;
    let path = place.widgets("v1");
    let specs = vec![
        (
            json!({"n": -1}),
            vec!["Invalid .spec.n: Invalid value: -1: should be a non-negative integer"],
        ),
        (
            json!({"n": 3_000_000_000_i64}),
            vec!["Invalid .spec.n: should be less than or equal to 2147483647"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    place.remove(&c).await;
}

/// What an update does not touch is not held against rules that are younger than the object.
async fn unchanged_parts_are_forgiven(c: Cluster) {
    let place = Place::new(&c).await;
    let schema = |most: i64| {
        let field = json!({"type": "integer", "maximum": most});
        object_of(json!({"spec": object_of(json!({"a": field, "b": field}))}))
    };
    let crd = install(&c, &crd_of(&place, schema(100))).await;
    let path = place.widgets("v1");
    let made = create(&c, &path, &widget(&place, "a", json!({"a": 50, "b": 1}))).await;
    let changed = with(crd, "/spec/versions/0/schema/openAPIV3Schema", schema(10));
    c.api().put(&place.crd_path("widgets"), changed).await.expect(200);
    crate::support::soon("the new schema is in force", async || {
        let body = widget(&place, "b", json!({"a": 50}));
        (c.api().post(&format!("{path}?dryRun=All"), body).await.status == 422).then_some(())
    })
    .await;
    let path = format!("{path}/a");
    let after = patched(&c, &path, json!({"spec": {"b": 2}})).await;
    assert_eq!(after["spec"], json!({"a": 50, "b": 2}));
    let reply = c.api().patch(&path, MERGE, json!({"spec": {"a": 51}})).await;
    invalid(
        &reply,
        &["Invalid spec.a: spec.a in body should be less than or equal to 10"],
    );
    assert_ne!(made, after);
    place.remove(&c).await;
}
