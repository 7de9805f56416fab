//! Rate limiter, user agent and metrics.

use std::time::Duration;

use serde_json::Value;
use steersman_manager::client::{ListQuery, View, WatchQuery};
use steersman_manager::object::Key;
use steersman_sandbox::faults::Effect;

use super::{Fixture, LIMIT, MAPS};

#[tokio::test(start_paused = true)]
async fn burst_is_sent_at_once_and_the_rest_at_the_rate() {
    let f = Fixture::new();
    let client = f.transport.reader("a", Some(LIMIT));
    let start = f.env.clock.now();
    for _ in 0..30 {
        let _: Value = client.get(&MAPS, &Key::new("n", "a")).await.expect("a response");
    }
    assert_eq!(f.env.clock.now() - start, Duration::ZERO);
    for _ in 0..10 {
        let _: Value = client.get(&MAPS, &Key::new("n", "a")).await.expect("a response");
    }
    let took = f.env.clock.now() - start;
    assert!(
        (Duration::from_millis(500)..Duration::from_millis(520)).contains(&took),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn clones_share_a_rate_limiter_and_controllers_do_not() {
    let f = Fixture::new();
    let (a, b) = (
        f.transport.reader("a", Some(LIMIT)),
        f.transport.reader("b", Some(LIMIT)),
    );
    let clone = a.clone();
    let start = f.env.clock.now();
    for client in [&a, &b] {
        for _ in 0..30 {
            let _: Value = client.get(&MAPS, &Key::new("n", "a")).await.expect("a response");
        }
    }
    assert_eq!(f.env.clock.now() - start, Duration::ZERO);
    let _: Value = clone.get(&MAPS, &Key::new("n", "a")).await.expect("a response");
    assert!(f.env.clock.now() - start >= Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn rate_limited_client_does_not_block_others() {
    let f = Fixture::new();
    let slow = f.transport.reader(
        "slow",
        Some(steersman_manager::client::RateLimit { qps: 0.001, burst: 1 }),
    );
    let key = Key::new("n", "a");
    let _: Value = slow.get(&MAPS, &key).await.expect("the first");
    let maps = MAPS;
    let mut waits = std::pin::pin!(slow.get::<Value>(&maps, &key));
    assert!(
        f.env
            .clock
            .timeout(Duration::from_secs(1), &mut waits)
            .await
            .is_none()
    );
    let fast = f.transport.reader("fast", None);
    let start = f.env.clock.now();
    let _: Value = fast.get(&MAPS, &key).await.expect("a response");
    assert_eq!(f.env.clock.now(), start);
}

#[tokio::test(start_paused = true)]
async fn watch_is_not_rate_limited() {
    let f = Fixture::new();
    let client = f.transport.reader("a", Some(LIMIT));
    let start = f.env.clock.now();
    for _ in 0..100 {
        client
            .watch(&MAPS, "", &WatchQuery::default(), View::Full)
            .await
            .expect("a watch");
    }
    assert_eq!(f.env.clock.now(), start);
}

#[tokio::test(start_paused = true)]
async fn requests_have_a_user_agent_and_a_timeout() {
    let f = Fixture::new();
    let client = f.transport.reader("replicaset-controller", None);
    let query = ListQuery {
        label_selector: "a in (b,c)".to_owned(),
        field_selector: "metadata.name=d".to_owned(),
        limit: 500,
        continue_token: Some("x+/=".to_owned()),
    };
    client
        .list(&MAPS, "n", &query, View::Metadata)
        .await
        .expect("a response");
    let request = f.server.requests().remove(0);
    assert_eq!(
        request.header("user-agent"),
        "steersman/test/replicaset-controller"
    );
    assert_eq!(
        request.uri(),
        "/api/v1/namespaces/n/configmaps?timeout=30s&labelSelector=a+in+%28b%2Cc%29&fieldSelector=metadata.name%3Dd&limit=500&continue=x%2B%2F%3D"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_with_the_labels_of_client_go() {
    let f = Fixture::new();
    let client = f.transport.reader("a", Some(LIMIT));
    let key = Key::new("n", "a");
    let _: Value = client.get(&MAPS, &key).await.expect("a response");
    f.server.status(404, "NotFound", "");
    client.get::<Value>(&MAPS, &key).await.expect_err("no response");
    f.server.answer(Effect::LoseRequest);
    client.get::<Value>(&MAPS, &key).await.expect_err("no response");
    let requests = |code: &str| {
        f.metric(&format!(
            "rest_client_requests_total{{code=\"{code}\",host=\"api.test\",method=\"GET\"}}"
        ))
    };
    assert_eq!(requests("200"), Some(1.0));
    assert_eq!(requests("404"), Some(1.0));
    assert_eq!(requests("<error>"), Some(1.0));
    let count = |series: &str| {
        f.metric(&format!(
            "rest_client_{series}_count{{host=\"api.test\",verb=\"GET\"}}"
        ))
    };
    assert_eq!(count("request_duration_seconds"), Some(3.0));
    assert_eq!(count("rate_limiter_duration_seconds"), Some(3.0));
    assert_eq!(count("response_size_bytes"), Some(1.0));
}
