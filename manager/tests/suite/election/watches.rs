//! Watches of the Lease: API servers that reject some, and the log messages.

use super::*;

use steersman_harness::Log;
use tracing::level_filters::LevelFilter;

#[tokio::test(start_paused = true)]
async fn handover_takes_one_watch_event_without_unversioned_watches() {
    for _ in 0..5 {
        let mut cluster = Cluster::new().await;
        let reject = |net: &Network| net.set_watch_fault(WatchFault::Unversioned);
        let mut a = cluster.start_with("a", reject);
        a.elected(&cluster, RETRY).await;
        let mut b = cluster.start_with("b", reject);
        cluster.wait(10 * RETRY).await;
        b.net.take_counts();
        a.release(&[]);
        let took = b.elected(&cluster, RETRY).await;
        assert!(took < 10 * MILLI, "{took:?}");
        let counts = b.net.take_counts();
        assert_eq!(counts.get("PUT"), Some(&1), "{counts:?}");
        assert_eq!(counts.get("GET"), None, "{counts:?}");
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn failed_watch_is_logged_with_its_reason_and_reopened_with_backoff() {
    let reasons = [
        (WatchFault::Expired, "410: too old resource version"),
        (WatchFault::Malformed, "an event cannot be decoded"),
        (WatchFault::Rejected, "connection reset"),
    ];
    for (fault, reason) in reasons {
        let log = Log::keep(LevelFilter::WARN);
        let (mut cluster, mut a) = Cluster::with_leader("a").await;
        let mut b = cluster.start_with("b", |net| net.set_watch_fault(fault));
        cluster.wait(Duration::from_mins(1)).await;
        let text = log.text();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("Watch ended")).collect();
        assert_eq!(lines.len(), 1, "only the first is logged: {text}");
        assert!(
            lines[0].contains(reason) && lines[0].contains("kube-system/steersman"),
            "{text}"
        );
        let watches = b.net.take_counts()["WATCH"];
        assert!(watches <= 8, "{watches} watches in a minute");
        a.release(&[]);
        let took = b.elected(&cluster, 5 * RETRY).await;
        assert!(took <= 3 * RETRY, "by polling: {took:?}");
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn watch_closed_by_the_server_is_logged_at_debug_level() {
    let log = Log::keep(LevelFilter::DEBUG);
    let (cluster, _a) = Cluster::with_leader("a").await;
    cluster.wait(Duration::from_mins(11)).await;
    let text = log.text();
    let ended = |line: &&str| line.contains("Watch ended") && line.contains("the server closed the watch");
    assert!(text.lines().filter(ended).count() >= 1, "{text}");
    assert!(!text.contains("WARN"), "{text}");
}
