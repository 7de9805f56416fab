//! `fieldValidation` of custom resources: fields that the schema does not have, and fields that stand twice.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::json;

use super::super::{Place, install};
use super::{crd_of, object_of, spec_of};
use crate::expect;
use crate::support::{JSON_PATCH, MERGE, create};

pub fn tests() -> Vec<Test> {
    vec![
        test!(strict_creates).since(1, 27),
        test!(strict_updates).since(1, 27),
        test!(strict_patches).since(1, 27),
        test!(strict_applies).since(1, 27),
        test!(strict_yaml).since(1, 27),
        test!(strict_status).since(1, 27),
        test!(warnings_name_each_field).since(1, 27),
        test!(warnings_come_with_errors_too).since(1, 27),
        test!(ignore_says_nothing).since(1, 27),
        test!(what_is_preserved_is_known).since(1, 27),
    ]
}

const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const START: &str = "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: ";

async fn widgets(c: &Cluster) -> (Place, String) {
    let place = Place::new(c).await;
    let part = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let mut schema = spec_of(object_of(json!({
        "a": {"type": "string"},
        "parts": {"type": "array", "items": part},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })));
    schema["properties"]["status"] = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut crd = crd_of(&place, schema);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    install(c, &crd).await;
    let path = place.widgets("v1");
    (place, path)
}

/// A widget as text, so that fields can stand twice.
fn text(place: &Place, rest: &str) -> String {
    format!(
        r#"{{"apiVersion": "{}/v1", "kind": "Widget", "metadata": {{"name": "a"}}, {rest}}}"#,
        place.group
    )
}

const ODD: &str = r#""spec": {"a": "1", "a": "2", "nope": 1, "parts": [{"name": "n", "no": 1}]}, "nix": 1"#;
const ODD_FIELDS: [&str; 4] = [
    r#"duplicate field "spec.a""#,
    r#"unknown field "nix""#,
    r#"unknown field "spec.nope""#,
    r#"unknown field "spec.parts[0].no""#,
];

fn warnings(reply: &Reply) -> Vec<String> {
    let values = reply.headers.get_all("warning").iter();
    values
        .map(|value| {
            String::from_utf8_lossy(value.as_bytes())
                .replace("299 - ", "")
                .replace("\\\"", "'")
        })
        .collect()
}

fn warned(fields: &[&str]) -> Vec<String> {
    let quoted = |field: &&str| format!("\"{}\"", field.replace('"', "'"));
    fields.iter().map(quoted).collect()
}

async fn strict_creates(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let reply = c
        .api()
        .post(
            &format!("{path}?fieldValidation=Strict"),
            text(&place, ODD).as_str(),
        )
        .await;
    expect::bad_request(&reply, &format!("{START}{}", ODD_FIELDS.join(", ")));
    let meta = json!({
        "apiVersion": format!("{}/v1", place.group),
        "kind": "Widget",
        "metadata": {"name": "a", "odd": 1},
    });
    let reply = c
        .api()
        .post(&format!("{path}?fieldValidation=Strict"), meta)
        .await;
    expect::bad_request(&reply, &format!("{START}unknown field \"metadata.odd\""));
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(list["items"], json!([]));
    place.remove(&c).await;
}

async fn strict_updates(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let made = create(&c, &path, &place.widget("a")).await;
    let path = format!("{path}/a");
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let odd = text(&place, ODD).replace(
        r#"{"name": "a"}"#,
        &format!(r#"{{"name": "a", "resourceVersion": "{version}"}}"#),
    );
    let reply = c
        .api()
        .put(&format!("{path}?fieldValidation=Strict"), odd.as_str())
        .await;
    expect::bad_request(&reply, &format!("{START}{}", ODD_FIELDS.join(", ")));
    expect::unchanged(&c, &path, &made).await;
    let reply = c.api().put(&path, odd.as_str()).await;
    let changed = reply.expect(200);
    assert_eq!(changed["spec"], json!({"a": "2", "parts": [{"name": "n"}]}));
    assert_eq!(warnings(&reply), warned(&ODD_FIELDS));
    place.remove(&c).await;
}

async fn strict_patches(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let made = create(&c, &path, &place.widget("a")).await;
    let path = format!("{path}/a");
    for (kind, change, fields) in [
        (
            MERGE,
            r#"{"spec": {"nope": 1, "a": "1", "a": "2"}}"#,
            &[r#"duplicate field "spec.a""#, r#"unknown field "spec.nope""#][..],
        ),
        (
            JSON_PATCH,
            r#"[{"op": "add", "path": "/spec", "value": {"nope": 1}}]"#,
            &[r#"unknown field "spec.nope""#],
        ),
    ] {
        let reply = c
            .api()
            .patch(&format!("{path}?fieldValidation=Strict"), kind, change)
            .await;
        reply.expect_error(422, "Invalid");
        let end = format!("strict decoding error: {}", fields.join(", "));
        let causes = reply.causes();
        reply.check(
            causes.len() == 1 && causes[0].field == "patch" && causes[0].message.ends_with(&end),
            &format!("expected {end}"),
        );
        expect::unchanged(&c, &path, &made).await;
        let reply = c.api().patch(&format!("{path}?dryRun=All"), kind, change).await;
        reply.expect(200);
        assert_eq!(warnings(&reply), warned(fields));
    }
    place.remove(&c).await;
}

async fn strict_applies(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let strict = format!("{path}/a?fieldManager=m&fieldValidation=Strict");
    let head = format!(
        "apiVersion: {}/v1\nkind: Widget\nmetadata: {{name: a}}\n",
        place.group
    );
    let unknown = format!("{head}spec: {{nope: 1}}\n");
    let reply = c.api().patch(&strict, APPLY, unknown.as_str()).await;
    // The merge knows the schema, and says so before anybody is strict.
    reply.expect_error(500, "");
    let why = ".spec.nope: field not declared in schema";
    reply.check(reply.message().ends_with(why), &format!("expected {why}"));
    let twice = format!("{head}spec:\n  a: one\n  a: two\n");
    let reply = c.api().patch(&strict, APPLY, twice.as_str()).await;
    reply.expect_error(400, "BadRequest");
    reply.check(
        reply.message().contains("key \"a\" already set in map"),
        "expected the key that stands twice",
    );
    c.api()
        .get(&format!("{path}/a"))
        .await
        .expect_error(404, "NotFound");
    place.remove(&c).await;
}

async fn strict_yaml(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let body = format!(
        "apiVersion: {}/v1\nkind: Widget\nmetadata: {{name: a}}\nspec:\n  a: one\n  a: two\n  nope: 1\n",
        place.group
    );
    let post = async |query: &str| {
        let headers = [("content-type", YAML)];
        c.api()
            .request(Method::POST, &format!("{path}{query}"), &headers, body.as_str())
            .await
    };
    let reply = post("?fieldValidation=Strict").await;
    reply.expect_error(400, "BadRequest");
    for part in ["key \"a\" already set in map", "unknown field \"spec.nope\""] {
        reply.check(reply.message().contains(part), &format!("expected {part}"));
    }
    let reply = post("").await;
    assert_eq!(reply.expect(201)["spec"], json!({"a": "two"}));
    assert_eq!(warnings(&reply).len(), 2, "{reply}");
    place.remove(&c).await;
}

async fn strict_status(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let made = create(&c, &path, &place.widget("a")).await;
    let mut odd = made.clone();
    odd["status"] = json!({"a": "1", "nope": 1});
    let reply = c
        .api()
        .put(&format!("{path}/a/status?fieldValidation=Strict"), &odd)
        .await;
    expect::bad_request(&reply, &format!("{START}unknown field \"status.nope\""));
    let reply = c.api().put(&format!("{path}/a/status"), &odd).await;
    assert_eq!(reply.expect(200)["status"], json!({"a": "1"}));
    assert_eq!(warnings(&reply), warned(&[r#"unknown field "status.nope""#]));
    place.remove(&c).await;
}

async fn warnings_name_each_field(c: Cluster) {
    let (place, path) = widgets(&c).await;
    for query in ["", "?fieldValidation=Warn"] {
        let reply = c
            .api()
            .post(&format!("{path}{query}"), text(&place, ODD).as_str())
            .await;
        assert_eq!(
            reply.expect(201)["spec"],
            json!({"a": "2", "parts": [{"name": "n"}]})
        );
        assert_eq!(warnings(&reply), warned(&ODD_FIELDS));
        c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    }
    place.remove(&c).await;
}

async fn warnings_come_with_errors_too(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let odd = text(&place, r#""spec": {"a": 1, "nope": 1}"#);
    let reply = c.api().post(&path, odd.as_str()).await;
    reply.expect_error(422, "Invalid");
    assert_eq!(warnings(&reply), warned(&[r#"unknown field "spec.nope""#]));
    let made = create(&c, &path, &place.widget("a")).await;
    let change = r#"{"spec": {"a": 1, "nope": 1}}"#;
    let reply = c.api().patch(&format!("{path}/a"), MERGE, change).await;
    reply.expect_error(422, "Invalid");
    assert_eq!(warnings(&reply), warned(&[r#"unknown field "spec.nope""#]));
    expect::unchanged(&c, &format!("{path}/a"), &made).await;
    // An apply is strict last.
    let config = format!(
        "apiVersion: {}/v1\nkind: Widget\nmetadata: {{name: a}}\nspec: {{a: one, a: two, nope: 1}}\n",
        place.group
    );
    let strict = format!("{path}/a?fieldManager=m&fieldValidation=Strict");
    let reply = c.api().patch(&strict, APPLY, config.as_str()).await;
    reply.expect_error(500, "");
    place.remove(&c).await;
}

async fn ignore_says_nothing(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let reply = c
        .api()
        .post(
            &format!("{path}?fieldValidation=Ignore"),
            text(&place, ODD).as_str(),
        )
        .await;
    assert_eq!(
        reply.expect(201)["spec"],
        json!({"a": "2", "parts": [{"name": "n"}]})
    );
    assert_eq!(warnings(&reply), [""; 0]);
    place.remove(&c).await;
}

async fn what_is_preserved_is_known(c: Cluster) {
    let (place, path) = widgets(&c).await;
    let mut body = place.widget("a");
    body["spec"] = json!({"open": {"x": {"y": [1]}}});
    let reply = c
        .api()
        .post(&format!("{path}?fieldValidation=Strict"), &body)
        .await;
    assert_eq!(reply.expect(201)["spec"], body["spec"]);
    assert_eq!(warnings(&reply), [""; 0]);
    place.remove(&c).await;
}
