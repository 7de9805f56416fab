//! Custom resources: their schema says how their lists and maps merge.

use std::time::Duration;

use coxswain_tests::{
    Cluster, Test,
    fixtures::{CRDS, MERGE, definition, undefine},
    test, time,
};
use serde_json::{Value, json};

use super::{apply, fields, managers};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(lists_and_maps_follow_the_schema),
        test!(whoever_creates_has_what_is_not_always_there),
        test!(status_is_tracked_apart),
        test!(what_is_not_in_the_schema_is_refused),
        test!(what_cannot_be_compared_is_nobodys),
        test!(what_becomes_something_else_loses_what_was_below_it),
        test!(times_that_are_none_are_left_out),
        test!(a_definition_is_written_by_two).since(1, 36),
        test!(who_applies_another_version_is_the_same),
    ];
    tests.into_iter().map(|test| test.since(1, 36)).collect()
}

/// Defines a kind with one list and map of each sort, and returns the path of its objects.
async fn define(c: &Cluster, singular: &str) -> String {
    let item = json!({"type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"}, "zone": {"type": "string", "default": "z"}, "v": {"type": "string"},
    }});
    let spec = json!({"type": "object", "properties": {
        "keyed": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id", "zone"], "items": item},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "number": {"type": "integer"},
    }});
    let condition = json!({"type": "object", "required": ["type"],
        "properties": {"type": {"type": "string"}, "status": {"type": "string"}}});
    let status = json!({"type": "object", "properties": {"conditions": {"type": "array",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": condition}}});
    let mut crd = definition(singular, &json!({"status": {}}));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "properties": {"spec": spec, "status": status}});
    c.api().post(CRDS, crd).await.expect(201);
    let ns = c.namespace().await;
    let path = format!("/apis/example.com/v1/namespaces/{ns}/{singular}s");
    let served = time::eventually(Duration::from_mins(1), async || {
        (c.api().get(&path).await.status == 200).then_some(())
    });
    assert!(served.await.is_some(), "{path} is not served");
    path
}

fn object(kind: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}});
    for (field, value) in rest.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

async fn lists_and_maps_follow_the_schema(c: Cluster) {
    let path = format!("{}/a", define(&c, "applieda").await);
    let of = |spec: Value| object("Applieda", &json!({"spec": spec}));
    let one = json!({
        "keyed": [{"id": 1, "zone": "a", "v": "x"}], "set": ["a", "b"], "plain": ["p"], "whole": {"a": "1"},
        "map": {"k": "1"}, "free": {"x": {"y": 1}},
    });
    apply(&c, &path, "one", "", &of(one)).await.expect(201);
    let two = json!({
        "keyed": [{"id": 2, "zone": "a", "v": "y"}], "set": ["c", "a"], "map": {"l": "1"}, "free": {"x": {"z": 1}},
    });
    let both = apply(&c, &path, "two", "", &of(two)).await.expect(200);
    assert_eq!(both["spec"]["keyed"].as_array().map(Vec::len), Some(2));
    assert_eq!(both["spec"]["set"].as_array().map(Vec::len), Some(3));
    assert_eq!(both["spec"]["map"], json!({"k": "1", "l": "1"}));
    assert_eq!(both["spec"]["free"], json!({"x": {"y": 1, "z": 1}}));
    let own = json!({"f:spec": {
        "f:keyed": {"k:{\"id\":2,\"zone\":\"a\"}": {".": {}, "f:id": {}, "f:v": {}, "f:zone": {}}},
        "f:set": {"v:\"a\"": {}, "v:\"c\"": {}}, "f:map": {"f:l": {}},
        "f:free": {"f:x": {".": {}, "f:z": {}}},
    }});
    assert_eq!(fields(&both, "two", "Apply"), own);
    let refused = apply(
        &c,
        &path,
        "two",
        "",
        &of(json!({"plain": ["q"], "whole": {"b": "1"}})),
    )
    .await;
    refused.expect_error(409, "Conflict");
    let mut wrong: Vec<String> = refused.causes().into_iter().map(|cause| cause.field).collect();
    wrong.sort();
    assert_eq!(wrong, [".spec.plain", ".spec.whole"]);
    let left = apply(&c, &path, "one", "", &of(json!({"set": ["b"]})))
        .await
        .expect(200);
    assert_eq!(left["spec"]["keyed"], json!([{"id": 2, "zone": "a", "v": "y"}]));
    assert_eq!(
        (left["spec"].get("plain"), left["spec"].get("whole")),
        (None, None)
    );
    assert_eq!(left["spec"]["map"], json!({"l": "1"}));
    undefine(&c, "applieda").await;
}

async fn whoever_creates_has_what_is_not_always_there(c: Cluster) {
    let path = define(&c, "appliedb").await;
    let made = object(
        "Appliedb",
        &json!({"spec": {"number": 1, "keyed": [{"id": 1, "zone": "a"}]}}),
    );
    let made = c
        .api()
        .post(&format!("{path}?fieldManager=m"), made)
        .await
        .expect(201);
    let item = json!({".": {}, "f:id": {}, "f:zone": {}});
    let own = json!({"f:spec": {
        ".": {}, "f:number": {}, "f:keyed": {".": {}, "k:{\"id\":1,\"zone\":\"a\"}": item},
    }});
    assert_eq!(fields(&made, "m", "Update"), own);
    let changed = c
        .api()
        .patch(
            &format!("{path}/a?fieldManager=n"),
            MERGE,
            json!({"spec": {"number": 2}}),
        )
        .await;
    let changed = changed.expect(200);
    assert_eq!(
        fields(&changed, "n", "Update"),
        json!({"f:spec": {"f:number": {}}})
    );
    undefine(&c, "appliedb").await;
}

async fn status_is_tracked_apart(c: Cluster) {
    let path = define(&c, "appliedc").await;
    let of = |rest: Value| object("Appliedc", &rest);
    apply(
        &c,
        &format!("{path}/a"),
        "m",
        "",
        &of(json!({"spec": {"number": 1}})),
    )
    .await
    .expect(201);
    let mut config =
        of(json!({"spec": {"number": 2}, "status": {"conditions": [{"type": "A", "status": "T"}]}}));
    config["metadata"]["labels"] = json!({"l": "1"});
    let done = apply(&c, &format!("{path}/a/status"), "m", "", &config)
        .await
        .expect(200);
    assert_eq!(
        (&done["spec"]["number"], done["metadata"].get("labels")),
        (&json!(1), None)
    );
    assert_eq!(managers(&done), ["m", "m"]);
    let own = json!({"f:status": {"f:conditions": {"k:{\"type\":\"A\"}": {".": {}, "f:status": {}, "f:type": {}}}}});
    assert_eq!(fields(&done, "m", "Apply status"), own);
    assert_eq!(fields(&done, "m", "Apply"), json!({"f:spec": {"f:number": {}}}));
    undefine(&c, "appliedc").await;
}

async fn what_is_not_in_the_schema_is_refused(c: Cluster) {
    let path = format!("{}/a", define(&c, "appliedd").await);
    let of = |spec: Value| object("Appliedd", &json!({"spec": spec}));
    for (spec, end) in [
        (json!({"nope": 1}), ".spec.nope: field not declared in schema"),
        (
            json!({"number": "x"}),
            ".spec.number: expected numeric (int or float), got string",
        ),
        (
            json!({"set": ["a", "a"]}),
            ".spec.set: duplicate entries for key [=\"a\"]",
        ),
        (json!({"set": "x"}), ".spec.set: expected list, got &{x}"),
    ] {
        let reply = apply(&c, &path, "m", "", &of(spec)).await;
        assert_eq!(reply.status, 500, "{reply}");
        reply.check(reply.message().ends_with(end), end);
    }
    c.api().get(&path).await.expect_error(404, "NotFound");
    undefine(&c, "appliedd").await;
}

/// Its creator, and the server that accepts its names.
async fn a_definition_is_written_by_two(c: Cluster) {
    define(&c, "appliede").await;
    let crd = c
        .api()
        .get(&format!("{CRDS}/appliedes.example.com"))
        .await
        .expect(200);
    let own = fields(&crd, "kube-apiserver", "Update status");
    let condition = &own["f:status"]["f:conditions"]["k:{\"type\":\"Established\"}"];
    assert_eq!(condition["f:status"], json!({}), "{crd:#}");
    undefine(&c, "appliede").await;
}

/// Where an object does not fit its schema in a part that is not stored anyway, its managers are forgotten.
async fn what_cannot_be_compared_is_nobodys(c: Cluster) {
    let path = define(&c, "appliedf").await;
    let of = |rest: Value| object("Appliedf", &rest);
    let made = of(json!({"spec": {"number": 1}}));
    c.api().post(&path, made).await.expect(201);
    let one = format!("{path}/a");
    let known = c
        .api()
        .patch(&one, MERGE, json!({"status": {"conditions": []}}))
        .await;
    assert_eq!(managers(&known.expect(200)).len(), 1);
    let patched = c
        .api()
        .patch(&one, MERGE, json!({"status": "x"}))
        .await
        .expect(200);
    assert_eq!(patched["metadata"].get("managedFields"), None, "{patched:#}");
    assert_eq!(patched["spec"], json!({"number": 1}));
    // The same of a manager of a version that is none of this kind.
    let mut claimed = of(json!({}));
    claimed["metadata"]["name"] = json!("b");
    claimed["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:x": {}}}}}]);
    let made = c.api().post(&path, claimed).await.expect(201);
    assert_eq!(made["metadata"].get("managedFields"), None, "{made:#}");
    undefine(&c, "appliedf").await;
}

async fn what_becomes_something_else_loses_what_was_below_it(c: Cluster) {
    let path = define(&c, "appliedg").await;
    let free = |value: Value| json!({"spec": {"free": {"x": value}}});
    let made = object("Appliedg", &free(json!({"y": 1, "z": {"w": 1}})));
    let by = |manager: &str| format!("{path}/a?fieldManager={manager}");
    c.api()
        .post(&format!("{path}?fieldManager=one"), made)
        .await
        .expect(201);
    let listed = c
        .api()
        .patch(&by("two"), MERGE, free(json!([1])))
        .await
        .expect(200);
    assert_eq!(
        fields(&listed, "one", "Update"),
        json!({"f:spec": {".": {}, "f:free": {}}})
    );
    assert_eq!(
        fields(&listed, "two", "Update"),
        json!({"f:spec": {"f:free": {"f:x": {}}}})
    );
    let mapped = c
        .api()
        .patch(&by("three"), MERGE, free(json!({"y": 2})))
        .await
        .expect(200);
    assert_eq!(fields(&mapped, "two", "Update"), json!(null));
    assert_eq!(
        fields(&mapped, "three", "Update"),
        json!({"f:spec": {"f:free": {"f:x": {".": {}, "f:y": {}}}}})
    );
    undefine(&c, "appliedg").await;
}

async fn times_that_are_none_are_left_out(c: Cluster) {
    let path = format!("{}/a", define(&c, "appliedh").await);
    let mut config = object("Appliedh", &json!({"spec": {"number": 1}}));
    config["metadata"]["creationTimestamp"] = json!("yesterday");
    let made = apply(&c, &path, "m", "", &config).await.expect(201);
    assert_ne!(made["metadata"]["creationTimestamp"], "yesterday");
    let again = apply(&c, &path, "m", "", &config).await.expect(200);
    assert_eq!(
        again["metadata"]["creationTimestamp"],
        made["metadata"]["creationTimestamp"]
    );
    undefine(&c, "appliedh").await;
}

async fn who_applies_another_version_is_the_same(c: Cluster) {
    let singular = "appliedv";
    let mut crd = definition(singular, &json!({}));
    let mut other = crd["spec"]["versions"][0].clone();
    (other["name"], other["storage"]) = (json!("v2"), json!(false));
    crd["spec"]["versions"]
        .as_array_mut()
        .expect("versions")
        .push(other);
    c.api().post(CRDS, crd).await.expect(201);
    let ns = c.namespace().await;
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/{ns}/{singular}s");
    for version in ["v1", "v2"] {
        let served = time::eventually(Duration::from_mins(1), async || {
            (c.api().get(&path(version)).await.status == 200).then_some(())
        });
        assert!(served.await.is_some(), "{version} is not served");
    }
    let config = |version: &str, spec: Value| {
        let mut config = object("Appliedv", &json!({"spec": spec}));
        config["apiVersion"] = json!(format!("example.com/{version}"));
        config
    };
    let first = config("v1", json!({"a": 1, "b": 1}));
    apply(&c, &format!("{}/a", path("v1")), "one", "", &first)
        .await
        .expect(201);
    let second = config("v2", json!({"b": 1}));
    let second = apply(&c, &format!("{}/a", path("v2")), "one", "", &second)
        .await
        .expect(200);
    assert_eq!(second["spec"], json!({"b": 1}));
    assert_eq!(managers(&second), ["one"]);
    assert_eq!(
        second["metadata"]["managedFields"][0]["apiVersion"],
        "example.com/v2"
    );
    undefine(&c, singular).await;
}
