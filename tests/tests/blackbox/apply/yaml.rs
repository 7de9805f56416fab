//! Bodies in YAML, wherever a body is JSON.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{apps, core, deployment},
    test,
};
use http::Method;
use serde_json::json;

use crate::expect::{bad_request_starting, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(objects_are_created_and_updated),
        test!(scalars_are_those_of_yaml_1_1),
        test!(what_is_no_yaml_is_refused),
        test!(keys_that_stand_twice_are_told).since(1, 36),
        test!(subresources_and_options_too).since(1, 36),
    ]
}

const YAML: [(&str, &str); 1] = [("content-type", "application/yaml")];

async fn objects_are_created_and_updated(c: Cluster) {
    let ns = c.namespace().await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    two\n    lines\n";
    let made = c
        .api()
        .request(Method::POST, &core(&ns, "configmaps"), &YAML, text)
        .await
        .expect(201);
    assert_eq!(made["data"], json!({"k": "two\nlines\n"}));
    let text =
        "# a comment\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {l: &x '1', m: *x}}\n";
    let path = core(&ns, "configmaps/a");
    let changed = c.api().request(Method::PUT, &path, &YAML, text).await.expect(200);
    assert_eq!(changed["data"], json!({"l": "1", "m": "1"}));
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"k":"\u0041"}}"#;
    let made = c
        .api()
        .request(Method::POST, &core(&ns, "configmaps"), &YAML, json)
        .await
        .expect(201);
    assert_eq!(made["data"], json!({"k": "A"}), "JSON is YAML");
}

async fn scalars_are_those_of_yaml_1_1(c: Cluster) {
    let ns = c.namespace().await;
    for wrong in ["yes", "off", "1", "1.5", "[x]", "{a: b}"] {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{k: {wrong}}}\n");
        let reply = c
            .api()
            .request(Method::POST, &core(&ns, "configmaps"), &YAML, text.as_str())
            .await;
        reply.expect_error(400, "BadRequest");
    }
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 'yes', b: x-1, c: 1.2.3, d: \"010\", e: ~}\n";
    let made = c
        .api()
        .request(Method::POST, &core(&ns, "configmaps"), &YAML, text)
        .await
        .expect(201);
    assert_eq!(
        made["data"],
        json!({"a": "yes", "b": "x-1", "c": "1.2.3", "d": "010", "e": ""})
    );
}

async fn what_is_no_yaml_is_refused(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let made = c
        .api()
        .request(Method::POST, &core(&ns, "configmaps"), &YAML, text)
        .await
        .expect(201);
    for wrong in ["a: b: c", "- a", "{a", "\t- x"] {
        let reply = c.api().request(Method::PUT, &path, &YAML, wrong).await;
        if speaks_1_36(&c) {
            let start = "the object provided is unrecognized (must be of type ConfigMap): ";
            bad_request_starting(&reply, start);
        } else {
            assert!((400..=500).contains(&reply.status), "{reply}");
        }
    }
    let other = [("content-type", "text/plain")];
    let reply = c.api().request(Method::PUT, &path, &other, text).await;
    reply.expect_error(415, "UnsupportedMediaType");
    unchanged(&c, &path, &made).await;
}

async fn keys_that_stand_twice_are_told(c: Cluster) {
    let ns = c.namespace().await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: \"1\"}\ndata: {k: \"2\"}\n";
    let strict = core(&ns, "configmaps?fieldValidation=Strict");
    let reply = c.api().request(Method::POST, &strict, &YAML, text).await;
    reply.expect_error(400, "BadRequest");
    let line = "line 5: key \"data\" already set in map";
    let what = format!("strict decoding error: yaml: unmarshal errors:\n  {line}");
    reply.check(reply.message().ends_with(&what), &what);
    let reply = c
        .api()
        .request(Method::POST, &core(&ns, "configmaps"), &YAML, text)
        .await;
    assert_eq!(reply.expect(201)["data"], json!({"k": "2"}));
    assert_eq!(reply.header("warning"), Some(format!("299 - {line:?}").as_str()));
}

async fn subresources_and_options_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let scale = "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: a}\nspec: {replicas: 4}\n";
    let scaled = c
        .api()
        .request(Method::PUT, &format!("{path}/scale"), &YAML, scale)
        .await
        .expect(200);
    assert_eq!(scaled["spec"]["replicas"], 4);
    let options = "apiVersion: v1\nkind: DeleteOptions\npropagationPolicy: Foreground\n";
    let marked = c
        .api()
        .request(Method::DELETE, &path, &YAML, options)
        .await
        .expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}
