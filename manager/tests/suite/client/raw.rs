//! What is no object is read as it comes.

use std::time::Duration;

use coxswain_manager::client::ClientError;

use super::spy::Answer;
use super::{LIMIT, World};

#[tokio::test(start_paused = true)]
async fn a_path_is_read_in_one_of_the_forms_that_were_asked_for() {
    let world = World::new();
    let client = world.transport.client("a", Some(LIMIT));
    let headers = vec![("content-type", "application/json;as=X")];
    world.spy.answer(Answer::With(200, headers, "[1]".to_owned()));
    let raw = client.get_raw("/apis", "application/json;as=X,application/json");
    let raw = raw.await.expect("an answer");
    assert_eq!(
        (&*raw.content_type, &raw.body[..]),
        ("application/json;as=X", &b"[1]"[..])
    );
    let asked = world.spy.asked();
    assert_eq!(
        (asked[0].method.as_str(), asked[0].uri.as_str()),
        ("GET", "/apis?timeout=30s")
    );
    assert_eq!(asked[0].accept, "application/json;as=X,application/json");

    world.spy.answer(Answer::With(200, vec![], "not JSON".to_owned()));
    let raw = client
        .get_raw("/api", "application/json")
        .await
        .expect("an answer");
    assert_eq!((&*raw.content_type, &raw.body[..]), ("", &b"not JSON"[..]));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_read_says_why_and_is_given_up_in_time() {
    let world = World::new();
    let client = world.transport.client("a", None);
    world
        .spy
        .answer(Answer::With(503, vec![], "overloaded".to_owned()));
    let error = client.get_raw("/apis/a/v1", "application/json").await;
    assert_eq!(error.expect_err("refused").code(), Some(503));
    let error = client.get_raw("/apis/a b", "application/json").await;
    assert!(matches!(error, Err(ClientError::Invalid { .. })), "{error:?}");
    world.spy.answer(Answer::Hang);
    let start = world.env.clock.now();
    let error = client.get_raw("/apis", "application/json").await;
    assert!(matches!(error, Err(ClientError::Timeout { .. })), "{error:?}");
    assert_eq!(world.env.clock.now() - start, Duration::from_secs(30));
}
