//! `sendInitialEvents`: a list as a stream, and the bookmark that ends it.

use std::time::Duration;

use coxswain_tests::{Cluster, Reply, Test, Watch, test};
use serde_json::{Value, json};

use crate::support::{config_map, core, create, labelled, lines, until_end, version};

pub fn tests() -> Vec<Test> {
    [
        test!(state_then_a_bookmark_then_changes),
        test!(state_is_at_least_of_the_version_asked_for),
        test!(any_state_will_do_for_version_zero),
        test!(end_is_marked_for_an_empty_state_too),
        test!(end_is_not_marked_unasked),
        test!(without_initial_events_only_changes_come),
        test!(match_must_be_not_older_than),
        test!(version_of_the_future_is_an_error_event),
    ]
    .map(|test| test.since(1, 36))
    .to_vec()
}

const STREAM: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// Asserts that the next event ends the initial ones, and returns the version it has.
async fn end_of_state(watch: &mut Watch) -> u64 {
    let object = watch.expect("BOOKMARK").await;
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    version(&object)
}

async fn state_then_a_bookmark_then_changes(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &config_map("a")).await;
    let last = create(&c, &path, &config_map("b")).await;
    // Consistent: what was answered before is in it.
    let mut watch = c.api().watch(&format!("{path}?{STREAM}")).await;
    let mut found = lines(&mut watch, 2).await;
    found.sort_unstable();
    assert_eq!(found, ["ADDED a", "ADDED b"]);
    assert!(end_of_state(&mut watch).await >= version(&last));
    let made = create(&c, &path, &config_map("c")).await;
    assert_eq!(watch.expect("ADDED").await, made);
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert_eq!(lines(&mut watch, 1).await, ["DELETED a"]);
}

async fn state_is_at_least_of_the_version_asked_for(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let first = create(&c, &path, &config_map("a")).await;
    let second = create(&c, &path, &config_map("b")).await;
    let query = format!("{path}?{STREAM}&resourceVersion={}", version(&second));
    let mut watch = c.api().watch(&query).await;
    // The state, not what follows that version; and not in the order of versions.
    let mut found = lines(&mut watch, 2).await;
    found.sort_unstable();
    assert_eq!(found, ["ADDED a", "ADDED b"]);
    assert!(end_of_state(&mut watch).await >= version(&second));
    assert!(version(&second) > version(&first));
}

async fn any_state_will_do_for_version_zero(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let query = format!("{path}?{STREAM}&resourceVersion=0");
    let mut watch = c.api().watch(&query).await;
    assert!(end_of_state(&mut watch).await > 0);
}

async fn end_is_marked_for_an_empty_state_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &config_map("a")).await;
    let query = format!("{path}?{STREAM}&labelSelector=nope");
    let mut watch = c.api().watch(&query).await;
    end_of_state(&mut watch).await;
    create(&c, &path, &labelled(config_map("b"), json!({"nope": "1"}))).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED b"]);
}

async fn end_is_not_marked_unasked(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &config_map("a")).await;
    let query = format!("{path}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut watch = c.api().watch(&query).await;
    assert_eq!(lines(&mut watch, 1).await, ["ADDED a"]);
    assert_eq!(watch.next(Duration::from_millis(500)).await, None);
}

async fn without_initial_events_only_changes_come(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let query = format!("{path}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    let mut without = c.api().watch(&query).await;
    let mut from = c
        .api()
        .watch(&format!("{query}&resourceVersion={}", version(&made)))
        .await;
    create(&c, &path, &config_map("b")).await;
    assert_eq!(lines(&mut without, 1).await, ["ADDED b"]);
    assert_eq!(lines(&mut from, 1).await, ["ADDED b"]);
}

async fn match_must_be_not_older_than(c: Cluster) {
    let ns = c.namespace().await;
    let assert_refused = |reply: &Reply| {
        reply.expect_error(422, "Invalid");
        let cause = reply.causes().swap_remove(0);
        assert_eq!(
            (&*cause.reason, &*cause.field, &*cause.message),
            (
                "FieldValueForbidden",
                "resourceVersionMatch",
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        );
    };
    for query in [
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
    ] {
        let path = core(&ns, &format!("configmaps?watch=1&{query}"));
        assert_refused(&c.api().get(&path).await);
    }
}

/// After about three seconds, and the stream ends with it.
async fn version_of_the_future_is_an_error_event(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let query = format!("{path}?{STREAM}&resourceVersion=999999999");
    let mut watch = c.api().watch(&query).await;
    let events = until_end(&mut watch).await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["type"], "ERROR");
    assert_status(&events[0]["object"]);
}

fn assert_status(status: &Value) {
    assert_eq!(
        (&status["kind"], &status["apiVersion"], &status["status"]),
        (&json!("Status"), &json!("v1"), &json!("Failure"))
    );
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(504), &json!("Timeout"))
    );
    assert_eq!(
        status["details"],
        json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1})
    );
}
