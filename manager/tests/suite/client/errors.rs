//! What a sender must be able to tell apart.

use std::time::Duration;

use coxswain_manager::client::{CONDITIONED, ClientError, Delete, Patch, UNCONDITIONED};
use coxswain_manager::object::{Key, Uid, Version};
use serde_json::{Value, json};

use super::spy::Answer;
use super::{MAPS, World};

fn key() -> Key {
    Key::new("n", "a")
}

#[tokio::test(start_paused = true)]
async fn a_write_that_nothing_defeats_is_given_up_soon() {
    let world = World::new();
    let client = world.transport.unfenced("a", None);
    let patch = |patch: Value| Patch::merge(&patch);
    let free = patch(json!({"data": {"a": "b"}}));
    let locked = patch(json!({"metadata": {"resourceVersion": "7"}}));
    let delete = Delete::of(Uid::from("u"));
    for _ in 0..4 {
        world.spy.answer(Answer::Hang);
    }
    let mut took = Vec::new();
    let mut start = world.env.clock.now();
    let mut lap = |error: &ClientError| {
        assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
        assert!(error.is_unknown_outcome());
        took.push(world.env.clock.now() - start);
        start = world.env.clock.now();
    };
    lap(&client
        .patch::<Value>(&MAPS, &key(), free)
        .await
        .expect_err("no answer"));
    lap(&client
        .patch::<Value>(&MAPS, &key(), locked)
        .await
        .expect_err("no answer"));
    lap(&client
        .delete(&MAPS, &key(), &delete)
        .await
        .expect_err("no answer"));
    let delete = delete.at(Version::from("7"));
    lap(&client
        .delete(&MAPS, &key(), &delete)
        .await
        .expect_err("no answer"));
    assert_eq!(took, [UNCONDITIONED, CONDITIONED, UNCONDITIONED, CONDITIONED]);
    let timeouts: Vec<_> = world
        .spy
        .asked()
        .iter()
        .map(|a| a.uri.split_once('?').expect("a query").1.to_owned())
        .collect();
    assert_eq!(
        timeouts,
        ["timeout=3s", "timeout=30s", "timeout=3s", "timeout=30s"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_once_and_says_when_to_come_back() {
    let world = World::new();
    let client = world.transport.unfenced("a", None);
    let busy = r#"{"kind":"Status","reason":"TooManyRequests","code":429,"message":"busy"}"#;
    world
        .spy
        .answer(Answer::With(429, vec![("retry-after", "7")], busy.to_owned()));
    let error = client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("busy");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(!error.is_unknown_outcome());
    world
        .spy
        .status(500, "InternalError", r#","details":{"retryAfterSeconds":3}"#);
    let error = client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("broken");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert!(error.is_unknown_outcome());
    assert_eq!(world.spy.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_404_that_does_not_name_the_object_is_no_absence() {
    let world = World::new();
    let client = world.transport.client("a", None);
    world
        .spy
        .status(404, "NotFound", r#","details":{"name":"a","kind":"configmaps"}"#);
    let named = client.get::<Value>(&MAPS, &key()).await.expect_err("not found");
    assert!(named.is_not_found("a"));
    assert_eq!(
        named.to_string(),
        "GET /api/v1/namespaces/n/configmaps/a: said the server"
    );
    world
        .spy
        .answer(Answer::With(404, vec![], "404 page not found".to_owned()));
    let plain = client.get::<Value>(&MAPS, &key()).await.expect_err("not served");
    assert!(!plain.is_not_found("a"));
    assert_eq!(plain.code(), Some(404));
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_leaves_the_outcome_open() {
    let world = World::new();
    let client = world.transport.unfenced("a", None);
    world.spy.answer(Answer::Break);
    let error = client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("broken");
    assert!(matches!(error, ClientError::Connection { .. }), "{error}");
    assert!(error.is_unknown_outcome());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_is_not_quoted() {
    let world = World::new();
    let client = world.transport.client("a", None);
    let body = r#"{"metadata":{"name":"a"},"data":{"password":"hunter2"#;
    world.spy.answer(Answer::With(200, vec![], body.to_owned()));
    let error = client.get::<Value>(&MAPS, &key()).await.expect_err("unreadable");
    assert!(matches!(error, ClientError::Decode { .. }));
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    world
        .spy
        .answer(Answer::With(200, vec![], r#"{"data":"hunter2"}"#.to_owned()));
    let error = client
        .get::<Vec<u8>>(&MAPS, &key())
        .await
        .expect_err("of another type");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}
