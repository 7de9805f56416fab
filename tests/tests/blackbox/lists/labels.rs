//! Label selectors.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use crate::support::{config_map, core, create, escaped, labelled, names};

pub fn tests() -> Vec<Test> {
    vec![
        test!(equality),
        test!(sets),
        test!(existence),
        test!(numbers),
        test!(all_of_several_must_hold),
        test!(spaces_and_empty_values),
        test!(empty_selector_selects_all),
        test!(selector_does_not_matter_to_a_get),
        test!(invalid_selectors_are_bad_requests),
        test!(messages_name_what_was_found),
        test!(invalid_values_are_named).since(1, 36),
    ]
}

/// Creates what the tests select from, and asserts what each selector selects.
async fn assert_selects(c: &Cluster, rows: &[(&str, &[&str])]) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for (name, labels) in [
        ("a", json!({"app": "web", "tier": "front"})),
        ("b", json!({"app": "web", "tier": "back"})),
        ("c", json!({"app": "db"})),
        ("d", json!({})),
        ("e", json!({"n": "5"})),
        ("f", json!({"n": "10", "empty": ""})),
    ] {
        create(c, &path, &labelled(config_map(name), labels)).await;
    }
    for (selector, expected) in rows {
        let query = format!("{path}?labelSelector={}", escaped(selector));
        let list = c.api().get(&query).await.expect(200);
        assert_eq!(names(&list), *expected, "{selector}");
    }
}

async fn equality(c: Cluster) {
    assert_selects(
        &c,
        &[
            ("app=web", &["a", "b"]),
            ("app==web", &["a", "b"]),
            ("app=nope", &[]),
            ("nope=web", &[]),
            // What does not have the label is not equal to it either.
            ("app!=web", &["c", "d", "e", "f"]),
        ],
    )
    .await;
}

async fn sets(c: Cluster) {
    assert_selects(
        &c,
        &[
            ("app in (web)", &["a", "b"]),
            ("app in (web,db)", &["a", "b", "c"]),
            ("app notin (web)", &["c", "d", "e", "f"]),
            ("app notin (web, db)", &["d", "e", "f"]),
            ("tier in (front, back)", &["a", "b"]),
            ("app in ()", &[]),
            ("empty in (,x)", &["f"]),
        ],
    )
    .await;
}

async fn existence(c: Cluster) {
    assert_selects(
        &c,
        &[
            ("app", &["a", "b", "c"]),
            ("!app", &["d", "e", "f"]),
            ("empty", &["f"]),
            ("nope", &[]),
        ],
    )
    .await;
}

async fn numbers(c: Cluster) {
    assert_selects(
        &c,
        &[
            ("n>5", &["f"]),
            ("n<10", &["e"]),
            ("n>4,n<6", &["e"]),
            ("n>4", &["e", "f"]),
            // A value that is no number is neither.
            ("app>1", &[]),
        ],
    )
    .await;
}

async fn all_of_several_must_hold(c: Cluster) {
    assert_selects(
        &c,
        &[
            ("app=web,tier=back", &["b"]),
            ("app in (web),tier notin (back)", &["a"]),
            ("app,!tier", &["c"]),
            ("app=web,app=db", &[]),
        ],
    )
    .await;
}

async fn spaces_and_empty_values(c: Cluster) {
    assert_selects(
        &c,
        &[
            (" app = web ", &["a", "b"]),
            ("app=web , tier=back", &["b"]),
            ("empty=", &["f"]),
            ("app=", &[]),
        ],
    )
    .await;
}

async fn empty_selector_selects_all(c: Cluster) {
    assert_selects(&c, &[("", &["a", "b", "c", "d", "e", "f"])]).await;
}

async fn selector_does_not_matter_to_a_get(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let read = c
        .api()
        .get(&format!("{path}/a?labelSelector=nope"))
        .await
        .expect(200);
    assert_eq!(read, made);
}

async fn invalid_selectors_are_bad_requests(c: Cluster) {
    let ns = c.namespace().await;
    for selector in [
        "app=web,",
        "x in",
        "app in (a",
        "app in web",
        "a b",
        "!",
        "!!",
        "=b",
        "a=b!",
        "a==b==c",
        "app=web tier=x",
        "-a=b",
        "a/b/c=d",
        "app=^x",
        "n>x",
    ] {
        for path in [
            core(&ns, "configmaps?"),
            core(&ns, "pods?watch=1&"),
            "/api/v1/nodes?".to_owned(),
        ] {
            let query = format!("{path}labelSelector={}", escaped(selector));
            c.api().get(&query).await.expect_error(400, "BadRequest");
        }
    }
}

async fn messages_name_what_was_found(c: Cluster) {
    let ns = c.namespace().await;
    for (selector, message) in [
        ("app=web,", "found '', expected: identifier after ','"),
        ("x in", "unable to parse requirement: found '' expected: '('"),
        (
            "!!",
            "unable to parse requirement: found '!', expected: identifier",
        ),
        ("a=b c=d", "found 'c', expected: ',' or 'end of string'"),
    ] {
        let query = format!("{}?labelSelector={}", core(&ns, "configmaps"), escaped(selector));
        let reply = c.api().get(&query).await;
        reply.check(reply.message() == message, message);
    }
}

async fn invalid_values_are_named(c: Cluster) {
    let ns = c.namespace().await;
    for (selector, start) in [
        (
            "-a=b",
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of ",
        ),
        (
            "app=^x",
            "unable to parse requirement: values[0][app]: Invalid value: \"^x\": a valid label must be ",
        ),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an \
             integer",
        ),
    ] {
        let query = format!("{}?labelSelector={}", core(&ns, "configmaps"), escaped(selector));
        let reply = c.api().get(&query).await;
        reply.check(reply.message().starts_with(start), start);
    }
}
