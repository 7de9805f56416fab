//! JSON patch (RFC 6902), with the liberties that the server takes.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{JSON_PATCH, config_map, core, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::{bad_request_starting, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(add_replace_move_copy_and_remove),
        test!(test_guards_what_follows),
        test!(pointers_escape_slash_and_tilde),
        test!(lists_are_addressed_by_index),
        test!(missing_paths_are_refused),
        test!(replace_adds_a_missing_key),
        test!(missing_value_is_null),
        test!(document_may_be_replaced).since(1, 36),
        test!(unknown_operations_are_refused),
        test!(patch_that_is_no_list_is_a_bad_request),
        test!(at_most_10000_operations),
    ]
}

/// A `ConfigMap` with two keys and two finalizers.
async fn create(c: &Cluster) -> (String, Value) {
    let ns = c.namespace().await;
    let change = json!({"data": {"k": "1", "l": "2"}, "metadata": {"finalizers": ["a.b/c", "a.b/d"]}});
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), with(config_map("a"), change))
        .await
        .expect(201);
    (core(&ns, "configmaps/a"), made)
}

/// Asserts the refusal of a patch that cannot be applied. The real server does not say why.
#[track_caller]
fn refused(reply: &Reply) {
    reply.expect_error(422, "Invalid");
    let message = "the server rejected our request due to an error in our request";
    reply.check(
        reply.message().starts_with(message),
        &format!("expected {message}"),
    );
}

async fn add_replace_move_copy_and_remove(c: Cluster) {
    let (path, _) = create(&c).await;
    for (operation, data) in [
        (
            json!({"op": "add", "path": "/data/n", "value": "3"}),
            json!({"k": "1", "l": "2", "n": "3"}),
        ),
        (
            json!({"op": "add", "path": "/data/n", "value": "5"}),
            json!({"k": "1", "l": "2", "n": "5"}),
        ),
        (
            json!({"op": "replace", "path": "/data/n", "value": "4"}),
            json!({"k": "1", "l": "2", "n": "4"}),
        ),
        (
            json!({"op": "move", "from": "/data/n", "path": "/data/m"}),
            json!({"k": "1", "l": "2", "m": "4"}),
        ),
        (
            json!({"op": "copy", "from": "/data/m", "path": "/data/k"}),
            json!({"k": "4", "l": "2", "m": "4"}),
        ),
        (
            json!({"op": "remove", "path": "/data/m"}),
            json!({"k": "4", "l": "2"}),
        ),
        (
            json!({"op": "replace", "path": "/data", "value": {"z": "0"}}),
            json!({"z": "0"}),
        ),
    ] {
        let changed = c
            .api()
            .patch(&path, JSON_PATCH, json!([operation]))
            .await
            .expect(200);
        assert_eq!(changed["data"], data, "{operation}");
    }
}

async fn test_guards_what_follows(c: Cluster) {
    let (path, made) = create(&c).await;
    let write = json!({"op": "replace", "path": "/data/k", "value": "9"});
    for value in [json!("wrong"), json!(1), json!(null)] {
        let test = json!({"op": "test", "path": "/data/k", "value": value});
        refused(&c.api().patch(&path, JSON_PATCH, json!([test, write])).await);
        // Nothing of it is done, wherever the test stands.
        refused(&c.api().patch(&path, JSON_PATCH, json!([write, test])).await);
    }
    refused(
        &c.api()
            .patch(
                &path,
                JSON_PATCH,
                json!([{"op": "test", "path": "/data/nope", "value": "x"}]),
            )
            .await,
    );
    unchanged(&c, &path, &made).await;
    let tests = json!([
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]},
        {"op": "test", "path": "/metadata/finalizers", "value": ["a.b/c", "a.b/d"]},
        {"op": "test", "path": "/data", "value": {"l": "2", "k": "1"}},
        {"op": "test", "path": "/data/nope", "value": null},
        write,
    ]);
    let changed = c.api().patch(&path, JSON_PATCH, tests).await.expect(200);
    assert_eq!(changed["data"]["k"], "9");
}

async fn pointers_escape_slash_and_tilde(c: Cluster) {
    let (path, _) = create(&c).await;
    let operations = json!([
        {"op": "add", "path": "/metadata/annotations", "value": {"example.com/a": "1"}},
        {"op": "replace", "path": "/metadata/annotations/example.com~1a", "value": "2"},
        {"op": "add", "path": "/metadata/annotations/example.com~1b", "value": "3"},
    ]);
    let changed = c.api().patch(&path, JSON_PATCH, operations).await.expect(200);
    assert_eq!(
        changed["metadata"]["annotations"],
        json!({"example.com/a": "2", "example.com/b": "3"})
    );
}

async fn lists_are_addressed_by_index(c: Cluster) {
    let (path, _) = create(&c).await;
    for (operation, finalizers) in [
        (
            json!({"op": "add", "path": "/metadata/finalizers/-", "value": "a.b/e"}),
            json!(["a.b/c", "a.b/d", "a.b/e"]),
        ),
        (
            json!({"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/0"}),
            json!(["a.b/0", "a.b/c", "a.b/d", "a.b/e"]),
        ),
        (
            json!({"op": "remove", "path": "/metadata/finalizers/1"}),
            json!(["a.b/0", "a.b/d", "a.b/e"]),
        ),
        (
            json!({"op": "replace", "path": "/metadata/finalizers/0", "value": "a.b/1"}),
            json!(["a.b/1", "a.b/d", "a.b/e"]),
        ),
        // Not in the RFC: from the end.
        (
            json!({"op": "remove", "path": "/metadata/finalizers/-1"}),
            json!(["a.b/1", "a.b/d"]),
        ),
        (
            json!({"op": "replace", "path": "/metadata/finalizers", "value": null}),
            Value::Null,
        ),
    ] {
        let changed = c
            .api()
            .patch(&path, JSON_PATCH, json!([operation]))
            .await
            .expect(200);
        assert_eq!(changed["metadata"]["finalizers"], finalizers, "{operation}");
    }
}

async fn missing_paths_are_refused(c: Cluster) {
    let (path, made) = create(&c).await;
    for operation in [
        json!({"op": "remove", "path": "/data/nope"}),
        json!({"op": "add", "path": "/nope/deep", "value": "x"}),
        json!({"op": "add", "path": "/metadata/annotations/x", "value": "y"}),
        json!({"op": "add", "path": "no-pointer", "value": "x"}),
        json!({"op": "replace", "path": "/nope/deep", "value": "x"}),
        json!({"op": "move", "from": "/data/nope", "path": "/data/x"}),
        json!({"op": "remove", "path": "/metadata/finalizers/9"}),
        json!({"op": "add", "path": "/metadata/finalizers/9", "value": "a.b/z"}),
        json!({"op": "replace", "path": "/metadata/finalizers/x", "value": "a.b/z"}),
    ] {
        refused(&c.api().patch(&path, JSON_PATCH, json!([operation])).await);
    }
    unchanged(&c, &path, &made).await;
}

/// Other than the RFC has it.
async fn replace_adds_a_missing_key(c: Cluster) {
    let (path, _) = create(&c).await;
    let operations = json!([{"op": "replace", "path": "/data/new", "value": "x"}]);
    let changed = c.api().patch(&path, JSON_PATCH, operations).await.expect(200);
    assert_eq!(changed["data"], json!({"k": "1", "l": "2", "new": "x"}));
}

/// And null where a text belongs is an empty one.
async fn missing_value_is_null(c: Cluster) {
    let (path, _) = create(&c).await;
    let operations =
        json!([{"op": "add", "path": "/data/n"}, {"op": "copy", "from": "/data/nope", "path": "/data/l"}]);
    let changed = c.api().patch(&path, JSON_PATCH, operations).await.expect(200);
    assert_eq!(changed["data"], json!({"k": "1", "l": "", "n": ""}));
}

async fn document_may_be_replaced(c: Cluster) {
    let (path, made) = create(&c).await;
    let operations = json!([{"op": "replace", "path": "", "value": config_map("a")}]);
    let changed = c.api().patch(&path, JSON_PATCH, operations).await.expect(200);
    assert_eq!(changed["data"], json!({"k": "v"}));
    assert_eq!(changed["metadata"]["finalizers"], Value::Null);
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
}

async fn unknown_operations_are_refused(c: Cluster) {
    let (path, made) = create(&c).await;
    for operation in [
        json!({"op": "frob", "path": "/data/k"}),
        json!({"path": "/data/k"}),
        json!({}),
    ] {
        refused(&c.api().patch(&path, JSON_PATCH, json!([operation])).await);
    }
    unchanged(&c, &path, &made).await;
}

async fn patch_that_is_no_list_is_a_bad_request(c: Cluster) {
    let (path, made) = create(&c).await;
    let start = if speaks_1_36(&c) {
        "error decoding patch: "
    } else {
        ""
    };
    for body in [r#"{"op": "add"}"#, "[1]", "nope", "[", ""] {
        bad_request_starting(&c.api().patch(&path, JSON_PATCH, body).await, start);
    }
    unchanged(&c, &path, &made).await;
    assert_eq!(
        c.api().patch(&path, JSON_PATCH, "null").await.expect(200),
        made,
        "null is a list of none"
    );
}

async fn at_most_10000_operations(c: Cluster) {
    let (path, made) = create(&c).await;
    let operations = vec![json!({"op": "add", "path": "/data/n", "value": "3"}); 10_001];
    let reply = c.api().patch(&path, JSON_PATCH, json!(operations)).await;
    reply.expect_error(413, "RequestEntityTooLarge");
    let message =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    reply.check(reply.message() == message, &format!("expected {message}"));
    unchanged(&c, &path, &made).await;
    c.api()
        .patch(&path, JSON_PATCH, json!(operations[1..]))
        .await
        .expect(200);
}
