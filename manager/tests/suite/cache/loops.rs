//! Servers whose answers would make a cache ask again and again: each is given time, however well its answers look.

use super::server::{Act, Verb, status};
use super::*;

/// The most requests of a minute in which nothing works.
const FEW: usize = 20;

/// So many watches are a hot loop.
const MANY: usize = 1000;

/// A line of a watch that says that nothing has changed.
fn bookmark(version: u64) -> String {
    let object =
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}"#);
    format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n")
}

/// Asks a server whose watches all have this body for a minute.
async fn a_minute_of_watches(body: impl Fn() -> String + Send + 'static) {
    let bed = bed();
    let mut watches = 0;
    bed.server.rule(move |ask| {
        watches += usize::from(ask.verb == Verb::Watch);
        let act = || match watches {
            // Or the clock would never move.
            MANY.. => Act::Hang,
            _ => Act::Answer(200, body(), 0),
        };
        (ask.verb == Verb::Watch).then(act)
    });
    let cache = bed.maps();
    bed.sleep(60).await;
    assert!(cache.is_synced());
    let asks = bed.server.log().len();
    assert!(asks < FEW, "{asks} requests");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_closed_after_a_bookmark_is_not_reopened_in_a_hot_loop() {
    a_minute_of_watches(|| bookmark(1_000_000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_moves_on_a_little_each_time_is_not_reopened_in_a_hot_loop() {
    let version = std::sync::atomic::AtomicU64::new(1_000_000);
    a_minute_of_watches(move || bookmark(version.fetch_add(1, std::sync::atomic::Ordering::Relaxed))).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_expires_after_a_bookmark_does_not_cost_a_list_in_a_hot_loop() {
    let expired = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(410, "Expired"));
    a_minute_of_watches(move || bookmark(1) + &expired).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_end_is_given_up() {
    let bed = bed();
    let mut pages = 0;
    bed.server.rule(move |ask| {
        pages += usize::from(ask.verb == Verb::List);
        let act = || match pages {
            MANY.. => Act::Hang,
            _ => Act::Answer(
                200,
                r#"{"metadata":{"resourceVersion":"5","continue":"again"},"items":[]}"#.to_owned(),
                0,
            ),
        };
        (ask.verb == Verb::List).then(act)
    });
    let cache = bed.maps();
    bed.sleep(60).await;
    assert!(!cache.is_synced());
    let asks = bed.server.log().len();
    assert!(asks < FEW, "{asks} requests");
    bed.server.heal();
    bed.within(60, "synced", || cache.is_synced()).await;
}
