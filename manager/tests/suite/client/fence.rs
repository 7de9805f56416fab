//! No write is sent by a process that may have lost its lease.

use std::time::Duration;

use coxswain_manager::client::{ClientError, Delete, Fence, Limit, ListQuery, Patch, View, WatchQuery};
use coxswain_manager::env::Fault;
use coxswain_manager::object::{Key, Uid, Version};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::spy::Answer;
use super::{MAPS, World};

const TEN: Duration = Duration::from_secs(10);

fn key() -> Key {
    Key::new("n", "a")
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_term_only_reads() {
    let world = World::new();
    let client = world.transport.client("a", None);
    let patch = Patch::merge(&json!({}));
    let error = client
        .patch::<Value>(&MAPS, &key(), patch)
        .await
        .expect_err("no term");
    assert!(matches!(error, ClientError::ReadOnly { .. }), "{error}");
    let _: Value = client.get(&MAPS, &key()).await.expect("a read");
    assert_eq!(world.spy.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_stops_with_the_term() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let term = fence.open(world.env.clock.mark(), TEN);
    let client = world.transport.client("a", None).in_term(&fence, term);
    let delete = Delete::of(Uid::from("u"));
    client
        .delete(&MAPS, &key(), &delete)
        .await
        .expect("within the term");
    let in_term = world.spy.asked().len();

    world.env.clock.sleep(TEN).await;
    let patch = Patch::merge(&json!({}));
    let errors = [
        client.create::<Value>(&MAPS, "n", "{}".into()).await.err(),
        client.create_below(&MAPS, &key(), "x", "{}".into()).await.err(),
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
    assert_eq!(world.spy.asked().len(), in_term);
}

#[tokio::test(start_paused = true)]
async fn unanswered_reads_end_with_the_term() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let start = world.env.clock.now();
    let term = fence.open(world.env.clock.mark(), TEN);
    let client = world.transport.client("a", None).in_term(&fence, term);
    for answer in [Answer::Hang, Answer::Stall, Answer::Hang, Answer::Hang] {
        world.spy.answer(answer);
    }
    let (maps, key) = (MAPS, key());
    let (list, watch) = (ListQuery::default(), WatchQuery::default());
    let (get, stalled, raw, watch) = tokio::join!(
        client.get::<Value>(&maps, &key),
        client.list(&maps, "n", &list, View::Full),
        client.get_raw("/api", "application/json"),
        client.watch(&maps, "n", &watch, View::Full),
    );
    assert_eq!(world.env.clock.now() - start, TEN);
    for error in [get.err(), stalled.err(), raw.err(), watch.err()] {
        assert!(matches!(error, Some(ClientError::Fenced { .. })), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn write_with_a_stalled_body_ends_with_the_term_and_has_an_unknown_outcome() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let start = world.env.clock.now();
    let term = fence.open(world.env.clock.mark(), TEN);
    let client = world.transport.client("a", None).in_term(&fence, term);
    world.spy.answer(Answer::Stall);
    let patch = Patch::merge(&json!({"metadata": {"resourceVersion": "7"}}));
    let error = client
        .patch::<Value>(&MAPS, &key(), patch)
        .await
        .expect_err("no answer");
    assert_eq!(world.env.clock.now() - start, TEN);
    assert!(error.is_unknown_outcome(), "{error}");
    assert!(!world.transport.ledger().is_settled());
}

#[tokio::test(start_paused = true)]
async fn token_waits_end_with_the_term_and_take_no_token() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let start = world.env.clock.now();
    let term = fence.open(world.env.clock.mark(), TEN);
    let limit = Limit { qps: 0.05, burst: 1 };
    let shared = world.transport.client("a", Some(limit));
    let client = shared.in_term(&fence, term);
    let _: Value = client.get(&MAPS, &key()).await.expect("the first token");
    let (maps, key) = (MAPS, key());
    let (read, write, paid) = tokio::join!(
        client.get::<Value>(&maps, &key),
        client.create::<Value>(&maps, "n", "{}".into()),
        async { client.paid("GET").await.get::<Value>(&maps, &key).await },
    );
    assert_eq!(world.env.clock.now() - start, TEN);
    for error in [read.err(), write.err(), paid.err()] {
        assert!(matches!(error, Some(ClientError::Fenced { .. })), "{error:?}");
    }
    assert_eq!(world.spy.asked().len(), 1);
    // One token comes in every 20 s, and none of the three above was taken.
    let _: Value = shared.get(&maps, &key).await.expect("the second token");
    assert_eq!(world.env.clock.now() - start, 2 * TEN);
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_in_an_old_term_does_not_write_in_a_new_one() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let old = fence.open(world.env.clock.mark(), TEN);
    let old = world.transport.client("a", None).in_term(&fence, old);
    fence.close();
    let new = fence.open(world.env.clock.mark(), TEN);
    let new = world.transport.client("a", None).in_term(&fence, new);
    assert!(old.create::<Value>(&MAPS, "n", "{}".into()).await.is_err());
    new.create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect("its term is on");
}

#[tokio::test(start_paused = true)]
async fn the_fence_is_looked_at_after_the_wait_for_a_token() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let term = fence.open(world.env.clock.mark(), TEN);
    let limit = Limit { qps: 0.01, burst: 1 };
    let client = world.transport.client("a", Some(limit)).in_term(&fence, term);
    client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect("the first");
    let error = client.create::<Value>(&MAPS, "n", "{}".into()).await;
    assert!(matches!(error, Err(ClientError::Fenced { .. })), "{error:?}");
    assert_eq!(world.spy.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn drained_term_sends_writes_and_waits_for_nothing() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let term = fence.open_for_ever();
    let limit = Limit { qps: 0.01, burst: 2 };
    let client = world.transport.client("a", Some(limit)).in_term(&fence, term);
    let start = world.env.clock.now();
    world.spy.answer(Answer::Hang);
    let (maps, key) = (MAPS, key());
    let (read, ()) = tokio::join!(client.get::<Value>(&maps, &key), async {
        world.env.clock.sleep(TEN).await;
        fence.drain(term);
    });
    assert_eq!(world.env.clock.now() - start, TEN);
    assert!(matches!(read, Err(ClientError::Fenced { .. })), "{read:?}");
    let write = async || client.create::<Value>(&MAPS, "n", "{}".into()).await;
    write().await.expect("there is a token");
    let error = write().await;
    assert!(matches!(error, Err(ClientError::Fenced { .. })), "{error:?}");
    assert_eq!(world.env.clock.now() - start, TEN);
    assert_eq!(world.spy.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn create_is_conditioned_by_a_chosen_name() {
    let world = World::new();
    let client = world.transport.unfenced("a", None);
    let bodies = [
        (json!({"metadata": {"name": "a"}}), 30),
        (json!({"metadata": {"name": "a", "generateName": "a-"}}), 30),
        (json!({"metadata": {"generateName": "a-"}}), 3),
        (json!({"metadata": {"name": "", "generateName": "a-"}}), 3),
        (json!({"metadata": {"name": 7}}), 3),
        (json!([]), 3),
    ];
    for (body, seconds) in bodies {
        world.spy.answer(Answer::Hang);
        let start = world.env.clock.now();
        let error = client.create::<Value>(&MAPS, "n", body.to_string().into()).await;
        assert!(matches!(error, Err(ClientError::Timeout { .. })), "{error:?}");
        let took = world.env.clock.now() - start;
        assert_eq!(took, Duration::from_secs(seconds), "{body}");
        let uri = world.spy.asked().pop().expect("a request").uri;
        assert!(uri.ends_with(&format!("?timeout={seconds}s")), "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_names_what_it_deletes() {
    let world = World::new();
    let client = world.transport.unfenced("a", None);
    let delete = Delete::of(Uid::from("u")).at(Version::from("7")).grace(0);
    client.delete(&MAPS, &key(), &delete).await.expect("an answer");
    let body: Value = serde_json::from_str(&world.spy.asked()[0].body).expect("JSON");
    assert_eq!(body["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    assert_eq!(body["gracePeriodSeconds"], 0);
}

#[tokio::test(start_paused = true)]
async fn the_ledger_knows_what_was_written_and_what_may_still_arrive() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let term = fence.open_for_ever();
    let client = world.transport.client("a", None).in_term(&fence, term);
    let ledger = world.transport.ledger();
    let stored = |version: &str| {
        let body = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
        world.spy.answer(Answer::With(200, vec![], body));
    };
    for version in ["9", "11", "10"] {
        stored(version);
        client
            .create::<Value>(&MAPS, "n", "{}".into())
            .await
            .expect("created");
    }
    world.spy.status(409, "AlreadyExists", "");
    client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("taken");
    assert!(ledger.is_settled(), "every outcome is known");
    assert_eq!(
        ledger.written(),
        [("configmaps".to_owned(), Version::from("11"))].into()
    );

    world.spy.answer(Answer::Break);
    client
        .create::<Value>(&MAPS, "n", "{}".into())
        .await
        .expect_err("broken");
    assert!(!ledger.is_settled());
    let set_forward = Fault::Skew(SignedDuration::from_hours(1));
    assert!(world.env.clock.inject(set_forward));
    assert!(!ledger.is_settled(), "the server's time has not passed by that");
    world.env.clock.sleep(Duration::from_secs(31)).await;
    assert!(ledger.is_settled(), "the server has given it up");

    world.spy.answer(Answer::Hang);
    let maps = MAPS;
    {
        let mut cut_off = std::pin::pin!(client.create::<Value>(&maps, "n", "{}".into()));
        assert!(
            world
                .env
                .clock
                .timeout(Duration::from_secs(1), &mut cut_off)
                .await
                .is_none()
        );
        assert!(!ledger.is_settled(), "it is under way");
    }
    assert!(
        !ledger.is_settled(),
        "its sender is gone, it may arrive all the same"
    );
}

#[tokio::test(start_paused = true)]
async fn unanswered_write_is_settled_after_its_own_deadline() {
    let world = World::new();
    let fence = Fence::new(world.env.clock.clone());
    let client = world
        .transport
        .client("a", None)
        .in_term(&fence, fence.open_for_ever());
    let ledger = world.transport.ledger();
    let second = Duration::from_secs(1);
    let unconditioned = Patch::merge(&json!({}));
    let conditioned = Patch::merge(&json!({"metadata": {"resourceVersion": "7"}}));
    for (patch, deadline) in [(unconditioned, 3 * second), (conditioned, 30 * second)] {
        // A gateway that has lost the request, and a server that has given up.
        for (code, reason) in [
            (502, "BadGateway"),
            (503, "ServiceUnavailable"),
            (504, "Timeout"),
            (500, ""),
        ] {
            world.spy.status(code, reason, "");
            let error = client.patch::<Value>(&MAPS, &key(), patch.clone()).await;
            assert!(error.expect_err("an error").is_unknown_outcome());
            world.env.clock.sleep(deadline).await;
            assert!(!ledger.is_settled(), "{code} {reason}");
            world.env.clock.sleep(second).await;
            assert!(ledger.is_settled(), "{code} {reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_says_whether_the_object_is_gone() {
    let world = World::new();
    let client = world.transport.unfenced("a", None);
    let delete = Delete::of(Uid::from("u"));
    // Deeper than what is read as a tree may be: what is not kept is not a reason to fail.
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let marked = format!(
        r#"{{"kind":"Widget","metadata":{{"name":"a","finalizers":["f"],"resourceVersion":"7"}},"spec":{deep}}}"#
    );
    world.spy.answer(Answer::With(200, vec![], marked));
    let meta = client.delete(&MAPS, &key(), &delete).await.expect("an answer");
    assert!(meta.is_some_and(|meta| meta.has_finalizer("f")));
    let gone = r#"{"kind":"Status","status":"Success","details":{"name":"a","uid":"u"}}"#;
    world.spy.answer(Answer::With(200, vec![], gone.to_owned()));
    assert_eq!(
        client.delete(&MAPS, &key(), &delete).await.expect("an answer"),
        None
    );
}
