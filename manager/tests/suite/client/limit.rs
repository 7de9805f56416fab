//! The bucket, the user agent and the series.

use std::time::Duration;

use coxswain_manager::client::{ListQuery, View, WatchQuery};
use coxswain_manager::object::Key;
use serde_json::Value;

use super::{LIMIT, MAPS, World};

#[tokio::test(start_paused = true)]
async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
    let world = World::new();
    let client = world.transport.client("a", Some(LIMIT));
    let start = world.env.clock.now();
    for _ in 0..30 {
        let _: Value = client.get(&MAPS, &Key::new("n", "a")).await.expect("an answer");
    }
    assert_eq!(world.env.clock.now() - start, Duration::ZERO);
    for _ in 0..10 {
        let _: Value = client.get(&MAPS, &Key::new("n", "a")).await.expect("an answer");
    }
    let took = world.env.clock.now() - start;
    assert!(
        (Duration::from_millis(500)..Duration::from_millis(520)).contains(&took),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn controllers_do_not_take_each_other_s_tokens_and_clones_do() {
    let world = World::new();
    let (a, b) = (
        world.transport.client("a", Some(LIMIT)),
        world.transport.client("b", Some(LIMIT)),
    );
    let clone = a.clone();
    let start = world.env.clock.now();
    for client in [&a, &b] {
        for _ in 0..30 {
            let _: Value = client.get(&MAPS, &Key::new("n", "a")).await.expect("an answer");
        }
    }
    assert_eq!(world.env.clock.now() - start, Duration::ZERO);
    let _: Value = clone.get(&MAPS, &Key::new("n", "a")).await.expect("an answer");
    assert!(world.env.clock.now() - start >= Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_token_does_not_hold_up_others() {
    let world = World::new();
    let slow = world.transport.client(
        "slow",
        Some(coxswain_manager::client::Limit { qps: 0.001, burst: 1 }),
    );
    let key = Key::new("n", "a");
    let _: Value = slow.get(&MAPS, &key).await.expect("the first");
    let maps = MAPS;
    let mut waits = std::pin::pin!(slow.get::<Value>(&maps, &key));
    assert!(
        world
            .env
            .clock
            .timeout(Duration::from_secs(1), &mut waits)
            .await
            .is_none()
    );
    let fast = world.transport.client("fast", None);
    let start = world.env.clock.now();
    let _: Value = fast.get(&MAPS, &key).await.expect("an answer");
    assert_eq!(world.env.clock.now(), start);
}

#[tokio::test(start_paused = true)]
async fn a_watch_takes_no_token() {
    let world = World::new();
    let client = world.transport.client("a", Some(LIMIT));
    let start = world.env.clock.now();
    for _ in 0..100 {
        client
            .watch(&MAPS, "", &WatchQuery::default(), View::Full)
            .await
            .expect("a watch");
    }
    assert_eq!(world.env.clock.now(), start);
}

#[tokio::test(start_paused = true)]
async fn requests_say_who_asks_and_how_long_the_answer_is_waited_for() {
    let world = World::new();
    let client = world.transport.client("replicaset-controller", None);
    let query = ListQuery {
        label_selector: "a in (b,c)".to_owned(),
        field_selector: "metadata.name=d".to_owned(),
        limit: 500,
        continue_token: Some("x+/=".to_owned()),
    };
    client
        .list(&MAPS, "n", &query, View::Metadata)
        .await
        .expect("an answer");
    let asked = world.spy.asked().remove(0);
    assert_eq!(asked.agent, "coxswain/test/replicaset-controller");
    assert_eq!(
        asked.uri,
        "/api/v1/namespaces/n/configmaps?timeout=30s&labelSelector=a+in+%28b%2Cc%29&fieldSelector=metadata.name%3Dd&limit=500&continue=x%2B%2F%3D"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_with_client_go_s_labels() {
    let world = World::new();
    let client = world.transport.client("a", Some(LIMIT));
    let key = Key::new("n", "a");
    let _: Value = client.get(&MAPS, &key).await.expect("an answer");
    world.spy.status(404, "NotFound", "");
    client.get::<Value>(&MAPS, &key).await.expect_err("no answer");
    world.spy.answer(super::spy::Answer::Break);
    client.get::<Value>(&MAPS, &key).await.expect_err("no answer");
    let requests = |code: &str| {
        world.metric(&format!(
            "rest_client_requests_total{{code=\"{code}\",host=\"api.test\",method=\"GET\"}}"
        ))
    };
    assert_eq!(requests("200"), Some(1.0));
    assert_eq!(requests("404"), Some(1.0));
    assert_eq!(requests("<error>"), Some(1.0));
    let count = |series: &str| {
        world.metric(&format!(
            "rest_client_{series}_count{{host=\"api.test\",verb=\"GET\"}}"
        ))
    };
    assert_eq!(count("request_duration_seconds"), Some(3.0));
    assert_eq!(count("rate_limiter_duration_seconds"), Some(3.0));
    assert_eq!(count("response_size_bytes"), Some(1.0));
}
