//! Responses that must not cause a hot loop of requests.

use steersman_sandbox::faults::Effect;

use super::server::{Verb, answer, status};
use super::*;

/// The maximum number of requests per minute while the server fails.
const REQUESTS_MAX: usize = 20;

/// The number of requests that counts as a hot loop.
const HOT_LOOP: usize = 1000;

fn bookmark(version: u64) -> String {
    let object =
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}"#);
    format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n")
}

/// Runs a cache for a minute on a server whose watches all have this body.
async fn assert_few_requests(body: impl Fn() -> String + Send + 'static) {
    let f = fixture();
    let mut watches = 0;
    f.server.inject_fault(move |request| {
        watches += usize::from(Verb::Watch.is(request));
        let fault = || match watches {
            // Otherwise the paused clock would never advance.
            HOT_LOOP.. => Effect::Hang,
            _ => answer(200, body(), 0),
        };
        (Verb::Watch.is(request)).then(fault)
    });
    let cache = f.maps();
    f.sleep(60).await;
    assert!(cache.is_synced());
    let requests = f.server.log().len();
    assert!(requests < REQUESTS_MAX, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn watch_closed_after_a_bookmark_is_reopened_with_backoff() {
    assert_few_requests(|| bookmark(1_000_000)).await;
}

#[tokio::test(start_paused = true)]
async fn watch_closed_after_little_progress_is_reopened_with_backoff() {
    let version = std::sync::atomic::AtomicU64::new(1_000_000);
    assert_few_requests(move || bookmark(version.fetch_add(1, std::sync::atomic::Ordering::Relaxed))).await;
}

#[tokio::test(start_paused = true)]
async fn version_expired_after_a_bookmark_relists_with_backoff() {
    let expired = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(410, "Expired"));
    assert_few_requests(move || bookmark(1) + &expired).await;
}

#[tokio::test(start_paused = true)]
async fn endless_list_is_aborted() {
    let f = fixture();
    let mut pages = 0;
    f.server.inject_fault(move |request| {
        pages += usize::from(Verb::List.is(request));
        let fault = || match pages {
            HOT_LOOP.. => Effect::Hang,
            _ => answer(
                200,
                r#"{"metadata":{"resourceVersion":"5","continue":"again"},"items":[]}"#.to_owned(),
                0,
            ),
        };
        (Verb::List.is(request)).then(fault)
    });
    let cache = f.maps();
    f.sleep(60).await;
    assert!(!cache.is_synced());
    let requests = f.server.log().len();
    assert!(requests < REQUESTS_MAX, "{requests} requests");
    f.server.heal();
    f.within(60, "synced", || cache.is_synced()).await;
}
