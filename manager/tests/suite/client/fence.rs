//! The leader fence.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use steersman_manager::client::{ClientError, Delete, Fence, ListQuery, Patch, RateLimit, View, WatchQuery};
use steersman_manager::env::Fault;
use steersman_manager::object::{Key, Uid, Version};
use steersman_sandbox::faults::Effect;

use super::{Fixture, MAPS};

const TEN: Duration = Duration::from_secs(10);

fn key() -> Key {
    Key::new("n", "a")
}

#[tokio::test(start_paused = true)]
async fn every_write_is_rejected_after_the_term() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let term = fence.open(f.env.clock.mark(), TEN);
    let client = f.transport.reader("a", None).in_term(&fence, term);
    let delete = Delete::of(Uid::from("u"));
    client
        .delete(&MAPS, &key(), &delete)
        .await
        .expect("within the term");
    let in_term = f.server.requests().len();

    f.env.clock.sleep(TEN).await;
    let patch = Patch::merge(&json!({}));
    let errors = [
        client.create::<Value>(&MAPS, "n", "{}".into()).await.err(),
        client
            .create_subresource::<Value>(&MAPS, &key(), "x", "{}".into())
            .await
            .err(),
        client.patch::<Value>(&MAPS, &key(), patch).await.err(),
        client.delete(&MAPS, &key(), &delete).await.err(),
        client.replace::<Value>(&MAPS, &key(), "{}".into()).await.err(),
    ];
    for error in errors {
        assert!(matches!(error, Some(ClientError::Fenced { .. })), "{error:?}");
        assert!(!error.expect("an error").is_unknown_outcome());
    }
    let error = client.get::<Value>(&MAPS, &key()).await;
    assert!(matches!(error, Err(ClientError::Fenced { .. })), "{error:?}");
    assert_eq!(f.server.requests().len(), in_term);
}

#[tokio::test(start_paused = true)]
async fn pending_reads_end_with_the_term() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let start = f.env.clock.now();
    let term = fence.open(f.env.clock.mark(), TEN);
    let client = f.transport.reader("a", None).in_term(&fence, term);
    f.server.answer(Effect::Hang);
    f.server.stall();
    f.server.answer(Effect::Hang);
    f.server.answer(Effect::Hang);
    let (maps, key) = (MAPS, key());
    let (list, watch) = (ListQuery::default(), WatchQuery::default());
    let (get, stalled, raw, watch) = tokio::join!(
        client.get::<Value>(&maps, &key),
        client.list(&maps, "n", &list, View::Full),
        client.get_raw("/api", "application/json"),
        client.watch(&maps, "n", &watch, View::Full),
    );
    assert_eq!(f.env.clock.now() - start, TEN);
    for error in [get.err(), stalled.err(), raw.err(), watch.err()] {
        assert!(matches!(error, Some(ClientError::Fenced { .. })), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn write_with_a_stalled_body_ends_with_the_term_and_has_an_unknown_outcome() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let start = f.env.clock.now();
    let term = fence.open(f.env.clock.mark(), TEN);
    let client = f.transport.reader("a", None).in_term(&fence, term);
    f.server.stall();
    let patch = Patch::merge(&json!({"metadata": {"resourceVersion": "7"}}));
    let error = client
        .patch::<Value>(&MAPS, &key(), patch)
        .await
        .expect_err("no response");
    assert_eq!(f.env.clock.now() - start, TEN);
    assert!(error.is_unknown_outcome(), "{error}");
    assert!(!f.transport.write_tracker().is_settled());
}

#[tokio::test(start_paused = true)]
async fn token_waits_end_with_the_term_and_take_no_token() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let start = f.env.clock.now();
    let term = fence.open(f.env.clock.mark(), TEN);
    let limit = RateLimit { qps: 0.05, burst: 1 };
    let shared = f.transport.reader("a", Some(limit));
    let client = shared.in_term(&fence, term);
    let _: Value = client.get(&MAPS, &key()).await.expect("the first token");
    let (maps, key) = (MAPS, key());
    let (read, write, with_token) = tokio::join!(
        client.get::<Value>(&maps, &key),
        client.create::<Value>(&maps, "n", "{}".into()),
        client.with_token("GET"),
    );
    assert_eq!(f.env.clock.now() - start, TEN);
    for error in [read.err(), write.err(), with_token.err()] {
        assert!(matches!(error, Some(ClientError::Fenced { .. })), "{error:?}");
    }
    assert_eq!(f.server.requests().len(), 1);
    // The limiter adds one token every 20 s, and the three requests above took none.
    let _: Value = shared.get(&maps, &key).await.expect("the second token");
    assert_eq!(f.env.clock.now() - start, 2 * TEN);
}

#[tokio::test(start_paused = true)]
async fn client_of_an_old_term_does_not_write_in_a_new_one() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let old = fence.open(f.env.clock.mark(), TEN);
    let old = f.transport.reader("a", None).in_term(&fence, old);
    fence.close();
    let new = fence.open(f.env.clock.mark(), TEN);
    let new = f.transport.reader("a", None).in_term(&fence, new);
    assert!(old.create::<Value>(&MAPS, "n", "{}".into()).await.is_err());
    new.create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect("its term is open");
}

#[tokio::test(start_paused = true)]
async fn fence_is_checked_after_the_wait_for_a_token() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let term = fence.open(f.env.clock.mark(), TEN);
    let limit = RateLimit { qps: 0.01, burst: 1 };
    let client = f.transport.reader("a", Some(limit)).in_term(&fence, term);
    client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect("the first");
    let error = client.create::<Value>(&MAPS, "n", "{}".into()).await;
    assert!(matches!(error, Err(ClientError::Fenced { .. })), "{error:?}");
    assert_eq!(f.server.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn drained_term_sends_writes_and_waits_for_nothing() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let term = fence.open_forever();
    let limit = RateLimit { qps: 0.01, burst: 2 };
    let client = f.transport.reader("a", Some(limit)).in_term(&fence, term);
    let start = f.env.clock.now();
    f.server.answer(Effect::Hang);
    let (maps, key) = (MAPS, key());
    let (read, ()) = tokio::join!(client.get::<Value>(&maps, &key), async {
        f.env.clock.sleep(TEN).await;
        fence.drain(term);
    });
    assert_eq!(f.env.clock.now() - start, TEN);
    assert!(matches!(read, Err(ClientError::Fenced { .. })), "{read:?}");
    let write = async || client.create::<Value>(&MAPS, "n", "{}".into()).await;
    write().await.expect("there is a token");
    let error = write().await;
    assert!(matches!(error, Err(ClientError::Fenced { .. })), "{error:?}");
    assert_eq!(f.env.clock.now() - start, TEN);
    assert_eq!(f.server.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn create_with_a_name_is_conditional() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    let bodies = [
        (json!({"metadata": {"name": "a"}}), 30),
        (json!({"metadata": {"name": "a", "generateName": "a-"}}), 30),
        (json!({"metadata": {"generateName": "a-"}}), 3),
        (json!({"metadata": {"name": "", "generateName": "a-"}}), 3),
        (json!({"metadata": {"name": 7}}), 3),
        (json!([]), 3),
    ];
    for (body, seconds) in bodies {
        f.server.answer(Effect::Hang);
        let start = f.env.clock.now();
        let error = client.create::<Value>(&MAPS, "n", body.to_string().into()).await;
        assert!(matches!(error, Err(ClientError::Timeout { .. })), "{error:?}");
        let took = f.env.clock.now() - start;
        assert_eq!(took, Duration::from_secs(seconds), "{body}");
        let uri = f.server.requests().pop().expect("a request").uri();
        assert!(uri.ends_with(&format!("?timeout={seconds}s")), "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn delete_has_preconditions() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    let delete = Delete::of(Uid::from("u")).at(Version::from("7")).grace(0);
    client.delete(&MAPS, &key(), &delete).await.expect("a response");
    let body: Value = f.server.requests()[0].json();
    assert_eq!(body["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    assert_eq!(body["gracePeriodSeconds"], 0);
}

#[tokio::test(start_paused = true)]
async fn write_tracker_reports_versions_and_unknown_outcomes() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let term = fence.open_forever();
    let client = f.transport.reader("a", None).in_term(&fence, term);
    let writes = f.transport.write_tracker();
    let stored = |version: &str| {
        let body = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
        f.server.respond(200, &[], &body);
    };
    for version in ["9", "11", "10"] {
        stored(version);
        client
            .create::<Value>(&MAPS, "n", "{}".into())
            .await
            .expect("created");
    }
    f.server.status(409, "AlreadyExists", "");
    client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("taken");
    assert!(writes.is_settled(), "every outcome is known");
    assert_eq!(
        writes.written(),
        [("configmaps".to_owned(), Version::from("11"))].into()
    );

    f.server.answer(Effect::LoseRequest);
    client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("broken");
    assert!(!writes.is_settled());
    let set_forward = Fault::Skew(SignedDuration::from_hours(1));
    assert!(f.env.clock.inject(set_forward));
    assert!(!writes.is_settled(), "the deadline of the server has not passed");
    f.env.clock.sleep(Duration::from_secs(31)).await;
    assert!(writes.is_settled(), "the server has abandoned it");

    f.server.answer(Effect::Hang);
    let maps = MAPS;
    {
        let mut cut_off = std::pin::pin!(client.create::<Value>(&maps, "n", "{}".into()));
        assert!(
            f.env
                .clock
                .timeout(Duration::from_secs(1), &mut cut_off)
                .await
                .is_none()
        );
        assert!(!writes.is_settled(), "it is in flight");
    }
    assert!(
        !writes.is_settled(),
        "it was cancelled, but may still be executed"
    );
}

#[tokio::test(start_paused = true)]
async fn write_without_response_is_settled_after_its_deadline() {
    let f = Fixture::new();
    let fence = Fence::new(f.env.clock.clone());
    let client = f
        .transport
        .reader("a", None)
        .in_term(&fence, fence.open_forever());
    let writes = f.transport.write_tracker();
    let second = Duration::from_secs(1);
    let unconditioned = Patch::merge(&json!({}));
    let conditioned = Patch::merge(&json!({"metadata": {"resourceVersion": "7"}}));
    for (patch, deadline) in [(unconditioned, 3 * second), (conditioned, 30 * second)] {
        // A gateway that lost the request, and a server that timed out.
        for (code, reason) in [
            (502, "BadGateway"),
            (503, "ServiceUnavailable"),
            (504, "Timeout"),
            (500, ""),
        ] {
            f.server.status(code, reason, "");
            let error = client.patch::<Value>(&MAPS, &key(), patch.clone()).await;
            assert!(error.expect_err("an error").is_unknown_outcome());
            f.env.clock.sleep(deadline).await;
            assert!(!writes.is_settled(), "{code} {reason}");
            f.env.clock.sleep(second).await;
            assert!(writes.is_settled(), "{code} {reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn delete_returns_metadata_while_the_object_is_terminating() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    let delete = Delete::of(Uid::from("u"));
    // A field that is not decoded may be nested too deeply.
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let marked = format!(
        r#"{{"kind":"Widget","metadata":{{"name":"a","finalizers":["f"],"resourceVersion":"7"}},"spec":{deep}}}"#
    );
    f.server.respond(200, &[], &marked);
    let meta = client.delete(&MAPS, &key(), &delete).await.expect("a response");
    assert!(meta.is_some_and(|meta| meta.has_finalizer("f")));
    let gone = r#"{"kind":"Status","status":"Success","details":{"name":"a","uid":"u"}}"#;
    f.server.respond(200, &[], gone);
    assert_eq!(
        client.delete(&MAPS, &key(), &delete).await.expect("a response"),
        None
    );
}
