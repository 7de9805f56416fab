//! Watches of the Lease: on servers that refuse some of them, and the log lines that say why one ended.

use super::*;

use coxswain_tests::Log;
use tracing::level_filters::LevelFilter;

#[tokio::test(start_paused = true)]
async fn handover_takes_one_watch_event_on_a_server_that_refuses_unversioned_watches() {
    for _ in 0..5 {
        let mut world = World::new().await;
        let refuse = |net: &Net| net.watches(WatchTrouble::Unversioned);
        let mut a = world.start_with("a", refuse);
        a.elected(&world, RETRY).await;
        let mut b = world.start_with("b", refuse);
        world.wait(10 * RETRY).await;
        b.net.take_counts();
        a.release(&[]);
        let took = b.elected(&world, RETRY).await;
        assert!(took < 10 * MILLI, "{took:?}");
        let counts = b.net.take_counts();
        assert_eq!(counts.get("PUT"), Some(&1), "{counts:?}");
        assert_eq!(counts.get("GET"), None, "{counts:?}");
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn failed_watch_is_logged_with_its_reason_and_reopened_with_backoff() {
    let reasons = [
        (WatchTrouble::Expired, "410: too old resource version"),
        (WatchTrouble::Malformed, "an event cannot be decoded"),
        (WatchTrouble::Refused, "the connection was reset"),
    ];
    for (trouble, reason) in reasons {
        let log = Log::keep(LevelFilter::WARN);
        let mut world = World::new().await;
        let mut a = world.start("a");
        a.elected(&world, RETRY).await;
        let mut b = world.start_with("b", |net| net.watches(trouble));
        world.wait(Duration::from_mins(1)).await;
        let text = log.text();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("Watch ended")).collect();
        assert_eq!(lines.len(), 1, "the first of a series: {text}");
        assert!(
            lines[0].contains(reason) && lines[0].contains("kube-system/coxswain"),
            "{text}"
        );
        let watches = b.net.take_counts()["WATCH"];
        assert!(watches <= 8, "{watches} watches in a minute");
        a.release(&[]);
        let took = b.elected(&world, 5 * RETRY).await;
        assert!(took <= 3 * RETRY, "by polling: {took:?}");
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn watch_closed_by_the_server_is_logged_at_debug_level() {
    let log = Log::keep(LevelFilter::DEBUG);
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    world.wait(Duration::from_mins(11)).await;
    let text = log.text();
    let ended = |line: &&str| line.contains("Watch ended") && line.contains("the server closed the watch");
    assert!(text.lines().filter(ended).count() >= 1, "{text}");
    assert!(!text.contains("WARN"), "{text}");
}
