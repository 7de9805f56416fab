//! `resourceVersion` and `resourceVersionMatch` of lists and gets.

use std::time::Duration;

use coxswain_tests::{Cluster, Reply, Test, test, time};
use serde_json::json;

use crate::support::{core, create, names, object, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(exact_is_the_state_of_that_version),
        test!(not_older_than_is_that_version_or_newer),
        test!(version_alone_means_not_older),
        test!(zero_means_any),
        test!(match_needs_a_version),
        test!(exact_needs_more_than_zero),
        test!(unknown_match_is_invalid),
        // Before, the same refusal had code 500.
        test!(malformed_version_is_a_bad_request).since(1, 36),
        test!(version_of_the_future_is_a_timeout),
        test!(exact_version_of_the_future_is_a_timeout).since(1, 36),
        test!(get_at_a_version_of_the_future_is_a_timeout),
        test!(initial_events_are_not_for_lists).since(1, 36),
    ]
}

/// Three secrets made one after another: the path, and the version after each.
async fn three(c: &Cluster) -> (String, Vec<u64>) {
    let ns = c.namespace().await;
    let path = core(&ns, "secrets");
    let mut versions = Vec::new();
    for name in ["a", "b", "c"] {
        versions.push(version(&create(c, &path, &object("v1", "Secret", name)).await));
    }
    (path, versions)
}

async fn exact_is_the_state_of_that_version(c: Cluster) {
    let (path, versions) = three(&c).await;
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    for (at, expected) in [
        (versions[0], &["a"][..]),
        (versions[1], &["a", "b"]),
        (versions[2], &["a", "b", "c"]),
    ] {
        let query = format!("{path}?resourceVersion={at}&resourceVersionMatch=Exact");
        let list = c.api().get(&query).await.expect(200);
        assert_eq!(names(&list), expected);
        assert_eq!(version(&list), at);
    }
}

async fn not_older_than_is_that_version_or_newer(c: Cluster) {
    let (path, versions) = three(&c).await;
    for at in versions {
        let query = format!("{path}?resourceVersion={at}&resourceVersionMatch=NotOlderThan");
        let list = c.api().get(&query).await.expect(200);
        assert!(version(&list) >= at);
        assert!(!names(&list).is_empty());
    }
}

async fn version_alone_means_not_older(c: Cluster) {
    let (path, versions) = three(&c).await;
    let query = format!("{path}?resourceVersion={}", versions[2]);
    let list = c.api().get(&query).await.expect(200);
    assert!(version(&list) >= versions[2]);
    // Servers before 1.31 answer it unordered.
    let mut found = names(&list);
    found.sort_unstable();
    assert_eq!(found, ["a", "b", "c"]);
}

async fn zero_means_any(c: Cluster) {
    let (path, _) = three(&c).await;
    for query in [
        "resourceVersion=0",
        "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    ] {
        let list = c.api().get(&format!("{path}?{query}")).await.expect(200);
        assert_eq!(list["kind"], "SecretList");
    }
    let query = format!("{path}/a?resourceVersion=0");
    let read = time::eventually(time::ANSWER, async || {
        Some(c.api().get(&query).await).filter(|reply| reply.status == 200)
    })
    .await;
    assert!(read.is_some(), "any state has the object soon");
    c.api()
        .get(&format!("{path}/nope?resourceVersion=0"))
        .await
        .expect_error(404, "NotFound");
}

/// Asserts that a list is refused for its match, with this one cause.
#[track_caller]
fn assert_invalid(reply: &Reply, reason: &str, message: &str) {
    reply.expect_error(422, "Invalid");
    let causes = reply.causes();
    reply.check(causes.len() == 1, "expected one cause");
    assert_eq!(
        (&*causes[0].reason, &*causes[0].field, &*causes[0].message),
        (reason, "resourceVersionMatch", message)
    );
    let whole = format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {message}");
    reply.check(reply.message() == whole, &whole);
}

async fn match_needs_a_version(c: Cluster) {
    let (path, _) = three(&c).await;
    for how in ["Exact", "NotOlderThan"] {
        let reply = c.api().get(&format!("{path}?resourceVersionMatch={how}")).await;
        let message = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
        assert_invalid(&reply, "FieldValueForbidden", message);
    }
}

async fn exact_needs_more_than_zero(c: Cluster) {
    let (path, _) = three(&c).await;
    let query = format!("{path}?resourceVersion=0&resourceVersionMatch=Exact");
    let message = "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    assert_invalid(&c.api().get(&query).await, "FieldValueForbidden", message);
}

async fn unknown_match_is_invalid(c: Cluster) {
    let (path, versions) = three(&c).await;
    let query = format!("{path}?resourceVersion={}&resourceVersionMatch=Nope", versions[0]);
    let message = "Unsupported value: \"Nope\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
    assert_invalid(&c.api().get(&query).await, "FieldValueNotSupported", message);
}

async fn malformed_version_is_a_bad_request(c: Cluster) {
    let (path, _) = three(&c).await;
    for wrong in ["abc", "-1", "1.5"] {
        let reply = c.api().get(&format!("{path}?resourceVersion={wrong}")).await;
        reply.expect_error(400, "BadRequest");
        let message = format!(
            "invalid resource version: resourceVersion: Invalid value: \"{wrong}\": strconv.ParseUint: parsing \"{wrong}\": \
             invalid syntax"
        );
        reply.check(reply.message() == message, &message);
    }
}

/// The server waits about three seconds for it; a client lists again without a version.
fn assert_too_large(reply: &Reply) {
    reply.expect_error(504, "Timeout");
    let start = "Timeout: Too large resource version: 999999999, current: ";
    reply.check(reply.message().starts_with(start), start);
    let causes = reply.causes();
    reply.check(causes.len() == 1, "expected one cause");
    assert_eq!(
        (&*causes[0].reason, &*causes[0].message),
        ("ResourceVersionTooLarge", "Too large resource version")
    );
    assert_eq!(reply.json()["details"]["retryAfterSeconds"], json!(1));
    assert_eq!(reply.header("retry-after"), Some("1"));
}

async fn version_of_the_future_is_a_timeout(c: Cluster) {
    let (path, _) = three(&c).await;
    for query in [
        "resourceVersion=999999999",
        "resourceVersion=999999999&resourceVersionMatch=NotOlderThan",
    ] {
        let query = format!("{path}?{query}");
        let early = time::within(Duration::from_secs(1), c.api().get(&query)).await;
        assert!(early.is_none(), "answered without waiting for it");
        assert_too_large(&c.api().get(&query).await);
    }
}

async fn exact_version_of_the_future_is_a_timeout(c: Cluster) {
    let (path, _) = three(&c).await;
    let query = format!("{path}?resourceVersion=999999999&resourceVersionMatch=Exact");
    assert_too_large(&c.api().get(&query).await);
}

async fn get_at_a_version_of_the_future_is_a_timeout(c: Cluster) {
    let (path, _) = three(&c).await;
    let query = format!("{path}/a?resourceVersion=999999999");
    assert_too_large(&c.api().get(&query).await);
}

async fn initial_events_are_not_for_lists(c: Cluster) {
    let (path, _) = three(&c).await;
    let reply = c.api().get(&format!("{path}?sendInitialEvents=true")).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(
        (&*cause.reason, &*cause.field, &*cause.message),
        (
            "FieldValueForbidden",
            "sendInitialEvents",
            "Forbidden: sendInitialEvents is forbidden for list"
        )
    );
}
