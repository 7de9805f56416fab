//! Errors of requests.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_manager::client::{
    CONDITIONAL_WRITE_TIMEOUT, ClientError, Delete, Patch, UNCONDITIONAL_WRITE_TIMEOUT,
};
use steersman_manager::object::{Key, Uid, Version};
use steersman_sandbox::faults::Effect;

use super::{Fixture, MAPS};

fn key() -> Key {
    Key::new("n", "a")
}

#[tokio::test(start_paused = true)]
async fn unconditional_write_has_a_short_deadline() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    let patch = |patch: Value| Patch::merge(&patch);
    let free = patch(json!({"data": {"a": "b"}}));
    let locked = patch(json!({"metadata": {"resourceVersion": "7"}}));
    let removal = patch(json!({"metadata": {"uid": "u"}})).may_be_late();
    let delete = Delete::of(Uid::from("u"));
    for _ in 0..5 {
        f.server.answer(Effect::Hang);
    }
    let mut took = Vec::new();
    let mut start = f.env.clock.now();
    let mut lap = |error: &ClientError| {
        assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
        assert!(error.is_unknown_outcome());
        took.push(f.env.clock.now() - start);
        start = f.env.clock.now();
    };
    lap(&client
        .patch::<Value>(&MAPS, &key(), free)
        .await
        .expect_err("no response"));
    lap(&client
        .patch::<Value>(&MAPS, &key(), locked)
        .await
        .expect_err("no response"));
    lap(&client
        .patch::<Value>(&MAPS, &key(), removal)
        .await
        .expect_err("no response"));
    lap(&client
        .delete(&MAPS, &key(), &delete)
        .await
        .expect_err("no response"));
    let delete = delete.at(Version::from("7"));
    lap(&client
        .delete(&MAPS, &key(), &delete)
        .await
        .expect_err("no response"));
    assert_eq!(
        took,
        [
            UNCONDITIONAL_WRITE_TIMEOUT,
            CONDITIONAL_WRITE_TIMEOUT,
            CONDITIONAL_WRITE_TIMEOUT,
            UNCONDITIONAL_WRITE_TIMEOUT,
            CONDITIONAL_WRITE_TIMEOUT
        ]
    );
    let timeouts: Vec<_> = f
        .server
        .requests()
        .iter()
        .map(|a| a.uri().split_once('?').expect("a query").1.to_owned())
        .collect();
    assert_eq!(
        timeouts,
        [
            "timeout=3s",
            "timeout=30s",
            "timeout=30s",
            "timeout=3s",
            "timeout=30s"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn request_is_sent_once_and_reports_retry_after() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    let busy = r#"{"kind":"Status","reason":"TooManyRequests","code":429,"message":"busy"}"#;
    f.server.respond(429, &[("retry-after", "7")], busy);
    let error = client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("busy");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(!error.is_unknown_outcome());
    f.server
        .status(500, "InternalError", r#","details":{"retryAfterSeconds":3}"#);
    let error = client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("broken");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert!(error.is_unknown_outcome());
    assert_eq!(f.server.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn not_found_requires_the_name_of_the_object() {
    let f = Fixture::new();
    let client = f.transport.reader("a", None);
    f.server
        .status(404, "NotFound", r#","details":{"name":"a","kind":"configmaps"}"#);
    let named = client.get::<Value>(&MAPS, &key()).await.expect_err("not found");
    assert!(named.is_not_found("a"));
    assert_eq!(
        named.to_string(),
        "GET /api/v1/namespaces/n/configmaps/a: said the server"
    );
    f.server.respond(404, &[], "404 page not found");
    let plain = client.get::<Value>(&MAPS, &key()).await.expect_err("not served");
    assert!(!plain.is_not_found("a"));
    assert_eq!(plain.code(), Some(404));
}

#[tokio::test(start_paused = true)]
async fn broken_connection_has_an_unknown_outcome() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    f.server.answer(Effect::LoseRequest);
    let error = client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("broken");
    assert!(matches!(error, ClientError::Connection { .. }), "{error}");
    assert!(error.is_unknown_outcome());
}

#[tokio::test(start_paused = true)]
async fn malformed_response_is_not_quoted() {
    let f = Fixture::new();
    let client = f.transport.reader("a", None);
    let body = r#"{"metadata":{"name":"a"},"data":{"password":"hunter2"#;
    f.server.respond(200, &[], body);
    let error = client.get::<Value>(&MAPS, &key()).await.expect_err("malformed");
    assert!(matches!(error, ClientError::Decode { .. }));
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    f.server.respond(200, &[], r#"{"data":"hunter2"}"#);
    let error = client
        .get::<Vec<u8>>(&MAPS, &key())
        .await
        .expect_err("of another type");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}
