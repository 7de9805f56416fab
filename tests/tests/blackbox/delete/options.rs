//! Delete options: in the body or in the query, dry runs, and options that are refused.

use coxswain_tests::{Cluster, Test, test};
use http::Method;
use serde_json::{Value, json};

use crate::support::{assert_gone, config_map, core, create, finalizers, is_marked};

pub fn tests() -> Vec<Test> {
    vec![
        test!(options_in_the_query_count),
        test!(body_takes_the_query_out_of_account),
        test!(options_may_name_their_kind_or_not),
        test!(unknown_fields_are_ignored),
        test!(both_forms_of_orphaning_are_invalid),
        test!(unknown_policy_is_invalid),
        test!(unknown_dry_run_is_invalid),
        test!(malformed_query_is_a_bad_request),
        // Before, the same refusals had code 500.
        test!(malformed_body_is_a_bad_request).since(1, 36),
        test!(body_of_another_media_type_is_refused),
        test!(dry_run_removes_nothing),
        test!(dry_run_marks_nothing),
    ]
}

/// A `ConfigMap` and its path.
async fn made(c: &Cluster) -> (String, Value) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(c, &path, &config_map("a")).await;
    (format!("{path}/a"), made)
}

async fn options_in_the_query_count(c: Cluster) {
    let (path, _) = made(&c).await;
    for (query, expected) in [
        ("propagationPolicy=Orphan", "orphan"),
        ("propagationPolicy=Foreground", "foregroundDeletion"),
        ("orphanDependents=true", "orphan"),
    ] {
        let answer = c.api().delete(&format!("{path}?{query}"), ()).await.expect(200);
        assert_eq!(finalizers(&answer), [expected], "{query}");
    }
    c.api()
        .delete(&format!("{path}?propagationPolicy=Background"), ())
        .await
        .expect(200);
    assert_gone(&c, &path).await;
}

async fn body_takes_the_query_out_of_account(c: Cluster) {
    for body in [json!({"propagationPolicy": "Background"}), json!({})] {
        let (path, _) = made(&c).await;
        let query = format!("{path}?propagationPolicy=Foreground");
        c.api().delete(&query, body).await.expect(200);
        assert_gone(&c, &path).await;
    }
}

async fn options_may_name_their_kind_or_not(c: Cluster) {
    for (api_version, kind) in [
        (Some("v1"), Some("DeleteOptions")),
        (Some("meta.k8s.io/v1"), Some("DeleteOptions")),
        (Some("apps/v1"), Some("DeleteOptions")),
        (None, Some("DeleteOptions")),
        (None, None),
    ] {
        let (path, _) = made(&c).await;
        let mut options = json!({"propagationPolicy": "Foreground"});
        for (field, value) in [("apiVersion", api_version), ("kind", kind)] {
            if let Some(value) = value {
                options[field] = json!(value);
            }
        }
        let answer = c.api().delete(&path, options).await.expect(200);
        assert_eq!(finalizers(&answer), ["foregroundDeletion"]);
    }
}

async fn unknown_fields_are_ignored(c: Cluster) {
    let (path, _) = made(&c).await;
    let options = json!({"nope": 1, "propagationPolicy": "Foreground"});
    let answer = c.api().delete(&path, options).await.expect(200);
    assert_eq!(finalizers(&answer), ["foregroundDeletion"]);
}

/// Asserts that a deletion is refused for one field of its options, and that it changed nothing.
async fn assert_invalid(c: &Cluster, options: Value, reason: &str, field: &str, message: &str) {
    let (path, before) = made(c).await;
    let reply = c.api().delete(&path, options).await;
    reply.expect_error(422, "Invalid");
    let causes = reply.causes();
    reply.check(causes.len() == 1, "expected one cause");
    assert_eq!(
        (&*causes[0].reason, &*causes[0].field, &*causes[0].message),
        (reason, field, message)
    );
    let whole = format!("DeleteOptions.meta.k8s.io \"\" is invalid: {field}: {message}");
    reply.check(reply.message() == whole, "another message");
    let details = &reply.json()["details"];
    assert_eq!(
        (&details["group"], &details["kind"]),
        (&json!("meta.k8s.io"), &json!("DeleteOptions"))
    );
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn both_forms_of_orphaning_are_invalid(c: Cluster) {
    let options = json!({"orphanDependents": true, "propagationPolicy": "Orphan"});
    let message = "Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set";
    assert_invalid(&c, options, "FieldValueInvalid", "propagationPolicy", message).await;
}

async fn unknown_policy_is_invalid(c: Cluster) {
    for policy in ["Nope", "orphan", ""] {
        let message = format!(
            "Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        );
        let options = json!({"propagationPolicy": policy});
        assert_invalid(
            &c,
            options,
            "FieldValueNotSupported",
            "propagationPolicy",
            &message,
        )
        .await;
    }
}

async fn unknown_dry_run_is_invalid(c: Cluster) {
    // The value is shown as its language writes it.
    let shown = if c.version() < (1, 36) {
        "[]string{\"Some\"}"
    } else {
        "[\"Some\"]"
    };
    let message = format!("Unsupported value: {shown}: supported values: \"All\"");
    let options = json!({"dryRun": ["Some"]});
    assert_invalid(&c, options, "FieldValueNotSupported", "dryRun", &message).await;
}

async fn malformed_query_is_a_bad_request(c: Cluster) {
    let (path, before) = made(&c).await;
    let reply = c.api().delete(&format!("{path}?gracePeriodSeconds=x"), ()).await;
    reply.expect_error(400, "BadRequest");
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn malformed_body_is_a_bad_request(c: Cluster) {
    let (path, before) = made(&c).await;
    for body in [
        "{",
        "nonsense",
        r#"{"gracePeriodSeconds": "x"}"#,
        r#"{"propagationPolicy": 1}"#,
        r#"{"preconditions": []}"#,
        r#"{"apiVersion": "v1", "kind": "Pod"}"#,
    ] {
        c.api().delete(&path, body).await.expect_error(400, "BadRequest");
    }
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn body_of_another_media_type_is_refused(c: Cluster) {
    let (path, before) = made(&c).await;
    let headers = [("content-type", "text/plain")];
    let options = json!({"propagationPolicy": "Foreground"});
    let reply = c.api().request(Method::DELETE, &path, &headers, options).await;
    reply.expect_error(415, "UnsupportedMediaType");
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn dry_run_removes_nothing(c: Cluster) {
    let (path, before) = made(&c).await;
    let by_query = c.api().delete(&format!("{path}?dryRun=All"), ()).await;
    let by_body = c.api().delete(&path, json!({"dryRun": ["All"]})).await;
    for reply in [by_query, by_body] {
        let answer = reply.expect(200);
        assert_eq!(answer["status"], "Success");
        assert_eq!(answer["details"]["uid"], before["metadata"]["uid"]);
    }
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn dry_run_marks_nothing(c: Cluster) {
    let (path, before) = made(&c).await;
    let options = json!({"dryRun": ["All"], "propagationPolicy": "Foreground"});
    let answer = c.api().delete(&path, options).await.expect(200);
    assert_eq!(finalizers(&answer), ["foregroundDeletion"]);
    assert!(is_marked(&answer));
    assert_eq!(
        answer["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    assert_eq!(c.api().get(&path).await.expect(200), before);
}
