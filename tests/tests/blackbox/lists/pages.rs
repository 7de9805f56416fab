//! Lists in pages: `limit` and `continue`.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::support::{core, create, labelled, names, object, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(pages_follow_each_other),
        test!(pages_are_of_one_version),
        test!(rest_is_counted),
        test!(rest_is_not_counted_with_a_selector),
        test!(limit_that_is_not_reached_leaves_no_token),
        test!(limit_of_zero_or_less_is_none),
        test!(token_without_limit_gives_the_rest),
        test!(pages_across_namespaces),
        test!(pages_of_a_selection),
        test!(token_excludes_a_version),
        test!(token_excludes_a_match),
        test!(malformed_token_is_a_bad_request),
        test!(page_at_a_version),
    ]
}

/// Five secrets, `a` to `e`; all but `a` have the label `l`.
async fn five(c: &Cluster) -> String {
    let ns = c.namespace().await;
    let path = core(&ns, "secrets");
    for name in ["a", "b", "c", "d", "e"] {
        let labels = if name == "a" { json!({}) } else { json!({"l": "1"}) };
        create(c, &path, &labelled(object("v1", "Secret", name), labels)).await;
    }
    path
}

async fn page(c: &Cluster, path: &str, query: &str) -> Value {
    c.api().get(&format!("{path}?{query}")).await.expect(200)
}

#[track_caller]
fn token(list: &Value) -> &str {
    let token = list["metadata"]["continue"].as_str();
    token.unwrap_or_else(|| panic!("no token: {:#}", list["metadata"]))
}

fn rest(list: &Value) -> &Value {
    &list["metadata"]["remainingItemCount"]
}

async fn pages_follow_each_other(c: Cluster) {
    let path = five(&c).await;
    let first = page(&c, &path, "limit=2").await;
    assert_eq!(first["kind"], "SecretList");
    assert_eq!(names(&first), ["a", "b"]);
    let second = page(&c, &path, &format!("limit=2&continue={}", token(&first))).await;
    assert_eq!(names(&second), ["c", "d"]);
    let third = page(&c, &path, &format!("limit=2&continue={}", token(&second))).await;
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["metadata"]["continue"], Value::Null);
    // A token may be used again, and with another limit.
    let again = page(&c, &path, &format!("limit=1&continue={}", token(&first))).await;
    assert_eq!(names(&again), ["c"]);
}

async fn pages_are_of_one_version(c: Cluster) {
    let path = five(&c).await;
    let first = page(&c, &path, "limit=2").await;
    create(&c, &path, &object("v1", "Secret", "bb")).await;
    create(&c, &path, &object("v1", "Secret", "f")).await;
    c.api().delete(&format!("{path}/d"), ()).await.expect(200);
    let second = page(&c, &path, &format!("continue={}", token(&first))).await;
    assert_eq!(names(&second), ["c", "d", "e"]);
    assert_eq!(version(&second), version(&first));
    let now = page(&c, &path, "").await;
    assert_eq!(names(&now), ["a", "b", "bb", "c", "e", "f"]);
    assert!(version(&now) > version(&first));
}

async fn rest_is_counted(c: Cluster) {
    let path = five(&c).await;
    let first = page(&c, &path, "limit=2").await;
    assert_eq!(rest(&first), 3);
    let second = page(&c, &path, &format!("limit=2&continue={}", token(&first))).await;
    assert_eq!(rest(&second), 1);
    let third = page(&c, &path, &format!("limit=2&continue={}", token(&second))).await;
    assert_eq!(rest(&third), &Value::Null);
}

async fn rest_is_not_counted_with_a_selector(c: Cluster) {
    let path = five(&c).await;
    for selector in ["labelSelector=l", "fieldSelector=metadata.name%21%3Da"] {
        let list = page(&c, &path, &format!("limit=2&{selector}")).await;
        assert_eq!(names(&list), ["b", "c"]);
        assert_eq!(rest(&list), &Value::Null);
        assert!(!token(&list).is_empty());
    }
}

async fn limit_that_is_not_reached_leaves_no_token(c: Cluster) {
    let path = five(&c).await;
    for limit in [5, 50] {
        let list = page(&c, &path, &format!("limit={limit}")).await;
        assert_eq!(names(&list).len(), 5);
        assert_eq!(list["metadata"]["continue"], Value::Null);
        assert_eq!(rest(&list), &Value::Null);
    }
}

async fn limit_of_zero_or_less_is_none(c: Cluster) {
    let path = five(&c).await;
    for limit in [0, -1] {
        let list = page(&c, &path, &format!("limit={limit}")).await;
        assert_eq!(names(&list).len(), 5);
        assert_eq!(list["metadata"]["continue"], Value::Null);
    }
}

async fn token_without_limit_gives_the_rest(c: Cluster) {
    let path = five(&c).await;
    let first = page(&c, &path, "limit=1").await;
    let second = page(&c, &path, &format!("continue={}", token(&first))).await;
    assert_eq!(names(&second), ["b", "c", "d", "e"]);
    assert_eq!(second["metadata"]["continue"], Value::Null);
}

async fn pages_across_namespaces(c: Cluster) {
    let (one, two) = (c.namespace().await, c.namespace().await);
    for ns in [&one, &two] {
        for name in ["a", "b", "c"] {
            let object = labelled(object("v1", "Secret", name), json!({"of": one}));
            create(&c, &core(ns, "secrets"), &object).await;
        }
    }
    let mut found = Vec::new();
    let mut query = format!("limit=2&labelSelector=of%3D{one}");
    loop {
        let list = page(&c, "/api/v1/secrets", &query).await;
        found.extend(names(&list).into_iter().map(str::to_owned));
        let Some(token) = list["metadata"]["continue"].as_str() else {
            break;
        };
        query = format!("limit=2&labelSelector=of%3D{one}&continue={token}");
    }
    assert_eq!(found, ["a", "b", "c", "a", "b", "c"]);
}

async fn pages_of_a_selection(c: Cluster) {
    let path = five(&c).await;
    let first = page(&c, &path, "limit=3&labelSelector=l").await;
    assert_eq!(names(&first), ["b", "c", "d"]);
    let query = format!("limit=3&labelSelector=l&continue={}", token(&first));
    let second = page(&c, &path, &query).await;
    assert_eq!(names(&second), ["e"]);
    assert_eq!(second["metadata"]["continue"], Value::Null);
}

async fn token_excludes_a_version(c: Cluster) {
    let path = five(&c).await;
    let first = page(&c, &path, "limit=2").await;
    let query = format!(
        "{path}?limit=2&continue={}&resourceVersion={}",
        token(&first),
        version(&first)
    );
    let reply = c.api().get(&query).await;
    reply.expect_error(400, "BadRequest");
    let message = "specifying resource version is not allowed when using continue";
    reply.check(reply.message() == message, message);
}

async fn token_excludes_a_match(c: Cluster) {
    let path = five(&c).await;
    let first = page(&c, &path, "limit=2").await;
    let query = format!(
        "{path}?continue={}&resourceVersion={}&resourceVersionMatch=Exact",
        token(&first),
        version(&first)
    );
    let reply = c.api().get(&query).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(
        (&*cause.reason, &*cause.field, &*cause.message),
        (
            "FieldValueForbidden",
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        )
    );
}

async fn malformed_token_is_a_bad_request(c: Cluster) {
    let path = five(&c).await;
    // The last three: no start, another version of the format, a start that leaves the collection.
    for token in [
        "xyz",
        "e30",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NX0",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6NSwic3RhcnQiOiJhIn0",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIvLi4veCJ9",
    ] {
        let reply = c.api().get(&format!("{path}?continue={token}")).await;
        reply.expect_error(400, "BadRequest");
        let start = "invalid continue token: continue key is not valid: ";
        reply.check(reply.message().starts_with(start), start);
    }
}

/// With a limit, a version without a match is that version exactly, and "0" knows no limit.
async fn page_at_a_version(c: Cluster) {
    let path = five(&c).await;
    let at = version(&page(&c, &path, "").await);
    c.api().delete(&format!("{path}/b"), ()).await.expect(200);
    let list = page(&c, &path, &format!("limit=2&resourceVersion={at}")).await;
    assert_eq!(names(&list), ["a", "b"]);
    assert_eq!((version(&list), rest(&list)), (at, &json!(3)));
    let exact = format!("limit=2&resourceVersion={at}&resourceVersionMatch=Exact");
    let list = page(&c, &path, &exact).await;
    assert_eq!(names(&list), ["a", "b"]);
    let list = page(&c, &path, "limit=2&resourceVersion=0").await;
    assert_eq!(list["metadata"]["continue"], Value::Null, "{list:#}");
}
