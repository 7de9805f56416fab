//! From which version on a watch delivers.

use std::time::Duration;

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use crate::support::{MERGE, config_map, core, create, lines, until_end, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(from_a_version_comes_exactly_what_follows),
        test!(from_the_version_of_a_list_comes_what_the_list_has_not),
        test!(from_a_version_before_a_deletion),
        test!(without_a_version_the_state_comes_first),
        test!(from_zero_the_state_comes_first),
        test!(version_of_the_future_is_quiet),
        test!(malformed_version_is_refused),
        test!(match_is_not_for_watches),
        test!(token_is_not_for_watches).since(1, 36),
        test!(limit_does_not_matter),
    ]
}

async fn from_a_version_comes_exactly_what_follows(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut versions = vec![version(&create(&c, &path, &config_map("a")).await)];
    for value in ["1", "2"] {
        let change = json!({"data": {"k": value}});
        let reply = c.api().patch(&format!("{path}/a"), MERGE, change).await;
        versions.push(version(&reply.expect(200)));
    }
    versions.push(version(&create(&c, &path, &config_map("b")).await));
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    create(&c, &path, &config_map("end")).await;
    let all = ["MODIFIED a", "MODIFIED a", "ADDED b", "DELETED a", "ADDED end"];
    for (index, from) in versions.iter().enumerate() {
        let query = format!("{path}?watch=1&resourceVersion={from}");
        let mut watch = c.api().watch(&query).await;
        let expected = &all[index..];
        assert_eq!(lines(&mut watch, expected.len()).await, expected);
    }
}

async fn from_the_version_of_a_list_comes_what_the_list_has_not(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &config_map("a")).await;
    let list = c.api().get(&path).await.expect(200);
    create(&c, &path, &config_map("b")).await;
    let query = format!("{path}?watch=1&resourceVersion={}", version(&list));
    let mut watch = c.api().watch(&query).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED b"]);
}

async fn from_a_version_before_a_deletion(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    let query = format!("{path}?watch=1&resourceVersion={}", version(&made));
    let removed = c.api().watch(&query).await.expect("DELETED").await;
    assert_eq!(removed["metadata"]["uid"], made["metadata"]["uid"]);
    // From the deletion on, there is nothing of it.
    create(&c, &path, &config_map("b")).await;
    let query = format!("{path}?watch=1&resourceVersion={}", version(&removed));
    let mut watch = c.api().watch(&query).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED b"]);
}

async fn assert_state_first(c: &Cluster, query: &str) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let a = create(c, &path, &config_map("a")).await;
    let change = json!({"data": {"k": "v"}});
    let a = {
        let reply = c.api().patch(&format!("{path}/a"), MERGE, change).await;
        let changed = reply.expect(200);
        assert!(version(&changed) > version(&a));
        changed
    };
    let gone = create(c, &path, &config_map("gone")).await;
    c.api().delete(&format!("{path}/gone"), ()).await.expect(200);
    // Older servers answer from a state that may be a moment old. This one waits until it is not.
    let elsewhere = core(&c.namespace().await, "configmaps");
    let last = create(c, &elsewhere, &config_map("last")).await;
    let query_last = format!("{path}?resourceVersion={}", version(&last));
    c.api().get(&query_last).await.expect(200);
    let mut watch = c.api().watch(&format!("{path}?watch=1{query}")).await;
    assert_eq!(watch.expect("ADDED").await, a);
    create(c, &path, &config_map("b")).await;
    let next = watch.expect("ADDED").await;
    assert_ne!(next["metadata"]["uid"], gone["metadata"]["uid"]);
    assert_eq!(next["metadata"]["name"], "b");
}

async fn without_a_version_the_state_comes_first(c: Cluster) {
    assert_state_first(&c, "").await;
}

async fn from_zero_the_state_comes_first(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    // This one waits until the server's own watch has it.
    let query = format!("{path}?resourceVersion={}", version(&made));
    c.api().get(&query).await.expect(200);
    let query = format!("{path}?watch=1&resourceVersion=0");
    let mut watch = c.api().watch(&query).await;
    assert_eq!(watch.expect("ADDED").await, made);
    create(&c, &path, &config_map("b")).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED b"]);
}

/// No error, unlike a list: the stream is open, and what comes before that version is left out.
async fn version_of_the_future_is_quiet(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let query = format!("{path}?watch=1&resourceVersion=999999999");
    let mut watch = c.api().watch(&query).await;
    create(&c, &path, &config_map("a")).await;
    assert_eq!(watch.next(Duration::from_secs(4)).await, None);
    assert!(!watch.has_ended());
    let mut watch = c.api().watch(&format!("{query}&timeoutSeconds=1")).await;
    assert_eq!(until_end(&mut watch).await.len(), 0);
}

/// A list is refused with 400 since 1.36 or before; a watch has kept its 500.
async fn malformed_version_is_refused(c: Cluster) {
    let ns = c.namespace().await;
    let reply = c
        .api()
        .get(&core(&ns, "configmaps?watch=1&resourceVersion=abc"))
        .await;
    reply.expect_error(500, "");
    let message =
        "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    reply.check(reply.message() == message, message);
}

async fn match_is_not_for_watches(c: Cluster) {
    let ns = c.namespace().await;
    for how in ["Exact", "NotOlderThan"] {
        let query = format!("configmaps?watch=1&resourceVersion=1&resourceVersionMatch={how}");
        let reply = c.api().get(&core(&ns, &query)).await;
        reply.expect_error(422, "Invalid");
        let cause = reply.causes().swap_remove(0);
        let start = "Forbidden: resourceVersionMatch is forbidden for watch";
        assert!(cause.message.starts_with(start), "{cause:?}");
        assert_eq!(
            (&*cause.reason, &*cause.field),
            ("FieldValueForbidden", "resourceVersionMatch")
        );
    }
}

/// Under the name of another field, on the real server too.
async fn token_is_not_for_watches(c: Cluster) {
    let ns = c.namespace().await;
    let reply = c.api().get(&core(&ns, "configmaps?watch=1&continue=abc")).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(
        cause.message,
        "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    );
}

async fn limit_does_not_matter(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for name in ["a", "b"] {
        create(&c, &path, &config_map(name)).await;
    }
    let mut watch = c.api().watch(&format!("{path}?watch=1&limit=1")).await;
    let mut found = lines(&mut watch, 2).await;
    found.sort_unstable();
    assert_eq!(found, ["ADDED a", "ADDED b"]);
}
