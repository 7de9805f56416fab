//! Raw responses.

use std::time::Duration;

use steersman_manager::client::ClientError;
use steersman_sandbox::faults::Effect;

use super::{Fixture, LIMIT};

#[tokio::test(start_paused = true)]
async fn raw_read_returns_body_and_content_type() {
    let f = Fixture::new();
    let client = f.transport.reader("a", Some(LIMIT));
    let headers = [("content-type", "application/json;as=X")];
    f.server.respond(200, &headers, "[1]");
    let raw = client.get_raw("/apis", "application/json;as=X,application/json");
    let raw = raw.await.expect("a response");
    assert_eq!(
        (&*raw.content_type, &raw.body[..]),
        ("application/json;as=X", &b"[1]"[..])
    );
    let requests = f.server.requests();
    assert_eq!(
        (requests[0].method.as_str(), requests[0].uri().as_str()),
        ("GET", "/apis?timeout=30s")
    );
    assert_eq!(
        requests[0].header("accept"),
        "application/json;as=X,application/json"
    );

    f.server.respond(200, &[], "not JSON");
    let raw = client
        .get_raw("/api", "application/json")
        .await
        .expect("a response");
    assert_eq!((&*raw.content_type, &raw.body[..]), ("", &b"not JSON"[..]));
}

#[tokio::test(start_paused = true)]
async fn failed_raw_read_reports_the_error_within_its_deadline() {
    let f = Fixture::new();
    let client = f.transport.reader("a", None);
    f.server.respond(503, &[], "overloaded");
    let error = client.get_raw("/apis/a/v1", "application/json").await;
    assert_eq!(error.expect_err("refused").code(), Some(503));
    let error = client.get_raw("/apis/a b", "application/json").await;
    assert!(matches!(error, Err(ClientError::Invalid { .. })), "{error:?}");
    f.server.answer(Effect::Hang);
    let start = f.env.clock.now();
    let error = client.get_raw("/apis", "application/json").await;
    assert!(matches!(error, Err(ClientError::Timeout { .. })), "{error:?}");
    assert_eq!(f.env.clock.now() - start, Duration::from_secs(30));
}
