//! Bad bodies and headers: every sort gets a clear Status, and nothing is stored.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, apps, config_map, core, deployment, with},
    test,
};
use http::Method;
use serde_json::{Value, json};

use crate::expect::{self, bad_request_starting, invalid, not_found, speaks_1_36};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(kind_and_version_may_be_left_out),
        test!(another_kind_is_a_bad_request),
        test!(unknown_kind_or_version_is_a_bad_request),
        test!(malformed_json_is_unrecognized),
        test!(json_that_is_no_object_is_unrecognized),
        test!(null_is_an_object_without_a_name),
        test!(empty_body_is_unrecognized),
        test!(wrong_field_type_is_a_bad_request),
        test!(body_over_3_mib_is_413),
        test!(unknown_content_type_is_415_and_lists_the_known),
        test!(missing_content_type_is_json),
        test!(yaml_is_understood),
        test!(unacceptable_accept_is_406_and_stores_nothing),
        test!(post_needs_the_collection_of_a_namespace),
    ]
}

const UNRECOGNIZED: &str = "the object provided is unrecognized (must be of type ConfigMap): ";

async fn kind_and_version_may_be_left_out(c: Cluster) {
    let ns = c.namespace().await;
    for body in [
        json!({"metadata": {"name": "neither"}}),
        json!({"kind": "ConfigMap", "metadata": {"name": "kind-only"}}),
        json!({"apiVersion": "v1", "metadata": {"name": "version-only"}}),
    ] {
        let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
        assert_eq!(
            (&made["kind"], &made["apiVersion"]),
            (&json!("ConfigMap"), &json!("v1"))
        );
    }
}

async fn another_kind_is_a_bad_request(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let secret = with(config_map("a"), json!({"kind": "Secret", "data": null}));
    let start = "Secret in version \"v1\" cannot be handled as a ConfigMap: ";
    bad_request_starting(&c.api().post(&path, &secret).await, start);
    let start = "Deployment in version \"v1\" cannot be handled as a ConfigMap: ";
    bad_request_starting(&c.api().post(&path, deployment("a")).await, start);
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
    let made = c.api().post(&path, config_map("a")).await.expect(201);
    c.api()
        .put(&format!("{path}/a"), secret)
        .await
        .expect_error(400, "BadRequest");
    expect::unchanged(&c, &format!("{path}/a"), &made).await;
}

async fn unknown_kind_or_version_is_a_bad_request(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for (version, kind) in [("v1", "Nope"), ("v2", "ConfigMap"), ("v1", "configmap")] {
        let body = with(config_map("a"), json!({"apiVersion": version, "kind": kind}));
        let start = format!("{kind} in version {version:?} cannot be handled as a ConfigMap: ");
        bad_request_starting(&c.api().post(&path, body).await, &start);
    }
    let body = with(config_map("a"), json!({"apiVersion": "a/b/c"}));
    let start = format!("{UNRECOGNIZED}unexpected GroupVersion string: a/b/c (");
    bad_request_starting(&c.api().post(&path, body).await, &start);
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
}

async fn malformed_json_is_unrecognized(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let start = format!("{UNRECOGNIZED}couldn't get version/kind; json parse error: ");
    for body in [
        "{",
        "nonsense",
        r#"{"metadata": {"name": "a"}"#,
        r#"{"metadata": {"name": "a"}} more"#,
    ] {
        bad_request_starting(&c.api().post(&path, body).await, &start);
    }
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
}

async fn json_that_is_no_object_is_unrecognized(c: Cluster) {
    let ns = c.namespace().await;
    let start = format!("{UNRECOGNIZED}couldn't get version/kind; json parse error: ");
    for body in ["[]", "\"x\"", "3", "true"] {
        bad_request_starting(&c.api().post(&core(&ns, "configmaps"), body).await, &start);
    }
}

async fn null_is_an_object_without_a_name(c: Cluster) {
    let ns = c.namespace().await;
    let reply = c.api().post(&core(&ns, "configmaps"), "null").await;
    invalid(
        &reply,
        &["Required metadata.name: name or generateName is required"],
    );
}

async fn empty_body_is_unrecognized(c: Cluster) {
    let ns = c.namespace().await;
    let start = format!("{UNRECOGNIZED}couldn't get version/kind; json parse error: ");
    bad_request_starting(&c.api().post(&core(&ns, "configmaps"), ()).await, &start);
}

async fn wrong_field_type_is_a_bad_request(c: Cluster) {
    let ns = c.namespace().await;
    // Older servers print their parser's position instead.
    let check = |reply: &coxswain_tests::Reply, kind: &str, end: &str| {
        reply.expect_error(400, "BadRequest");
        let start = format!("{kind} in version \"v1\" cannot be handled as a {kind}: ");
        reply.check(reply.message().starts_with(&start), &format!("expected {start}"));
        if speaks_1_36(&c) {
            reply.check(reply.message().ends_with(end), &format!("expected {end}"));
        }
    };
    let path = core(&ns, "configmaps");
    for (change, end) in [
        (
            json!({"data": {"k": 5}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (json!({"metadata": []}), ""),
    ] {
        check(
            &c.api().post(&path, with(config_map("a"), change)).await,
            "ConfigMap",
            end,
        );
    }
    let path = apps(&ns, "deployments");
    for (replicas, what) in [
        (json!("x"), "string"),
        (json!(1.5), "number 1.5"),
        (json!(3_000_000_000_u64), "number 3000000000"),
    ] {
        let end = format!(
            "json: cannot unmarshal {what} into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        let body = with(deployment("a"), json!({"spec": {"replicas": replicas}}));
        check(&c.api().post(&path, body).await, "Deployment", &end);
    }
    let reply = c
        .api()
        .post(
            &core(&ns, "secrets"),
            json!({"metadata": {"name": "a"}, "data": {"k": "!!"}}),
        )
        .await;
    check(&reply, "Secret", "illegal base64 data at input byte 0");
    let list = c.api().get(&apps(&ns, "deployments")).await.expect(200);
    assert_eq!(list["items"], json!([]));
}

async fn body_over_3_mib_is_413(c: Cluster) {
    const LIMIT: usize = 3 * 1024 * 1024;
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.api().post(&path, config_map("a")).await.expect(201);
    let body = |size: usize| {
        let empty = with(config_map("a"), json!({"data": {"k": ""}})).to_string();
        let fill = "x".repeat(size - empty.len());
        with(config_map("a"), json!({"data": {"k": fill}}))
    };
    let check = |reply: coxswain_tests::Reply| {
        reply.expect_error(413, "RequestEntityTooLarge");
        reply.check(
            reply.message() == "Request entity too large: limit is 3145728",
            "another message",
        );
    };
    let named = format!("{path}/a");
    check(c.api().post(&path, body(LIMIT + 1)).await);
    check(c.api().put(&named, body(LIMIT + 1)).await);
    for patch in [MERGE, STRATEGIC, JSON_PATCH] {
        check(c.api().patch(&named, patch, body(LIMIT + 1)).await);
    }
    expect::unchanged(&c, &named, &made).await;
    // A byte less is read, and then too long for a ConfigMap.
    let reply = c.api().put(&named, body(LIMIT)).await;
    reply.expect_error(422, "Invalid");
    let cause = &reply.causes()[0];
    reply.check(
        cause.reason == "FieldValueTooLong" && cause.field == "[]",
        "expected that it is too long",
    );
}

async fn unknown_content_type_is_415_and_lists_the_known(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let start =
        "the body of the request was in an unknown format - accepted media types include: application/json";
    for content_type in ["text/plain", "application/xml", "nonsense"] {
        let headers = [("content-type", content_type)];
        let reply = c
            .api()
            .request(Method::POST, &path, &headers, config_map("a"))
            .await;
        reply.expect_error(415, "UnsupportedMediaType");
        // YAML and protobuf follow, and CBOR where it is switched on.
        reply.check(reply.message().starts_with(start), &format!("expected {start}"));
    }
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
}

async fn missing_content_type_is_json(c: Cluster) {
    let ns = c.namespace().await;
    for (name, content_type) in [("a", ""), ("b", "application/json; charset=utf-8")] {
        let headers = [("content-type", content_type)];
        let reply = c
            .api()
            .request(Method::POST, &core(&ns, "configmaps"), &headers, config_map(name))
            .await;
        assert_eq!(reply.expect(201)["data"]["k"], "v");
    }
}

async fn yaml_is_understood(c: Cluster) {
    let ns = c.namespace().await;
    let headers = [("content-type", "application/yaml")];
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {k: 'v'}\n";
    let reply = c
        .api()
        .request(Method::POST, &core(&ns, "configmaps"), &headers, body)
        .await;
    assert_eq!(reply.expect(201)["data"], json!({"k": "v"}));
}

async fn unacceptable_accept_is_406_and_stores_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    c.api().post(&path, config_map("a")).await.expect(201);
    let named = format!("{path}/a");
    // Half a wildcard is none.
    for accept in ["text/html", "application/xml", "application/*"] {
        let headers = [("accept", accept)];
        for reply in [
            c.api().request(Method::GET, &named, &headers, ()).await,
            c.api()
                .request(Method::POST, &path, &headers, config_map("b"))
                .await,
        ] {
            reply.expect_error(406, "NotAcceptable");
            reply.check(
                reply.message().starts_with("406: Not Acceptable"),
                "another message",
            );
        }
    }
    not_found(&c.api().get(&format!("{path}/b")).await, "configmaps", "b");
    for accept in ["*/*", "text/html, */*;q=0.1", "application/xml, application/json"] {
        let reply = c
            .api()
            .request(Method::GET, &named, &[("accept", accept)], ())
            .await;
        assert_eq!(reply.expect(200)["kind"], "ConfigMap", "{accept}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
}

async fn post_needs_the_collection_of_a_namespace(c: Cluster) {
    let ns = c.namespace().await;
    let inside = with(config_map("a"), json!({"metadata": {"namespace": ns}}));
    for path in [
        core(&ns, "configmaps/a"),
        "/api/v1/configmaps".to_owned(),
        core(&ns, "configmaps/a/status"),
    ] {
        let reply = c.api().post(&path, &inside).await;
        if path.ends_with("/status") {
            reply.expect_error(404, "NotFound");
            continue;
        }
        reply.expect_error(405, "MethodNotAllowed");
        let message = "the server does not allow this method on the requested resource";
        reply.check(reply.message() == message, "another message");
        reply.check(
            reply.json()["details"] == Value::Object(serde_json::Map::new()),
            "expected empty details",
        );
    }
    not_found(&c.api().get(&core(&ns, "configmaps/a")).await, "configmaps", "a");
}
